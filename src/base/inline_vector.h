// SPDX-License-Identifier: Apache-2.0
// A vector of at most N trivially copyable elements held in place: shapes and extents without
// allocation.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <initializer_list>
#include <span>

namespace camshaft {

template <class T, size_t N>
class InlineVector {
 public:
  InlineVector() = default;
  explicit InlineVector(size_t count, T value = T()) { resize(count, value); }
  InlineVector(std::initializer_list<T> list) { assign(list.begin(), list.end()); }
  template <class It>
  InlineVector(It first, It last) {
    assign(first, last);
  }

  template <class It>
  void assign(It first, It last) {
    size_ = 0;
    for (; first != last; ++first) push_back(*first);
  }
  void resize(size_t count, T value = T()) {
    assert(count <= N);
    for (size_t k = size_; k < count; ++k) data_[k] = value;
    size_ = count;
  }
  void push_back(T value) {
    assert(size_ < N);
    data_[size_++] = value;
  }
  void pop_back() { --size_; }
  void clear() { size_ = 0; }
  void insert(size_t position, T value) {
    push_back(value);
    std::rotate(begin() + position, end() - 1, end());
  }
  void erase(size_t position) {
    std::copy(begin() + position + 1, end(), begin() + position);
    --size_;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  static constexpr size_t capacity() { return N; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](size_t k) { return data_[k]; }
  const T& operator[](size_t k) const { return data_[k]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  operator std::span<const T>() const { return {data_, size_}; }  // NOLINT: implicit on purpose

  friend bool operator==(const InlineVector& a, const InlineVector& b) {
    return a.size_ == b.size_ && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  T data_[N] = {};
  size_t size_ = 0;
};

}  // namespace camshaft
