// SPDX-License-Identifier: Apache-2.0
// The tensors of Attention as heads: whichever way they lie in memory, a head is rows of numbers.
#pragma once

#include <span>

#include "kernels/kernel.h"

namespace camshaft::kernels {

inline constexpr size_t kAttentionLengths = 3, kFirstAttentionOperand = 4;

// Strides in elements, 0 where a dimension is repeated.
struct HeadStrides {
  int64_t batch = 0, head = 0, step = 0, element = 1;
};

struct AttentionShape {
  int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0, depth = 0, value_depth = 0;
  HeadStrides q, k, v, y;

  int64_t group() const { return heads / kv_heads; }
};

// False: tensors that do not fit each other.
bool attention_shape(const ir::AttentionAttrs& attrs, std::span<const TensorView> inputs,
                     const TensorView& y, AttentionShape& shape);
bool attention_shape(const Problem& problem, AttentionShape& shape);

// Dense scores without data: what epilogue operands broadcast to.
TensorView scores_view(const AttentionShape& shape);

// Which keys a query sees: [first, last), perhaps none.
struct KeyRange {
  int64_t first, last;
};
struct KeyWindows {
  int64_t keys = 0, queries = 0;
  int64_t left = -1, right = -1;  // below 0: none
  int64_t first_query = -1;       // below 0: it follows from the lengths
  int64_t step = 1;               // from query to query

  // `length`: keys of this item of the batch.
  KeyRange seen_by(int64_t query, int64_t length) const { return seen_by(query, query, length); }
  // By at least one of the queries from the first to the last.
  KeyRange seen_by(int64_t first, int64_t last, int64_t length) const {
    const int64_t base = first_query >= 0 ? first_query : length - queries;
    const int64_t low = first * step + base - left, high = last * step + base + right + 1;
    const int64_t begin = left < 0 || low < 0 ? 0 : low,
                  end = right < 0 || high > length ? length : high;
    return end > begin ? KeyRange{begin, end} : KeyRange{0, 0};
  }
};
KeyWindows key_windows(const ir::AttentionAttrs& attrs, const AttentionShape& shape,
                       bool has_lengths);
// Keys of batch item `b`, in [0, keys]; `lengths` of type int32 or int64, or null: all.
int64_t length_of(const void* lengths, DataType type, int64_t stride, int64_t b, int64_t keys);

}  // namespace camshaft::kernels
