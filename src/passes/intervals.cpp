// SPDX-License-Identifier: Apache-2.0
#include "passes/intervals.h"

#include <algorithm>

#include "passes/quantization.h"

namespace camshaft::passes {

using namespace ir;

const Program* program_of(const Layer& layer) {
  if (const auto* a = std::get_if<PointWiseAttrs>(&layer.attrs)) return &a->program;
  if (const auto* a = std::get_if<ConvolutionAttrs>(&layer.attrs)) return &a->epilogue;
  if (const auto* a = std::get_if<MatrixMultiplyAttrs>(&layer.attrs)) return &a->epilogue;
  return nullptr;
}
Program* program_of(Layer& layer) {
  return const_cast<Program*>(program_of(static_cast<const Layer&>(layer)));
}

size_t first_program_input(const Layer& layer) {
  return layer.kind == LayerKind::kPointWise ? 0 : 3;
}
int program_value(const Layer& layer, size_t index) {
  return static_cast<int>(layer.kind == LayerKind::kPointWise ? index : index - 2);
}

namespace {

Interval product(Interval a, Interval b) {
  const auto times = [](double x, double y) { return x == 0 || y == 0 ? 0.0 : x * y; };
  const auto [low, high] = std::minmax(
      {times(a.low, b.low), times(a.low, b.high), times(a.high, b.low), times(a.high, b.high)});
  return {low, high};
}

Interval interval_of(const Instruction& code, Interval a, Interval b, Interval c) {
  switch (code.op) {
    case PointOp::kConst:
      return {code.x, code.x};
    case PointOp::kIdentity:
      return a;
    case PointOp::kRound:
      return {std::nearbyint(a.low), std::nearbyint(a.high)};
    case PointOp::kRelu:
      return {std::max(a.low, 0.0), std::max(a.high, 0.0)};
    case PointOp::kClip:
      return {std::clamp<double>(a.low, code.x, std::max(code.x, code.y)),
              std::clamp<double>(a.high, code.x, std::max(code.x, code.y))};
    case PointOp::kSigmoid:
    case PointOp::kHardSigmoid:
      return {0, 1};
    case PointOp::kExp:
    case PointOp::kSoftplus:
    case PointOp::kAbs:
    case PointOp::kSqrt:
      return {0, HUGE_VAL};
    case PointOp::kSilu:
      return {-0.2785 / code.x, std::max(a.high, 0.0)};
    case PointOp::kHardSwish:
      return {-0.375, std::max(a.high, 0.0)};
    case PointOp::kAdd:
      return {a.low + b.low, a.high + b.high};
    case PointOp::kSub:
      return {a.low - b.high, a.high - b.low};
    case PointOp::kMul:
      return product(a, b);
    case PointOp::kFma: {
      const Interval ab = product(a, b);
      return {ab.low + c.low, ab.high + c.high};
    }
    case PointOp::kMin:
      return {std::min(a.low, b.low), std::min(a.high, b.high)};
    case PointOp::kMax:
      return {std::max(a.low, b.low), std::max(a.high, b.high)};
    default:
      return {};
  }
}

}  // namespace

Interval result_interval(const Layer& layer) {
  const Program* program = program_of(layer);
  if (!program || program->empty()) return {};
  std::vector<Interval> values(static_cast<size_t>(program->num_inputs));
  for (size_t k = first_program_input(layer); k < layer.inputs.size(); ++k) {
    const int value = program_value(layer, k);
    if (value < program->num_inputs && is_quantized(layer.inputs[k]->type)) {
      const CodeRange range = code_range(layer.inputs[k]->type);
      values[value] = {static_cast<double>(range.low), static_cast<double>(range.high)};
    }
  }
  for (const Instruction& code : program->code) {
    const auto of = [&](int v) { return v < 0 ? Interval{0, 0} : values[v]; };
    values.push_back(interval_of(code, of(code.a), of(code.b), of(code.c)));
  }
  return values.back();
}

}  // namespace camshaft::passes
