// SPDX-License-Identifier: Apache-2.0
// Four independent multiply-rotate lanes over 32-byte stripes (about 8 bytes per cycle), mixed at
// the end.
#include "engine/hash.h"

#include <atomic>
#include <bit>
#include <cstring>
#include <thread>
#include <vector>

namespace camshaft::engine {
namespace {

constexpr uint64_t kPrimeA = 0x9E3779B97F4A7C15ull, kPrimeB = 0xC2B2AE3D27D4EB4Full,
                   kPrimeC = 0x165667B19E3779F9ull;
constexpr size_t kChunkBytes = size_t{4} << 20;

uint64_t load64(const std::byte* p) {
  uint64_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

uint64_t step(uint64_t lane, uint64_t word) {
  return std::rotl(lane + word * kPrimeB, 31) * kPrimeA;
}

uint64_t avalanche(uint64_t h) {
  h = (h ^ (h >> 33)) * kPrimeB;
  h = (h ^ (h >> 29)) * kPrimeC;
  return h ^ (h >> 32);
}

}  // namespace

uint64_t hash_bytes(std::span<const std::byte> bytes, uint64_t seed) {
  uint64_t lane[4] = {seed + kPrimeA, seed + kPrimeB, seed, seed - kPrimeC};
  const std::byte* p = bytes.data();
  size_t left = bytes.size();
  for (; left >= 32; left -= 32, p += 32)
    for (int k = 0; k < 4; ++k) lane[k] = step(lane[k], load64(p + 8 * k));
  std::byte tail[32] = {};
  if (left > 0) std::memcpy(tail, p, left);
  for (int k = 0; k < 4; ++k) lane[k] = step(lane[k], load64(tail + 8 * k));
  uint64_t h = bytes.size() * kPrimeC;
  for (uint64_t value : lane) h = std::rotl(h ^ avalanche(value), 27) * kPrimeA;
  return avalanche(h);
}

uint64_t hash_chunks(std::span<const std::byte> bytes, int threads) {
  const size_t count = (bytes.size() + kChunkBytes - 1) / kChunkBytes;
  std::vector<uint64_t> hashes(count);
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t k = next++; k < count; k = next++) {
      const size_t first = k * kChunkBytes;
      hashes[k] = hash_bytes(bytes.subspan(first, std::min(kChunkBytes, bytes.size() - first)), k);
    }
  };
  std::vector<std::thread> helpers;
  for (int t = 1; t < threads && static_cast<size_t>(t) < count; ++t) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  return hash_bytes(std::as_bytes(std::span(hashes)), bytes.size());
}

}  // namespace camshaft::engine
