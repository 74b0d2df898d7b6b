// SPDX-License-Identifier: Apache-2.0
#include "passes/shift_codes.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "ir/kind_traits.h"
#include "passes/expression.h"
#include "passes/intervals.h"
#include "passes/match.h"
#include "passes/quantization.h"

namespace camshaft::passes {

using namespace ir;

namespace {

constexpr const char* kMoved = " (unsigned)";

bool moves_codes(const Layer& layer) {
  return moves_elements(layer) || layer.kind == LayerKind::kConcatenation;
}

// How many leading inputs a layer that moves codes takes them from.
size_t moved_inputs(const Layer& layer) {
  return layer.kind == LayerKind::kConcatenation ? layer.inputs.size() : 1;
}

class Groups {
 public:
  Groups(const Graph& graph, DataType type) {
    for (const auto& tensor : graph.tensors())
      if (tensor->type == type && !tensor->is_constant() &&
          (tensor->producer || !tensor->consumers.empty()))
        parent_[tensor.get()] = tensor.get();
    for (const auto& layer : graph.layers())
      if (moves_codes(*layer)) join(*layer);
  }

  std::vector<CodeGroup> list(const Graph& graph) {
    std::map<Tensor*, size_t> index;
    std::vector<CodeGroup> groups;
    for (const auto& tensor : graph.tensors()) {
      if (!parent_.contains(tensor.get())) continue;
      const auto [at, is_new] = index.try_emplace(root(tensor.get()), groups.size());
      if (is_new) groups.emplace_back();
      groups[at->second].push_back(tensor.get());
    }
    return groups;
  }

 private:
  Tensor* root(Tensor* tensor) {
    while (parent_[tensor] != tensor) tensor = parent_[tensor] = parent_[parent_[tensor]];
    return tensor;
  }
  void join(const Layer& layer) {
    Tensor* result = layer.outputs[0];
    if (!result || !parent_.contains(result)) return;
    for (size_t k = 0; k < moved_inputs(layer); ++k)
      if (parent_.contains(layer.inputs[k])) parent_[root(layer.inputs[k])] = root(result);
  }
  std::map<Tensor*, Tensor*> parent_;
};

bool makes_program_result(const Layer& layer) {
  return layer.kind == LayerKind::kPointWise || makes_codes(layer);
}

// Padding counts as code 0, and the mean of no code is 0, whatever the others are moved by.
bool makes_zeros(const Layer& layer) {
  const auto& attrs = layer.as<PoolingAttrs>();
  return attrs.type == PoolingType::kAverage &&
         (attrs.count_includes_padding || may_pool_nothing(layer));
}

// Reads `tensor` in a way that can follow a shift.
bool reads_codes(const Layer& layer, const Tensor* tensor) {
  if (layer.kind == LayerKind::kPointWise) return true;
  if (is_product(layer)) {
    for (size_t k = 0; k < layer.inputs.size(); ++k) {
      const bool factor = k == 0 || (k == 1 && layer.kind == LayerKind::kMatrixMultiply);
      if (layer.inputs[k] == tensor && !factor && k < 3) return false;
    }
    return true;
  }
  if (layer.kind == LayerKind::kPooling)
    return !makes_zeros(layer) && layer.as<PoolingAttrs>().epilogue.empty();
  if (layer.kind == LayerKind::kConcatenation) return true;
  if (!moves_elements(layer)) return false;
  return std::count(layer.inputs.begin(), layer.inputs.end(), tensor) == 1 &&
         layer.inputs[0] == tensor;
}

// Input `value` of the program less `amount`.
Program with_shifted_input(const Program& program, int value, int amount) {
  Program shift;
  shift.num_inputs = program.num_inputs;
  const int constant = append(shift, PointOp::kConst, -1, -1, -1, static_cast<float>(amount));
  const int shifted = append(shift, PointOp::kSub, value, constant);
  std::vector<int> numbers(program.result() + 1);
  for (int k = 0; k < program.num_inputs; ++k) numbers[k] = k == value ? shifted : k;
  for (int k = program.num_inputs; k <= program.result(); ++k) {
    const Instruction& code = program.code[k - program.num_inputs];
    const auto number = [&](int v) { return v < 0 ? v : numbers[v]; };
    numbers[k] =
        append(shift, code.op, number(code.a), number(code.b), number(code.c), code.x, code.y);
  }
  return simplify(shift);
}

// A program that ends by rounding and adding a zero point, without these; the zero point. Its
// constant may stay unused.
int take_zero_point(Program& program) {
  const int first = program.num_inputs;
  if (program.code.size() < 2) return 0;
  const Instruction add = program.code.back();
  if (add.op != PointOp::kAdd || add.a < first || add.b < first) return 0;
  const Instruction &a = program.code[add.a - first], &b = program.code[add.b - first];
  const Instruction& constant = a.op == PointOp::kConst ? a : b;
  const Instruction& rounded = a.op == PointOp::kConst ? b : a;
  if (constant.op != PointOp::kConst || constant.x != std::nearbyint(constant.x) ||
      rounded.op != PointOp::kRound)
    return 0;
  const int zero_point = static_cast<int>(constant.x), value = rounded.a;
  program.code.pop_back();
  append(program, PointOp::kIdentity, value);
  return zero_point;
}

// Where moves cancel each other, nothing is left: an epilogue may be empty, a layer's program not.
void set_program(Rewriter& rewriter, Layer* layer, Program program, DataType type) {
  if (program.empty() && layer->kind == LayerKind::kPointWise)
    append(program, PointOp::kIdentity, 0);
  rewriter.program(layer) = without_saturation(std::move(program), type);
}

// `range`: of the codes as they were.
void shift_result(Rewriter& rewriter, Layer* layer, CodeRange range, int shift) {
  const CodeRange all = code_range(DataType::kUInt8);
  Program& program = rewriter.program(layer);
  if (program.empty()) append(program, PointOp::kIdentity, 0);
  const int zero_point = take_zero_point(program);
  // Whole bounds commute with the store's rounding.
  if (range.low + shift != all.low || range.high + shift != all.high)
    append(program, PointOp::kClip, program.result(), -1, -1,
           static_cast<float>(-shift - zero_point), static_cast<float>(range.high - zero_point));
  if (zero_point + shift != 0) {
    const int rounded = append(program, PointOp::kRound, program.result());
    append(program, PointOp::kAdd, rounded,
           append(program, PointOp::kConst, -1, -1, -1, static_cast<float>(zero_point + shift)));
  }
  set_program(rewriter, layer, simplify(program), DataType::kUInt8);
  rewriter.set_stored_type(layer, DataType::kUInt8);
}

Tensor* shifted_constant(Rewriter& rewriter, const Tensor& constant, int shift) {
  std::vector<std::byte> bytes(constant.constant->view.begin(), constant.constant->view.end());
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(std::to_integer<int>(byte) + shift);
  return rewriter.add_constant(constant.name + kMoved, DataType::kUInt8, extents_of(constant.shape),
                               std::move(bytes));
}

// The average of the codes is higher by `shift`: what reads it gets the old one back.
void shift_mean(Rewriter& rewriter, Layer* pooling, int shift) {
  Tensor* mean = pooling->outputs[0];
  if (mean->type != DataType::kFloat || shift == 0) return;
  Tensor* raw = rewriter.add_tensor_like(*mean, mean->name + kMoved, DataType::kFloat);
  const std::string name = pooling->name;
  Layer* made = rewriter.insert_before(pooling, LayerKind::kPooling, name, pooling->attrs,
                                       pooling->inputs, {raw}, {pooling});
  PointWiseAttrs attrs;
  attrs.program.num_inputs = 1;
  append(attrs.program, PointOp::kSub, 0,
         append(attrs.program, PointOp::kConst, -1, -1, -1, static_cast<float>(shift)));
  Layer* group[] = {pooling};
  rewriter.replace(group, LayerKind::kPointWise, attrs, {raw}, name + " (shift)");
  rewriter.rename(made, name);
}

void shift_reader(Rewriter& rewriter, Layer* reader, const Tensor* tensor, int shift) {
  if (shift == 0) return;
  for (size_t k = 0; k < reader->inputs.size() && k < 2; ++k)
    if (reader->inputs[k] == tensor) shift_zero_point(rewriter, reader, k, shift);
  if (const Program* program = program_of(*reader))
    for (size_t k = first_program_input(*reader); k < reader->inputs.size(); ++k)
      if (reader->inputs[k] == tensor)
        set_program(rewriter, reader,
                    with_shifted_input(*program, program_value(*reader, k), shift),
                    reader->outputs[0]->type);
  if (reader->kind == LayerKind::kPooling) shift_mean(rewriter, reader, shift);
}

// No code that this member of a group gives its output by itself is smaller.
int lowest_code(const Layer& producer, CodeRange range) {
  double low = range.high;
  if (const auto* pad = std::get_if<PadAttrs>(&producer.attrs))
    low = std::nearbyint(pad->value);
  else if (!moves_codes(producer))
    low = std::nearbyint(result_interval(producer).low);
  for (size_t k = 0; moves_codes(producer) && k < moved_inputs(producer); ++k)
    if (producer.inputs[k]->is_constant()) low = range.low;
  if (std::isnan(low)) return range.low;
  return static_cast<int>(std::clamp<double>(low, range.low, range.high));
}

void shift_producer(Rewriter& rewriter, Layer* made_by, CodeRange range, int shift) {
  const Layer& producer = *made_by;
  if (!moves_codes(producer)) shift_result(rewriter, made_by, range, shift);
  if (producer.kind == LayerKind::kPad)
    rewriter.attrs<PadAttrs>(made_by).value += static_cast<float>(shift);
  for (size_t k = 0; moves_codes(producer) && k < moved_inputs(producer); ++k)
    if (producer.inputs[k]->is_constant())
      rewriter.set_input(made_by, k, shifted_constant(rewriter, *producer.inputs[k], shift));
}

}  // namespace

std::vector<CodeGroup> code_groups(const Graph& graph, DataType type) {
  return Groups(graph, type).list(graph);
}

bool can_shift(const Graph& graph, const CodeGroup& group) {
  return std::all_of(group.begin(), group.end(), [&](const Tensor* tensor) {
    if (!tensor->producer || graph.is_output(tensor)) return false;
    if (!makes_program_result(*tensor->producer) && !moves_codes(*tensor->producer)) return false;
    return std::all_of(tensor->consumers.begin(), tensor->consumers.end(),
                       [&](const Layer* reader) { return reads_codes(*reader, tensor); });
  });
}

int lowest_code(const CodeGroup& group) {
  const CodeRange range = code_range(group[0]->type);
  int lowest = range.high;
  for (const Tensor* tensor : group) {
    lowest = std::min(lowest, lowest_code(*tensor->producer, range));
    // Padding is the zero point, which has to stay a code.
    for (const Layer* reader : tensor->consumers)
      if (const auto* a = std::get_if<ConvolutionAttrs>(&reader->attrs);
          a && reader->inputs[0] == tensor)
        lowest = std::min(lowest, static_cast<int>(a->zero_point));
  }
  return lowest;
}

void shift_zero_point(Rewriter& rewriter, Layer* product, size_t operand, int shift) {
  if (std::holds_alternative<ConvolutionAttrs>(product->attrs) && operand == 0)
    rewriter.attrs<ConvolutionAttrs>(product).zero_point += shift;
  if (product->kind != LayerKind::kMatrixMultiply) return;
  auto& a = rewriter.attrs<MatrixMultiplyAttrs>(product);
  (operand == 0 ? a.a_zero_point : a.b_zero_point) += shift;
}

Facts with_shifted_zero_points(Facts facts, int shift) {
  for (int32_t& zero : facts.zero_point) zero += shift;
  return facts;
}

void shift_codes(Rewriter& rewriter, const CodeGroup& group, int shift) {
  const CodeRange range = code_range(group[0]->type);
  for (Tensor* tensor : group) {
    shift_producer(rewriter, tensor->producer, range, shift);
    rewriter.set_type(tensor, DataType::kUInt8);
    rewriter.set_facts(tensor, with_shifted_zero_points(tensor->facts, shift));
  }
  for (Tensor* tensor : group) {
    std::vector<Layer*> readers = tensor->consumers;
    std::sort(readers.begin(), readers.end());
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    for (Layer* reader : readers) shift_reader(rewriter, reader, tensor, shift);
  }
}

}  // namespace camshaft::passes
