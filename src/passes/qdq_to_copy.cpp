// SPDX-License-Identifier: Apache-2.0
// QDQToCopy: what is left of Q/DQ after the quantized layers took theirs becomes PointWise, so that
// it fuses with what is around it; one that stays alone is a copy that changes the type. Bit exact
// up to x * (1/s) for x / s.
#include <tuple>

#include "passes/match.h"
#include "passes/passes.h"
#include "passes/quantization.h"

namespace camshaft::passes {

using namespace ir;

namespace {

Tensor* broadcast_constant(Rewriter& rewriter, const std::string& name, size_t trailing,
                           const std::vector<float>& values) {
  Extents extents(trailing + 1, 1);
  extents[0] = static_cast<int64_t>(values.size());
  return rewriter.add_float_constant(name, extents, values);
}

// Per channel: x * (1/s) rounded, + z; or (x - z) * s. One zero point is a literal.
std::pair<Program, std::vector<Tensor*>> per_channel(Rewriter& rewriter, const Layer& layer,
                                                     const Grid& grid) {
  const bool quantizes = layer.kind == LayerKind::kQuantize;
  const size_t trailing = layer.inputs[0]->shape.size() - 1 - static_cast<size_t>(grid.axis);
  std::vector<float> factors, zeros(grid.zero_point.begin(), grid.zero_point.end());
  for (float scale : grid.scale)
    factors.push_back(quantizes ? static_cast<float>(1.0 / static_cast<double>(scale)) : scale);
  std::vector<Tensor*> inputs = {
      layer.inputs[0], broadcast_constant(rewriter, layer.name + " scale", trailing, factors)};
  const bool has_one_zero = all_equal(zeros);
  if (!has_one_zero)
    inputs.push_back(broadcast_constant(rewriter, layer.name + " zero point", trailing, zeros));
  Program program;
  program.num_inputs = static_cast<int>(inputs.size());
  const auto shifted = [&](int value, PointOp by) {
    if (has_one_zero && zeros[0] == 0) return value;
    const int zero = has_one_zero ? append(program, PointOp::kConst, -1, -1, -1, zeros[0]) : 2;
    return append(program, by, value, zero);
  };
  if (quantizes)
    shifted(append(program, PointOp::kRound, append(program, PointOp::kMul, 0, 1)), PointOp::kAdd);
  else
    append(program, PointOp::kMul, shifted(0, PointOp::kSub), 1);
  return {program, inputs};
}

bool convert(Rewriter& rewriter, Layer* layer) {
  const std::optional<Grid> grid = grid_of(*layer);
  const bool quantizes = layer->kind == LayerKind::kQuantize;
  const Tensor *x = layer->inputs[0], *y = layer->outputs[0];
  if (!grid || !is_quantized(grid->type) || !x->has_rank ||
      (quantizes ? x : y)->type != DataType::kFloat)
    return false;
  rewriter.running(*layer);
  PointWiseAttrs attrs;
  std::vector<Tensor*> inputs = {layer->inputs[0]};
  if (!grid->per_tensor())
    std::tie(attrs.program, inputs) = per_channel(rewriter, *layer, *grid);
  else
    attrs.program = quantizes ? quantize_program(*grid) : dequantize_program(*grid);
  if (quantizes) attrs.type = grid->type;
  rewriter.applied(Action::kConvert, *layer,
                   "Swap the layer type of " + layer->name + " from " +
                       (quantizes ? "QUANTIZE" : "DEQUANTIZE") + " to kQDQ");
  Layer* group[] = {layer};
  rewriter.replace(group, LayerKind::kPointWise, attrs, inputs, layer->name);
  return true;
}

}  // namespace

int qdq_to_copy(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "QDQToCopy", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    const LayerKind kind = graph.layers()[k]->kind;
    if (kind == LayerKind::kQuantize || kind == LayerKind::kDequantize)
      convert(rewriter, graph.layers()[k].get());
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
