// SPDX-License-Identifier: Apache-2.0
#include "kernels/epilogue/epilogue_analysis.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/epilogue/form_numbers.h"

namespace camshaft::kernels {
namespace {

using ir::Instruction;
using ir::PointOp;

// Whether a PackedEpilogue says it.
bool is_packed_form(const SumForm& form) {
  return form.kind == SumForm::kChain && form.main == 0 && !form.leaks_first;
}

}  // namespace

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
  chain_ = SumForm::input(0);
  if (!values_.empty()) values_[0] = chain_;
  for (int k = 1; k < program.num_inputs; ++k) {
    const ProblemTensor& operand = problem.inputs[first_operand + static_cast<size_t>(k) - 1];
    const bool is_known = operand.constant && !operand.constant->view.empty();
    SumForm& value = values_[static_cast<size_t>(k)];
    if (is_known && is_channel_constant(operand, output, back))
      value = SumForm::constant(channel_values(operand));
    else if (operand.extents == output.extents)
      value = SumForm::input(k);
  }
  for (const Instruction& op : program.code)
    for (int v : {op.a, op.b, op.c})
      if (v >= 0) ++uses_[static_cast<size_t>(v)];
  const bool eight_bit = output.type == DataType::kUInt8;
  if (!program.empty()) follow(eight_bit);
  if (eight_bit && rest_.empty() && table_.empty()) chain_.clip(0, 255);
}

// The form of a value. A hard sigmoid is left to the rest, or to a table.
bool EpilogueAnalysis::evaluate(size_t k) {
  const Instruction& op = program_.code[k];
  const SumForm none;
  const auto value = [&](int v) -> const SumForm& {
    return v < 0 ? none : values_[static_cast<size_t>(v)];
  };
  SumForm& result = values_[static_cast<size_t>(program_.num_inputs) + k];
  if (op.op != PointOp::kHardSigmoid) result = form_of(op, value(op.a), value(op.b), value(op.c));
  return is_packed_form(result);
}

void EpilogueAnalysis::follow(bool eight_bit) {
  struct State {
    SumForm chain;
    std::vector<bool> absorbed;
    int main;
  };
  std::optional<State> before_rounding, at_code;
  std::vector<bool> absorbed(program_.code.size());
  int main = 0;
  for (size_t k = 0; k < program_.code.size(); ++k) {
    const Instruction& op = program_.code[k];
    const int result = program_.num_inputs + static_cast<int>(k);
    const bool is_of_sums = op.a == main || op.b == main || op.c == main;
    if (is_of_sums && uses_[static_cast<size_t>(main)] != 1) break;
    const bool goes_on = evaluate(k);
    if (!is_of_sums) continue;
    const SumForm& next = values_[static_cast<size_t>(result)];
    if (op.op == PointOp::kRound && !chain_.rounded) before_rounding = {chain_, absorbed, main};
    if (!goes_on) break;
    if (next.code.present && !chain_.code.present && !next.code.is_gate)
      at_code = {chain_, absorbed, main}, before_rounding.reset();
    chain_ = next;
    absorbed[k] = true;
    main = result;
  }
  const bool whole = main == program_.result();
  if (!whole && eight_bit && chain_.rounded && make_table(main)) return;
  if (!whole && eight_bit && at_code) {
    std::swap(chain_, at_code->chain);
    if (make_table(at_code->main)) return;
    std::swap(chain_, at_code->chain);
  }
  if (before_rounding && !(whole && eight_bit)) {
    chain_ = before_rounding->chain;
    absorbed = before_rounding->absorbed;
    main = before_rounding->main;
  }
  if (main == program_.result()) return;
  if (!eight_bit) return make_rest(absorbed, main, program_.result());
  const int code = find_code(absorbed, main);
  const bool ends_early = code >= 0 && fill_table(code, 0, 256);
  // The clip to codes is that of storing them.
  const int last = ends_early ? instruction(code).a : program_.result();
  make_rest(absorbed, main, peel_last(absorbed, last));
}

const Instruction& EpilogueAnalysis::instruction(int v) const {
  return program_.code[static_cast<size_t>(v - program_.num_inputs)];
}

// Whether the result is made of the value `from` and of numbers.
bool EpilogueAnalysis::depends_on_nothing_but(int from) const {
  std::vector<bool> used(uses_.size());
  used[static_cast<size_t>(program_.result())] = true;
  for (int v = program_.result(); v >= 0; --v) {
    if (!used[static_cast<size_t>(v)] || v == from) continue;
    if (v < program_.num_inputs) {
      if (!number_of(v)) return false;
      continue;
    }
    for (const int operand : {instruction(v).a, instruction(v).b, instruction(v).c})
      if (operand >= 0) used[static_cast<size_t>(operand)] = true;
  }
  return true;
}

// The first value behind `main` that is a code of 8 bits, rounded and clipped, and all that what
// follows it reads: GELU written out after a quantizer, say. -1: there is none.
int EpilogueAnalysis::find_code(const std::vector<bool>& absorbed, int main) const {
  const int inputs = program_.num_inputs;
  const auto is_behind = [&](int v) {
    return v >= inputs && v > main && !absorbed[static_cast<size_t>(v - inputs)];
  };
  for (int v = main + 1; v < program_.result(); ++v) {
    if (!is_behind(v)) continue;
    const Instruction& clip = instruction(v);
    if (clip.op != PointOp::kClip || clip.x != 0 || clip.y != 255 || !is_behind(clip.a)) continue;
    int rounded = clip.a;
    if (const Instruction& shift = instruction(rounded); shift.op == PointOp::kAdd) {
      const auto by = number_of(shift.b);
      if (!by || !is_integral(*by)) continue;
      rounded = shift.a;
    }
    if (!is_behind(rounded) || instruction(rounded).op != PointOp::kRound) continue;
    if (uses_[static_cast<size_t>(clip.a)] == 1 && depends_on_nothing_but(v)) return v;
  }
  return -1;
}

// The program after `main`, an integer of at most 256 values, when it reads nothing else.
bool EpilogueAnalysis::make_table(int main) {
  if (!(chain_.high - chain_.low <= 255) || !is_integral(chain_.low)) return false;
  const int count = static_cast<int>(chain_.high - chain_.low) + 1;
  if (!depends_on_nothing_but(main) || !fill_table(main, chain_.low + chain_.offset, count))
    return false;
  chain_.offset = -chain_.low;
  return true;
}

// What the program makes of the value `from` being first, first + 1 …
bool EpilogueAnalysis::fill_table(int from, double first, int count) {
  std::vector<double> values(uses_.size(), std::numeric_limits<double>::quiet_NaN());
  for (int v = 1; v < program_.num_inputs; ++v)
    if (const auto number = number_of(v)) values[static_cast<size_t>(v)] = *number;
  const auto value = [&](int v) { return v < 0 ? 0.0 : values[static_cast<size_t>(v)]; };
  std::vector<uint8_t> table(256);
  for (int index = 0; index < count; ++index) {
    for (int v = program_.num_inputs; v <= program_.result(); ++v) {
      const Instruction& op = instruction(v);
      values[static_cast<size_t>(v)] =
          ir::evaluate_point_op(op.op, value(op.a), value(op.b), value(op.c), op.x, op.y);
      if (v == from) values[static_cast<size_t>(v)] = first + index;
    }
    if (std::isnan(values.back())) return false;  // an operand that is no number
    table[static_cast<size_t>(index)] =
        static_cast<uint8_t>(std::clamp(std::nearbyint(values.back()), 0.0, 255.0));
  }
  table_ = std::move(table);
  return true;
}

// The number a value is, if it is one.
std::optional<double> EpilogueAnalysis::number_of(int v) const {
  if (v >= program_.num_inputs) {
    const Instruction& op = program_.code[static_cast<size_t>(v - program_.num_inputs)];
    if (op.op == PointOp::kConst) return op.x;
  } else if (v > 0 && values_[static_cast<size_t>(v)].is_scalar()) {
    return values_[static_cast<size_t>(v)].addend[0];
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

// The value before the scales, shifts and the rounding of `last`, which are done where codes are
// stored.
int EpilogueAnalysis::peel_last(const std::vector<bool>& absorbed, int last) {
  int end = last;
  while (end >= program_.num_inputs) {
    const size_t k = static_cast<size_t>(end - program_.num_inputs);
    const Last before = last_;
    int operand = -1;
    const bool is_last = end == last || uses_[static_cast<size_t>(end)] == 1;
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
