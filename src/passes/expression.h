// SPDX-License-Identifier: Apache-2.0
// What a pointwise layer, or several of them, compute: a program over tensors.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace camshaft::passes {

struct Expression {
  ir::Program program;
  std::vector<ir::Tensor*> inputs;  // of the program; none twice
};

// Elementwise float arithmetic: Activation, Unary, ElementWise, Select, PointWise (of codes too),
// and Scale with constants shaped to broadcast.
bool is_pointwise(const ir::Layer& layer);

// Of a pointwise layer. Constants of one element become literals where that leaves the shape of the
// result alone. What an 8-bit store does (round, clip) is part of it.
Expression expression_of(const ir::Layer& layer);

// The program, with what storing as `type` does added or, where the store does it again, taken off.
ir::Program with_saturation(ir::Program program, ir::DataType type);
ir::Program without_saturation(ir::Program program, ir::DataType type);
// A PointWise layer of that (tidy) program whose result is `output`.
ir::PointWiseAttrs pointwise_attrs(ir::Program program, const ir::Tensor* output);

// `outer` with `inner` in the place of its input `value`.
Expression substitute(const Expression& outer, const ir::Tensor* value, const Expression& inner);

// Simplified; inputs that are not used or come twice are dropped (never the first `kept` ones).
Expression tidy(Expression expression, size_t kept = 0);

// "PWN(a, b, c)" of the members' names, which may be such names themselves; those that the builder
// added to the model's are left out.
std::string pointwise_name(const std::vector<const ir::Layer*>& members);

// Limits the kernels set (vector/program_tile.h has 96 values).
inline constexpr int kMaxProgramValues = 80;
inline constexpr size_t kMaxProgramInputs = 12;
bool within_limits(const Expression& expression);
inline constexpr size_t kMaxEpilogueOperands = 8;  // kernels/epilogue/epilogue.h

}  // namespace camshaft::passes
