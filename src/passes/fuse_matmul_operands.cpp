// SPDX-License-Identifier: Apache-2.0
// MatMul operands: a transpose of the last two dimensions becomes a flag, a scalar factor before or
// behind becomes alpha, a reduction to [M, K] x [K, N] by reshape is left to the kernels. Exact
// (transposes), a few ulp (alpha).
#include <algorithm>

#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// Leading dimensions stay, the last two change places.
bool swaps_last_two(const Layer& shuffle) {
  const auto& a = shuffle.as<ShuffleAttrs>();
  if (a.has_reshape || !a.second_transpose.empty() || input_at(shuffle, 1) ||
      a.first_transpose.size() < 2)
    return false;
  Ints order = a.first_transpose;
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return is_identity_order(order);
}

bool fuse_transpose(Rewriter& rewriter, Layer* product, size_t k) {
  Layer* shuffle = producer_of_kind(product->inputs[k], LayerKind::kShuffle);
  if (!shuffle || !swaps_last_two(*shuffle)) return false;
  rewriter.running(*shuffle);
  auto& a = product->as<MatrixMultiplyAttrs>();
  bool& flag = k == 0 ? a.transpose_a : a.transpose_b;
  flag = !flag;
  rewriter.applied(*shuffle, "Fusing " + shuffle->name + " with " + product->name);
  std::vector<Tensor*> inputs = product->inputs;
  inputs[k] = shuffle->inputs[0];
  Layer* group[] = {shuffle, product};
  rewriter.replace(group, product->kind, product->attrs, inputs);
  return true;
}

// x * factor, x / factor: gives x.
Tensor* scaled_operand(const Layer& layer, float* factor) {
  if (layer.kind != LayerKind::kElementWise) return nullptr;
  const PointOp op = layer.as<PointOpAttrs>().op;
  for (size_t k : {size_t{1}, size_t{0}}) {
    const std::optional<float> value = scalar_value(layer.inputs[k]);
    Tensor* x = layer.inputs[1 - k];
    if (!value || !same_shape(x, layer.outputs[0])) continue;
    if (op == PointOp::kMul) return *factor = *value, x;
    if (op == PointOp::kDiv && k == 1 && *value != 0) return *factor = 1 / *value, x;
  }
  return nullptr;
}

bool fuse_factor_before(Rewriter& rewriter, Layer* product, size_t k) {
  Tensor* operand = product->inputs[k];
  float factor = 1;
  if (!operand->producer || only_reader(operand) != product || product->inputs[1 - k] == operand)
    return false;
  Layer* scale = operand->producer;
  Tensor* x = scaled_operand(*scale, &factor);
  if (!x || x->is_constant()) return false;
  rewriter.running(*scale);
  product->as<MatrixMultiplyAttrs>().alpha *= factor;
  rewriter.applied(*scale, "Fusing " + scale->name + " with " + product->name);
  std::vector<Tensor*> inputs = product->inputs;
  inputs[k] = x;
  Layer* group[] = {scale, product};
  rewriter.replace(group, product->kind, product->attrs, inputs);
  return true;
}

bool fuse_factor_behind(Rewriter& rewriter, Layer* product) {
  Layer* scale = only_reader(product->outputs[0]);
  float factor = 1;
  if (!scale || input_at(*product, 2) || !product->as<MatrixMultiplyAttrs>().epilogue.empty())
    return false;
  if (scaled_operand(*scale, &factor) != product->outputs[0]) return false;
  rewriter.running(*scale);
  product->as<MatrixMultiplyAttrs>().alpha *= factor;
  rewriter.applied(*scale, "Fusing " + product->name + " with " + scale->name);
  rewriter.absorb(product, scale);
  return true;
}

}  // namespace

int fuse_matmul_operands(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "MatMulOperandFusion", records);
  for (size_t k = 0; k < graph.layers().size();) {
    Layer* layer = graph.layers()[k].get();
    bool changed = false;
    if (layer->kind == LayerKind::kMatrixMultiply && layer->inputs[0]->type == DataType::kFloat) {
      Tensor* output = layer->outputs[0];
      const Layer* reader = only_reader(output);
      Tensor* result = reader ? reader->outputs[0] : nullptr;
      changed = fuse_transpose(rewriter, layer, 0) || fuse_transpose(rewriter, layer, 1) ||
                fuse_factor_before(rewriter, layer, 0) || fuse_factor_before(rewriter, layer, 1);
      if (!changed && fuse_factor_behind(rewriter, layer)) {
        changed = true;
        output = result;
      }
      if (changed) k = graph.position(output->producer);
    }
    if (!changed) ++k;
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
