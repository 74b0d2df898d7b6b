// SPDX-License-Identifier: Apache-2.0
#include "arrays.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "errors.h"

namespace camshaft::python {
namespace {

using nb::dlpack::dtype_code;

struct TypeRow {
  DataType type;
  const char* name;  // NumPy's or ml_dtypes'
  uint8_t code, bits;
};
constexpr uint8_t kInt = static_cast<uint8_t>(dtype_code::Int);
constexpr uint8_t kUInt = static_cast<uint8_t>(dtype_code::UInt);
constexpr uint8_t kFloat = static_cast<uint8_t>(dtype_code::Float);
constexpr uint8_t kBFloat = static_cast<uint8_t>(dtype_code::Bfloat);
constexpr uint8_t kBool = static_cast<uint8_t>(dtype_code::Bool);
constexpr TypeRow kTypes[] = {
    {DataType::kFloat, "float32", kFloat, 32},
    {DataType::kHalf, "float16", kFloat, 16},
    {DataType::kBFloat16, "bfloat16", kBFloat, 16},
    {DataType::kDouble, "float64", kFloat, 64},
    {DataType::kInt8, "int8", kInt, 8},
    {DataType::kUInt8, "uint8", kUInt, 8},
    {DataType::kInt16, "int16", kInt, 16},
    {DataType::kUInt16, "uint16", kUInt, 16},
    {DataType::kInt32, "int32", kInt, 32},
    {DataType::kUInt32, "uint32", kUInt, 32},
    {DataType::kInt64, "int64", kInt, 64},
    {DataType::kUInt64, "uint64", kUInt, 64},
    {DataType::kBool, "bool", kBool, 8},
    {DataType::kInt4, "int4", kInt, 4},
    {DataType::kUInt4, "uint4", kUInt, 4},
};

DataType type_of(nb::dlpack::dtype type) {
  for (const TypeRow& row : kTypes)
    if (row.code == type.code && row.bits == type.bits && type.lanes == 1) return row.type;
  return DataType::kUndefined;
}

const TypeRow& row_of(DataType type) {
  return *std::find_if(std::begin(kTypes), std::end(kTypes),
                       [&](const TypeRow& row) { return row.type == type; });
}

bool is_row_major(const nb::ndarray<nb::ro>& array) {
  int64_t step = 1;
  for (size_t k = array.ndim(); k-- > 0;) {
    if (array.shape(k) == 0) return true;
    if (array.shape(k) != 1 && array.stride(k) != step) return false;
    step *= static_cast<int64_t>(array.shape(k));
  }
  return true;
}

bool is_four_bits(DataType type) {
  return type == DataType::kInt4 || type == DataType::kUInt4;
}

Array wrap(nb::ndarray<nb::ro> array) {
  Array result;
  result.type = type_of(array.dtype());
  result.data = array.data();
  result.dims.resize(array.ndim());
  for (size_t k = 0; k < array.ndim(); ++k) result.dims[k] = static_cast<int64_t>(array.shape(k));
  result.bytes = array.nbytes();
  result.owner = std::move(array);
  return result;
}

bool fits(const Array& array, DataType wanted) {
  return array.data != nullptr && (wanted == DataType::kUndefined || array.type == wanted) &&
         array.type != DataType::kUndefined && !is_four_bits(array.type) &&
         is_row_major(array.owner);
}

struct Converted {
  nb::object holder;
  DataType type;
  Dims dims;
};

// What camshaft.arrays makes of an array that cannot be read as it is.
Array converted(nb::handle object, DataType wanted, const std::string& name, const char* function) {
  const nb::object make = nb::module_::import_("camshaft.arrays").attr(function);
  const char* wanted_name = wanted == DataType::kUndefined ? "" : row_of(wanted).name;
  const auto [carrier, type, dims] =
      nb::cast<std::tuple<nb::object, std::string, Dims>>(make(object, wanted_name, name));
  Array result = wrap(nb::cast<nb::ndarray<nb::ro>>(carrier));
  result.type = type_from_name(type);
  result.dims = dims;
  result.bytes = byte_size(result.type, element_count(dims));
  result.copy = carrier;
  return result;
}

}  // namespace

const char* numpy_name(DataType type) {
  return type == DataType::kUndefined ? "" : row_of(type).name;
}

DataType type_from_name(const std::string& name) {
  for (const TypeRow& row : kTypes)
    if (name == row.name) return row.type;
  return DataType::kUndefined;
}

Array input_array(nb::handle object, DataType wanted, const std::string& name) {
  nb::ndarray<nb::ro> view;
  if (nb::try_cast<nb::ndarray<nb::ro>>(object, view, false) &&
      view.device_type() == nb::device::cpu::value) {
    Array array = wrap(std::move(view));
    if (fits(array, wanted)) return array;
  } else {
    PyErr_Clear();
  }
  return converted(object, wanted, name, "as_input");
}

Array output_array(nb::handle object, DataType wanted, const std::string& name) {
  nb::ndarray<> view;
  if (nb::try_cast<nb::ndarray<>>(object, view, false) &&
      view.device_type() == nb::device::cpu::value) {
    Array array = wrap(nb::ndarray<nb::ro>(view));
    if (fits(array, wanted)) return array;
  } else {
    PyErr_Clear();
  }
  return converted(object, wanted, name, "as_output");
}

nb::object numpy_array(DataType type, const Dims& dims, void* data, nb::handle owner) {
  const std::vector<size_t> shape(dims.begin(), dims.end());
  const TypeRow& row = row_of(type);
  if (type == DataType::kBFloat16 || is_four_bits(type)) {
    // NumPy has no such type: camshaft.arrays views the bytes as what ml_dtypes has.
    const size_t bytes = byte_size(type, element_count(dims));
    const nb::object raw =
        nb::cast(nb::ndarray<nb::numpy>(data, 1, &bytes, owner, nullptr, nb::dtype<uint8_t>()));
    return nb::module_::import_("camshaft.arrays").attr("from_bytes")(raw, row.name, dims);
  }
  return nb::cast(nb::ndarray<nb::numpy>(data, shape.size(), shape.data(), owner, nullptr,
                                         nb::dlpack::dtype{row.code, row.bits, 1}));
}

Allocation allocate(size_t bytes) {
  constexpr size_t kLine = 64;
  const size_t rounded = (std::max<size_t>(bytes, 1) + kLine - 1) / kLine * kLine;
  void* data = std::aligned_alloc(kLine, rounded);
  if (data == nullptr)
    raise(Status(ErrorCode::kInvalidArgument, fmt::format("no memory for {} bytes", rounded)));
  return {nb::capsule(data, [](void* memory) noexcept { std::free(memory); }), data, bytes};
}

}  // namespace camshaft::python
