// SPDX-License-Identifier: Apache-2.0
// Python's number and string forms, written by hand because no JSON library makes them.
#include "trace/json_text.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

namespace camshaft::trace {
namespace {

constexpr char kHex[] = "0123456789abcdef";

void append_code_unit(std::string& out, unsigned unit) {
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += kHex[unit >> shift & 15];
}

// The code point that starts at text[k], which moves behind it; broken UTF-8 gives U+FFFD and moves
// one byte.
uint32_t next_code_point(std::string_view text, size_t& k) {
  const auto byte = [&](size_t at) {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u;
  };
  const uint32_t first = byte(k);
  const int length = first >= 0xf0 && first < 0xf5 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;
  uint32_t code = length == 4 ? first & 7 : length == 3 ? first & 15 : first & 31;
  bool whole = length > 0 && first < 0xf5;
  for (int n = 1; whole && n < length; ++n) {
    whole = (byte(k + n) & 0xc0) == 0x80;
    code = code << 6 | (byte(k + n) & 63);
  }
  if (!whole || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff) {
    ++k;
    return 0xfffd;
  }
  k += length;
  return code;
}

void append_utf8(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | code >> 6);
    out += static_cast<char>(0x80 | (code & 63));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0 | code >> 12);
    out += static_cast<char>(0x80 | (code >> 6 & 63));
    out += static_cast<char>(0x80 | (code & 63));
  } else {
    out += static_cast<char>(0xf0 | code >> 18);
    out += static_cast<char>(0x80 | (code >> 12 & 63));
    out += static_cast<char>(0x80 | (code >> 6 & 63));
    out += static_cast<char>(0x80 | (code & 63));
  }
}

bool parse_hex4(std::string_view text, size_t at, uint32_t& value) {
  if (at + 4 > text.size()) return false;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + at + 4, value, 16);
  return error == std::errc() && end == text.data() + at + 4;
}

}  // namespace

void append_real(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "NaN";
    return;
  }
  if (std::isinf(value)) {
    out += value < 0 ? "-Infinity" : "Infinity";
    return;
  }
  char digits[40];
  const auto scientific =
      std::to_chars(digits, digits + sizeof digits, value, std::chars_format::scientific);
  const std::string_view text(digits, scientific.ptr - digits);
  const int exponent = std::atoi(std::string(text.substr(text.find('e') + 1)).c_str());
  if (exponent < -4 || exponent >= 16) {
    out += text;
    return;
  }
  char plain[40];
  const auto fixed = std::to_chars(plain, plain + sizeof plain, value, std::chars_format::fixed);
  out.append(plain, fixed.ptr - plain);
  if (std::memchr(plain, '.', fixed.ptr - plain) == nullptr) out += ".0";
}

void append_quoted(std::string& out, std::string_view text) {
  const auto is_plain = [](unsigned char c) {
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
  };
  out += '"';
  for (size_t k = 0; k < text.size();) {
    const size_t from = k;
    while (k < text.size() && is_plain(static_cast<unsigned char>(text[k]))) ++k;
    out.append(text, from, k - from);
    if (k == text.size()) break;
    const auto c = static_cast<unsigned char>(text[k]);
    if (c >= 0x80) {
      const uint32_t code = next_code_point(text, k);
      if (code < 0x10000) {
        append_code_unit(out, code);
      } else {
        append_code_unit(out, 0xd800 + ((code - 0x10000) >> 10));
        append_code_unit(out, 0xdc00 + ((code - 0x10000) & 0x3ff));
      }
      continue;
    }
    ++k;
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (c < 0x20)
          append_code_unit(out, c);
        else
          out += static_cast<char>(c);
    }
  }
  out += '"';
}

double round_whole(double value) {
  return std::nearbyint(value);
}

double round_places(double value, int places) {
  if (!std::isfinite(value)) return value;
  return std::strtod(fmt::format("{:.{}f}", value, places).c_str(), nullptr);
}

std::string unescape(std::string_view raw) {
  std::string out;
  out.reserve(raw.size());
  for (size_t k = 0; k < raw.size(); ++k) {
    if (raw[k] != '\\' || k + 1 >= raw.size()) {
      out += raw[k];
      continue;
    }
    const char c = raw[++k];
    switch (c) {
      case '"':
      case '\\':
      case '/':
        out += c;
        break;
      case 'n':
        out += '\n';
        break;
      case 'r':
        out += '\r';
        break;
      case 't':
        out += '\t';
        break;
      case 'b':
        out += '\b';
        break;
      case 'f':
        out += '\f';
        break;
      case 'u': {
        uint32_t code = 0, low = 0;
        if (!parse_hex4(raw, k + 1, code)) {
          out += "\\u";
          break;
        }
        k += 4;
        if (code >= 0xd800 && code < 0xdc00 && raw.substr(k + 1, 2) == "\\u" &&
            parse_hex4(raw, k + 3, low) && low >= 0xdc00 && low < 0xe000) {
          code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
          k += 6;
        }
        append_utf8(out, code >= 0xd800 && code < 0xe000 ? 0xfffd : code);
        break;
      }
      default:  // "\U" of a Windows path
        out += '\\';
        out += c;
    }
  }
  return out;
}

std::string python_text(std::string_view json) {
  std::string out;
  for (size_t k = 0; k < json.size();) {
    const char c = json[k];
    if (c == '"') {
      size_t end = k + 1;
      while (end < json.size() && json[end] != '"') end += json[end] == '\\' ? 2 : 1;
      const std::string text = unescape(json.substr(k + 1, std::min(end, json.size()) - k - 1));
      const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
      out += quote;
      for (const char t : text) {
        if (t == quote || t == '\\') out += '\\';
        out += t;
      }
      out += quote;
      k = std::min(end, json.size() - 1) + 1;
    } else if (c == ',') {
      out += ", ";
      ++k;
    } else if (c == ':') {
      out += ": ";
      ++k;
    } else if (std::strchr(" \n\r\t", c) != nullptr) {
      ++k;
    } else if (std::strchr("[]{}", c) != nullptr) {
      out += c;
      ++k;
    } else {
      size_t end = k;
      while (end < json.size() && std::strchr(",:[]{}\" \n\r\t", json[end]) == nullptr) ++end;
      if (end == k) ++end;  // a zero byte, which strchr finds
      const std::string_view word = json.substr(k, end - k);
      out += word == "null" ? "None" : word == "true" ? "True" : word == "false" ? "False" : word;
      k = end;
    }
  }
  return out;
}

void JsonWriter::separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (has_elements_.empty()) return;
  if (has_elements_.back()) out_ += ", ";
  has_elements_.back() = true;
}

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  out_ += bracket;
  has_elements_.push_back(false);
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  out_ += bracket;
  has_elements_.pop_back();
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  append_quoted(out_, name);
  out_ += ": ";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::text(std::string_view value) {
  separate();
  append_quoted(out_, value);
  return *this;
}

JsonWriter& JsonWriter::integer(int64_t value) {
  separate();
  fmt::format_to(std::back_inserter(out_), "{}", value);
  return *this;
}

JsonWriter& JsonWriter::real(double value) {
  separate();
  if (std::isfinite(value))
    append_real(out_, value);
  else
    out_ += "null";
  return *this;
}

JsonWriter& JsonWriter::boolean(bool value) {
  return raw(value ? "true" : "false");
}
JsonWriter& JsonWriter::null() {
  return raw("null");
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  out_ += json;
  return *this;
}

}  // namespace camshaft::trace
