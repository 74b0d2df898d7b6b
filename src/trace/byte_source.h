// SPDX-License-Identifier: Apache-2.0
// A trace file as a stream of JSON bytes: plain, gzip, zstd or the first JSON member of a zip, told
// apart by content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"

namespace camshaft::trace {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills up to `capacity` bytes; 0 is the end. A stream cut short ends like a whole one, with
  // cut_short() set.
  virtual Result<size_t> read(char* into, size_t capacity) = 0;
  // Bytes of the file used so far and in all: the measure of progress.
  virtual uint64_t consumed() const = 0;
  uint64_t file_bytes() const { return file_bytes_; }
  bool cut_short() const { return cut_short_; }

 protected:
  uint64_t file_bytes_ = 0;
  bool cut_short_ = false;
};

Result<std::unique_ptr<ByteSource>> open_byte_source(const std::string& path);
// The same over bytes in memory (tests, fuzzing). `bytes` must outlive the source.
std::unique_ptr<ByteSource> memory_byte_source(const char* bytes, size_t count);

}  // namespace camshaft::trace
