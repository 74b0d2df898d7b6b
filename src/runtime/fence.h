// SPDX-License-Identifier: Apache-2.0
// A copy of some memory that ends where nothing may be touched: the page behind it (or before it)
// is not accessible. Finds kernels that leave their operands in any build, at nearly full speed.
#pragma once

#include <cstddef>
#include <memory>

#include "runtime/view_check.h"

namespace camshaft::runtime {

class Fence {
 public:
  // `alignment` of the copy's address: up to that many bytes less one stay between it and the page
  // behind. `at_start`: it begins behind a page instead.
  Fence(const MemoryRange& range, size_t alignment, bool at_start);
  ~Fence();
  Fence(const Fence&) = delete;
  Fence& operator=(const Fence&) = delete;

  std::byte* data() const { return data_; }
  const MemoryRange& original() const { return original_; }
  void copy_back() const;

 private:
  MemoryRange original_;
  std::byte *pages_ = nullptr, *data_ = nullptr;
  size_t mapped_ = 0;
};

}  // namespace camshaft::runtime
