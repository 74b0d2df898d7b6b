// SPDX-License-Identifier: Apache-2.0
// Recognizing formulas by their values: what is computed between given tensors, whichever way the
// model spells it.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "passes/expression.h"

namespace camshaft::passes {

// `tensor` as an expression of `stops` and of whatever no pointwise layer makes. Empty: too big, or
// nothing pointwise at all.
std::optional<Expression> gather(ir::Tensor* tensor, const std::vector<ir::Tensor*>& stops);

double evaluate(const ir::Program& program, const std::vector<double>& inputs);

// Whether `expression` equals `formula` (of the values of `order`) on samples. Every input must be
// in `order`; values of `order` are drawn from `low` … `high` each, and one after another from up
// to 1e20 times as far. Samples of which the formula is NaN say nothing.
struct Variable {
  ir::Tensor* tensor;
  double low, high;
};
bool equals(const Expression& expression, const std::vector<Variable>& order,
            const std::function<double(const std::vector<double>&)>& formula);

// The pointwise layers that make `tensor` from `stops`, consumers last.
std::vector<ir::Layer*> layers_between(ir::Tensor* tensor, const std::vector<ir::Tensor*>& stops);

}  // namespace camshaft::passes
