// SPDX-License-Identifier: Apache-2.0
#include "passes/expression.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "passes/match.h"
#include "passes/quantization.h"

namespace camshaft::passes {

using namespace ir;

namespace {

bool is_float_or_bool(const Tensor* tensor) {
  return tensor && tensor->has_rank &&
         (tensor->type == DataType::kFloat || tensor->type == DataType::kBool);
}

// A PointWise layer reads and writes codes; for the other kinds 8-bit numbers are integers.
bool is_value_of_pointwise(const Tensor* tensor) {
  return is_float_or_bool(tensor) || (tensor && tensor->has_rank && is_quantized(tensor->type));
}

bool works_on_integers_only(PointOp op) {
  return op == PointOp::kBitAnd || op == PointOp::kBitOr || op == PointOp::kBitXor ||
         op == PointOp::kBitNot || op == PointOp::kShiftLeft || op == PointOp::kShiftRight;
}

// The program with input k renamed to input_numbers[k] of `count` inputs; a negative number -1 - n
// stands for literals[n].
Program renumber_inputs(const Program& program, const std::vector<int>& input_numbers, int count,
                        const std::vector<float>& literals = {}) {
  Program result;
  result.num_inputs = count;
  std::vector<int> numbers(program.num_inputs + program.code.size());
  for (int k = 0; k < program.num_inputs; ++k)
    numbers[k] = input_numbers[k] >= 0
                     ? input_numbers[k]
                     : append(result, PointOp::kConst, -1, -1, -1, literals[-1 - input_numbers[k]]);
  for (size_t k = 0; k < program.code.size(); ++k) {
    const Instruction& code = program.code[k];
    const auto number = [&](int value) { return value < 0 ? value : numbers[value]; };
    numbers[program.num_inputs + k] =
        append(result, code.op, number(code.a), number(code.b), number(code.c), code.x, code.y);
  }
  return result;
}

Program as_program(const Layer& layer) {
  if (layer.kind == LayerKind::kPointWise) return layer.as<PointWiseAttrs>().program;
  Program program;
  program.num_inputs = static_cast<int>(layer.inputs.size());
  if (layer.kind == LayerKind::kScale) {
    append(program, PointOp::kFma, 0, 1, 2);
    return program;
  }
  const auto& attrs = layer.as<PointOpAttrs>();
  const int count = arity(attrs.op);
  append(program, attrs.op, count > 0 ? 0 : -1, count > 1 ? 1 : -1, count > 2 ? 2 : -1, attrs.x,
         attrs.y);
  return program;
}

bool uses_input(const Program& program, int input) {
  return std::any_of(program.code.begin(), program.code.end(), [&](const Instruction& code) {
    return code.a == input || code.b == input || code.c == input;
  });
}

Expression merge_duplicates(const Expression& expression) {
  Expression merged;
  std::vector<int> numbers;
  for (Tensor* input : expression.inputs) {
    auto at = std::find(merged.inputs.begin(), merged.inputs.end(), input);
    numbers.push_back(static_cast<int>(at - merged.inputs.begin()));
    if (at == merged.inputs.end()) merged.inputs.push_back(input);
  }
  merged.program =
      renumber_inputs(expression.program, numbers, static_cast<int>(merged.inputs.size()));
  return merged;
}

bool rounds(const Program& program) {
  return std::any_of(program.code.begin(), program.code.end(), [](const Instruction& code) {
    return code.op == PointOp::kRound || code.op == PointOp::kFloor || code.op == PointOp::kCeil;
  });
}

bool makes_integers(const Layer& layer) {
  if (layer.kind == LayerKind::kCast) return is_integer(layer.as<CastAttrs>().to);
  return layer.kind == LayerKind::kQuantize || (is_pointwise(layer) && rounds(as_program(layer)));
}

// What layers of floats behind make integers of it: codes, or indices.
bool is_rounded_behind(const Tensor* tensor, int most_layers) {
  std::set<const Tensor*> seen{tensor}, last{tensor};
  for (int distance = 0; distance < most_layers && !last.empty(); ++distance) {
    std::set<const Tensor*> next;
    for (const Tensor* from : last)
      for (const Layer* reader : from->consumers) {
        if (makes_integers(*reader)) return true;
        const bool goes_on = is_pointwise(*reader) || reader->kind == LayerKind::kShuffle ||
                             reader->kind == LayerKind::kExpand;
        if (goes_on && seen.insert(reader->outputs[0]).second) next.insert(reader->outputs[0]);
      }
    last = std::move(next);
  }
  return false;
}

// Whether a quotient by `divisor` must be one: its product with the rounded reciprocal is another
// float, and what is rounded then turns ties (torchao's scales of rows: largest / 127.5).
bool must_divide(const Expression& expression, const Tensor* divisor, const Tensor* output) {
  constexpr int kMostLayers = 12;
  int exponent = 0;
  if (std::abs(std::frexp(*scalar_value(divisor), &exponent)) == 0.5f) return false;
  const auto at = std::find(expression.inputs.begin(), expression.inputs.end(), divisor);
  const auto input = at - expression.inputs.begin();
  const auto& code = expression.program.code;
  return std::any_of(code.begin(), code.end(),
                     [input](const Instruction& instruction) {
                       return instruction.op == PointOp::kDiv && instruction.b == input;
                     }) &&
         (rounds(expression.program) || is_rounded_behind(output, kMostLayers));
}

// Constants of one element become literals, as long as another input keeps the rank of the result.
Expression inline_scalars(const Expression& expression, const Tensor* output) {
  size_t other_rank = 0;
  for (const Tensor* input : expression.inputs)
    if (!scalar_value(input)) other_rank = std::max(other_rank, input->shape.size());
  if (other_rank < output->shape.size()) return expression;
  Expression result;
  std::vector<int> numbers;
  std::vector<float> literals;
  for (Tensor* input : expression.inputs) {
    const std::optional<float> value = scalar_value(input);
    if (value && !must_divide(expression, input, output)) {
      literals.push_back(*value);
      numbers.push_back(-static_cast<int>(literals.size()));
    } else {
      numbers.push_back(static_cast<int>(result.inputs.size()));
      result.inputs.push_back(input);
    }
  }
  if (literals.empty() || result.inputs.empty()) return expression;
  result.program = renumber_inputs(expression.program, numbers,
                                   static_cast<int>(result.inputs.size()), literals);
  return result;
}

}  // namespace

bool is_pointwise(const Layer& layer) {
  switch (layer.kind) {
    case LayerKind::kActivation:
    case LayerKind::kUnary:
    case LayerKind::kElementWise:
    case LayerKind::kSelect:
      if (works_on_integers_only(layer.as<PointOpAttrs>().op)) return false;
      break;
    case LayerKind::kPointWise:
      return is_value_of_pointwise(layer.outputs[0]) &&
             std::all_of(layer.inputs.begin(), layer.inputs.end(), is_value_of_pointwise);
    case LayerKind::kScale:
      // Per channel of the last axis the vectors broadcast as they are.
      if (!layer.inputs[0]->has_rank ||
          layer.as<ScaleAttrs>().axis + 1 != static_cast<int64_t>(layer.inputs[0]->shape.size()))
        return false;
      break;
    default:
      return false;
  }
  return is_float_or_bool(layer.outputs[0]) &&
         std::all_of(layer.inputs.begin(), layer.inputs.end(), is_float_or_bool);
}

Expression expression_of(const Layer& layer) {
  Expression expression{as_program(layer), layer.inputs};
  if (layer.kind == LayerKind::kPointWise)
    expression.program =
        with_saturation(std::move(expression.program), layer.as<PointWiseAttrs>().type);
  return merge_duplicates(inline_scalars(expression, layer.outputs[0]));
}

Program with_saturation(Program program, DataType type) {
  if (!is_quantized(type)) return program;
  const CodeRange range = code_range(type);
  const int rounded = append(program, PointOp::kRound, program.result());
  append(program, PointOp::kClip, rounded, -1, -1, static_cast<float>(range.low),
         static_cast<float>(range.high));
  return program;
}

Program without_saturation(Program program, DataType type) {
  if (!is_quantized(type)) return program;
  const CodeRange range = code_range(type);
  while (!program.code.empty()) {
    const Instruction& last = program.code.back();
    const bool clips = last.op == PointOp::kClip && last.x <= static_cast<float>(range.low) &&
                       last.y >= static_cast<float>(range.high);
    // Only a chain can be cut: the operand must be the instruction before.
    if ((!clips && last.op != PointOp::kRound) || last.a != program.result() - 1 ||
        last.a < program.num_inputs)
      break;
    program.code.pop_back();
  }
  return program;
}

PointWiseAttrs pointwise_attrs(Program program, const Tensor* output) {
  PointWiseAttrs attrs;
  if (is_quantized(output->type)) attrs.type = output->type;
  // Truth values that were only chosen or copied: the layer's type is that of its last instruction.
  if (output->type == DataType::kBool && !gives_bool(program.code.back().op))
    append(program, PointOp::kOr, program.result(), program.result());
  attrs.program = without_saturation(std::move(program), attrs.type);
  return attrs;
}

Expression substitute(const Expression& outer, const Tensor* value, const Expression& inner) {
  const auto at = std::find(outer.inputs.begin(), outer.inputs.end(), value);
  const int slot = static_cast<int>(at - outer.inputs.begin());
  Expression result;
  result.inputs = inner.inputs;
  for (Tensor* input : outer.inputs)
    if (input != value) result.inputs.push_back(input);
  Program first = inner.program;
  if (first.empty()) append(first, PointOp::kIdentity, first.num_inputs - 1);
  result.program = compose(first, outer.program, slot);
  return merge_duplicates(result);
}

Expression tidy(Expression expression, size_t kept) {
  expression = merge_duplicates(expression);
  expression.program = simplify(expression.program);
  if (expression.program.empty())
    append(expression.program, PointOp::kIdentity, expression.program.num_inputs - 1);
  Expression result;
  std::vector<int> numbers;
  std::vector<float> unused(1, 0.0f);
  for (size_t k = 0; k < expression.inputs.size(); ++k) {
    const bool keep = k < kept || uses_input(expression.program, static_cast<int>(k));
    numbers.push_back(keep ? static_cast<int>(result.inputs.size()) : 0);
    if (keep) result.inputs.push_back(expression.inputs[k]);
  }
  result.program =
      renumber_inputs(expression.program, numbers, static_cast<int>(result.inputs.size()));
  return result;
}

std::string pointwise_name(const std::vector<const Layer*>& members) {
  const auto is_of_model = [](const Layer* member) { return !member->onnx_nodes.empty(); };
  const bool names_all = std::none_of(members.begin(), members.end(), is_of_model);
  std::string names;
  int named = 0;
  for (const Layer* member : members) {
    if (!names_all && !is_of_model(member)) continue;
    std::string name = member->name;
    if (name.starts_with("PWN(") && name.ends_with(")")) {
      name = name.substr(4, name.size() - 5);
      ++named;
    }
    names += (names.empty() ? "" : ", ") + name;
    ++named;
  }
  return named == 1 && members.size() > 1 ? names : "PWN(" + names + ")";
}

bool within_limits(const Expression& expression) {
  return expression.inputs.size() <= kMaxProgramInputs &&
         expression.inputs.size() + expression.program.code.size() <=
             static_cast<size_t>(kMaxProgramValues);
}

}  // namespace camshaft::passes
