// SPDX-License-Identifier: Apache-2.0
// For debug builds and sanitizers: every view a kernel is given lies in the memory it names, packed
// weights and workspace are as large as the kernel expects. With the address sanitizer all memory
// that is none of a step's is poisoned while it runs.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "kernels/kernel.h"

#if defined(__SANITIZE_ADDRESS__)
#define CAMSHAFT_ADDRESS_SANITIZER 1
#include <sanitizer/asan_interface.h>
#else
#define CAMSHAFT_ADDRESS_SANITIZER 0
#endif

namespace camshaft::runtime {

// Are views checked? In debug builds and under the address sanitizer, unless CAMSHAFT_CHECK_VIEWS=0
// says otherwise; in release builds where it is 1 or 2.
bool checks_views();
// CAMSHAFT_CHECK_VIEWS=2: kernels also run on copies of their operands between pages that cannot be
// touched (fence.h), so that one that leaves them stops the program.
bool fences_views();

struct MemoryRange {
  const std::byte* data = nullptr;
  size_t bytes = 0;
};

// `room`: the memory of the tensor the view is of (of its root, where it is a part).
Status check_view(const kernels::TensorView& view, const MemoryRange& room);

// What steps other than the current one use cannot be touched, until clear().
class Poison {
 public:
  // All of `range`, then the parts in use again.
  void cover(const MemoryRange& range);
  void uncover(const MemoryRange& range);
  // The bytes around a part of the weights.
  void fence(const MemoryRange& range, const MemoryRange& whole);
  void clear();
  ~Poison() { clear(); }

 private:
  std::vector<MemoryRange> covered_;
};

}  // namespace camshaft::runtime
