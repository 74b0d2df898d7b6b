// SPDX-License-Identifier: Apache-2.0
#include "runtime/fence.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <new>

namespace camshaft::runtime {

Fence::Fence(const MemoryRange& range, size_t alignment, bool at_start) : original_(range) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t inside = (range.bytes + page - 1) / page * page;
  mapped_ = inside + 2 * page;
  void* pages = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  pages_ = static_cast<std::byte*>(pages);
  if (inside > 0 && mprotect(pages_ + page, inside, PROT_READ | PROT_WRITE) != 0)
    throw std::bad_alloc();
  std::memset(pages_ + page, 0xFF, inside);  // NaN
  const size_t slack = inside - range.bytes;
  data_ = pages_ + page + (at_start ? 0 : slack / alignment * alignment);
  if (range.data && range.bytes > 0) std::memcpy(data_, range.data, range.bytes);
}

Fence::~Fence() {
  munmap(pages_, mapped_);
}

void Fence::copy_back() const {
  if (original_.bytes > 0)
    std::memcpy(const_cast<std::byte*>(original_.data), data_, original_.bytes);
}

}  // namespace camshaft::runtime
