// SPDX-License-Identifier: Apache-2.0
// SliceJoin: slices of one tensor that lie side by side in it and in a concatenation are one slice,
// or the tensor itself. Whoever makes the tensor then writes into the concatenation's memory, where
// the slices had to be copied to (the halves of a C2f block in YOLOv8: 1 % of its time). Bit exact.
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// Part [first, first + size) of `of` along one axis, all of the others.
struct SlicedPart {
  Tensor* of = nullptr;  // null: no such slice
  int64_t first = 0, size = 0;
};

SlicedPart part_of(const Tensor* tensor, size_t axis) {
  Layer* slice = producer_of_kind(tensor, LayerKind::kSlice);
  if (!slice || slice->inputs.size() > 1) return {};
  const auto& a = slice->as<SliceAttrs>();
  Tensor* of = slice->inputs[0];
  for (size_t d = 0; d < a.size.size(); ++d) {
    if (a.step[d] != 1 || !a.start[d].is_known()) return {};
    if (d != axis && (a.start[d] != Dim(0) || a.size[d] != of->shape[d])) return {};
  }
  if (!a.size[axis].is_known() || !of->shape[axis].is_known()) return {};
  return {of, a.start[axis].extent(), a.size[axis].extent()};
}

Tensor* slice_of(Rewriter& rewriter, Layer* concat, const SlicedPart& part, size_t axis) {
  if (part.first == 0 && part.size == part.of->shape[axis].extent()) return part.of;
  Shape shape = part.of->shape;
  shape[axis] = part.size;
  const SliceAttrs attrs = slice_along(shape, axis, part.first);
  const std::string name = part.of->name + " (joined slices)";
  Tensor* made = rewriter.add_tensor(name, part.of->type, attrs.size);
  Facts facts = part.of->facts;
  facts.shape_value.reset();
  if (facts.scale.size() > 1) facts.scale.clear(), facts.zero_point.clear();
  rewriter.set_facts(made, std::move(facts));
  rewriter.insert_before(concat, LayerKind::kSlice, name, attrs, {part.of}, {made}, {concat});
  return made;
}

void join(Rewriter& rewriter, Layer* concat) {
  const auto axis = static_cast<size_t>(concat->as<AxisAttrs>().axis);
  std::vector<SlicedPart> parts;
  std::vector<Tensor*> inputs;  // null: several, now in `parts`
  for (Tensor* input : concat->inputs) {
    const SlicedPart part = part_of(input, axis);
    const SlicedPart last = parts.empty() ? SlicedPart() : parts.back();
    if (part.of && part.of == last.of && part.first == last.first + last.size) {
      parts.back().size += part.size;
      inputs.back() = nullptr;
    } else {
      parts.push_back(part);
      inputs.push_back(input);
    }
  }
  if (inputs.size() == concat->inputs.size()) return;
  rewriter.running(*concat);
  for (size_t k = 0; k < inputs.size(); ++k)
    if (!inputs[k]) inputs[k] = slice_of(rewriter, concat, parts[k], axis);
  rewriter.applied(Action::kFuse, *concat, "Joining slices before " + concat->name);
  const std::string name = concat->name;
  const Attrs attrs = concat->attrs;
  Layer* group[] = {concat};
  rewriter.rename(
      rewriter.replace(group, LayerKind::kConcatenation, attrs, std::move(inputs), name), name);
}

}  // namespace

int slice_join(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "SliceJoin", records);
  for (size_t k = 0; k < graph.layers().size(); ++k)
    if (Layer* layer = graph.layers()[k].get(); layer->kind == LayerKind::kConcatenation)
      join(rewriter, layer);
  return rewriter.edits();
}

}  // namespace camshaft::passes
