// SPDX-License-Identifier: Apache-2.0
// The bytes of a request's body: taken from the network to where they stay, never copied, and kept
// as long as somebody reads them.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

namespace camshaft::serve {

class Body {
 public:
  Body() = default;
  // Not filled.
  explicit Body(size_t size)
      : data_(size > 0 ? std::make_shared_for_overwrite<char[]>(size) : nullptr), size_(size) {}
  explicit Body(std::string_view text) : Body(text.size()) {
    if (size_ > 0) std::memcpy(data_.get(), text.data(), size_);
  }

  char* data() { return data_.get(); }
  const char* data() const { return data_.get(); }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::string_view text() const { return {data_.get(), size_}; }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(data_.get(), size_)); }

 private:
  std::shared_ptr<char[]> data_;
  size_t size_ = 0;
};

}  // namespace camshaft::serve
