// SPDX-License-Identifier: Apache-2.0
// Operators of domain com.microsoft that transformers are made of.
#pragma once

#include "onnx/node.h"

namespace camshaft::onnx_import {

// The results of a standard operator of that opset; null inputs are absent.
Result<std::vector<Tensor*>> apply(Node& node, std::string_view op_type, int64_t opset,
                                   std::vector<AttributeDef> attributes,
                                   std::vector<Tensor*> inputs, size_t outputs,
                                   std::string_view step);
AttributeDef number(std::string name, int64_t value);

// 0, 1 … for the steps of x, [1, steps], beginning at `first` if it is not null.
Result<Tensor*> positions_from(Node& node, Tensor* first, Tensor* x, size_t axis);

struct Rotary {
  Tensor *cosine, *sine, *positions;
  int64_t heads, rotated;
  bool interleaved;
};
Result<Tensor*> rotate(Node& node, Tensor* x, const Rotary& r, std::string_view step);

Status import_grouped_queries(Node& node);

std::span<const OperatorRow> contrib_operators();
std::span<const OperatorRow> fused_operators();
std::span<const OperatorRow> low_bit_operators();
std::span<const OperatorRow> experts_operators();
// Those of them that are also written into the standard domain.
std::span<const OperatorRow> misplaced_operators();

}  // namespace camshaft::onnx_import
