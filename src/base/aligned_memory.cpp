// SPDX-License-Identifier: Apache-2.0
#include "base/aligned_memory.h"

namespace camshaft {

std::shared_ptr<std::byte[]> aligned_memory(size_t bytes) {
  constexpr size_t kAlignment = 64;
  auto block = std::make_shared<std::byte[]>(bytes + kAlignment);
  void* start = block.get();
  size_t space = bytes + kAlignment;
  std::align(kAlignment, bytes, start, space);
  return {block, static_cast<std::byte*>(start)};
}

}  // namespace camshaft
