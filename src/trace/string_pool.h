// SPDX-License-Identifier: Apache-2.0
// Interned strings: every distinct text of a trace is kept once, columns hold 32-bit ids. Id 0 is
// "".
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

namespace camshaft::trace {

using StringId = uint32_t;

class StringPool {
 public:
  StringPool() { clear(); }

  StringId intern(std::string_view text);
  std::string_view operator[](StringId id) const { return views_[id]; }
  size_t size() const { return views_.size(); }
  size_t bytes() const {
    return block_bytes_ + views_.capacity() * sizeof(std::string_view) +
           slots_.capacity() * sizeof(Slot);
  }
  // The id of `text`, or size() when it was never interned.
  StringId find(std::string_view text) const;

 private:
  struct Slot {
    uint32_t hash = 0;
    StringId id = kEmpty;
  };
  static constexpr StringId kEmpty = ~0u;
  static constexpr size_t kBlockBytes = size_t{1} << 18;

  void clear();
  void grow();
  char* allocate(size_t bytes);

  std::vector<std::string_view> views_;
  std::vector<Slot> slots_;
  std::vector<std::unique_ptr<char[]>> blocks_;
  size_t block_used_ = kBlockBytes;
  size_t block_bytes_ = 0;
};

}  // namespace camshaft::trace
