// SPDX-License-Identifier: Apache-2.0
// The bytes of an answer, ready to be sent at a client's own pace: in memory while they are few,
// else in a file without a name.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace camshaft::server {

class Body {
 public:
  Body() = default;
  explicit Body(std::string text) : text_(std::move(text)), size_(text_.size()) {}
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;
  ~Body();

  uint64_t size() const { return size_; }
  // At most `size` bytes from `offset` on; 0 when there are none, or the file cannot be read.
  size_t read(uint64_t offset, char* into, size_t size) const;

  // Takes what a writer writes, in order. False when the disk is full.
  bool append(std::string_view piece);

  // A file of the disk as it is.
  static Result<std::shared_ptr<const Body>> of_file(const std::string& path);

 private:
  std::string text_;
  int file_ = -1;
  uint64_t size_ = 0;
};

using BodyPtr = std::shared_ptr<const Body>;
using PieceSink = std::function<bool(std::string_view)>;

// What `write` sends to its sink, packed; null when it could not finish.
BodyPtr packed_body(const std::function<bool(const PieceSink&)>& write);

}  // namespace camshaft::server
