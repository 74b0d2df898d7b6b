// SPDX-License-Identifier: Apache-2.0
// The weights section of an engine while it is made: constants and packed weights, equal contents
// stored once. It is written where it stays: in memory that becomes the engine file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>

#include "base/growing_bytes.h"

namespace camshaft::engine {

class Weights {
 public:
  Weights();

  // Their offset in the section. Throws std::bad_alloc.
  size_t add(std::span<const std::byte> bytes);
  // write() fills that many zeros, 64-byte aligned.
  size_t add(size_t bytes, const std::function<void(std::byte*)>& write);

  size_t bytes() const;
  std::span<const std::byte> section() const { return std::span(file_).last(bytes()); }
  // The beginning of the file: a page of zeros for the header, then the section.
  GrowingBytes take() && { return std::move(file_); }

 private:
  GrowingBytes file_;
  std::unordered_multimap<uint64_t, std::pair<size_t, size_t>> stored_;  // hash: offset, size
};

}  // namespace camshaft::engine
