// SPDX-License-Identifier: Apache-2.0
// Raw JSON tokens of trace files as values: numbers may stand in quotes, be NaN, or miss.
#pragma once

#include <cstdint>
#include <string_view>

namespace camshaft::trace {

// Without white space behind it.
inline std::string_view trimmed(std::string_view text) {
  while (!text.empty() && static_cast<unsigned char>(text.back()) <= ' ') text.remove_suffix(1);
  return text;
}
// Without the quotes of a JSON string; other tokens as they are.
inline std::string_view unquoted(std::string_view token) {
  if (token.size() >= 2 && token.front() == '"' && token.back() == '"')
    return token.substr(1, token.size() - 2);
  return token;
}
inline bool is_null(std::string_view token) {
  return token.empty() || token == "null" || token == "None";
}
bool parse_integer(std::string_view token, int64_t& value);
int64_t integer_or(std::string_view token, int64_t fallback);
double real_or(std::string_view token, double fallback);
// A count of bytes or elements, held to what sums of a million of them can bear.
int64_t quantity_or(std::string_view token, int64_t fallback);
// Microseconds as the file writes them ("12.345", "\"17\"", "1e3") in nanoseconds; false if it is
// no number.
bool parse_nanoseconds(std::string_view text, int64_t& ns, bool& is_integral);

}  // namespace camshaft::trace
