// SPDX-License-Identifier: Apache-2.0
#include "base/growing_bytes.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/huge_pages.h"

namespace camshaft {
namespace {

// One mapping's pages to another place, which is mapped, too.
void move_pages(std::byte* from, std::byte* to, size_t bytes) {
#if defined(MREMAP_FIXED)
  if (mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED) return;
#endif
  std::memcpy(to, from, bytes);
  munmap(from, bytes);
}

}  // namespace

GrowingBytes::~GrowingBytes() {
  if (data_) munmap(data_, capacity_);
}

GrowingBytes& GrowingBytes::operator=(GrowingBytes&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(capacity_, other.capacity_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

std::byte* GrowingBytes::append(size_t bytes) {
  if (bytes > capacity_ - size_) reserve(size_ + bytes);
  std::byte* added = data_ + size_;
  size_ += bytes;
  return added;
}

void GrowingBytes::truncate(size_t bytes) {
  if (bytes >= size_) return;
  std::memset(data_ + bytes, 0, size_ - bytes);
  size_ = bytes;
}

// Twice as much: every page is moved a few times at most. Whole huge pages, which move as such.
void GrowingBytes::reserve(size_t bytes) {
  constexpr size_t kSmallest = size_t{64} << 10;
  const size_t wanted = std::max({bytes, 2 * capacity_, kSmallest});
  const size_t page = wanted < kHugePageBytes ? 4096 : kHugePageBytes;
  const size_t capacity = (wanted + page - 1) / page * page;
  mapped_.reserve(mapped_.size() + 1);
  std::byte* memory = capacity < bytes ? nullptr : map_zeros(capacity);
  if (!memory) throw std::bad_alloc();
  size_t first = 0;
  for (const size_t end : mapped_) {
    move_pages(data_ + first, memory + first, end - first);
    first = end;
  }
  mapped_.push_back(capacity);
  data_ = memory;
  capacity_ = capacity;
}

}  // namespace camshaft
