// SPDX-License-Identifier: Apache-2.0
// MeanFusion: a sum over n elements times 1/n, or over n, is a mean. A few ulp.
#include "passes/formula.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// sum(x) * (1/n), sum(x) / n: the mean of n elements.
bool sum_to_mean(Rewriter& rewriter, Layer* sum) {
  if (sum->kind != LayerKind::kReduce || sum->as<ReduceAttrs>().op != ReduceOp::kSum ||
      input_at(*sum, 1) || !sum->inputs[0]->has_rank || sum->inputs[0]->type != DataType::kFloat)
    return false;
  Layer* scale = only_reader(sum->outputs[0]);
  if (!scale || !is_pointwise(*scale) || !same_shape(sum->outputs[0], scale->outputs[0]))
    return false;
  double count = 1;
  for (int64_t axis : sum->as<ReduceAttrs>().axes) {
    if (!sum->inputs[0]->shape[axis].is_known()) return false;
    count *= static_cast<double>(sum->inputs[0]->shape[axis].extent());
  }
  const Expression expression = expression_of(*scale);
  if (sum->as<ReduceAttrs>().axes.empty() ||
      !equals(expression, {{sum->outputs[0], -2 * count, 2 * count}},
              [&](const auto& v) { return v[0] / count; }))
    return false;
  rewriter.running(*sum);
  rewriter.fused(*sum, *scale);
  rewriter.attrs<ReduceAttrs>(sum).op = ReduceOp::kMean;
  rewriter.absorb(sum, scale);
  return true;
}

}  // namespace

int mean_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "MeanFusion", records);
  for (size_t k = 0; k < graph.layers().size(); ++k)
    if (sum_to_mean(rewriter, graph.layers()[k].get())) --k;
  return rewriter.edits();
}

}  // namespace camshaft::passes
