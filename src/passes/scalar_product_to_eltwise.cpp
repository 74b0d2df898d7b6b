// SPDX-License-Identifier: Apache-2.0
// ScalarProductToEltwise: a product that sums over one element, of a vector and a number, becomes
// their elementwise product, which joins the pointwise layers around it. Exact but for the sign of
// zero.
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

Dim extent(const Tensor& x, size_t from_last) {
  return x.shape[x.shape.size() - from_last];
}

// [..., M, 1] times [..., 1, N], of which M or N is 1.
bool is_scalar_product(const Layer& layer) {
  if (!is_bare_product(layer)) return false;
  const auto& a = layer.as<MatrixMultiplyAttrs>();
  const Tensor& y = *layer.outputs[0];
  return a.alpha == 1 && extent(*layer.inputs[0], a.transpose_a ? 2 : 1) == Dim(1) &&
         extent(*layer.inputs[1], a.transpose_b ? 1 : 2) == Dim(1) &&
         (extent(y, 1) == Dim(1) || extent(y, 2) == Dim(1));
}

// With the element that is summed over where the product has it if nothing is transposed.
Tensor* straight(Rewriter& rewriter, Layer* product, size_t k, bool is_transposed) {
  Tensor* x = product->inputs[k];
  const Shape shape = is_transposed ? with_last_two_swapped(x->shape) : x->shape;
  return rewriter.reshaped_before(product, x->name + " (straight)", x, shape, *product);
}

}  // namespace

int scalar_product_to_eltwise(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "ScalarProductToEltwise", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    if (!is_scalar_product(*layer)) continue;
    const MatrixMultiplyAttrs attrs = layer->as<MatrixMultiplyAttrs>();
    rewriter.running(*layer);
    rewriter.applied(Action::kConvert, *layer, layer->name + " sums over one element: multiplied");
    Tensor* left = straight(rewriter, layer, 0, attrs.transpose_a);
    Tensor* right = straight(rewriter, layer, 1, attrs.transpose_b);
    Layer* group[] = {layer};
    rewriter.replace(group, LayerKind::kElementWise, PointOpAttrs{PointOp::kMul}, {left, right},
                     layer->name);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
