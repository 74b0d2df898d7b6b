// SPDX-License-Identifier: Apache-2.0
// QuantizePooling: pooling by average takes a Dequantize layer before it: the mean of the codes is
// scaled afterwards. A few ulp.
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/quantization.h"

namespace camshaft::passes {

using namespace ir;

namespace {

Refusal pooling_refusal(const Layer& pooling, const Grid& grid) {
  if (!grid.per_tensor()) return {Reason::kGrid, "its input has one scale per channel"};
  const auto& attrs = pooling.as<PoolingAttrs>();
  if (!attrs.global && attrs.count_includes_padding && grid.zero_point[0] != 0)
    return {Reason::kValue, "it counts padding, which is no zero code"};
  if (grid.zero_point[0] != 0 && may_pool_nothing(pooling))
    return {Reason::kValue, "a window has no pixels, whose mean is no zero code"};
  return {};
}

// DQ → average becomes the average of the codes → DQ of a float: (mean - z) * s.
bool pool_codes(Rewriter& rewriter, Layer* pooling) {
  const auto& attrs = pooling->as<PoolingAttrs>();
  if (attrs.type != PoolingType::kAverage || !attrs.epilogue.empty()) return false;
  Layer* dequantizer = dequantizer_of(pooling->inputs[0]);
  const std::optional<Grid> grid = dequantizer ? grid_of(*dequantizer) : std::nullopt;
  Tensor* y = pooling->outputs[0];
  if (!grid || !is_quantized(grid->type) || y->type != DataType::kFloat) return false;
  rewriter.running(*pooling);
  if (Refusal refusal = pooling_refusal(*pooling, *grid)) {
    rewriter.declined(*pooling, std::move(refusal).behind("not quantized: "));
    return false;
  }
  rewriter.applied(Action::kFuse, *pooling,
                   "fusing " + dequantizer->name + " into " + pooling->name);
  Tensor* mean = rewriter.add_tensor_like(*y, y->name + " (mean of codes)", DataType::kFloat);
  const std::string name = pooling->name, scaling_name = dequantizer->name;
  Layer* made = rewriter.insert_before(pooling, LayerKind::kPooling, name, pooling->attrs,
                                       {dequantizer->inputs[0]}, {mean}, {pooling});
  PointWiseAttrs scale;
  scale.program = dequantize_program(*grid);
  Layer* group[] = {dequantizer, pooling};
  Layer* scaling = rewriter.replace(group, LayerKind::kPointWise, scale, {mean}, scaling_name);
  rewriter.rename(made, name);
  rewriter.rename(scaling, scaling_name);
  return true;
}

}  // namespace

int quantize_pooling(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "QuantizePooling", records);
  for (size_t k = 0; k < graph.layers().size(); ++k)
    if (graph.layers()[k]->kind == LayerKind::kPooling)
      pool_codes(rewriter, graph.layers()[k].get());
  return rewriter.edits();
}

}  // namespace camshaft::passes
