// SPDX-License-Identifier: Apache-2.0
// Memory of megabytes in huge pages. Of pages of 4 KiB a processor remembers where a few megabytes
// lie and fetches ahead within one only: weights read once in every run took 1.6 times as long
// (llama_decode, Zen 4 in a virtual machine). Many systems give huge pages to whom asks.
#pragma once

#include <cstddef>

namespace camshaft {

inline constexpr size_t kHugePageBytes = size_t{2} << 20;

// 64-byte aligned, not initialized, for std::free; null: there is no memory. That of at least one
// huge page starts with one, and is asked to consist of them.
std::byte* allocate_lines(size_t bytes);

// Zeros of a mapping of their own, for munmap(…, bytes); null: there is no memory. Huge pages as
// above.
std::byte* map_zeros(size_t bytes);

}  // namespace camshaft
