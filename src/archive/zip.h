// SPDX-License-Identifier: Apache-2.0
// Reads zip archives (NPZ files, packed traces) by minizip, which needs nothing but zlib.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"

namespace camshaft {

class ZipReader {
 public:
  // Bytes of the archive from an offset on; 0 behind its end.
  using ReadAt = std::function<Result<size_t>(uint64_t offset, char* into, size_t capacity)>;

  // Fails where there is no directory: of what is no zip archive, or one that was cut short.
  static Result<std::unique_ptr<ZipReader>> open(ReadAt bytes, uint64_t size);
  static Result<std::unique_ptr<ZipReader>> open(const void* bytes, size_t size);
  ~ZipReader();

  Result<bool> first();  // goes to the first member; false when there is none
  Result<bool> next();   // goes on to the next one; false behind the last
  const std::string& name() const;
  uint64_t size() const;  // of the member, unpacked, as the directory says
  // Unpacks; 0 at the member's end. What is damaged ends early.
  Result<size_t> read(char* into, size_t capacity);
  bool is_damaged() const;
  uint64_t position() const;  // in the archive, of the last bytes that were unpacked

 private:
  struct State;
  explicit ZipReader(std::unique_ptr<State> state);
  Result<bool> arrive(int code);
  std::unique_ptr<State> state_;
};

}  // namespace camshaft
