// SPDX-License-Identifier: Apache-2.0
// LowBitWeightsFusion: rows of floats times dequantized constant codes (MatMul or Gemm of
// DequantizeLinear, also transposed) become one product whose weights stay codes: of 4 bits, of 8
// bits in blocks, and of 8 bits where the rows are not quantized. A constant per column that is
// added to such a product is its bias. Exact but for the order of sums and, with alpha, the
// rounding of scales.
#include <algorithm>

#include "ir/weight_records.h"
#include "passes/affine.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/quantization.h"

namespace camshaft::passes {

using namespace ir;

namespace {

constexpr int64_t kLeastWeights = 1024;  // below, floats cost nothing

bool is_transpose(const Layer& layer) {
  if (layer.kind != LayerKind::kShuffle) return false;
  const auto& a = layer.as<ShuffleAttrs>();
  const Ints swapped = {1, 0};
  return !a.has_reshape && layer.inputs.size() == 1 &&
         ((a.first_transpose == swapped && a.second_transpose.empty()) ||
          (a.second_transpose == swapped && a.first_transpose.empty()));
}

// Codes as they are stored and what they mean.
struct StoredWeights {
  Layer* dequantize = nullptr;
  bool transposed = false;  // [columns, depth]
  int64_t columns = 0, depth = 0;
  int64_t block = 0;           // along the depth
  bool one_per_column = true;  // scales, or one for all

  const Tensor& codes() const { return *dequantize->inputs[0]; }
  bool is_signed() const {
    return codes().type == DataType::kInt4 || codes().type == DataType::kInt8;
  }
  int bits() const { return static_cast<int>(bits_of(codes().type)); }
  int64_t blocks() const { return (depth + block - 1) / block; }

  static int element(const Tensor& t, int64_t k) {
    const auto bytes = t.constant->view;
    const bool is_4_bit = t.type == DataType::kInt4 || t.type == DataType::kUInt4;
    const int byte = std::to_integer<int>(bytes[static_cast<size_t>(is_4_bit ? k / 2 : k)]);
    if (t.type == DataType::kUInt8) return byte;
    if (t.type == DataType::kInt8) return static_cast<int8_t>(byte);
    const int nibble = k % 2 == 0 ? byte & 15 : byte >> 4;
    return t.type == DataType::kInt4 && nibble > 7 ? nibble - 16 : nibble;
  }
  int shift() const { return is_signed() ? 1 << (bits() - 1) : 0; }
  int code(int64_t column, int64_t k) const {
    return element(codes(), transposed ? column * depth + k : k * columns + column) + shift();
  }
  int64_t scale_index(int64_t column, int64_t b) const {
    if (blocks() == 1) return one_per_column ? column : 0;
    return transposed ? column * blocks() + b : b * columns + column;
  }
  float scale(int64_t column, int64_t b) const {
    return dequantize->inputs[1]->values<float>()[static_cast<size_t>(scale_index(column, b))];
  }
  const Tensor* zeros() const { return input_at(*dequantize, 2); }
  int zero(int64_t column, int64_t b) const {
    return (zeros() ? element(*zeros(), scale_index(column, b)) : 0) + shift();
  }
};

bool has_codes(const Tensor* t) {
  return t && t->is_constant() &&
         (t->type == DataType::kInt4 || t->type == DataType::kUInt4 || is_quantized(t->type));
}

// Scales of one element, one per column, or per column and block of the depth.
bool set_blocks(StoredWeights& w) {
  const auto& attrs = w.dequantize->as<QuantizeAttrs>();
  const int64_t scales = element_count(extents_of(w.dequantize->inputs[1]->shape));
  const int64_t depth_axis = w.transposed ? 1 : 0;
  if (attrs.block_size > 0) {
    w.block = attrs.block_size;
    return attrs.axis == depth_axis && scales == w.columns * w.blocks();
  }
  w.block = w.depth;
  w.one_per_column = scales > 1;
  return scales == 1 || (scales == w.columns && attrs.axis == 1 - depth_axis);
}

// Of factor `b`, in the order a product reads it; empty: it is made of something else.
std::optional<StoredWeights> weights_of(const Tensor* b, bool transposed) {
  StoredWeights w;
  const Layer* producer = b->producer;
  if (producer && is_transpose(*producer)) {
    transposed = !transposed;
    b = producer->inputs[0];
  }
  w.dequantize = dequantizer_of(b);
  w.transposed = transposed;
  if (!w.dequantize || !has_codes(w.dequantize->inputs[0]) || w.codes().shape.size() != 2 ||
      !is_float_constant(w.dequantize->inputs[1]) || (w.zeros() && !has_codes(w.zeros())))
    return std::nullopt;
  const Extents extents = extents_of(w.codes().shape);
  w.columns = extents[transposed ? 0 : 1];
  w.depth = extents[transposed ? 1 : 0];
  if (w.columns * w.depth < kLeastWeights || !set_blocks(w)) return std::nullopt;
  return w;
}

LowBits kind_of(const StoredWeights& w) {
  LowBits kind;
  kind.columns = w.columns;
  kind.depth = w.depth;
  kind.bits = w.bits();
  kind.block = w.block;
  for (int64_t column = 0; column < w.columns; ++column)
    for (int64_t b = 0; b < w.blocks(); ++b)
      if (w.zero(column, b) != 1 << (w.bits() - 1)) kind.zero = DataType::kUInt8;
  return kind;
}

std::vector<std::byte> records_of(const StoredWeights& w, const LowBits& kind, float alpha) {
  const RecordLayout layout(kind);
  std::vector<std::byte> bytes(static_cast<size_t>(layout.bytes()));
  RecordWriter records(layout, bytes.data());
  for (int64_t column = 0; column < w.columns; ++column)
    for (int64_t b = 0; b < w.blocks(); ++b) {
      records.set_block(column, b, w.scale(column, b) * alpha,
                        static_cast<float>(w.zero(column, b)));
      for (int64_t k = 0; k < layout.count_of(b); ++k)
        records.set_code(column, b, k, w.code(column, b * w.block + k));
    }
  return bytes;
}

bool may_become_codes(const Layer& product, const StoredWeights& w) {
  // Products of 8-bit codes are faster still.
  return w.bits() == 8 && w.dequantize->as<QuantizeAttrs>().block_size == 0 &&
         may_be_dequantized(product.inputs[0]);
}

bool fuse(Rewriter& rewriter, Layer* product) {
  const auto& matrix = product->as<MatrixMultiplyAttrs>();
  if (matrix.transpose_a || !matrix.epilogue.empty() ||
      product->inputs[0]->type != DataType::kFloat || !product->inputs[0]->has_rank ||
      product->inputs[0]->is_constant())
    return false;
  const std::optional<StoredWeights> w = weights_of(product->inputs[1], matrix.transpose_b);
  if (!w || may_become_codes(*product, *w)) return false;
  rewriter.running(*product);
  const LowBits kind = kind_of(*w);
  if (!RecordLayout::is_valid(kind)) return false;
  const RecordLayout layout(kind);
  const int64_t extents[] = {layout.columns, layout.blocks(), layout.record()};
  Tensor* records = rewriter.add_constant(w->codes().name + " (records)", DataType::kUInt8, extents,
                                          records_of(*w, kind, matrix.alpha));
  rewriter.fused(*w->dequantize, *product);
  std::vector<Tensor*> inputs = {product->inputs[0], records};
  if (Tensor* bias = input_at(*product, 2)) inputs.push_back(bias);
  Layer* group[] = {w->dequantize, product};
  rewriter.replace(group, LayerKind::kLowBitMultiply, kind, inputs,
                   w->dequantize->name + " + " + product->name);
  return true;
}

// As a bias, not as a part of the epilogue: products of one tensor with biases may become one.
bool fuse_bias(Rewriter& rewriter, Layer* product) {
  Tensor* y = product->outputs[0];
  Layer* next = only_reader(y);
  if (!next || !y->has_rank || input_at(*product, 2) || !product->as<LowBits>().epilogue.empty())
    return false;
  const int64_t columns = product->as<LowBits>().columns;
  const std::optional<Affine> affine = affine_of(*next, y, y->shape.size() - 1, columns);
  if (!affine ||
      std::any_of(affine->scale.begin(), affine->scale.end(), [](float s) { return s != 1; }))
    return false;
  rewriter.running(*next);
  rewriter.fused(*product, *next);
  const int64_t extents[] = {columns};
  Tensor* bias =
      rewriter.add_float_constant(product->name + " bias + " + next->name, extents, affine->shift);
  if (product->inputs.size() < 3)
    rewriter.append_input(product, bias);
  else
    rewriter.set_input(product, 2, bias);
  rewriter.absorb(product, next);
  return true;
}

}  // namespace

int low_bit_weights_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "LowBitWeightsFusion", records);
  for (size_t k = 0; k < graph.layers().size(); ++k)
    if (graph.layers()[k]->kind == LayerKind::kMatrixMultiply)
      fuse(rewriter, graph.layers()[k].get());
  for (size_t k = 0; k < graph.layers().size(); ++k)
    if (graph.layers()[k]->kind == LayerKind::kLowBitMultiply)
      fuse_bias(rewriter, graph.layers()[k].get());
  return rewriter.edits();
}

}  // namespace camshaft::passes
