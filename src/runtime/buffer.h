// SPDX-License-Identifier: Apache-2.0
// Memory that only grows, 64-byte aligned, not initialized; large ones in huge pages.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/huge_pages.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace camshaft::runtime {

class Buffer {
 public:
  // At least `bytes` bytes (never null); the contents are lost when it has to grow.
  std::byte* reserve(size_t bytes) {
    if (bytes > bytes_ || !data_) {
      bytes_ = (bytes + 63) / 64 * 64 + 64;
      data_.reset(allocate_lines(bytes_));
    }
    guard(bytes);
    return data_.get();
  }
  // The same, with the first `kept` bytes of the contents, and room for as much again where it
  // grows: whoever appends again and again copies each byte once or twice.
  std::byte* extend(size_t kept, size_t bytes) {
    if (bytes <= bytes_ && data_) return reserve(bytes);
    Buffer larger;
    larger.reserve(2 * bytes);
    guard(bytes_);
    std::memcpy(larger.data(), data(), kept);
    *this = std::move(larger);
    return reserve(bytes);
  }
  std::byte* data() const { return data_.get(); }
  size_t bytes() const { return bytes_; }

 private:
  // For the address sanitizer: what was not asked for cannot be touched.
  void guard([[maybe_unused]] size_t bytes) const {
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(data_.get(), bytes);
    __asan_poison_memory_region(data_.get() + bytes, bytes_ - bytes);
#endif
  }
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t bytes_ = 0;
};

}  // namespace camshaft::runtime
