// SPDX-License-Identifier: Apache-2.0
// RequantizeFusion: in the epilogue of a quantized convolution or product a multiplication by a
// constant (the 1/s of a Q) moves toward the accumulator, through sums, ReLU and clips, into the
// constants it meets there: s_x * s_w[k] / s_y is one factor. Then bounds that an 8-bit store has
// anyway are dropped, there and in PointWise layers. One step at most, near rounding ties.
#include <algorithm>
#include <cmath>
#include <map>

#include "ir/kind_traits.h"
#include "passes/expression.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/quantization.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// Every use of a constant gets its own copy, so that each can be multiplied alone.
Program with_own_constants(const Program& program) {
  Program result;
  result.num_inputs = program.num_inputs;
  std::vector<int> numbers(program.result() + 1);
  for (int k = 0; k < program.num_inputs; ++k) numbers[k] = k;
  for (int value = program.num_inputs; value <= program.result(); ++value) {
    const Instruction& code = program.code[value - program.num_inputs];
    const auto own = [&](int operand) {
      if (operand < program.num_inputs) return operand;
      const Instruction& source = program.code[operand - program.num_inputs];
      return source.op == PointOp::kConst ? append(result, PointOp::kConst, -1, -1, -1, source.x)
                                          : numbers[operand];
    };
    const int a = own(code.a), b = own(code.b), c = own(code.c);
    numbers[value] = append(result, code.op, a, b, c, code.x, code.y);
  }
  return result;
}

class Pusher {
 public:
  // `is_constant[k]`: input k of the program is a constant of floats.
  Pusher(const Program& program, const std::vector<bool>& is_constant)
      : program_(with_own_constants(program)),
        is_constant_(is_constant),
        uses_(program_.result() + 1) {
    for (const Instruction& code : program_.code)
      for (int operand : {code.a, code.b, code.c})
        if (operand >= 0) ++uses_[operand];
  }

  // Takes one multiplication out; false: there is none that costs nothing elsewhere.
  bool push_one() {
    for (int value = program_.result(); value >= program_.num_inputs; --value) {
      Instruction& code = at(value);
      if (code.op != PointOp::kMul) continue;
      for (auto [operand, other] : {std::pair(code.a, code.b), std::pair(code.b, code.a)}) {
        if (operand < program_.num_inputs || at(operand).op != PointOp::kConst) continue;
        const float factor = at(operand).x;
        if (!(factor > 0) || !std::isfinite(factor) || is_literal(other) || !takes(other)) continue;
        multiply(other, factor);
        code = {PointOp::kIdentity, other, -1, -1, 0, 0};
        return true;
      }
    }
    return false;
  }

  const Program& program() const { return program_; }
  const std::map<int, double>& input_factors() const { return input_factors_; }

 private:
  Instruction& at(int value) { return program_.code[value - program_.num_inputs]; }
  const Instruction& at(int value) const { return program_.code[value - program_.num_inputs]; }
  bool is_literal(int value) const {
    return value >= program_.num_inputs && at(value).op == PointOp::kConst;
  }

  // Whether `value` times a positive constant needs no more instructions.
  bool takes(int value) const {
    if (uses_[value] != 1) return false;
    if (value < program_.num_inputs) return is_constant_[value];
    const Instruction& code = at(value);
    switch (code.op) {
      case PointOp::kConst:
        return true;
      case PointOp::kRelu:
      case PointOp::kLeakyRelu:
      case PointOp::kClip:
      case PointOp::kIdentity:
        return takes(code.a);
      case PointOp::kMin:
      case PointOp::kMax:
      case PointOp::kAdd:
      case PointOp::kSub:
        return takes(code.a) && takes(code.b);
      case PointOp::kMul:
        return takes(code.a) || takes(code.b);
      case PointOp::kFma:
        return (takes(code.a) || takes(code.b)) && takes(code.c);
      default:
        return false;
    }
  }

  void multiply(int value, double factor) {
    if (value < program_.num_inputs) {
      input_factors_[value] = factor * (input_factors_.contains(value) ? input_factors_[value] : 1);
      return;
    }
    Instruction& code = at(value);
    switch (code.op) {
      case PointOp::kConst:
        code.x = static_cast<float>(code.x * factor);
        return;
      case PointOp::kClip:
        code.x = static_cast<float>(code.x * factor);
        code.y = static_cast<float>(code.y * factor);
        [[fallthrough]];
      case PointOp::kRelu:
      case PointOp::kLeakyRelu:
      case PointOp::kIdentity:
        return multiply(code.a, factor);
      case PointOp::kFma:
        multiply(code.c, factor);
        [[fallthrough]];
      case PointOp::kMul:
        return multiply(takes(code.a) ? code.a : code.b, factor);
      default:
        multiply(code.a, factor);
        return multiply(code.b, factor);
    }
  }

  Program program_;
  std::vector<bool> is_constant_;
  std::vector<int> uses_;
  std::map<int, double> input_factors_;
};

void scale_input(Rewriter& rewriter, Layer* layer, size_t index, double factor) {
  const Tensor* old = layer->inputs[index];
  std::vector<float> values;
  for (float value : old->values<float>()) values.push_back(static_cast<float>(value * factor));
  rewriter.set_input(
      layer, index,
      rewriter.add_float_constant(old->name + " (requantized)", extents_of(old->shape), values));
}

bool push_scales(Rewriter& rewriter, Layer* layer) {
  Program& epilogue = rewriter.program(layer);
  std::vector<bool> is_constant(static_cast<size_t>(epilogue.num_inputs));
  for (int k = 1; k < epilogue.num_inputs; ++k)
    is_constant[k] =
        is_float_constant(layer->inputs[k + 2]) && all_known(layer->inputs[k + 2]->shape);
  Pusher pusher(epilogue, is_constant);
  bool changed = false;
  while (pusher.push_one()) changed = true;
  if (!changed) return false;
  rewriter.running(*layer);
  rewriter.applied(Action::kFuse, *layer, "Fusing scales of " + layer->name);
  for (const auto& [input, factor] : pusher.input_factors())
    scale_input(rewriter, layer, static_cast<size_t>(input) + 2, factor);
  epilogue = without_saturation(simplify(pusher.program()), layer->outputs[0]->type);
  return true;
}

// The same in a PointWise layer, where only the literals of the program can take a factor.
void push_literals(Rewriter& rewriter, Layer* layer) {
  Program& program = rewriter.program(layer);
  Pusher pusher(program, std::vector<bool>(static_cast<size_t>(program.num_inputs)));
  bool changed = false;
  while (pusher.push_one()) changed = true;
  const Program pushed = changed ? simplify(pusher.program()) : Program();
  if (pushed.empty() || pushed.code.size() >= program.code.size()) return;
  rewriter.running(*layer);
  rewriter.applied(Action::kFuse, *layer, "Fusing scales of " + layer->name);
  program = without_saturation(pushed, layer->outputs[0]->type);
}

// A step of a rising function: the least and the largest number that is added or multiplied by.
struct Step {
  PointOp op;
  double least = 0, most = 0;
};

// The result as a rising function of one value: additions of and multiplications by constants, and
// rounding. What remains in front of them is `value`.
struct Tail {
  int value;
  std::vector<Step> steps;  // last first
};

using Numbers = std::optional<std::pair<double, double>>;  // the least and the largest

// `numbers`: of an input of the program that is a constant.
template <class NumbersOf>
Tail tail_of(const Program& program, const NumbersOf& numbers_of_input) {
  Tail tail{program.result(), {}};
  const auto numbers_of = [&](int v) -> Numbers {
    if (v < program.num_inputs) return v > 0 ? numbers_of_input(v) : std::nullopt;
    const Instruction& code = program.code[v - program.num_inputs];
    return code.op == PointOp::kConst ? Numbers({code.x, code.x}) : std::nullopt;
  };
  while (tail.value >= program.num_inputs) {
    const Instruction& code = program.code[tail.value - program.num_inputs];
    if (code.op == PointOp::kRound) {
      tail.steps.push_back({code.op});
      tail.value = code.a;
      continue;
    }
    if (code.op != PointOp::kAdd && code.op != PointOp::kMul) break;
    const Numbers behind = numbers_of(code.b), before = behind ? std::nullopt : numbers_of(code.a);
    const Numbers by = behind ? behind : before;
    if (!by || (code.op == PointOp::kMul && !(by->first > 0))) break;
    tail.steps.push_back({code.op, by->first, by->second});
    tail.value = behind ? code.a : code.b;
  }
  return tail;
}

// The least and the largest code that `value` may become.
std::pair<double, double> evaluate_tail(const Tail& tail, double value) {
  double low = value, high = value;
  for (size_t k = tail.steps.size(); k-- > 0;) {
    const Step& step = tail.steps[k];
    const auto by = [&step](double x, double number) {
      return evaluate_point_op(step.op, x, number, 0, 0, 0);
    };
    const double lows[] = {by(low, step.least), by(low, step.most)},
                 highs[] = {by(high, step.least), by(high, step.most)};
    low = std::min(lows[0], lows[1]);
    high = std::max(highs[0], highs[1]);
  }
  return {std::nearbyint(low), std::nearbyint(high)};
}

// ReLU or a clip in front of an 8-bit store that saturates there or further in, in every channel.
template <class NumbersOf>
bool drop_bounds(Program& program, DataType type, const NumbersOf& numbers_of_input) {
  const Tail tail = tail_of(program, numbers_of_input);
  if (tail.value < program.num_inputs) return false;
  Instruction& code = program.code[tail.value - program.num_inputs];
  if (code.op != PointOp::kRelu && code.op != PointOp::kClip) return false;
  const CodeRange range = code_range(type);
  float low = code.op == PointOp::kRelu ? 0 : code.x,
        high = code.op == PointOp::kRelu ? HUGE_VALF : code.y;
  const bool has_low = low != -HUGE_VALF, has_high = high != HUGE_VALF;
  const bool drops_low = has_low && evaluate_tail(tail, low).second <= range.low;
  const bool drops_high = has_high && evaluate_tail(tail, high).first >= range.high;
  if (!drops_low && !drops_high) return false;
  if (drops_low) low = -HUGE_VALF;
  if (drops_high) high = HUGE_VALF;
  code = {PointOp::kClip, code.a, -1, -1, low, high};
  program = simplify(program);
  if (program.empty()) append(program, PointOp::kIdentity, 0);
  return true;
}

// Those of the input that value v of the layer's program is.
Numbers numbers_of_input(const Layer& layer, int v) {
  if (layer.kind != LayerKind::kPointWise && !makes_codes(layer)) return std::nullopt;
  const size_t first = layer.kind == LayerKind::kPointWise ? 0 : 2;
  const Tensor* input = input_at(layer, first + static_cast<size_t>(v));
  if (!is_float_constant(input)) return std::nullopt;
  const auto values = input->values<float>();
  if (values.empty()) return std::nullopt;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return std::pair(*least, *most);
}

bool drop_bounds(Rewriter& rewriter, Layer* layer) {
  const DataType type =
      layer->outputs.empty() || !layer->outputs[0] ? DataType::kUndefined : layer->outputs[0]->type;
  if (!is_quantized(type)) return false;
  if (layer->kind != LayerKind::kPointWise && !epilogue_of(*layer)) return false;
  Program& program = rewriter.program(layer);
  const auto numbers = [&](int v) { return numbers_of_input(*layer, v); };
  if (program.empty() || !drop_bounds(program, type, numbers)) return false;
  rewriter.applied(Action::kRemove, *layer,
                   "Removing bounds of " + layer->name + " that its type has");
  return true;
}

}  // namespace

int requantize_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "RequantizeFusion", records);
  for (const auto& layer : graph.layers()) {
    if (makes_codes(*layer)) push_scales(rewriter, layer.get());
    if (layer->kind == LayerKind::kPointWise) push_literals(rewriter, layer.get());
    drop_bounds(rewriter, layer.get());
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
