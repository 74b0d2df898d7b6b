// SPDX-License-Identifier: Apache-2.0
// What the rows of tactic tables share: the answers of kernels that pack nothing, and plain cost
// terms.
#pragma once

#include "kernels/kernel.h"
#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

static inline uint32_t no_packed_inputs(const Problem&) {
  return 0;
}
static inline size_t no_packed_bytes(const Problem&) {
  return 0;
}
static inline void pack_nothing(const Problem&, std::byte*) {}
static inline int threads_of(const KernelArgs& args) {
  return args.pool ? args.pool->threads() : 1;
}
// The three functions of a kernel without packed inputs.
#define CAMSHAFT_NOTHING_PACKED no_packed_inputs, no_packed_bytes, pack_nothing

static inline int64_t count_of(const ProblemTensor& tensor) {
  int64_t count = 1;
  for (size_t d = 0; d < tensor.extents.size(); ++d) count *= tensor.extents[d];
  return tensor.present ? count : 0;
}
static inline int64_t count_of(const TensorView& view) {
  int64_t count = 1;
  for (int d = 0; d < view.rank; ++d) count *= view.extents[d];
  return count;
}

static inline int64_t bytes_of(DataType type) {
  switch (type) {
    case DataType::kFloat:
    case DataType::kInt32:
    case DataType::kUInt32:
      return 4;
    case DataType::kDouble:
    case DataType::kInt64:
    case DataType::kUInt64:
      return 8;
    case DataType::kHalf:
    case DataType::kBFloat16:
    case DataType::kInt16:
    case DataType::kUInt16:
      return 2;
    default:
      return 1;
  }
}

// All bytes read and written, and the time they take at a rate between cache and memory: a ranking,
// not a promise.
inline constexpr double kBytesPerUs = 60000;
static inline double traffic_us(const Problem& p) {
  int64_t bytes = 0;
  for (size_t k = 0; k < p.inputs.size(); ++k)
    bytes += count_of(p.inputs[k]) * bytes_of(p.inputs[k].type);
  for (size_t k = 0; k < p.outputs.size(); ++k)
    bytes += count_of(p.outputs[k]) * bytes_of(p.outputs[k].type);
  return 0.2 + static_cast<double>(bytes) / kBytesPerUs;
}

static inline bool all_float(const Problem& p) {
  for (size_t k = 0; k < p.inputs.size(); ++k)
    if (p.inputs[k].present && p.inputs[k].type != DataType::kFloat) return false;
  for (size_t k = 0; k < p.outputs.size(); ++k)
    if (p.outputs[k].present && p.outputs[k].type != DataType::kFloat) return false;
  return true;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
