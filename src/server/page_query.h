// SPDX-License-Identifier: Apache-2.0
// What the page's routes share: their parameters and answers.
#pragma once

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "server/api.h"
#include "trace/json_text.h"

namespace camshaft::server {

struct Query {
  const Parameters& parameters;

  std::string text(const char* name, const std::string& fallback = "") const {
    const auto found = parameters.find(name);
    return found == parameters.end() ? fallback : found->second;
  }
  int64_t integer(const char* name, int64_t fallback, int64_t least, int64_t most) const {
    const std::string value = text(name);
    int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size()) number = fallback;
    return std::clamp(number, least, most);
  }
};

// Names of templates reach kilobytes; the page shows their beginning.
std::string_view shortened(std::string_view name);
Answer page_json(trace::JsonWriter& writer);

// Paged, searched and sorted tables.
Answer page_operators(const Query& query, const ProfileEntry& entry);
Answer page_kernels(const Query& query, const ProfileEntry& entry);
Answer page_memory(const Query& query, const ProfileEntry& entry);

}  // namespace camshaft::server
