// SPDX-License-Identifier: Apache-2.0
// Bytes that are added at the end, gigabytes of them, without a copy: growing moves pages, not what
// is in them, and a page is there when it is first written. A vector that doubles held an engine of
// 4 GiB three times while it grew, and filled each copy with zeros first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace camshaft {

class GrowingBytes {
 public:
  GrowingBytes() = default;
  ~GrowingBytes();
  GrowingBytes(GrowingBytes&& other) noexcept { *this = std::move(other); }
  GrowingBytes& operator=(GrowingBytes&& other) noexcept;

  // The first of `bytes` more, which are zeros; valid until the next call. Throws std::bad_alloc.
  std::byte* append(size_t bytes);
  // Gives up all from `bytes` on.
  void truncate(size_t bytes);

  // Page aligned; null while it is empty.
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::byte* begin() { return data_; }
  std::byte* end() { return data_ + size_; }
  const std::byte* begin() const { return data_; }
  const std::byte* end() const { return data_ + size_; }

  bool operator==(const GrowingBytes& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  void reserve(size_t bytes);

  std::byte* data_ = nullptr;
  size_t size_ = 0, capacity_ = 0;
  std::vector<size_t> mapped_;  // capacities so far: what was mapped at once moves at once
};

}  // namespace camshaft
