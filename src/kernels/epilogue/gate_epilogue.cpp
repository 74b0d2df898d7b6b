// SPDX-License-Identifier: Apache-2.0
// Recognises v * clamp(scale * v + shift, low, high), whichever way it is spelled: every value of
// the program is followed as a constant, as a clamped line, or as v times one.
#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/epilogue/epilogue.h"

namespace camshaft::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Form {
  enum Kind : uint8_t { kOther, kConstant, kLine, kGate } kind = kOther;
  float constant = 0;
  Gate line = {};  // of a gate: the factor of v

  bool is_clamped() const { return line.low != -kInfinity || line.high != kInfinity; }
  bool is_input() const {
    return kind == kLine && line.scale == 1 && line.shift == 0 && !is_clamped();
  }
};

Form line(float scale, float shift) {
  return {Form::kLine, 0, {scale, shift, -kInfinity, kInfinity}};
}

Form shifted(Form a, float by) {
  if (a.kind != Form::kLine || a.is_clamped()) return {};
  a.line.shift += by;
  return a;
}

Form scaled(Form a, float by) {
  if (a.kind < Form::kLine || !(by > 0) || by == kInfinity) return {};
  a.line = {a.line.scale * by, a.line.shift * by, a.line.low * by, a.line.high * by};
  return a;
}

Form clamped(Form a, float low, float high) {
  if (a.kind != Form::kLine || !(low <= high)) return {};
  a.line.low = std::clamp(a.line.low, low, high);
  a.line.high = std::clamp(a.line.high, low, high);
  return a;
}

Form product(const Form& a, const Form& b) {
  if (b.kind == Form::kConstant) return scaled(a, b.constant);
  if (a.kind == Form::kConstant) return scaled(b, a.constant);
  const bool a_is_input = a.is_input();
  if (a.kind != Form::kLine || b.kind != Form::kLine || (!a_is_input && !b.is_input())) return {};
  return {Form::kGate, 0, a_is_input ? b.line : a.line};
}

Form step(const ir::Instruction& code, const std::vector<Form>& values) {
  const auto at = [&values](int k) { return k < 0 ? Form() : values[static_cast<size_t>(k)]; };
  const Form a = at(code.a), b = at(code.b), c = at(code.c);
  switch (code.op) {
    case ir::PointOp::kIdentity:
      return a;
    case ir::PointOp::kConst:
      return {Form::kConstant, code.x};
    case ir::PointOp::kAdd:
      if (b.kind == Form::kConstant) return shifted(a, b.constant);
      return a.kind == Form::kConstant ? shifted(b, a.constant) : Form();
    case ir::PointOp::kSub:
      return b.kind == Form::kConstant ? shifted(a, -b.constant) : Form();
    case ir::PointOp::kMul:
      return product(a, b);
    case ir::PointOp::kFma:
      return c.kind == Form::kConstant ? shifted(product(a, b), c.constant) : Form();
    case ir::PointOp::kDiv:
      return b.kind == Form::kConstant ? scaled(a, 1 / b.constant) : Form();
    case ir::PointOp::kRelu:
      return clamped(a, 0, kInfinity);
    case ir::PointOp::kClip:
      return clamped(a, code.x, code.y);
    case ir::PointOp::kHardSigmoid:
      return clamped(shifted(scaled(a, code.x), code.y), 0, 1);
    case ir::PointOp::kHardSwish:
      return a.is_input() ? Form{Form::kGate, 0, kHardSwishGate} : Form();
    default:
      return {};
  }
}

}  // namespace

bool find_gate(const ir::Program& program, Gate& gate) {
  if (program.num_inputs != 1) return false;
  std::vector<Form> values = {line(1, 0)};
  for (const ir::Instruction& code : program.code) values.push_back(step(code, values));
  gate = values.back().line;
  return values.back().kind == Form::kGate && values.back().is_clamped();
}

}  // namespace camshaft::kernels
