// SPDX-License-Identifier: Apache-2.0
// DequantizeMotion: dequantize late. DQ → X becomes X → DQ where X moves elements or chooses the
// largest, so that X works on bytes; a Concatenation when all its parts are codes of one grid. Bit
// exact.
#include <algorithm>

#include "ir/kind_traits.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/quantization.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// Where dimension `axis` goes in a shuffle; -1: it does not stay whole.
int64_t axis_behind(const Layer& shuffle, int64_t axis) {
  const auto& attrs = shuffle.as<ShuffleAttrs>();
  const auto moved = [](const Ints& order, int64_t from) {
    if (order.empty()) return from;
    return static_cast<int64_t>(std::find(order.begin(), order.end(), from) - order.begin());
  };
  if (input_at(shuffle, 1)) return -1;
  axis = moved(attrs.first_transpose, axis);
  if (attrs.has_reshape) {
    const Tensor* x = shuffle.inputs[0];
    if (!x->has_rank || !all_known(x->shape) || !all_known(attrs.reshape)) return -1;
    Shape from = x->shape;
    for (size_t k = 0; k < attrs.first_transpose.size(); ++k)
      from[k] = x->shape[attrs.first_transpose[k]];
    int64_t before = 1, found = -1, outer = 1;
    for (int64_t k = 0; k < axis; ++k) before *= from[k].extent();
    for (size_t k = 0; k < attrs.reshape.size(); outer *= attrs.reshape[k++].extent())
      if (outer == before && attrs.reshape[k] == from[axis]) found = static_cast<int64_t>(k);
    if (found < 0) return -1;
    axis = found;
  }
  return moved(attrs.second_transpose, axis);
}

// The grid behind `layer`; empty: the scales do not survive it.
std::optional<Grid> grid_behind(const Layer& layer, Grid grid) {
  if (grid.per_tensor()) return grid;
  if (const auto* pad = std::get_if<PadAttrs>(&layer.attrs)) {
    const bool keeps = !input_at(layer, 1) && pad->pre[grid.axis] == 0 &&
                       pad->post[grid.axis] == 0 && all_equal(grid.zero_point);
    return keeps ? std::optional(grid) : std::nullopt;
  }
  if (layer.kind != LayerKind::kShuffle) return std::nullopt;
  grid.axis = axis_behind(layer, grid.axis);
  return grid.axis < 0 ? std::nullopt : std::optional(grid);
}

// `layer` on codes, then a Dequantize layer like `model` on `grid`.
void put_behind(Rewriter& rewriter, Layer* layer, Layer* model, const Grid& grid,
                std::vector<Tensor*> inputs) {
  const Tensor* y = layer->outputs[0];
  Tensor* codes = rewriter.add_tensor_like(*y, y->name + "_codes", grid.type);
  set_grid_facts(rewriter, codes, grid);
  const std::string name = layer->name;
  Layer* moved = rewriter.insert_before(layer, layer->kind, name, attributes_on_codes(*layer, grid),
                                        std::move(inputs), {codes}, {layer});
  std::vector<Tensor*> scales = model->inputs;
  scales[0] = codes;
  QuantizeAttrs attrs = model->as<QuantizeAttrs>();
  if (!grid.per_tensor()) attrs.axis = grid.axis;
  const std::string model_name = model->name;
  Layer* group[] = {layer};
  Layer* made = rewriter.replace(group, LayerKind::kDequantize, attrs, scales, model_name);
  rewriter.inherit(made, *model);
  rewriter.rename(moved, name);
  if (std::all_of(model->outputs.begin(), model->outputs.end(), [&](const Tensor* t) {
        return t->consumers.empty() && !rewriter.graph().is_output(t);
      })) {
    rewriter.remove(model);
    rewriter.rename(made, model_name);
  }
}

bool move_behind(Rewriter& rewriter, Layer* layer) {
  Layer* dequantizer = dequantizer_of(layer->inputs[0]);
  if (!dequantizer || !moves_elements(*layer)) return false;
  const std::optional<Grid> grid = grid_of(*dequantizer);
  if (!grid || !is_quantized(grid->type)) return false;
  if (layer->outputs[0]->type != DataType::kFloat) return false;
  const auto* pad = std::get_if<PadAttrs>(&layer->attrs);
  if (pad && pad->mode == PadMode::kConstant && pad->value != 0) return false;  // may be no code
  const std::optional<Grid> behind = grid_behind(*layer, *grid);
  if (!behind) return false;
  rewriter.running(*layer);
  rewriter.swapped(*dequantizer, *layer);
  std::vector<Tensor*> inputs = layer->inputs;
  inputs[0] = dequantizer->inputs[0];
  put_behind(rewriter, layer, dequantizer, *behind, inputs);
  return true;
}

bool move_behind_concat(Rewriter& rewriter, Layer* concat) {
  std::optional<Grid> grid;
  std::vector<Tensor*> parts;
  for (const Tensor* part : concat->inputs) {
    const Layer* dequantizer = dequantizer_of(part);
    const std::optional<Grid> own = dequantizer ? grid_of(*dequantizer) : std::nullopt;
    if (!own || !own->per_tensor() || !is_quantized(own->type) || (grid && *own != *grid))
      return false;
    grid = own;
    parts.push_back(dequantizer->inputs[0]);
  }
  rewriter.running(*concat);
  Layer* model = concat->inputs[0]->producer;
  rewriter.swapped(*model, *concat);
  put_behind(rewriter, concat, model, *grid, parts);
  return true;
}

}  // namespace

int dequantize_motion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "DequantizeMotion", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    if (layer->kind == LayerKind::kConcatenation)
      move_behind_concat(rewriter, layer);
    else if (!layer->inputs.empty() && layer->inputs[0])
      move_behind(rewriter, layer);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
