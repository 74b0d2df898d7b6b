// SPDX-License-Identifier: Apache-2.0
// VectorProductTurn: matrices times a batch of columns become rows times the transposed matrices.
// Where all columns share one matrix they are the rows of one product; otherwise what is done to
// the results is done to whole rows. Another order of sums.
#include <span>

#include "ir/extents.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

bool is_batch(const Shape& shape) {
  return !all_ones(std::span(shape.begin(), shape.end() - 2));
}

// [..., M, K] times a batch of [..., K, 1].
bool takes_columns(const Layer& layer) {
  if (!is_bare_product(layer)) return false;
  const Shape& y = layer.outputs[0]->shape;
  return y.back() == Dim(1) && y[y.size() - 2] != Dim(1) && is_batch(layer.inputs[1]->shape);
}

void turn(Rewriter& rewriter, Layer* product) {
  rewriter.running(*product);
  MatrixMultiplyAttrs attrs = product->as<MatrixMultiplyAttrs>();
  Tensor *matrix = product->inputs[0], *columns = product->inputs[1], *y = product->outputs[0];
  const Shape shape = attrs.transpose_b ? columns->shape : with_last_two_swapped(columns->shape);
  Tensor* rows =
      rewriter.reshaped_before(product, columns->name + " (rows)", columns, shape, *product);
  attrs.transpose_b = !attrs.transpose_a;
  attrs.transpose_a = false;
  rewriter.applied(Action::kConvert, *product, product->name + ": its columns become rows");
  const std::string name = product->name;
  Tensor* made = rewriter.add_tensor(y->name + " (rows)", y->type, with_last_two_swapped(y->shape));
  Layer* moved = rewriter.insert_before(product, LayerKind::kMatrixMultiply, name, attrs,
                                        {rows, matrix}, {made}, {product});
  Layer* group[] = {product};
  rewriter.replace(group, LayerKind::kShuffle, reshape_to(y->shape), {made},
                   y->name + " (columns)");
  rewriter.rename(moved, name);
}

}  // namespace

int vector_product_turn(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "VectorProductTurn", records);
  for (size_t k = 0; k < graph.layers().size(); ++k)
    if (Layer* layer = graph.layers()[k].get(); takes_columns(*layer)) turn(rewriter, layer);
  return rewriter.edits();
}

}  // namespace camshaft::passes
