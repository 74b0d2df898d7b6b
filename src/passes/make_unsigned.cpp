// SPDX-License-Identifier: Apache-2.0
// SignedToUnsigned: kernels multiply uint8 activations by int8 weights, so int8 activations become
// uint8: codes and zero points move by as much as the program that makes them gives negative codes
// (not at all after a ReLU, a little after a SiLU), at most by 128. Small codes are wanted: what
// can be multiplied without saturating depends on them. Tensors that layers only move, choose from
// or put together change as one group; where a group meets the network's own int8 tensors or a
// layer that reads integers, a product gets a converted copy. Bit exact.
#include <algorithm>
#include <cmath>
#include <map>

#include "passes/expression.h"
#include "passes/intervals.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/quantization.h"

namespace camshaft::passes {

using namespace ir;

namespace {

constexpr int kShift = 128;

bool moves_codes(const Layer& layer) {
  return commutes_with_quantization(layer) || layer.kind == LayerKind::kConcatenation;
}

bool is_product(const Layer& layer) {
  return layer.kind == LayerKind::kConvolution || layer.kind == LayerKind::kDeconvolution ||
         layer.kind == LayerKind::kMatrixMultiply;
}

// The shift that makes all of a layer's codes at least 0, from the values its program can give.
int shift_of(const Layer& layer) {
  const double low = std::nearbyint(result_interval(layer).low);
  return low >= 0 ? 0 : low > -kShift ? static_cast<int>(-low) : kShift;
}

// --- groups of tensors that change together

class Groups {
 public:
  explicit Groups(const Graph& graph) {
    for (const auto& tensor : graph.tensors())
      if (tensor->type == DataType::kInt8 && !tensor->is_constant() &&
          (tensor->producer || !tensor->consumers.empty()))
        parent_[tensor.get()] = tensor.get();
    for (const auto& layer : graph.layers())
      if (moves_codes(*layer)) join(*layer);
  }

  // Members in the order of the graph's tensors.
  std::vector<std::vector<Tensor*>> list(const Graph& graph) {
    std::map<Tensor*, size_t> index;
    std::vector<std::vector<Tensor*>> groups;
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
    const size_t count = layer.kind == LayerKind::kConcatenation ? layer.inputs.size() : 1;
    for (size_t k = 0; k < count; ++k)
      if (parent_.contains(layer.inputs[k])) parent_[root(layer.inputs[k])] = root(result);
  }
  std::map<Tensor*, Tensor*> parent_;
};

bool makes_program_result(const Layer& layer) {
  return layer.kind == LayerKind::kPointWise || (is_product(layer) && makes_codes(layer));
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
  if (layer.kind == LayerKind::kPooling) return true;
  if (layer.kind == LayerKind::kConcatenation) return true;
  if (!commutes_with_quantization(layer)) return false;
  return std::count(layer.inputs.begin(), layer.inputs.end(), tensor) == 1 &&
         layer.inputs[0] == tensor;
}

bool can_change(const Graph& graph, const std::vector<Tensor*>& group) {
  return std::all_of(group.begin(), group.end(), [&](const Tensor* tensor) {
    if (!tensor->producer || graph.is_output(tensor)) return false;
    if (!makes_program_result(*tensor->producer) && !moves_codes(*tensor->producer)) return false;
    return std::all_of(tensor->consumers.begin(), tensor->consumers.end(),
                       [&](const Layer* reader) { return reads_codes(*reader, tensor); });
  });
}

// --- the change

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

void shift_result(Layer& layer, int shift) {
  Program& program = *program_of(layer);
  if (program.empty()) append(program, PointOp::kIdentity, 0);
  // Whole bounds commute with the store's rounding.
  if (shift < kShift)
    append(program, PointOp::kClip, program.result(), -1, -1, static_cast<float>(-shift), 127);
  if (shift > 0) {
    const int rounded = append(program, PointOp::kRound, program.result());
    append(program, PointOp::kAdd, rounded,
           append(program, PointOp::kConst, -1, -1, -1, static_cast<float>(shift)));
  }
  program = without_saturation(simplify(program), DataType::kUInt8);
  if (auto* a = std::get_if<PointWiseAttrs>(&layer.attrs)) a->type = DataType::kUInt8;
  if (auto* a = std::get_if<ConvolutionAttrs>(&layer.attrs)) a->type = DataType::kUInt8;
  if (auto* a = std::get_if<MatrixMultiplyAttrs>(&layer.attrs)) a->type = DataType::kUInt8;
}

Tensor* shifted_constant(Rewriter& rewriter, const Tensor& constant, int shift) {
  std::vector<std::byte> bytes(constant.constant->view.begin(), constant.constant->view.end());
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(static_cast<int8_t>(byte) + shift);
  return rewriter.add_constant(constant.name + " (unsigned)", DataType::kUInt8,
                               extents_of(constant.shape), std::move(bytes));
}

// The average of the codes is 128 higher: what reads it gets the old one back.
void shift_mean(Rewriter& rewriter, Layer* pooling, int shift) {
  Tensor* mean = pooling->outputs[0];
  if (mean->type != DataType::kFloat || shift == 0) return;
  Tensor* raw =
      rewriter.graph().add_tensor(mean->name + " (unsigned)", DataType::kFloat, mean->shape);
  raw->has_rank = mean->has_rank;
  const std::string name = pooling->name;
  Layer* made = rewriter.insert_before(pooling, LayerKind::kPooling, name, pooling->attrs,
                                       pooling->inputs, {raw}, {pooling});
  PointWiseAttrs attrs;
  attrs.program.num_inputs = 1;
  append(attrs.program, PointOp::kSub, 0,
         append(attrs.program, PointOp::kConst, -1, -1, -1, static_cast<float>(shift)));
  Layer* group[] = {pooling};
  rewriter.replace(group, LayerKind::kPointWise, attrs, {raw}, name + " (shift)");
  rewriter.graph().rename(made, name);
}

void shift_reader(Rewriter& rewriter, Layer* reader, const Tensor* tensor, int shift) {
  if (shift == 0) return;
  if (auto* a = std::get_if<ConvolutionAttrs>(&reader->attrs); a && reader->inputs[0] == tensor)
    a->zero_point += shift;
  if (auto* a = std::get_if<MatrixMultiplyAttrs>(&reader->attrs)) {
    if (reader->inputs[0] == tensor) a->a_zero_point += shift;
    if (reader->inputs[1] == tensor) a->b_zero_point += shift;
  }
  if (Program* program = program_of(*reader))
    for (size_t k = first_program_input(*reader); k < reader->inputs.size(); ++k)
      if (reader->inputs[k] == tensor) {
        const DataType type = reader->outputs[0]->type;
        *program = without_saturation(
            with_shifted_input(*program, program_value(*reader, k), shift), type);
      }
  if (reader->kind == LayerKind::kPooling) shift_mean(rewriter, reader, shift);
}

// The least shift a layer of a group needs.
int shift_of_result(const Layer& layer) {
  if (layer.kind == LayerKind::kConcatenation) {
    const bool has_constants = std::any_of(layer.inputs.begin(), layer.inputs.end(),
                                           [](const Tensor* t) { return t->is_constant(); });
    return has_constants ? kShift : 0;
  }
  if (const auto* pad = std::get_if<PadAttrs>(&layer.attrs)) return pad->value < 0 ? kShift : 0;
  return moves_codes(layer) ? 0 : shift_of(layer);
}

void change(Rewriter& rewriter, const std::vector<Tensor*>& group) {
  int shift = 0;
  for (const Tensor* tensor : group) shift = std::max(shift, shift_of_result(*tensor->producer));
  rewriter.applied(*group[0]->producer,
                   shift == 0 ? fmt::format("{} has no negative codes", group[0]->name)
                              : fmt::format("Moving the codes of {} by {}", group[0]->name, shift));
  for (Tensor* tensor : group) {
    Layer* producer = tensor->producer;
    if (!moves_codes(*producer)) shift_result(*producer, shift);
    if (auto* pad = std::get_if<PadAttrs>(&producer->attrs))
      pad->value += static_cast<float>(shift);
    if (producer->kind == LayerKind::kConcatenation)
      for (size_t k = 0; k < producer->inputs.size(); ++k)
        if (producer->inputs[k]->is_constant())
          rewriter.set_input(producer, k, shifted_constant(rewriter, *producer->inputs[k], shift));
    tensor->type = DataType::kUInt8;
    for (int32_t& zero : tensor->facts.zero_point) zero += shift;
  }
  for (Tensor* tensor : group) {
    std::vector<Layer*> readers = tensor->consumers;
    std::sort(readers.begin(), readers.end());
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    for (Layer* reader : readers) shift_reader(rewriter, reader, tensor, shift);
  }
}

// What must stay int8 is copied for the products that read it.
int convert_for_products(Rewriter& rewriter, const std::vector<Tensor*>& group) {
  int made = 0;
  for (Tensor* tensor : group) {
    Tensor* copy = nullptr;
    const std::vector<Layer*> readers = tensor->consumers;
    for (Layer* reader : readers) {
      if (!is_product(*reader)) continue;
      for (size_t k = 0; k < 2; ++k) {
        if (reader->inputs[k] != tensor || (k == 1 && reader->kind != LayerKind::kMatrixMultiply))
          continue;
        if (!copy) {
          PointWiseAttrs attrs;
          attrs.program.num_inputs = 1;
          append(attrs.program, PointOp::kAdd, 0,
                 append(attrs.program, PointOp::kConst, -1, -1, -1, kShift));
          attrs.type = DataType::kUInt8;
          copy = rewriter.graph().add_tensor(tensor->name + " (unsigned)", DataType::kUInt8,
                                             tensor->shape);
          copy->facts = tensor->facts;
          for (int32_t& zero : copy->facts.zero_point) zero += kShift;
          const Layer* before = *std::min_element(
              readers.begin(), readers.end(), [&](const Layer* a, const Layer* b) {
                return rewriter.graph().position(a) < rewriter.graph().position(b);
              });
          rewriter.insert_before(before, LayerKind::kPointWise, copy->name, attrs, {tensor}, {copy},
                                 {});
          ++made;
        }
        rewriter.set_input(reader, k, copy);
        if (auto* a = std::get_if<ConvolutionAttrs>(&reader->attrs)) a->zero_point += kShift;
        if (auto* a = std::get_if<MatrixMultiplyAttrs>(&reader->attrs))
          (k == 0 ? a->a_zero_point : a->b_zero_point) += kShift;
      }
    }
  }
  return made;
}

}  // namespace

int make_unsigned(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "SignedToUnsigned", records);
  int copies = 0;
  for (const std::vector<Tensor*>& group : Groups(graph).list(graph)) {
    if (can_change(graph, group))
      change(rewriter, group);
    else
      copies += convert_for_products(rewriter, group);
  }
  return rewriter.edits() + copies;
}

}  // namespace camshaft::passes
