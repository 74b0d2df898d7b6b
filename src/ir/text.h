// SPDX-License-Identifier: Apache-2.0
// Shared by the printer and the parser of the text form.
#pragma once

#include <cstdint>
#include <string_view>

namespace camshaft::ir {

// Names of these characters, not starting with a digit and not "_", stand without quotes.
inline bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '/';
}
inline bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Body of `random(seed)`: a fixed sequence, the same on every machine.
inline uint64_t next_random(uint64_t& state) {  // splitmix64
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace camshaft::ir
