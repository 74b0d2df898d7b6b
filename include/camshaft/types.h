// SPDX-License-Identifier: Apache-2.0
// The words builder, engine, context and inspector share: element types, tensors, shape ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "camshaft/log.h"
#include "camshaft/status.h"

namespace camshaft {

// Element types. The numbers are part of the C API and never change.
enum class DataType : uint8_t {
  kUndefined = 0,
  kFloat = 1,  // IEEE binary32
  kHalf = 2,   // IEEE binary16
  kBFloat16 = 3,
  kDouble = 4,
  kInt8 = 5,
  kUInt8 = 6,
  kInt16 = 7,
  kUInt16 = 8,
  kInt32 = 9,
  kUInt32 = 10,
  kInt64 = 11,
  kUInt64 = 12,
  kBool = 13,  // one byte, 0 or 1
  kInt4 = 14,  // two per byte, low nibble first
  kUInt4 = 15,
};

// Whether elements of `type` are held by a C++ T: float by float, half and bfloat16 by uint16_t
// (their bits), bool by bool or uint8_t, 4-bit pairs by uint8_t, anything by std::byte.
template <class T>
constexpr bool holds(DataType type) {
  using U = std::remove_cv_t<T>;
  switch (type) {
    case DataType::kFloat:
      return std::is_same_v<U, float> || std::is_same_v<U, std::byte>;
    case DataType::kDouble:
      return std::is_same_v<U, double> || std::is_same_v<U, std::byte>;
    case DataType::kHalf:
    case DataType::kBFloat16:
    case DataType::kUInt16:
      return std::is_same_v<U, uint16_t> || std::is_same_v<U, std::byte>;
    case DataType::kInt8:
      return std::is_same_v<U, int8_t> || std::is_same_v<U, std::byte>;
    case DataType::kBool:
      return std::is_same_v<U, bool> || std::is_same_v<U, uint8_t> || std::is_same_v<U, std::byte>;
    case DataType::kUInt8:
    case DataType::kInt4:
    case DataType::kUInt4:
      return std::is_same_v<U, uint8_t> || std::is_same_v<U, std::byte>;
    case DataType::kUndefined:
      return false;
    default:
      break;
  }
  constexpr bool is_integer =
      std::is_integral_v<U> && !std::is_same_v<U, bool> && !std::is_same_v<U, char>;
  const bool is_signed =
      type == DataType::kInt16 || type == DataType::kInt32 || type == DataType::kInt64;
  const size_t size = type == DataType::kInt16                                ? 2
                      : type == DataType::kInt32 || type == DataType::kUInt32 ? 4
                                                                              : 8;
  return std::is_same_v<U, std::byte> ||
         (is_integer && std::is_signed_v<U> == is_signed && sizeof(U) == size);
}

// "float", "int64" …
CAMSHAFT_API std::string_view type_name(DataType type);
// Bytes that `elements` elements take; 4-bit types round up to whole bytes.
CAMSHAFT_API size_t byte_size(DataType type, int64_t elements);

// Extents in ONNX order, outermost first; empty for a scalar. In descriptions of what a network
// accepts, -1 is an extent that is known only when the context's input shapes are set.
using Dims = std::vector<int64_t>;

// The number of elements; 1 for a scalar, -1 if any extent is -1.
CAMSHAFT_API int64_t element_count(const Dims& dims);
CAMSHAFT_API std::string to_string(const Dims& dims);  // "1x3x224x224"; "scalar" for rank 0

// An input or output of a network.
struct TensorInfo {
  std::string name;
  DataType type = DataType::kUndefined;
  bool has_rank = true;  // false: even the rank is known only at run time; dims is empty
  Dims dims;
  std::vector<std::string> symbols;  // per extent: "batch", "2*d0"; "" for a number
  bool is_dynamic() const;
};

// The shapes one input takes in one optimization profile: kernels are tuned at `opt`; running
// accepts min ≤ extent ≤ max.
struct ShapeRange {
  std::string input;
  Dims min, opt, max;
};
using OptimizationProfile = std::vector<ShapeRange>;

// How much the inspector tells of an engine; fixed when it is built. The numbers are TensorRT's.
enum class Verbosity : uint8_t { kLayerNamesOnly = 0, kNone = 1, kDetailed = 2 };

// Elements in memory, row major. Does not own them.
struct TensorView {
  DataType type = DataType::kUndefined;
  Dims dims;
  const void* data = nullptr;

  int64_t elements() const { return element_count(dims); }
  size_t bytes() const { return byte_size(type, elements()); }
  // The elements; empty where T does not hold them (holds<T>(type)).
  template <class T>
  std::span<const T> as() const {
    if (!holds<T>(type)) return {};
    return {static_cast<const T*>(data), bytes() / sizeof(T)};
  }
};

}  // namespace camshaft
