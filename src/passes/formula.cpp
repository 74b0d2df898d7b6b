// SPDX-License-Identifier: Apache-2.0
#include "passes/formula.h"

#include <algorithm>
#include <cmath>

#include "passes/match.h"

namespace camshaft::passes {

using namespace ir;

namespace {

constexpr size_t kMostFormulaLayers = 24;
constexpr size_t kRounds = 32, kFarRounds = 4;

bool is_in(const std::vector<Tensor*>& list, const Tensor* tensor) {
  return std::find(list.begin(), list.end(), tensor) != list.end();
}

bool can_enter(const Tensor* tensor, const std::vector<Tensor*>& stops) {
  return tensor->producer && !is_in(stops, tensor) && is_pointwise(*tensor->producer);
}

// A fixed low-discrepancy sequence per variable: the same samples in every build.
double sample(size_t round, size_t variable, double low, double high) {
  static constexpr double kSteps[] = {0.6180339887, 0.7548776662, 0.5698402910,
                                      0.8191725134, 0.6710436067, 0.2887713};
  const double phase = std::fmod(0.37 + static_cast<double>(round + 1) * kSteps[variable % 6], 1.0);
  return low + phase * (high - low);
}

std::vector<double> samples(const std::vector<Variable>& order, size_t round) {
  std::vector<double> values;
  for (size_t k = 0; k < order.size(); ++k)
    values.push_back(sample(round, k, order[k].low, order[k].high));
  return values;
}

}  // namespace

std::optional<Expression> gather(Tensor* tensor, const std::vector<Tensor*>& stops) {
  if (!can_enter(tensor, stops)) return std::nullopt;
  Expression expression = expression_of(*tensor->producer);
  for (size_t layers = 1; layers < kMostFormulaLayers; ++layers) {
    auto next = std::find_if(expression.inputs.begin(), expression.inputs.end(),
                             [&](Tensor* t) { return can_enter(t, stops); });
    if (next == expression.inputs.end()) return expression;
    expression = substitute(expression, *next, expression_of(*(*next)->producer));
    if (expression.program.code.size() > 100) break;
  }
  return std::nullopt;
}

double evaluate(const Program& program, const std::vector<double>& inputs) {
  std::vector<double> values = inputs;
  for (const Instruction& code : program.code) {
    const auto value = [&](int k) { return k < 0 ? 0.0 : values[k]; };
    values.push_back(
        evaluate_point_op(code.op, value(code.a), value(code.b), value(code.c), code.x, code.y));
  }
  return values[program.result()];
}

bool equals(const Expression& expression, const std::vector<Variable>& order,
            const std::function<double(const std::vector<double>&)>& formula) {
  // What is true of one number no sample shows.
  for (const Instruction& code : expression.program.code)
    if (code.op == PointOp::kEqual) return false;
  std::vector<size_t> variable_of;
  for (const Tensor* input : expression.inputs) {
    const auto at = std::find_if(order.begin(), order.end(),
                                 [&](const Variable& v) { return v.tensor == input; });
    if (at == order.end()) return false;
    variable_of.push_back(static_cast<size_t>(at - order.begin()));
  }
  bool compared = false;
  const auto agree = [&](const std::vector<double>& values) {
    std::vector<double> inputs;
    for (size_t k : variable_of) inputs.push_back(values[k]);
    const double wanted = formula(values), found = evaluate(expression.program, inputs);
    if (std::isnan(wanted)) return true;  // outside of what the formula is for
    compared = true;
    return wanted == found || std::abs(found - wanted) <= 1e-5 * std::max(1.0, std::abs(wanted));
  };
  for (size_t round = 0; round < kRounds; ++round)
    if (!agree(samples(order, round))) return false;
  // Far outside, too: there a clamp shows that is none between low and high.
  for (size_t k = 0; k < order.size(); ++k) {
    if (order[k].low == order[k].high) continue;
    for (const double factor : {10.0, 1e2, 1e3, 1e4, 1e6, 1e9, 1e20})
      for (size_t round = 0; round < kFarRounds; ++round) {
        std::vector<double> values = samples(order, round);
        values[k] *= factor;
        if (!agree(values)) return false;
      }
  }
  return compared;
}

std::vector<Layer*> layers_between(Tensor* tensor, const std::vector<Tensor*>& stops) {
  std::vector<Layer*> found;
  std::vector<Tensor*> open = {tensor};
  while (!open.empty()) {
    const Tensor* next = open.back();
    open.pop_back();
    if (!can_enter(next, stops) ||
        std::find(found.begin(), found.end(), next->producer) != found.end())
      continue;
    found.push_back(next->producer);
    for (Tensor* input : next->producer->inputs) open.push_back(input);
  }
  sort_by_position(found);
  return found;
}

}  // namespace camshaft::passes
