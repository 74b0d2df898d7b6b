// SPDX-License-Identifier: Apache-2.0
// The parameters of a request.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>

#include "server/api.h"

namespace camshaft::server {

inline bool parse_whole(const std::string& text, int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

struct Query {
  const Parameters& parameters;

  bool has(const std::string& name) const { return parameters.count(name) > 0; }
  std::string text(const std::string& name, const std::string& fallback = "") const {
    const auto found = parameters.find(name);
    return found == parameters.end() ? fallback : found->second;
  }
  int64_t integer(const std::string& name, int64_t fallback, int64_t least, int64_t most) const {
    int64_t number = 0;
    return std::clamp(parse_whole(text(name), number) ? number : fallback, least, most);
  }
};

}  // namespace camshaft::server
