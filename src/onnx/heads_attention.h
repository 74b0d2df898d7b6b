// SPDX-License-Identifier: Apache-2.0
// What the attention operators of domain com.microsoft share: rows of heads, masks and pasts become
// the layer Attention.
#pragma once

#include <optional>
#include <vector>

#include "onnx/ops_attention.h"

namespace camshaft::onnx_import {

// Elements [first, first + size) of the last dimension.
Result<Tensor*> part_of(Node& node, std::string_view step, Tensor* x, int64_t first, int64_t size);
// x and the part of `bias` that begins at `first`, as wide as x is.
Result<Tensor*> biased(Node& node, Tensor* x, Tensor* bias, int64_t first);
// What is added to scores, for `rows` keys: zeros for those that have no numbers of their own,
// which nobody sees.
Result<Tensor*> for_all_rows(Node& node, Tensor* added, Dim rows);

class HeadsAttention {
 public:
  explicit HeadsAttention(Node& node);

  Status check() const;
  // Rows of `heads` heads: the width is known and can be divided.
  Status check_rows(const Tensor* x, const char* what) const;

  // The past in one tensor, or none; the present in output 1. `mask` and `bias` are the numbers of
  // inputs.
  Status run_packed(Tensor* q, Tensor* k, Tensor* v, Tensor* past, size_t mask, size_t bias);
  // Keys in output 1, values in output 2; scores in output 3.
  Status run_apart(Tensor* q, Tensor* k, Tensor* v, Tensor* past_k, Tensor* past_v, size_t mask,
                   size_t bias);
  // Keys and values by heads, of which the first `lengths` of each item are seen.
  Status run_on_buffers(Tensor* q, Tensor* k, Tensor* v, Tensor* lengths, size_t mask, size_t bias);

  int64_t heads() const { return heads_; }

 private:
  Result<Tensor*> with_past(Tensor* x, Tensor* past, bool is_wanted, bool& steps_first);
  Result<Tensor*> unpacked(Tensor* past, int64_t index);
  Result<Tensor*> packed(Tensor* k, Tensor* v);
  Status run(Tensor* q, Tensor* k, Tensor* v, const Tensor* past_k, size_t mask, size_t bias);
  Status take_mask(Tensor* mask);
  Status add_operand(Tensor* x);
  Status give_scores();

  Node& node_;
  int64_t heads_;
  ir::AttentionAttrs attrs_;
  std::vector<Tensor*> inputs_;
  int operands_ = 0;
  Tensor* lengths_ = nullptr;
  std::optional<Dim> buffer_rows_;  // more than are seen
  bool gives_scores_ = false;
};

}  // namespace camshaft::onnx_import
