// SPDX-License-Identifier: Apache-2.0
// The weights of com.microsoft.MoE and QMoE, as the layer kind Experts has them.
#pragma once

#include "ir/expert_weights.h"
#include "onnx/ops_contrib.h"

namespace camshaft::onnx_import {

// One of FC1, FC2, FC3: weights [experts, columns, depth or its packed bytes], scales, a bias and
// zero points; what is absent is null.
struct ExpertFc {
  std::string_view name;
  const Tensor *weights = nullptr, *scales = nullptr, *bias = nullptr, *zeros = nullptr;
  int64_t bits = 0;   // 0: the weights are floats of any width
  int64_t block = 0;  // 0: a scale per column

  int64_t experts() const { return extent(0); }
  int64_t columns() const { return extent(1); }
  int64_t depth() const { return bits == 0 ? extent(2) : extent(2) * 8 / bits; }
  ir::ExpertProduct product() const;

 private:
  int64_t extent(size_t d) const { return weights->shape[d].extent(); }
};

// That extents and types are what the operator documents.
Status check_fc(const ExpertFc& fc);

// Column `column` of the layer's product is this one of the node's.
struct ColumnOrder {
  const ExpertFc* first;
  const ExpertFc* second = nullptr;  // its columns come after the first's
  bool interleaved = false;          // even columns of `first` come before odd ones

  int64_t columns() const { return first->columns() + (second ? second->columns() : 0); }
  std::pair<const ExpertFc*, int64_t> at(int64_t column) const;
  bool moves() const { return second || interleaved; }
};
Tensor* expert_weights(Node& node, std::string_view step, const ColumnOrder& order);
// Null where there is none.
Tensor* expert_bias(Node& node, std::string_view step, const ColumnOrder& order);

}  // namespace camshaft::onnx_import
