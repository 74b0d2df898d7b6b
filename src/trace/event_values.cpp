// SPDX-License-Identifier: Apache-2.0
#include "trace/event_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace camshaft::trace {

bool parse_integer(std::string_view token, int64_t& value) {
  token = unquoted(token);
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
  if (error == std::errc() && end == token.data() + token.size()) return true;
  if (error == std::errc::result_out_of_range) {  // unsigned 64-bit ids and addresses
    uint64_t large = 0;
    const auto again = std::from_chars(token.data(), token.data() + token.size(), large);
    value = static_cast<int64_t>(large);
    return again.ec == std::errc() && again.ptr == token.data() + token.size();
  }
  double real = 0;
  const auto as_real = std::from_chars(token.data(), token.data() + token.size(), real);
  if (as_real.ec != std::errc() || as_real.ptr != token.data() + token.size() ||
      !(std::abs(real) < 9.2e18))
    return false;
  value = static_cast<int64_t>(real);
  return true;
}

int64_t integer_or(std::string_view token, int64_t fallback) {
  int64_t value = 0;
  return parse_integer(token, value) ? value : fallback;
}

double real_or(std::string_view token, double fallback) {
  token = unquoted(token);
  double value = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
  return error == std::errc() && end == token.data() + token.size() && std::isfinite(value)
             ? value
             : fallback;
}

int64_t quantity_or(std::string_view token, int64_t fallback) {
  constexpr int64_t kMost = int64_t{1} << 43;
  int64_t value = 0;
  return parse_integer(token, value) ? std::clamp(value, -kMost, kMost) : fallback;
}

bool parse_nanoseconds(std::string_view text, int64_t& ns, bool& is_integral) {
  text = unquoted(text);
  const bool negative = !text.empty() && text.front() == '-';
  size_t k = negative ? 1 : 0;
  int64_t whole = 0;
  const size_t first = k;
  for (; k < text.size() && text[k] >= '0' && text[k] <= '9'; ++k) {
    if (whole > 400'000'000'000'000ll) return false;  // beyond 2096: sums of two stay in 64 bits
    whole = whole * 10 + (text[k] - '0');
  }
  if (k == first) return false;
  int64_t fraction = 0;
  if (k < text.size() && text[k] == '.') {
    is_integral = false;
    int64_t weight = 100;
    for (++k; k < text.size() && text[k] >= '0' && text[k] <= '9'; ++k) {
      if (weight > 0)
        fraction += (text[k] - '0') * weight;
      else if (weight == 0 && text[k] >= '5')
        fraction += 1;
      weight = weight > 1 ? weight / 10 : weight == 1 ? 0 : -1;
    }
  }
  ns = whole * 1000 + fraction;
  if (k < text.size()) {  // an exponent: rare enough for the slow way
    const double real = real_or(text, std::nan(""));
    if (!(std::abs(real) < 4e15)) return false;
    ns = std::llround(real * 1000);
    is_integral = is_integral && ns % 1000 == 0;
    return true;
  }
  if (negative) ns = -ns;
  return true;
}

}  // namespace camshaft::trace
