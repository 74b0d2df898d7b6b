// SPDX-License-Identifier: Apache-2.0
// Records as packed weights, and so engine files, hold them: field after field, little endian,
// without gaps, whatever a compiler makes of the struct. A record lists its fields in fields(), as
// attributes do (or packed_layouts.h lists them): floats, integers, enums, other records, arrays of
// these.
#pragma once

#include <bit>
#include <cstring>
#include <string>
#include <type_traits>

#include "ir/attrs.h"

namespace camshaft::kernels {

static_assert(std::endian::native == std::endian::little, "engine files are little endian");

template <class Self, class V>
void visit_fields(Self& record, V&& v) {
  std::remove_const_t<Self>::fields(record, v);
}
// Enums take 16 bits.
template <class T>
using StoredAs = std::conditional_t<std::is_enum_v<T>, int16_t, T>;

struct FieldSizer {
  size_t bytes = 0;
  template <class T>
  void operator()(const char* name, const T& field) {
    if constexpr (std::is_array_v<T>)
      for (const auto& element : field) (*this)(name, element);
    else if constexpr (std::is_class_v<T>)
      visit_fields(field, *this);
    else
      bytes += sizeof(StoredAs<T>);
  }
};

struct FieldWriter {
  std::byte* to;
  template <class T>
  void operator()(const char* name, const T& field) {
    if constexpr (std::is_array_v<T>) {
      for (const auto& element : field) (*this)(name, element);
    } else if constexpr (std::is_class_v<T>) {
      visit_fields(field, *this);
    } else {
      const auto stored = static_cast<StoredAs<T>>(field);
      std::memcpy(to, &stored, sizeof stored);
      to += sizeof stored;
    }
  }
};

struct FieldReader {
  const std::byte* from;
  template <class T>
  void operator()(const char* name, T& field) {
    if constexpr (std::is_array_v<T>) {
      for (auto& element : field) (*this)(name, element);
    } else if constexpr (std::is_class_v<T>) {
      visit_fields(field, *this);
    } else {
      StoredAs<T> stored;
      std::memcpy(&stored, from, sizeof stored);
      field = static_cast<T>(stored);
      from += sizeof stored;
    }
  }
};

// "name:f4 name[8]:i4 name{…}": two records with the same text have the same bytes.
struct FieldLister {
  std::string text;
  template <class T>
  void operator()(const char* name, const T& field) {
    text += name;
    describe(field);
    text += ' ';
  }
  template <class T>
  void describe(const T& field) {
    if constexpr (std::is_array_v<T>) {
      text += '[' + std::to_string(std::extent_v<T>) + ']';
      describe(field[0]);
    } else if constexpr (std::is_class_v<T>) {
      text += '{';
      visit_fields(field, *this);
      text += '}';
    } else {
      text += std::is_floating_point_v<T> ? ":f" : std::is_enum_v<T> ? ":e" : ":i";
      text += std::to_string(sizeof(StoredAs<T>));
    }
  }
};

}  // namespace camshaft::kernels
