// SPDX-License-Identifier: Apache-2.0
// Arrays of any framework as memory the library reads and writes in place, and back.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "camshaft/types.h"

namespace camshaft::python {

namespace nb = nanobind;

// Host memory of an array, kept alive by `owner`.
struct Array {
  nb::ndarray<nb::ro> owner;
  nb::object copy;  // of an array that was not row major or had to change its form
  DataType type = DataType::kUndefined;
  const void* data = nullptr;
  size_t bytes = 0;
  Dims dims;
};

// Reads anything with DLPack or the buffer protocol in place when it is row major and of the wanted
// type; otherwise camshaft.arrays.as_input makes what fits, or raises. `wanted` kUndefined: any.
Array input_array(nb::handle object, DataType wanted, const std::string& name);
// The same, to be written in place: nothing is converted.
Array output_array(nb::handle object, DataType wanted, const std::string& name);

// A NumPy array over memory that `owner` keeps alive; 16-bit brain floats and 4-bit integers take
// the types of ml_dtypes.
nb::object numpy_array(DataType type, const Dims& dims, void* data, nb::handle owner);

// Memory of its own, aligned to a cache line, for an array that numpy_array() makes once it is
// filled.
struct Allocation {
  nb::object owner;
  void* data = nullptr;
  size_t bytes = 0;
};
Allocation allocate(size_t bytes);

// The name NumPy (or ml_dtypes) has for a type.
const char* numpy_name(DataType type);
DataType type_from_name(const std::string& name);  // kUndefined: none

}  // namespace camshaft::python
