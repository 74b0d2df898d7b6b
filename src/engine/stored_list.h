// SPDX-License-Identifier: Apache-2.0
// Vectors of numbers out of a FlatBuffers table. The verifier does not ask whether their elements
// are aligned, so those of a damaged file are copied as bytes.
#pragma once

#include <cstring>
#include <type_traits>
#include <vector>

#include "flatbuffers/flatbuffers.h"

namespace camshaft::engine {

// An absent vector reads as empty.
template <class T>
std::vector<T> stored_list(const flatbuffers::Vector<T>* stored) {
  static_assert(std::is_arithmetic_v<T>);
  std::vector<T> list(stored ? stored->size() : 0);
  if (!list.empty()) std::memcpy(list.data(), stored->Data(), list.size() * sizeof(T));
  return list;
}

}  // namespace camshaft::engine
