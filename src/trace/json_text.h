// SPDX-License-Identifier: Apache-2.0
// JSON text as Python's json module writes it: ", " and ": ", \uXXXX for all but ASCII, shortest
// round-trip floats.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace camshaft::trace {

// A float as Python's repr(): always with a point or an exponent ("15.0", "1e-05").
void append_real(std::string& out, double value);
// A JSON string with its quotes.
void append_quoted(std::string& out, std::string_view text);

// Python's round(value) and round(value, 2): to nearest of the binary value, ties to even.
double round_whole(double value);
double round_places(double value, int places);

// A JSON value as Python prints it: [[2, 8, 5], 'x', None, True].
std::string python_text(std::string_view json);
// The text of a JSON string without its quotes; bad escapes are kept as they stand.
std::string unescape(std::string_view raw);

// Writes one JSON value piece by piece; commas and colons come by themselves.
class JsonWriter {
 public:
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);
  JsonWriter& text(std::string_view value);
  JsonWriter& integer(int64_t value);
  JsonWriter& real(double value);  // NaN and infinities become null
  JsonWriter& boolean(bool value);
  JsonWriter& null();
  JsonWriter& raw(std::string_view json);

  // key and value in one.
  JsonWriter& text(std::string_view name, std::string_view value) { return key(name).text(value); }
  JsonWriter& integer(std::string_view name, int64_t value) { return key(name).integer(value); }
  JsonWriter& real(std::string_view name, double value) { return key(name).real(value); }
  JsonWriter& boolean(std::string_view name, bool value) { return key(name).boolean(value); }

  std::string take() { return std::move(out_); }
  // What is written so far; the rest goes on behind it.
  std::string take_piece() { return std::exchange(out_, std::string()); }
  size_t size() const { return out_.size(); }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();

  std::string out_;
  std::vector<bool> has_elements_;
  bool after_key_ = false;
};

}  // namespace camshaft::trace
