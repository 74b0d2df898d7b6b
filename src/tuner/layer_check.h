// SPDX-License-Identifier: Apache-2.0
// Every layer of an engine on its own: what its kernel made of the operands it found, against the
// reference kernels on the same operands. Errors of earlier layers do not count.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/interpreter.h"
#include "runtime/context.h"

namespace camshaft::tuner {

struct LayerCheck {
  int step = 0;
  std::string layer, tactic, tensor;
  ir::DataType type = ir::DataType::kUndefined;
  double error = 0;     // largest absolute difference: steps where the type is 8 bits wide
  double largest = 0;   // absolute value expected
  double rounding = 0;  // share of it that a layer in 16 bits may be off by
  int64_t differing = 0, elements = 0;

  // Codes: one step, for ties. Others: `tolerance` of the largest value.
  bool is_within(double tolerance) const {
    return ir::is_quantized(type) ? error <= 1
                                  : error <= std::max(tolerance, rounding) * largest + 1e-9;
  }
};

// `optimized`: a copy of what the context's engine was built from, after the passes; the context is
// bound to `inputs`, and executed. One entry per tensor a step makes, in the order of the steps.
Result<std::vector<LayerCheck>> check_layers(const ir::Graph& optimized,
                                             std::span<const kernels::Value> inputs,
                                             runtime::Context& context, ThreadPool* pool = nullptr);

// A line for a person.
std::string text_of(const LayerCheck& check);

}  // namespace camshaft::tuner
