// SPDX-License-Identifier: Apache-2.0
// ChosenProductFusion: matrices gathered from a constant, one for each row, and the product of
// each row with its own (mixtures of experts, as transformers' `batched_mm` writes them; sets of
// adapters) become one layer that reads each matrix once, however many rows chose it. The row may
// stand on either side, the matrices may be transposed before they are gathered or behind.
#include <map>

#include "ir/chosen_product.h"
#include "ir/extents.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

struct ChosenMatrices {
  Tensor* weights;  // [matrices, …, …]
  Tensor* chosen;   // [rows], or [rows, 1]
  bool transposed;  // behind the Gather
};

bool gathers_matrices(const Layer& gather) {
  const auto& a = gather.as<GatherAttrs>();
  const Tensor *weights = gather.inputs[0], *chosen = gather.inputs[1];
  if (!is_float_constant(weights) || weights->shape.size() != 3 ||
      weights->values<float>().empty() || !chosen->has_rank ||
      (chosen->type != DataType::kInt64 && chosen->type != DataType::kInt32))
    return false;
  const Shape& s = chosen->shape;
  if (a.mode == GatherMode::kDefault) return a.axis == 0 && s.size() == 1;
  return a.mode == GatherMode::kNd && a.batch_dims == 0 && s.size() == 2 && s[1] == Dim(1);
}

bool swaps_last_two(const Layer& shuffle) {
  const auto& a = shuffle.as<ShuffleAttrs>();
  if (a.has_reshape || shuffle.inputs.size() > 1) return false;
  const Ints swap = {0, 2, 1};
  return (a.first_transpose == swap && is_identity_order(a.second_transpose)) ||
         (a.second_transpose == swap && is_identity_order(a.first_transpose));
}

std::optional<ChosenMatrices> matrices_of(const Tensor* operand) {
  const Layer* maker = operand->producer;
  bool transposed = false;
  if (maker && maker->kind == LayerKind::kShuffle && swaps_last_two(*maker)) {
    maker = maker->inputs[0]->producer;
    transposed = true;
  }
  if (!maker || maker->kind != LayerKind::kGather || !gathers_matrices(*maker)) return std::nullopt;
  return ChosenMatrices{maker->inputs[0], maker->inputs[1], transposed};
}

bool is_plain(const Layer& product) {
  const auto& a = product.as<MatrixMultiplyAttrs>();
  return product.inputs.size() == 2 && a.alpha == 1 && a.epilogue.empty() &&
         product.outputs[0]->type == DataType::kFloat && product.outputs[0]->has_rank;
}

// [matrices, columns, depth] of what is stored [matrices, depth, columns].
std::vector<std::byte> transposed_matrices(const Tensor& weights) {
  const Extents extents = extents_of(weights.shape);
  const auto from = weights.values<float>();
  std::vector<std::byte> bytes(from.size() * sizeof(float));
  auto* to = reinterpret_cast<float*>(bytes.data());
  for (int64_t m = 0; m < extents[0]; ++m)
    for (int64_t r = 0; r < extents[1]; ++r)
      for (int64_t c = 0; c < extents[2]; ++c)
        to[(m * extents[2] + c) * extents[1] + r] = from[(m * extents[1] + r) * extents[2] + c];
  return bytes;
}

class Fusion {
 public:
  Fusion(Graph& graph, Records* records) : rewriter_(graph, "ChosenProductFusion", records) {}

  int run() {
    for (size_t k = 0; k < rewriter_.graph().layers().size(); ++k) {
      Layer* layer = rewriter_.graph().layers()[k].get();
      if (layer->kind != LayerKind::kMatrixMultiply || !is_plain(*layer)) continue;
      for (const size_t side : {1, 0})
        if (fuse(layer, side)) break;
    }
    return rewriter_.edits();
  }

 private:
  // The gathered matrices are operand `side`.
  bool fuse(Layer* product, size_t side) {
    const std::optional<ChosenMatrices> found = matrices_of(product->inputs[side]);
    const Tensor* x = product->inputs[1 - side];
    const Shape& y = product->outputs[0]->shape;
    if (!found || !x->has_rank || x->shape.size() != 3 || y.size() != 3 ||
        x->type != DataType::kFloat || x->shape[0] != found->chosen->shape[0])
      return false;
    const auto& a = product->as<MatrixMultiplyAttrs>();
    const bool x_transposed = side == 1 ? a.transpose_a : a.transpose_b;
    const size_t row_dim = (side == 1) != x_transposed ? 1 : 2;  // of x, which has one there
    if (x->shape[row_dim] != Dim(1)) return false;
    // As it is gathered, the product sums over the middle dimension, or over the last one.
    const bool flag = side == 1 ? a.transpose_b : a.transpose_a;
    const bool sums_last = (side == 0) != (flag != found->transposed);
    rewriter_.running(*product);
    replace(product, *found, product->inputs[1 - side], sums_last);
    return true;
  }

  void replace(Layer* product, const ChosenMatrices& found, Tensor* x, bool sums_last) {
    Tensor* weights = sums_last ? found.weights : transposed(found.weights);
    const Dim rows = x->shape[0];
    const Tensor* y = product->outputs[0];
    rewriter_.applied(Action::kFuse, *product,
                      "Fusing " + product->name + " with the matrices of " + weights->name);
    const std::string name = product->name;
    rewriter_.rename(product, name + " (shape)");
    Tensor* flat = rewriter_.reshaped_before(product, name + " (rows)", x,
                                             {rows, weights->shape[2]}, *product);
    Tensor* chosen = found.chosen->shape.size() == 1
                         ? found.chosen
                         : rewriter_.reshaped_before(product, name + " (numbers)", found.chosen,
                                                     {rows}, *product);
    Tensor* result =
        rewriter_.add_tensor(name + " (product)", DataType::kFloat, {rows, weights->shape[1]});
    rewriter_.insert_before(product, LayerKind::kGeneric, name, GenericAttrs{kChosenProduct, 1, {}},
                            {flat, chosen, weights}, {result}, {product});
    ShuffleAttrs back;
    back.has_reshape = true;
    back.reshape = y->shape;
    Layer* group[] = {product};
    rewriter_.replace(group, LayerKind::kShuffle, back, {result}, product->name);
  }

  // Of several products, once.
  Tensor* transposed(const Tensor* weights) {
    Tensor*& made = transposed_[weights];
    if (made == nullptr) {
      const Extents e = extents_of(weights->shape);
      made = rewriter_.add_constant(weights->name + " (transposed)", DataType::kFloat,
                                    Extents{e[0], e[2], e[1]}, transposed_matrices(*weights));
    }
    return made;
  }

  Rewriter rewriter_;
  std::map<const Tensor*, Tensor*> transposed_;
};

}  // namespace

int chosen_product_fusion(Graph& graph, Records* records) {
  return Fusion(graph, records).run();
}

}  // namespace camshaft::passes
