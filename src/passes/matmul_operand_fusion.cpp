// SPDX-License-Identifier: Apache-2.0
// MatMulOperandFusion: a transpose of the last two dimensions becomes a flag, a scalar factor
// before or behind becomes alpha, a reduction to [M, K] x [K, N] by reshape is left to the kernels.
// Exact (transposes), a few ulp (alpha).
#include <algorithm>

#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// The shuffle without its exchange of the last two dimensions, if less moves then: nothing, or
// whole rows instead of elements.
std::optional<ShuffleAttrs> without_swap(const Layer& shuffle) {
  ShuffleAttrs a = shuffle.as<ShuffleAttrs>();
  if (input_at(shuffle, 1) || !shuffle.inputs[0]->has_rank ||
      (a.has_reshape && a.second_transpose.empty()))
    return std::nullopt;
  const Shape& ordered =
      a.has_reshape ? a.reshape : shuffle.inputs[0]->shape;  // what the last transpose reads
  Ints& order = a.has_reshape ? a.second_transpose : a.first_transpose;
  if (order.size() < 2 || (!a.has_reshape && !a.second_transpose.empty())) return std::nullopt;
  const size_t rank = order.size();
  const bool moved = !moves_nothing(ordered, order),
             moved_rows = order[rank - 1] + 1 != static_cast<int64_t>(rank);
  std::swap(order[rank - 1], order[rank - 2]);
  const bool moves = !moves_nothing(ordered, order),
             moves_rows = order[rank - 1] + 1 != static_cast<int64_t>(rank);
  const bool worth =
      (moved && !moves) || (moved_rows && !moves_rows && only_reader(shuffle.outputs[0]));
  return worth ? std::optional(a) : std::nullopt;
}

bool fuse_transpose(Rewriter& rewriter, Layer* product, size_t k) {
  Tensor* operand = product->inputs[k];
  Layer* shuffle = producer_of_kind(operand, LayerKind::kShuffle);
  if (!shuffle || !operand->has_rank || operand->shape.size() < 2) return false;
  const std::optional<ShuffleAttrs> rest = without_swap(*shuffle);
  if (!rest) return false;
  rewriter.running(*shuffle);
  rewriter.fused(*shuffle, *product);
  Shape shape = operand->shape;
  std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  const bool nothing_left = !rest->has_reshape && is_identity_order(rest->first_transpose);
  Tensor* straight = nothing_left
                         ? shuffle->inputs[0]
                         : rewriter.add_tensor(operand->name + " (straight)", operand->type, shape);
  if (!nothing_left)
    rewriter.insert_before(product, LayerKind::kShuffle, shuffle->name + " (straight)", *rest,
                           {shuffle->inputs[0]}, {straight}, {shuffle});
  MatrixMultiplyAttrs attrs = product->as<MatrixMultiplyAttrs>();
  (k == 0 ? attrs.transpose_a : attrs.transpose_b) ^= true;
  std::vector<Tensor*> inputs = product->inputs;
  inputs[k] = straight;
  Layer* group[] = {shuffle, product};
  rewriter.replace(group, product->kind, attrs, inputs);
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
  rewriter.attrs<MatrixMultiplyAttrs>(product).alpha *= factor;
  rewriter.fused(*scale, *product);
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
  rewriter.attrs<MatrixMultiplyAttrs>(product).alpha *= factor;
  rewriter.fused(*product, *scale);
  rewriter.absorb(product, scale);
  return true;
}

}  // namespace

int matmul_operand_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "MatMulOperandFusion", records);
  for (size_t k = 0; k < graph.layers().size();) {
    Layer* layer = graph.layers()[k].get();
    bool changed = false;
    if (layer->kind == LayerKind::kMatrixMultiply &&
        (layer->inputs[0]->type == DataType::kFloat || makes_codes(*layer))) {
      const bool codes = makes_codes(*layer);  // the epilogue scales them
      Tensor* output = layer->outputs[0];
      const Layer* reader = only_reader(output);
      Tensor* result = reader ? reader->outputs[0] : nullptr;
      changed = fuse_transpose(rewriter, layer, 0) || fuse_transpose(rewriter, layer, 1);
      if (!changed && !codes)
        changed = fuse_factor_before(rewriter, layer, 0) || fuse_factor_before(rewriter, layer, 1);
      if (!changed && !codes && fuse_factor_behind(rewriter, layer)) {
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
