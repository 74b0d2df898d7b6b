// SPDX-License-Identifier: Apache-2.0
// ConstantAttributes: ranges, amounts and sizes that a Slice, Pad or Resize has as inputs become
// its attributes once they are constants: importing could not tell what folding computes (sizes
// that go through a branch or a loop). Kernels and other passes look at attributes. Bit exact.
#include <cmath>

#include "ir/infer.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// Of input k: absent, or a constant of integers; nothing: only running tells it.
std::optional<Ints> integers_at(const Layer& layer, size_t k) {
  const Tensor* input = input_at(layer, k);
  if (!input) return Ints();
  if (!input->is_constant() || (input->type != DataType::kInt64 && input->type != DataType::kInt32))
    return std::nullopt;
  return integers_of(input);
}

// The dimension that the k-th of `axes` (none: all, in order) means; -1: none.
int64_t dimension(const Ints& axes, size_t k, size_t rank) {
  const int64_t axis = axes.empty() ? static_cast<int64_t>(k) : axes[k];
  const int64_t d = axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
  return d < static_cast<int64_t>(rank) ? d : -1;
}

std::optional<Attrs> slice_attributes(const Layer& layer, SymbolTable& symbols) {
  const auto starts = integers_at(layer, 1), ends = integers_at(layer, 2),
             axes = integers_at(layer, 3), steps = integers_at(layer, 4);
  if (!starts || !ends || !axes || !steps || starts->size() != ends->size()) return std::nullopt;
  const Shape& x = layer.inputs[0]->shape;
  SliceAttrs slice{Shape(x.size(), 0), x, Ints(x.size(), 1)};
  for (size_t k = 0; k < starts->size(); ++k) {
    const int64_t d = dimension(*axes, k, x.size()), step = steps->empty() ? 1 : (*steps)[k];
    if (d < 0) return std::nullopt;
    const std::optional<SliceRange> range = resolve_slice(
        x[d], symbols.constant((*starts)[k]), symbols.constant((*ends)[k]), step, symbols);
    if (!range) return std::nullopt;
    slice.start[d] = range->start;
    slice.size[d] = range->size;
    slice.step[d] = step;
  }
  if (slice.size != layer.outputs[0]->shape) return std::nullopt;
  return slice;
}

std::optional<Attrs> pad_attributes(const Layer& layer, SymbolTable& symbols) {
  const auto pads = integers_at(layer, 1), axes = integers_at(layer, 3);
  const Tensor* value = input_at(layer, 2);
  const bool is_float = value && value->type == DataType::kFloat;
  if (!pads || !axes || (value && !is_float && uniform_value(value) != 0.0) ||
      (is_float && !scalar_value(value)))
    return std::nullopt;
  const Shape& x = layer.inputs[0]->shape;
  PadAttrs pad = layer.as<PadAttrs>();
  pad.pre.assign(x.size(), 0);
  pad.post.assign(x.size(), 0);
  pad.value = is_float ? *scalar_value(value) : 0;
  const size_t count = axes->empty() ? x.size() : axes->size();
  if (pads->size() != 2 * count) return std::nullopt;
  Shape shape = x;
  for (size_t k = 0; k < count; ++k) {
    const int64_t d = dimension(*axes, k, x.size());
    if (d < 0) return std::nullopt;
    pad.pre[d] = (*pads)[k];
    pad.post[d] = (*pads)[k + count];
    shape[d] = symbols.add(x[d], symbols.constant(pad.pre[d] + pad.post[d]));
  }
  if (shape != layer.outputs[0]->shape) return std::nullopt;
  return pad;
}

// Sizes, or scales that give whole extents, of an image of known extents.
std::optional<Attrs> resize_attributes(const Layer& layer) {
  ResizeAttrs resize = layer.as<ResizeAttrs>();
  if (resize.transform == CoordinateTransform::kTfCropAndResize) return std::nullopt;
  const Shape &x = layer.inputs[0]->shape, &y = layer.outputs[0]->shape;
  const Tensor* scales = input_at(layer, 2);
  if (scales && !is_float_constant(scales)) return std::nullopt;
  if (scales && scales->shape != Shape{0})
    for (const double scale : numbers_of(scales))
      resize.scales.push_back(static_cast<float>(scale));
  const auto sizes = integers_at(layer, 3);
  if (!sizes || sizes->empty() == resize.scales.empty() ||
      (!sizes->empty() && sizes->size() != y.size()) ||
      (!resize.scales.empty() && resize.scales.size() != y.size()) || x.size() != y.size())
    return std::nullopt;
  for (size_t d = 0; d < y.size(); ++d) {
    if (!x[d].is_known() || !y[d].is_known()) return std::nullopt;
    const double wanted = resize.scales.empty() ? static_cast<double>((*sizes)[d])
                                                : std::floor(static_cast<double>(x[d].extent()) *
                                                             static_cast<double>(resize.scales[d]));
    if (wanted != static_cast<double>(y[d].extent())) return std::nullopt;
  }
  resize.sizes = y;
  return resize;
}

std::optional<Attrs> constant_attributes_of(const Layer& layer, SymbolTable& symbols) {
  const Tensor* x = input_at(layer, 0);
  if (layer.inputs.size() < 2 || layer.outputs.size() != 1 || !x || !x->has_rank ||
      !layer.outputs[0]->has_rank)
    return std::nullopt;
  switch (layer.kind) {
    case LayerKind::kSlice:
      return slice_attributes(layer, symbols);
    case LayerKind::kPad:
      return pad_attributes(layer, symbols);
    case LayerKind::kResize:
      return resize_attributes(layer);
    default:
      return std::nullopt;
  }
}

}  // namespace

int constant_attributes(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "ConstantAttributes", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    const std::optional<Attrs> attrs = constant_attributes_of(*layer, graph.symbols());
    if (!attrs) continue;
    rewriter.running(*layer);
    rewriter.applied(Action::kEdit, *layer, "What " + layer->name + " is told is constant");
    const std::string name = layer->name;
    Layer* group[] = {layer};
    rewriter.rename(rewriter.replace(group, layer->kind, *attrs, {layer->inputs[0]}, name), name);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
