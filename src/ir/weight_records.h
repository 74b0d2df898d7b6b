// SPDX-License-Identifier: Apache-2.0
// The weights of LowBitMultiply: records [columns][blocks] are a float scale, a float zero point
// and the block's codes, low bits first: weight = (code - zero) * scale.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ir/graph.h"

namespace camshaft::ir {

using LowBits = LowBitMultiplyAttrs;

struct RecordLayout {
  static constexpr int64_t kHeader = 8;
  int64_t columns, depth, bits, block;

  explicit RecordLayout(const LowBits& w)
      : columns(w.columns), depth(w.depth), bits(w.bits), block(w.block) {}

  static bool is_valid(const LowBits& w) {
    constexpr int64_t kMost = 1 << 24;
    return w.columns > 0 && w.columns <= kMost && w.depth > 0 && w.depth <= kMost && w.block > 0 &&
           w.block <= kMost && (w.bits == 2 || w.bits == 4 || w.bits == 8);
  }

  int64_t blocks() const { return (depth + block - 1) / block; }
  int64_t record() const { return kHeader + (block * bits + 7) / 8; }
  int64_t bytes() const { return columns * blocks() * record(); }
  int64_t count_of(int64_t b) const {  // codes of block b
    return b * block + block <= depth ? block : depth - b * block;
  }
  int64_t at(int64_t column, int64_t b) const { return (column * blocks() + b) * record(); }
};

class RecordReader {
 public:
  RecordReader(const RecordLayout& layout, const std::byte* data) : layout_(layout), data_(data) {}
  const RecordLayout& layout() const { return layout_; }

  float scale(int64_t column, int64_t b) const { return header(column, b, 0); }
  float zero(int64_t column, int64_t b) const { return header(column, b, sizeof(float)); }
  const std::byte* codes(int64_t column, int64_t b) const {
    return data_ + layout_.at(column, b) + RecordLayout::kHeader;
  }
  // Code k of the block.
  int code(int64_t column, int64_t b, int64_t k) const {
    const int64_t bit = k * layout_.bits;
    return std::to_integer<int>(codes(column, b)[bit / 8]) >> (bit % 8) & ((1 << layout_.bits) - 1);
  }

 private:
  float header(int64_t column, int64_t b, size_t offset) const {
    float value;
    std::memcpy(&value, data_ + layout_.at(column, b) + offset, sizeof value);
    return value;
  }

  RecordLayout layout_;
  const std::byte* data_;
};

class RecordWriter {
 public:
  RecordWriter(const RecordLayout& layout, std::byte* data) : layout_(layout), data_(data) {
    std::memset(data, 0, static_cast<size_t>(layout.bytes()));
  }
  void set_block(int64_t column, int64_t b, float scale, float zero) {
    std::byte* at = data_ + layout_.at(column, b);
    std::memcpy(at, &scale, sizeof scale);
    std::memcpy(at + sizeof scale, &zero, sizeof zero);
  }
  void set_code(int64_t column, int64_t b, int64_t k, int code) {
    const int64_t bit = k * layout_.bits;
    data_[layout_.at(column, b) + RecordLayout::kHeader + bit / 8] |=
        static_cast<std::byte>(code << (bit % 8));
  }

 private:
  RecordLayout layout_;
  std::byte* data_;
};

}  // namespace camshaft::ir
