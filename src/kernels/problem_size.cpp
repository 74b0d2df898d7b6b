// SPDX-License-Identifier: Apache-2.0
#include "kernels/problem_size.h"

namespace camshaft::kernels {

int64_t count_of(const ProblemTensor& tensor) {
  int64_t count = 1;
  for (size_t d = 0; d < tensor.extents.size(); ++d) count *= tensor.extents[d];
  return tensor.present ? count : 0;
}

int64_t count_of(const TensorView& view) {
  int64_t count = 1;
  for (int d = 0; d < view.rank; ++d) count *= view.extents[d];
  return count;
}

int64_t bytes_of(DataType type) {
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

double traffic_us(const Problem& p) {
  int64_t bytes = 0;
  for (size_t k = 0; k < p.inputs.size(); ++k)
    bytes += count_of(p.inputs[k]) * bytes_of(p.inputs[k].type);
  for (size_t k = 0; k < p.outputs.size(); ++k)
    bytes += count_of(p.outputs[k]) * bytes_of(p.outputs[k].type);
  return 0.2 + static_cast<double>(bytes) / kBytesPerUs;
}

bool all_float(const Problem& p) {
  for (size_t k = 0; k < p.inputs.size(); ++k)
    if (p.inputs[k].present && p.inputs[k].type != DataType::kFloat) return false;
  for (size_t k = 0; k < p.outputs.size(); ++k)
    if (p.outputs[k].present && p.outputs[k].type != DataType::kFloat) return false;
  return true;
}

}  // namespace camshaft::kernels
