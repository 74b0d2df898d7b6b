// SPDX-License-Identifier: Apache-2.0
// Attention and MultiHeadAttention of domain com.microsoft, as the layer Attention: projections,
// the masks they know and the cache become what that reads.
#include "onnx/heads_attention.h"
#include "onnx/ops_quantized.h"

namespace camshaft::onnx_import {
namespace {

// Inputs: query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value.
Status import_multi_head_attention(Node& node) {
  CAMSHAFT_TRY(node.require(3, 8));
  HeadsAttention attention(node);
  CAMSHAFT_TRY(attention.check());
  Tensor *q = node.input(0), *k = node.input(1), *v = node.input(2);
  CAMSHAFT_TRY(attention.check_rows(q, "a query"));
  const bool are_heads = k->has_rank && k->shape.size() == 4 && v->has_rank && v->shape.size() == 4;
  if (!are_heads) {
    CAMSHAFT_TRY(attention.check_rows(k, "a key"));
    CAMSHAFT_TRY(attention.check_rows(v, "a value"));
  }
  if (Tensor* const bias = node.input(3)) {
    CAMSHAFT_ASSIGN(q, biased(node, q, bias, 0));
    const int64_t width = q->shape[2].extent();
    if (!are_heads) {
      CAMSHAFT_ASSIGN(k, biased(node, k, bias, width));
      CAMSHAFT_ASSIGN(v, biased(node, v, bias, 2 * width));
    }
  }
  return attention.run_apart(q, k, v, node.input(6), node.input(7), 4, 5);
}

// Queries, keys and values side by side, `whole` columns; which inputs are mask_index, past and
// attention_bias.
Status attend(Node& node, Tensor* all, int64_t whole, size_t mask, size_t past, size_t bias) {
  HeadsAttention attention(node);
  CAMSHAFT_TRY(attention.check());
  if (node.flag("past_present_share_buffer", false))
    return unsupported("a past that shares the memory of the present");
  ir::Ints sizes = node.integers("qkv_hidden_sizes");
  if (sizes.empty()) sizes = {whole / 3, whole / 3, whole / 3};
  if (sizes.size() != 3 || sizes[0] + sizes[1] + sizes[2] != whole)
    return invalid("qkv_hidden_sizes do not make {} columns", whole);
  Tensor* parts[3];
  int64_t first = 0;
  for (size_t n = 0; n < 3; first += sizes[n++]) {
    CAMSHAFT_ASSIGN(parts[n], part_of(node, "part", all, first, sizes[n]));
    CAMSHAFT_TRY(attention.check_rows(parts[n], "a projection"));
  }
  return attention.run_packed(parts[0], parts[1], parts[2], node.input(past), mask, bias);
}

Result<int64_t> columns_of(const Tensor* weights) {
  if (!weights->has_rank || weights->shape.size() != 2 || !weights->shape[1].is_known())
    return unsupported("weights of unknown shape");
  return weights->shape[1].extent();
}

// Inputs: input, weights, bias, mask_index, past, attention_bias.
Status import_packed_attention(Node& node) {
  CAMSHAFT_TRY(node.require(2, 6));
  node.ignore({"rotary_embedding_dim"});
  CAMSHAFT_ASSIGN(const int64_t columns, columns_of(node.input(1)));
  std::vector<Tensor*> inputs = {node.input(0), node.input(1)};
  if (node.has(2)) inputs.push_back(node.input(2));
  CAMSHAFT_ASSIGN(Tensor* const all, node.add("projected", LayerKind::kMatrixMultiply,
                                              ir::MatrixMultiplyAttrs{}, std::move(inputs)));
  return attend(node, all, columns, 3, 4, 5);
}

// What quantize_dynamic makes of it. Inputs: input and weights as codes, bias, their scales,
// mask_index, their zero points, past.
Status import_quantized_attention(Node& node) {
  CAMSHAFT_TRY(node.require(5, 9));
  node.ignore({"rotary_embedding_dim"});
  CAMSHAFT_ASSIGN(const int64_t columns, columns_of(node.input(1)));
  CAMSHAFT_ASSIGN(Tensor* const all,
                  code_product(node, {node.input(0), node.input(1), node.input(3), node.input(4),
                                      node.input(6), node.input(7), node.input(2)}));
  constexpr size_t kNone = 9;
  return attend(node, all, columns, 5, 8, kNone);
}

}  // namespace

std::span<const OperatorRow> microsoft_attention_operators() {
  static constexpr OperatorRow kOperators[] = {
      {"Attention", import_packed_attention},
      {"DecoderMaskedMultiHeadAttention", import_decoder_attention},
      {"MultiHeadAttention", import_multi_head_attention},
      {"QAttention", import_quantized_attention},
  };
  return kOperators;
}

}  // namespace camshaft::onnx_import
