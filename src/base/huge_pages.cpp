// SPDX-License-Identifier: Apache-2.0
#include "base/huge_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace camshaft {
namespace {

size_t round_up(size_t bytes, size_t step) {
  return (bytes + step - 1) / step * step;
}

// Of the whole huge pages of `memory`, which starts with one: no more is touched than was asked
// for. A hint: where the kernel has none, or gives them to all, nothing changes.
void ask_for_huge_pages([[maybe_unused]] std::byte* memory, [[maybe_unused]] size_t bytes) {
#if defined(MADV_HUGEPAGE)
  madvise(memory, bytes / kHugePageBytes * kHugePageBytes, MADV_HUGEPAGE);
#endif
}

}  // namespace

std::byte* allocate_lines(size_t bytes) {
  constexpr size_t kLine = 64;
  const bool is_large = bytes >= kHugePageBytes;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(
      is_large ? kHugePageBytes : kLine, round_up(bytes, is_large ? kHugePageBytes : kLine)));
  if (memory && is_large) ask_for_huge_pages(memory, bytes);
  return memory;
}

std::byte* map_zeros(size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t wanted = round_up(bytes, page), more = bytes >= kHugePageBytes ? kHugePageBytes : 0;
  void* address =
      mmap(nullptr, wanted + more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return nullptr;
  auto* memory = static_cast<std::byte*>(address);
  if (more == 0) return memory;
  // What lies before the first huge page and behind the last byte goes back.
  const size_t before = -reinterpret_cast<uintptr_t>(memory) % kHugePageBytes;
  if (before > 0) munmap(memory, before);
  memory += before;
  if (before < more) munmap(memory + wanted, more - before);
  ask_for_huge_pages(memory, bytes);
  return memory;
}

}  // namespace camshaft
