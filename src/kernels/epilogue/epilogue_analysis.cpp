// SPDX-License-Identifier: Apache-2.0
#include "kernels/epilogue/epilogue_analysis.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace camshaft::kernels {
namespace {

using ir::Instruction;
using ir::PointOp;

constexpr double kInfinity = EpilogueChain::kInfinity;
constexpr double kLargestOffset = 32000;  // what kernels add in 16 bits, saturating

bool is_integral(double value) {
  return std::isinf(value) || value == std::nearbyint(value);
}

template <class F>
void combine(ChannelValues& to, const ChannelValues& with, F f) {
  if (to.size() == 1 && with.size() > 1) to.assign(with.size(), to[0]);
  for (size_t k = 0; k < to.size(); ++k) to[k] = f(to[k], with[with.size() == 1 ? 0 : k]);
}

double largest_of(const ChannelValues& values) {
  double largest = 0;
  for (double v : values) largest = std::isnan(v) ? kInfinity : std::max(largest, std::abs(v));
  return largest;
}

ChannelValues negated_if(ChannelValues values, bool negate) {
  if (negate)
    for (double& v : values) v = -v;
  return values;
}

}  // namespace

// --- the chain

// The codes the chain has come to become a value again.
bool EpilogueChain::go_on_from_codes() {
  if (code.present || residual >= 0 || slope != 1) return false;
  code = {true, false, low, high, 1, offset};
  low = -kInfinity, high = kInfinity, offset = 0;
  bounded = rounded = false;
  return true;
}

bool EpilogueChain::gate() {
  if (code.present || residual >= 0 || slope != 1 || bounded || rounded) return false;
  code.present = code.is_gate = true;
  return true;
}

bool EpilogueChain::fits_int(bool residual_is_byte) const {
  constexpr double kIntegers = 2147483648.0;
  double bound = kIntegers * largest_of(multiplier) + largest_of(addend);
  if (code.present && !code.is_gate) bound = std::max(std::abs(code.low), std::abs(code.high));
  if (code.present) bound = bound * std::abs(code.scale) + std::abs(code.shift);
  if (residual >= 0) bound += residual_is_byte ? 255 * std::abs(residual_scale) : kInfinity;
  return bound + std::abs(post) < 0.99 * kIntegers;
}

bool EpilogueChain::scale(const ChannelValues& by) {
  if (rounded && !go_on_from_codes()) return false;
  const bool plain = !bounded && slope == 1;
  const bool scalar = by.size() == 1;
  if (!plain && !scalar) return scale_each(by);
  if (!plain && !(by[0] > 0)) return false;
  if ((residual >= 0 || code.present) && !scalar) return false;
  if (code.present) {
    code.scale *= by[0], code.shift *= by[0];
  } else {
    combine(multiplier, by, [](double a, double b) { return a * b; });
    combine(addend, by, [](double a, double b) { return a * b; });
  }
  if (!scalar) return true;
  residual_scale *= by[0], post *= by[0];
  if (bounded) low *= by[0], high *= by[0];
  return true;
}

// Of clamped values: what is clamped at 0 only may be scaled before.
bool EpilogueChain::scale_each(const ChannelValues& by) {
  const bool commutes = (low == 0 || low == -kInfinity) && high == kInfinity && post == 0;
  const bool positive = std::all_of(by.begin(), by.end(), [](double v) { return v > 0; });
  if (!commutes || !positive || residual >= 0 || code.present) return false;
  combine(multiplier, by, [](double a, double b) { return a * b; });
  combine(addend, by, [](double a, double b) { return a * b; });
  return true;
}

bool EpilogueChain::shift(const ChannelValues& by) {
  const bool scalar = by.size() == 1;
  if ((bounded || slope != 1 || rounded || code.present) && !scalar) return false;
  if (rounded && is_integral(by[0])) {
    offset += by[0];
    return std::abs(offset) <= kLargestOffset;
  }
  if (rounded && !go_on_from_codes()) return false;
  if (slope != 1)
    post += by[0];
  else if (code.present)
    code.shift += by[0];
  else
    combine(addend, by, [](double a, double b) { return a + b; });
  if (bounded) low += by[0], high += by[0];
  return true;
}

bool EpilogueChain::clip(double from, double to) {
  if (!(from <= to) || (rounded && !(is_integral(from) && is_integral(to)))) return false;
  from -= offset, to -= offset;
  low = std::clamp(low, from, to), high = std::clamp(high, from, to);
  bounded = true;
  return true;
}

bool EpilogueChain::leak(double by) {
  if (bounded || rounded || slope != 1 || !(by >= 0 && by <= 1)) return false;
  slope = by;
  return true;
}

bool EpilogueChain::add_residual(int operand, double by, double shift_by) {
  if (rounded && !go_on_from_codes()) return false;
  if (bounded || slope != 1 || residual >= 0) return false;
  residual = operand, residual_scale = by;
  return shift({shift_by});
}

// --- the program

bool is_channel_constant(const ProblemTensor& operand, const ProblemTensor& output, int back) {
  if (!operand.present || !operand.constant || operand.type != DataType::kFloat) return false;
  const int64_t count = ir::element_count(operand.extents);
  if (count == 1) return true;
  const int rank = static_cast<int>(operand.extents.size());
  if (back < 0 || back >= rank) return false;
  const int64_t channels = output.extents[output.extents.size() - 1 - static_cast<size_t>(back)];
  return count == channels && operand.extents[static_cast<size_t>(rank - 1 - back)] == count;
}

ChannelValues channel_values(const ProblemTensor& operand) {
  std::vector<float> floats(static_cast<size_t>(ir::element_count(operand.extents)));
  std::memcpy(floats.data(), operand.constant->view.data(), floats.size() * sizeof(float));
  return ChannelValues(floats.begin(), floats.end());
}

EpilogueAnalysis::EpilogueAnalysis(const Problem& problem, const ir::Program& program,
                                   size_t first_operand, int back)
    : program_(program), uses_(static_cast<size_t>(program.num_inputs) + program.code.size()) {
  const ProblemTensor& output = problem.outputs[0];
  values_.resize(uses_.size());
  for (int k = 1; k < program.num_inputs; ++k) {
    const ProblemTensor& operand = problem.inputs[first_operand + static_cast<size_t>(k) - 1];
    Value& value = values_[static_cast<size_t>(k)];
    const bool is_known = operand.constant && !operand.constant->view.empty();
    if (is_known && is_channel_constant(operand, output, back))
      value.kind = Value::kConstant, value.values = channel_values(operand);
    else if (operand.extents == output.extents)
      value.kind = Value::kOperand, value.operand = k - 1;
  }
  for (const Instruction& op : program.code)
    for (int v : {op.a, op.b, op.c})
      if (v >= 0) ++uses_[static_cast<size_t>(v)];
  const bool eight_bit = output.type == DataType::kUInt8;
  if (!program.empty()) follow(eight_bit);
  if (eight_bit && rest_.empty() && table_.empty()) chain_.clip(0, 255);
}

void EpilogueAnalysis::follow(bool eight_bit) {
  struct State {
    EpilogueChain chain;
    std::vector<bool> absorbed;
    int main;
  };
  std::optional<State> before_rounding, at_code;
  std::vector<bool> absorbed(program_.code.size());
  int main = 0;
  for (size_t k = 0; k < program_.code.size(); ++k) {
    const Instruction& op = program_.code[k];
    const int result = program_.num_inputs + static_cast<int>(k);
    if (op.a != main && op.b != main && op.c != main) {
      values_[static_cast<size_t>(result)] = evaluate(op);
      continue;
    }
    if (uses_[static_cast<size_t>(main)] != 1) break;
    const EpilogueChain before = chain_;
    if (op.op == PointOp::kRound && !chain_.rounded) before_rounding = {before, absorbed, main};
    if (!absorb(op, main)) {
      chain_ = before;
      break;
    }
    if (chain_.code.present && !before.code.present && !chain_.code.is_gate)
      at_code = {before, absorbed, main}, before_rounding.reset();
    absorbed[k] = true;
    main = result;
  }
  const bool whole = main == program_.result();
  if (!whole && eight_bit && chain_.rounded && make_table(absorbed, main)) return;
  if (!whole && eight_bit && at_code) {
    std::swap(chain_, at_code->chain);
    if (make_table(at_code->absorbed, at_code->main)) return;
    std::swap(chain_, at_code->chain);
  }
  if (before_rounding && !(whole && eight_bit)) {
    chain_ = before_rounding->chain;
    absorbed = before_rounding->absorbed;
    main = before_rounding->main;
  }
  if (main != program_.result())
    make_rest(absorbed, main, eight_bit ? peel_last(absorbed) : program_.result());
}

// A value the accumulators are no part of.
EpilogueAnalysis::Value EpilogueAnalysis::evaluate(const Instruction& op) const {
  if (op.op == PointOp::kConst) {
    Value constant;
    constant.kind = Value::kConstant;
    constant.values = {op.x};
    return constant;
  }
  const Value *a = value(op.a), *b = value(op.b), *c = value(op.c);
  if (!a || !b) return {};
  if (a->is_scalar() && b->kind == Value::kOperand && op.op != PointOp::kSub &&
      op.op != PointOp::kDiv)
    std::swap(a, b);
  if (a->kind != Value::kOperand || !b->is_scalar()) return {};
  Value result = *a;
  const double by = b->values[0];
  switch (op.op) {
    case PointOp::kAdd:
      result.shift += by;
      return result;
    case PointOp::kSub:
      result.shift -= by;
      return result;
    case PointOp::kMul:
    case PointOp::kFma:
      if (op.op == PointOp::kFma && !(c && c->is_scalar())) return {};
      result.scale *= by, result.shift *= by;
      if (op.op == PointOp::kFma) result.shift += c->values[0];
      return result;
    case PointOp::kDiv:
      result.scale /= by, result.shift /= by;
      return result;
    default:
      return {};
  }
}

bool EpilogueAnalysis::absorb_unary(const Instruction& op) {
  switch (op.op) {
    case PointOp::kIdentity:
      return true;
    case PointOp::kNeg:
      return chain_.scale({-1});
    case PointOp::kRelu:
      return chain_.clip(0, kInfinity);
    case PointOp::kClip:
      return chain_.clip(op.x, op.y);
    case PointOp::kLeakyRelu:
      return chain_.leak(op.x);
    case PointOp::kRound:
      chain_.rounded = true;
      return true;
    case PointOp::kHardSwish:
      return chain_.gate();
    default:
      return false;
  }
}

bool EpilogueAnalysis::add(const Value& other, double sign) {
  if (other.kind == Value::kOperand)
    return chain_.add_residual(other.operand, sign * other.scale, sign * other.shift);
  if (other.kind != Value::kConstant) return false;
  return chain_.shift(negated_if(other.values, sign < 0));
}

bool EpilogueAnalysis::absorb_fma(const Instruction& op, int main) {
  if (op.c == main) {  // a residual, scaled
    Instruction product = op;
    product.op = PointOp::kMul, product.c = -1;
    return add(evaluate(product), 1);
  }
  const Value& by = *value(op.a == main ? op.b : op.a);
  return by.kind == Value::kConstant && chain_.scale(by.values) && add(*value(op.c), 1);
}

bool EpilogueAnalysis::absorb(const Instruction& op, int main) {
  if (op.b < 0) return absorb_unary(op);
  if (op.op == PointOp::kFma) return absorb_fma(op, main);
  if (op.c >= 0 || op.a == op.b) return false;
  const bool is_left = op.a == main;
  const Value& other = *value(is_left ? op.b : op.a);
  switch (op.op) {
    case PointOp::kAdd:
      return add(other, 1);
    case PointOp::kSub:
      return is_left ? add(other, -1) : chain_.scale({-1}) && add(other, 1);
    case PointOp::kMul:
      return other.kind == Value::kConstant && chain_.scale(other.values);
    case PointOp::kDiv: {
      if (!is_left || other.kind != Value::kConstant) return false;
      ChannelValues inverse = other.values;
      for (double& v : inverse) v = 1 / v;
      return chain_.scale(inverse);
    }
    case PointOp::kMax:
      return other.is_scalar() && chain_.clip(other.values[0], kInfinity);
    case PointOp::kMin:
      return other.is_scalar() && chain_.clip(-kInfinity, other.values[0]);
    default:
      return false;
  }
}

// The program after `main`, an integer of at most 256 values, when it reads nothing else.
bool EpilogueAnalysis::make_table(const std::vector<bool>& absorbed, int main) {
  if (!(chain_.high - chain_.low <= 255) || !is_integral(chain_.low)) return false;
  std::vector<double> values(uses_.size(), std::numeric_limits<double>::quiet_NaN());
  for (int v = 1; v < program_.num_inputs; ++v)
    if (const auto number = number_of(v)) values[static_cast<size_t>(v)] = *number;
  const auto value = [&](int v) { return v < 0 ? 0.0 : values[static_cast<size_t>(v)]; };
  std::vector<uint8_t> table(256);
  const int count = static_cast<int>(chain_.high - chain_.low) + 1;
  for (int index = 0; index < count; ++index) {
    const size_t inputs = static_cast<size_t>(program_.num_inputs);
    values[static_cast<size_t>(main)] = index + chain_.low + chain_.offset;
    for (size_t k = 0; k < program_.code.size(); ++k) {
      const Instruction& op = program_.code[k];
      if (absorbed[k]) continue;
      values[inputs + k] =
          ir::evaluate_point_op(op.op, value(op.a), value(op.b), value(op.c), op.x, op.y);
    }
    if (std::isnan(values.back())) return false;  // an operand that is no number
    table[static_cast<size_t>(index)] =
        static_cast<uint8_t>(std::clamp(std::nearbyint(values.back()), 0.0, 255.0));
  }
  table_ = std::move(table);
  chain_.offset = -chain_.low;
  return true;
}

// The number a value is, if it is one.
std::optional<double> EpilogueAnalysis::number_of(int v) const {
  if (v >= program_.num_inputs) {
    const Instruction& op = program_.code[static_cast<size_t>(v - program_.num_inputs)];
    if (op.op == PointOp::kConst) return op.x;
  } else if (v > 0 && values_[static_cast<size_t>(v)].is_scalar()) {
    return values_[static_cast<size_t>(v)].values[0];
  }
  return std::nullopt;
}

// One step of peel_last: what `op` does to its operand; false: it is no scale, shift or rounding.
bool EpilogueAnalysis::peel(const Instruction& op, int& operand) {
  operand = op.a;
  if (op.op == PointOp::kRound) {
    if (last_.scale != 1 || last_.offset != 0 || !is_integral(last_.shift)) return false;
    last_.offset = last_.shift, last_.shift = 0;
    return std::abs(last_.offset) < 1e6;
  }
  if (op.b < 0 || op.c >= 0) return false;
  std::optional<double> by = number_of(op.b);
  const bool is_right = !by;
  if (is_right) by = number_of(op.a), operand = op.b;
  if (!by) return false;
  switch (op.op) {
    case PointOp::kAdd:
      last_.shift += last_.scale * *by;
      return true;
    case PointOp::kSub:
      last_.shift += (is_right ? 1 : -1) * last_.scale * *by;
      if (is_right) last_.scale = -last_.scale;
      return true;
    case PointOp::kMul:
      last_.scale *= *by;
      return true;
    case PointOp::kDiv:
      last_.scale /= *by;
      return !is_right;
    default:
      return false;
  }
}

// The value before the scales, shifts and the rounding at the end, which are done where codes are
// stored.
int EpilogueAnalysis::peel_last(const std::vector<bool>& absorbed) {
  int end = program_.result();
  while (end >= program_.num_inputs) {
    const size_t k = static_cast<size_t>(end - program_.num_inputs);
    const Last before = last_;
    int operand = -1;
    const bool is_last = end == program_.result() || uses_[static_cast<size_t>(end)] == 1;
    const bool peels = is_last && !absorbed[k] && peel(program_.code[k], operand);
    const int at = operand - program_.num_inputs;
    if (!peels || at < 0 || absorbed[static_cast<size_t>(at)] ||
        uses_[static_cast<size_t>(operand)] != 1) {
      last_ = before;
      break;
    }
    end = operand;
  }
  return end;
}

// The instructions up to `end` that are not absorbed and still used, `main` being their value 0.
void EpilogueAnalysis::make_rest(const std::vector<bool>& absorbed, int main, int end) {
  const int inputs = program_.num_inputs;
  std::vector<bool> used(uses_.size());
  used[static_cast<size_t>(end)] = true;
  for (size_t k = program_.code.size(); k-- > 0;) {
    if (absorbed[k] || !used[static_cast<size_t>(inputs) + k]) continue;
    for (int v : {program_.code[k].a, program_.code[k].b, program_.code[k].c})
      if (v >= 0) used[static_cast<size_t>(v)] = true;
  }
  std::vector<int16_t> number(uses_.size(), -1);
  for (int k = 0; k < inputs; ++k) number[static_cast<size_t>(k)] = static_cast<int16_t>(k);
  number[static_cast<size_t>(main)] = 0;
  for (size_t k = 0; k < program_.code.size(); ++k) {
    const size_t result = static_cast<size_t>(inputs) + k;
    if (absorbed[k] || !used[result]) continue;
    Instruction op = program_.code[k];
    for (int16_t* v : {&op.a, &op.b, &op.c})
      if (*v >= 0) *v = number[static_cast<size_t>(*v)];
    number[result] = static_cast<int16_t>(inputs + static_cast<int>(rest_.size()));
    rest_.push_back(op);
  }
}

}  // namespace camshaft::kernels
