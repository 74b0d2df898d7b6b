// SPDX-License-Identifier: Apache-2.0
// The fixed parts of an engine file: header, sections, limits (docs/engine-format.md).
#pragma once

#include <cstddef>
#include <cstdint>

namespace camshaft::engine {

inline constexpr char kMagic[8] = {'C', 'A', 'M', 'S', 'H', 'A', 'F', 'T'};
inline constexpr uint32_t kFormatVersion = 1;
inline constexpr size_t kSectionAlignment =
    4096;  // sections start on pages, so the weights can be mapped
inline constexpr size_t kWeightAlignment = 64;  // constants and packed weights inside their section

// All numbers little endian. The hashes cover a whole section; header_hash the header's bytes
// before it.
struct FileHeader {
  char magic[8];
  uint32_t format_version;
  uint32_t header_bytes;
  uint32_t required_isa;  // the strongest instruction set a step's tactic needs (Isa)
  uint32_t flags;
  uint64_t file_bytes;
  uint64_t plan_offset, plan_bytes, plan_hash;
  uint64_t weights_offset, weights_bytes, weights_hash;
  uint64_t header_hash;
};
static_assert(sizeof(FileHeader) == 88);

}  // namespace camshaft::engine
