// SPDX-License-Identifier: Apache-2.0
// How reference kernels see tensors: views of any type and strides become row-major vectors of
// double, float or int64 and back. One conversion loop here replaces a template over types in every
// kernel.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernel.h"

namespace camshaft::kernels::reference {

using ir::Extents;
using ir::Ints;

// --- 16-bit floating point, round to nearest even
float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);
float bfloat16_to_float(uint16_t bits);
uint16_t float_to_bfloat16(float value);

// Lowest and highest value of an integer type (as int64; kUInt64's highest is given as INT64_MAX).
int64_t lowest(DataType type);
int64_t highest(DataType type);

Extents extents_of(const TensorView& view);
int64_t count_of(std::span<const int64_t> extents);
Ints dense_strides(std::span<const int64_t> extents);
// An error for extents below 0 and for more elements than 2^31: asked for by a value, not by memory
// that is there.
Status check_extents(std::span<const int64_t> extents);

// The elements in row-major order. T is float, double or int64_t (bits of uint64 kept). Floating to
// int64 truncates.
template <class T>
std::vector<T> load(const TensorView& view);

// Writes row-major `values`. Integers wrap around to narrower types; floating values going to an
// integer type are rounded half to even and saturated (what a quantized output wants; Cast has its
// own rule).
template <class T>
void store(const TensorView& view, std::span<const T> values);
template <class T>
void store(const TensorView& view, const std::vector<T>& values) {
  store<T>(view, std::span<const T>(values));
}

// A small integer tensor (indices, axes, extents) and a scalar.
inline Ints load_ints(const TensorView& view) {
  return load<int64_t>(view);
}

// `view` repeated to `extents` by numpy rules (strides 0): extents must be compatible.
TensorView broadcast_to(const TensorView& view, std::span<const int64_t> extents);
// The common extents of several views, or an error.
Result<Extents> broadcast_extents(std::span<const TensorView> views);

// Copies elements of `bytes` size between strided tensors of the same extents; strides in elements.
// int4 is not handled here.
void copy_elements(const void* source, std::span<const int64_t> source_strides, void* target,
                   std::span<const int64_t> target_strides, std::span<const int64_t> extents,
                   size_t bytes);
// The same between two views of the same type and extents.
void copy_view(const TensorView& source, const TensorView& target);

// Calls body(index) for every multi-index below `extents`, last dimension fastest.
template <class Body>
void for_each_index(std::span<const int64_t> extents, const Body& body) {
  Extents index(extents.size(), 0);
  for (int64_t extent : extents)
    if (extent == 0) return;
  while (true) {
    body(static_cast<const Extents&>(index));
    size_t d = extents.size();
    while (d > 0 && ++index[d - 1] == extents[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

inline int64_t offset_of(std::span<const int64_t> index, std::span<const int64_t> strides) {
  int64_t offset = 0;
  for (size_t d = 0; d < index.size(); ++d) offset += index[d] * strides[d];
  return offset;
}

// Runs body(k) for k in [0, count), on the pool where there is one.
template <class Body>
void parallel(const KernelArgs& args, int64_t count, const Body& body) {
  if (args.pool) {
    args.pool->parallel_tasks(count, body);
  } else {
    for (int64_t k = 0; k < count; ++k) body(k);
  }
}

// Replaces `axis` < 0 by axis + rank; an error if it is out of range.
Result<int64_t> normalize_axis(int64_t axis, int64_t rank);

// The optional input k: a view that is not present() where the layer has fewer inputs.
inline TensorView input(const KernelArgs& args, size_t k) {
  return k < args.inputs.size() ? args.inputs[k] : TensorView{};
}
inline TensorView output(const KernelArgs& args, size_t k) {
  return k < args.outputs.size() ? args.outputs[k] : TensorView{};
}

// Applies a tile program to the row-major values of `extents` (value 0) and the broadcast `extra`
// inputs (values 1 …), rounding every step to float as the vector kernels do. Nothing happens where
// the program is empty.
Status apply_epilogue(const ir::Program& program, std::vector<double>& values,
                      std::span<const int64_t> extents, std::span<const TensorView> extra);
// result[k] = program(inputs[0][k], inputs[1][k], …) for k in [0, count), in float steps.
void evaluate_program(const ir::Program& program, std::span<const float* const> inputs,
                      int64_t count, float* result);

// --- tables: one per file, collected in table.cpp
struct KindRow {
  ir::LayerKind kind;
  ReferenceKernel kernel;
};
struct GenericRow {
  const char* op_type;
  ReferenceKernel kernel;
};

// Movement kernels copy whole bytes: this wrapper hands them two-per-byte integers as one-byte
// ones.
Status run_unpacked(const KernelArgs& args, Status (*kernel)(const KernelArgs&));
template <Status (*kernel)(const KernelArgs&)>
Status unpacked(const KernelArgs& args) {
  return run_unpacked(args, kernel);
}

}  // namespace camshaft::kernels::reference
