// SPDX-License-Identifier: Apache-2.0
// ArithmeticWeightsFusion: weights that a network computes from constant codes by arithmetic, as
// quantizers write them that know no DequantizeLinear (torchao, HQQ, GPTQ and AWQ in PyTorch,
// weights of int8 that are cast), times rows of floats. (code - zero) * scale in any order and
// shape becomes the product whose weights stay codes. Exact but for the order of sums and, where
// scales are more than one factor or zero points are no integers, their rounding.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/weight_records.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/written_weights.h"

namespace camshaft::passes {

using namespace ir;

namespace {

constexpr int64_t kLeastArithmeticWeights = 1024;  // below, floats cost nothing
constexpr int64_t kLeastWrittenBlock = 16;         // a block's scale and zero point take 8 bytes

// The weights as a product reads them.
class WrittenMatrix {
 public:
  WrittenMatrix(const WrittenWeights& weights, bool transposed)
      : w_(weights), transposed_(transposed) {
    kind.columns = w_.extents[transposed ? 0 : 1];
    kind.depth = w_.extents[transposed ? 1 : 0];
  }

  LowBits kind;

  // False: more than 8 bits, or scales that change too often.
  bool find_kind() {
    if (!find_bits()) return false;
    kind.block = block();
    if (kind.block < kLeastWrittenBlock && kind.block < kind.depth) return false;
    const auto none = static_cast<float>(1 << (kind.bits - 1));
    bool integral = true;
    for (int64_t column = 0; column < kind.columns; ++column)
      for (int64_t k = 0; k < kind.depth; k += kind.block) {
        const float scale = w_.scale[at(column, k)], zero = zero_of(column, k);
        if (!std::isfinite(scale) || !std::isfinite(zero)) return false;
        if (zero != none && kind.zero == DataType::kUndefined) kind.zero = DataType::kUInt8;
        integral &= zero == std::floor(zero) && zero >= 0 && zero <= 255;
      }
    if (!integral) kind.zero = DataType::kFloat;
    return RecordLayout::is_valid(kind);
  }

  std::vector<std::byte> records(float alpha) const {
    const RecordLayout layout(kind);
    std::vector<std::byte> bytes(static_cast<size_t>(layout.bytes()));
    RecordWriter records(layout, bytes.data());
    for (int64_t column = 0; column < kind.columns; ++column)
      for (int64_t b = 0; b < layout.blocks(); ++b) {
        const int64_t first = b * kind.block;
        records.set_block(column, b, w_.scale[at(column, first)] * alpha, zero_of(column, first));
        for (int64_t k = 0; k < layout.count_of(b); ++k)
          records.set_code(column, b, k,
                           static_cast<int>(w_.codes[at(column, first + k)] + shift_));
      }
    return bytes;
  }

 private:
  int64_t at(int64_t column, int64_t k) const {
    return transposed_ ? column * kind.depth + k : k * kind.columns + column;
  }
  float zero_of(int64_t column, int64_t k) const { return w_.zero[at(column, k)] + shift_; }

  // Codes as unsigned ones, those about 0 about the middle.
  bool find_bits() {
    const auto [least, most] = std::minmax_element(w_.codes.all().begin(), w_.codes.all().end());
    for (const int bits : {2, 4, 8}) {
      const auto half = static_cast<float>(1 << (bits - 1));
      if (*most - *least >= 2 * half) continue;
      kind.bits = bits;
      shift_ = *least >= -half && *most < half   ? half
               : *least >= 0 && *most < 2 * half ? 0
                                                 : -*least;
      return true;
    }
    return false;
  }

  // The longest run along the depth that has one scale and zero point in every column.
  int64_t block() const {
    int64_t common = 0;
    for (int64_t column = 0; column < kind.columns && common != 1; ++column)
      for (int64_t k = 1; k < kind.depth; ++k) {
        const int64_t here = at(column, k), before = at(column, k - 1);
        if (w_.scale[here] != w_.scale[before] || w_.zero[here] != w_.zero[before])
          common = std::gcd(common, k);
      }
    return common == 0 ? kind.depth : common;
  }

  const WrittenWeights& w_;
  bool transposed_;
  float shift_ = 0;
};

bool may_have_weights(const Layer& product) {
  const auto& a = product.as<MatrixMultiplyAttrs>();
  const Tensor *rows = product.inputs[0], *weights = product.inputs[1];
  return !a.transpose_a && a.epilogue.empty() && rows->type == DataType::kFloat && rows->has_rank &&
         !rows->is_constant() && !weights->is_constant() && weights->has_rank &&
         weights->shape.size() == 2 && all_known(weights->shape) &&
         element_count(extents_of(weights->shape)) >= kLeastArithmeticWeights;
}

bool fuse_written_weights(Rewriter& rewriter, Layer* product) {
  if (!may_have_weights(*product)) return false;
  const Tensor* weights = product->inputs[1];
  const std::optional<WrittenWeights> found = written_weights(*weights);
  // Wide integers without scales are tables of numbers, and not codes.
  if (!found || (!found->is_scaled && !found->has_byte_codes)) return false;
  rewriter.running(*product);
  const auto& matrix = product->as<MatrixMultiplyAttrs>();
  WrittenMatrix written(*found, matrix.transpose_b);
  if (!written.find_kind()) return false;
  const LowBits kind = written.kind;
  const RecordLayout layout(kind);
  const int64_t extents[] = {layout.columns, layout.blocks(), layout.record()};
  Tensor* records = rewriter.add_constant(weights->name + " (records)", DataType::kUInt8, extents,
                                          written.records(matrix.alpha));
  rewriter.fused(*weights->producer, *product);
  std::vector<Tensor*> inputs = {product->inputs[0], records};
  if (Tensor* bias = input_at(*product, 2)) inputs.push_back(bias);
  Layer* group[] = {product};
  rewriter.replace(group, LayerKind::kLowBitMultiply, kind, inputs, product->name);
  return true;
}

}  // namespace

int arithmetic_weights_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "ArithmeticWeightsFusion", records);
  for (size_t k = 0; k < graph.layers().size(); ++k)
    if (graph.layers()[k]->kind == LayerKind::kMatrixMultiply)
      fuse_written_weights(rewriter, graph.layers()[k].get());
  return rewriter.edits();
}

}  // namespace camshaft::passes
