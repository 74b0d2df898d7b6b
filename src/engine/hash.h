// SPDX-License-Identifier: Apache-2.0
// A fast 64-bit checksum of large byte ranges: finds damage, not forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace camshaft::engine {

uint64_t hash_bytes(std::span<const std::byte> bytes, uint64_t seed = 0);

// The same value whatever the number of threads: hashes fixed-size chunks, then the hashes.
uint64_t hash_chunks(std::span<const std::byte> bytes, int threads);

}  // namespace camshaft::engine
