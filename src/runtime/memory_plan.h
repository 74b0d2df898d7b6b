// SPDX-License-Identifier: Apache-2.0
// Offline memory planning: blocks that live at different times share addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace camshaft::runtime {

// A block is in use from step `first` to step `last`, both included.
struct MemoryBlock {
  size_t bytes = 0;
  int first = 0, last = 0;
  size_t offset = 0;  // the result
};

// Places the blocks (largest first, each into the tightest gap among those it meets in time); gives
// the arena's size.
size_t plan_memory(std::span<MemoryBlock> blocks, size_t alignment = 64);

// Gives the blocks the places of planned ones that are as large and live as long, if all are: most
// often those of a sequence one shorter, and placing a decoder's 300 takes a fifth of its planning.
bool take_places(std::span<const MemoryBlock> planned, std::span<MemoryBlock> blocks,
                 size_t alignment = 64);

}  // namespace camshaft::runtime
