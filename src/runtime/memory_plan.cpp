// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory_plan.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace camshaft::runtime {
namespace {

bool meet(const MemoryBlock& a, const MemoryBlock& b) {
  return a.first <= b.last && b.first <= a.last;
}

// The tightest gap between the placed blocks that meet `block` in time; behind them all if none
// fits.
size_t find_offset(const MemoryBlock& block, std::span<const MemoryBlock* const> placed_by_offset) {
  size_t best_offset = SIZE_MAX, best_gap = SIZE_MAX, end = 0;
  for (const MemoryBlock* other : placed_by_offset) {
    if (!meet(block, *other)) continue;
    if (other->offset > end && other->offset - end >= block.bytes &&
        other->offset - end < best_gap) {
      best_gap = other->offset - end;
      best_offset = end;
    }
    end = std::max(end, other->offset + other->bytes);
  }
  return best_offset == SIZE_MAX ? end : best_offset;
}

size_t rounded(size_t bytes, size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

size_t plan_memory(std::span<MemoryBlock> blocks, size_t alignment) {
  for (MemoryBlock& block : blocks) block.bytes = rounded(block.bytes, alignment);
  std::vector<int> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return blocks[a].bytes > blocks[b].bytes; });

  std::vector<const MemoryBlock*> placed;
  placed.reserve(blocks.size());
  size_t arena_bytes = 0;
  for (const int k : order) {
    MemoryBlock& block = blocks[k];
    if (block.bytes == 0) continue;
    block.offset = find_offset(block, placed);
    arena_bytes = std::max(arena_bytes, block.offset + block.bytes);
    const auto position = std::upper_bound(
        placed.begin(), placed.end(), block.offset,
        [](size_t offset, const MemoryBlock* other) { return offset < other->offset; });
    placed.insert(position, &block);
  }
  return arena_bytes;
}

bool take_places(std::span<const MemoryBlock> planned, std::span<MemoryBlock> blocks,
                 size_t alignment) {
  const auto fits = [alignment](const MemoryBlock& old, const MemoryBlock& block) {
    return old.bytes == rounded(block.bytes, alignment) && old.first == block.first &&
           old.last == block.last;
  };
  if (!std::equal(planned.begin(), planned.end(), blocks.begin(), blocks.end(), fits)) return false;
  std::copy(planned.begin(), planned.end(), blocks.begin());
  return true;
}

}  // namespace camshaft::runtime
