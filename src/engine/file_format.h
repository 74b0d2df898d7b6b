// SPDX-License-Identifier: Apache-2.0
// The fixed parts of an engine file: header, sections, limits (docs/engine-format.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace camshaft::engine {

inline constexpr char kMagic[8] = {'C', 'A', 'M', 'S', 'H', 'A', 'F', 'T'};
inline constexpr uint32_t kFormatVersion = 5;
inline constexpr size_t kSectionAlignment =
    4096;  // sections start on pages, so the weights can be mapped
inline constexpr size_t kWeightAlignment = 64;  // constants and packed weights inside their section

// Stored field by field, little endian. The hashes cover a whole section; header_hash the header's
// bytes before it.
struct FileHeader {
  char magic[8];
  uint32_t format_version;
  uint32_t header_bytes;
  uint32_t required_isa;  // the strongest instruction set a step's tactic needs (Isa)
  uint32_t layout;        // own_layout() of the build that wrote it
  uint64_t file_bytes;
  uint64_t weights_offset, weights_bytes, weights_hash;
  uint64_t plan_offset, plan_bytes, plan_hash;
  uint64_t header_hash;
};
inline constexpr size_t kHeaderBytes = 88;
void write_header(const FileHeader& header, std::byte* to);
FileHeader read_header(const std::byte* from);
// Of the header as stored, but for header_hash itself.
uint64_t hash_of(const FileHeader& header);

// All that engine files take from this build's types: the fields of packed records and attributes,
// the values of enums. Files of a build with another layout are refused, so that no type changes
// unnoticed; what it does not list (the schema, how sections lie) kFormatVersion counts.
std::string stored_layout();
uint32_t layout_hash(const std::string& layout);
uint32_t own_layout();  // this build's

// A file that breaks the format.
template <class... Args>
Status corrupt(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kCorrupt, format, std::forward<Args>(args)...);
}

}  // namespace camshaft::engine
