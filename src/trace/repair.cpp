// SPDX-License-Identifier: Apache-2.0
// Only reached for batches that simdjson refused, so it may be slow.
#include "trace/repair.h"

#include <fmt/format.h>

namespace camshaft::trace {
namespace {

// Length of the valid UTF-8 sequence at text[k], 0 if there is none.
size_t utf8_length(std::string_view text, size_t k) {
  const auto byte = [&](size_t at) {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u;
  };
  const unsigned first = byte(k), second = byte(k + 1);
  if (first < 0x80) return 1;
  size_t length = 0;
  if (first >= 0xc2 && first < 0xe0) length = 2;
  if (first >= 0xe0 && first < 0xf0) length = 3;
  if (first >= 0xf0 && first < 0xf5) length = 4;
  for (size_t n = 1; n < length; ++n)
    if ((byte(k + n) & 0xc0) != 0x80) return 0;
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool surrogate = first == 0xed && second >= 0xa0;
  const bool too_large = first == 0xf4 && second >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

}  // namespace

void for_each_element(std::string_view array, const std::function<void(std::string_view)>& use) {
  int64_t depth = 0;
  size_t start = 0;
  bool in_string = false;
  for (size_t k = 0; k < array.size(); ++k) {
    const char c = array[k];
    if (in_string) {
      if (c == '\\')
        ++k;
      else if (c == '"')
        in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '{' || c == '[') {
      if (++depth == 2) start = k;
    } else if (c == '}' || c == ']') {
      if (depth-- == 2) use(array.substr(start, k + 1 - start));
    }
  }
}

void append_repaired(std::string& out, std::string_view event) {
  bool in_string = false;
  for (size_t k = 0; k < event.size();) {
    const char c = event[k];
    if (in_string && c == '\\' && k + 1 < event.size() &&
        static_cast<unsigned char>(event[k + 1]) >= 0x20 &&
        static_cast<unsigned char>(event[k + 1]) < 0x80) {
      out.append(event.substr(k, 2));
      k += 2;
      continue;
    }
    if (c == '"') in_string = !in_string;
    const size_t length = utf8_length(event, k);
    if (length == 0) {
      out += '?';
      ++k;
    } else if (length == 1 && static_cast<unsigned char>(c) < 0x20) {
      if (in_string)
        out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
      else
        out += ' ';
      ++k;
    } else {
      out.append(event.substr(k, length));
      k += length;
    }
  }
}

}  // namespace camshaft::trace
