// SPDX-License-Identifier: Apache-2.0
// LpPoolSplit: Lp pooling of floats as powers, an average pooling and the root of its sums. Squares
// and square roots for p = 2, as networks have it. Rounded as floats.
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// How many elements a window has, those of the padding counted; 0: not known.
int64_t elements_of_window(const Layer& layer) {
  const auto& pooling = layer.as<PoolingAttrs>();
  int64_t count = 1;
  if (!pooling.global) {
    for (const int64_t extent : pooling.kernel) count *= extent;
    return count;
  }
  const Shape& shape = layer.inputs[0]->shape;
  for (size_t d = 2; d < shape.size(); ++d) {
    if (!shape[d].is_known()) return 0;
    count *= shape[d].extent();
  }
  return count;
}

Refusal lp_pool_refusal(const Layer& layer) {
  const auto& pooling = layer.as<PoolingAttrs>();
  const Tensor* x = layer.inputs[0];
  if (x->type != DataType::kFloat) return {Reason::kType, "it is not of floats"};
  if (!x->has_rank || x->shape.size() < 3) return {Reason::kShape, "its rank is not known"};
  if (!pooling.epilogue.empty()) return {Reason::kAttribute, "its epilogue"};
  if (pooling.p < 1) return {Reason::kAttribute, "its p"};
  // The last windows may reach beyond the padding: they have fewer elements.
  if (!pooling.global && pooling.padding_mode == PaddingMode::kExplicitRoundUp)
    return {Reason::kAttribute, "its extents are rounded up"};
  if (elements_of_window(layer) == 0) return {Reason::kShape, "its window is not known"};
  return {};
}

Program powers(int64_t p) {
  Program program{1, {}};
  if (p == 2) {
    append(program, PointOp::kMul, 0, 0);
    return program;
  }
  const int magnitude = append(program, PointOp::kAbs, 0);
  if (p != 1)
    append(program, PointOp::kPow, magnitude,
           append(program, PointOp::kConst, -1, -1, -1, static_cast<float>(p)));
  return program;
}

// Of means of `count` elements.
Program roots(int64_t p, int64_t count) {
  Program program{1, {}};
  const int sum = append(program, PointOp::kMul, 0,
                         append(program, PointOp::kConst, -1, -1, -1, static_cast<float>(count)));
  if (p == 2)
    append(program, PointOp::kSqrt, sum);
  else if (p != 1)
    append(program, PointOp::kPow, sum,
           append(program, PointOp::kConst, -1, -1, -1, 1 / static_cast<float>(p)));
  return program;
}

void split_lp_pool(Rewriter& rewriter, Layer* layer) {
  PoolingAttrs pooling = layer->as<PoolingAttrs>();
  const int64_t p = pooling.p, count = elements_of_window(*layer);
  const std::string name = layer->name;
  rewriter.applied(Action::kSplit, *layer, "Splitting " + name + " into powers, means and roots");
  const auto add = [&](LayerKind kind, const char* what, Attrs attrs, Tensor* input,
                       const Shape& shape) {
    Tensor* made = rewriter.add_tensor(name + what, DataType::kFloat, shape);
    rewriter.insert_before(layer, kind, name + what, std::move(attrs), {input}, {made}, {layer});
    return made;
  };
  Tensor* x = layer->inputs[0];
  pooling.type = PoolingType::kAverage, pooling.p = PoolingAttrs().p;
  pooling.count_includes_padding = true;
  Tensor* powered =
      add(LayerKind::kPointWise, " (powers)", PointWiseAttrs{powers(p), {}}, x, x->shape);
  Tensor* means = add(LayerKind::kPooling, " (means)", pooling, powered, layer->outputs[0]->shape);
  Layer* group[] = {layer};
  rewriter.replace(group, LayerKind::kPointWise, PointWiseAttrs{roots(p, count), {}}, {means},
                   name);
}

}  // namespace

int lp_pool_split(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "LpPoolSplit", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    if (layer->kind != LayerKind::kPooling || layer->as<PoolingAttrs>().type != PoolingType::kLp)
      continue;
    rewriter.running(*layer);
    if (Refusal reason = lp_pool_refusal(*layer))
      rewriter.declined(*layer, std::move(reason).behind("stays whole: "));
    else
      split_lp_pool(rewriter, layer);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
