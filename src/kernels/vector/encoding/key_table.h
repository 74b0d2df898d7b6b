// SPDX-License-Identifier: Apache-2.0
// A table of whole numbers and what they stand for: looked up by position where the keys lie close
// together, else by hash.
#pragma once

#include <bit>
#include <type_traits>

#include "kernels/vector/counts.h"
#include "kernels/vector/prepare.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// Of floats the bits: NaN is a key like any other, and both zeros are one.
template <class T>
CAMSHAFT_INLINE int64_t key_of(T v) {
  if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
    if (v != v) return std::bit_cast<Bits>(static_cast<T>(__builtin_nan("")));
    return std::bit_cast<Bits>(v == 0 ? T(0) : v);
  } else {
    return static_cast<int64_t>(v);
  }
}

class KeyTable {
 public:
  // Room for `count` keys.
  static KeyTable make(PreparedKernel& kernel, int64_t count) {
    KeyTable table;
    while (table.slots_ < 4 * count) table.slots_ *= 2;
    table.keys_ = keep_array<int64_t>(kernel, table.slots_);
    table.values_ = keep_array<uint64_t>(kernel, table.slots_);
    return table;
  }

  // `key(k)`, `value(k)` of the count it was made for; of equal keys the first counts. All others
  // stand for `fallback`.
  template <class Key, class Value>
  void fill(int64_t count, uint64_t fallback, const Key& key, const Value& value) {
    fallback_ = fallback;
    for (int64_t k = 0; k < slots_; ++k) values_[k] = fallback;
    set_range(count, key);
    if (!by_position_) mark_free(count, key);
    for (int64_t k = count - 1; k >= 0; --k) {  // so that the first is written last
      const int64_t slot = by_position_ ? key(k) - first_ : slot_of(key(k));
      keys_[slot] = key(k), values_[slot] = value(k);
    }
  }

  bool is_by_position() const { return by_position_; }
  CAMSHAFT_INLINE_MEMBER uint64_t at_position(int64_t key) const {
    const uint64_t slot = static_cast<uint64_t>(key) - static_cast<uint64_t>(first_);
    return slot < range_ ? values_[slot] : fallback_;
  }
  CAMSHAFT_INLINE_MEMBER uint64_t hashed(int64_t key) const { return values_[slot_of(key)]; }
  CAMSHAFT_INLINE_MEMBER uint64_t operator[](int64_t key) const {
    return by_position_ ? at_position(key) : hashed(key);
  }

 private:
  template <class Key>
  void set_range(int64_t count, const Key& key) {
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (int64_t k = 0; k < count; ++k) {
      least = smaller(least, key(k));
      most = larger(most, key(k));
    }
    const uint64_t distance = static_cast<uint64_t>(most) - static_cast<uint64_t>(least);
    by_position_ = count == 0 || distance < static_cast<uint64_t>(slots_);
    first_ = least, range_ = count == 0 ? 0 : distance + 1;
  }

  // Slots without a key hold one that is none, and stand for the fallback as all that is none.
  template <class Key>
  void mark_free(int64_t count, const Key& key) {
    free_ = INT64_MIN;
    for (int64_t k = 0; k < count;) {
      const bool is_taken = key(k) == free_;
      free_ += is_taken;
      k = is_taken ? 0 : k + 1;
    }
    for (int64_t k = 0; k < slots_; ++k) keys_[k] = free_;
  }

  CAMSHAFT_INLINE_MEMBER int64_t slot_of(int64_t key) const {
    const uint64_t mixed = static_cast<uint64_t>(key) * 0x9e3779b97f4a7c15;
    const uint64_t mask = static_cast<uint64_t>(slots_) - 1;
    uint64_t slot = (mixed ^ mixed >> 32) & mask;
    while (keys_[slot] != key && keys_[slot] != free_) slot = (slot + 1) & mask;
    return static_cast<int64_t>(slot);
  }

  int64_t slots_ = 64, first_ = 0, free_ = 0;
  uint64_t range_ = 0, fallback_ = 0;
  bool by_position_ = true;
  int64_t* keys_ = nullptr;
  uint64_t* values_ = nullptr;
};

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
