// SPDX-License-Identifier: Apache-2.0
#include "onnx/input_types.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "ir/types.h"
#include "onnx/errors.h"

namespace camshaft::onnx_import {
namespace {

using ir::Tensor;

// Inputs with the same letter have one type, in every version of the operator that has both; those
// with a dot have any. A star: so have all further inputs.
struct InputTypes {
  std::string_view op_type, letters;
};

// From the type constraints of the ONNX operator schemas, opset 1 to 28. In alphabetical order.
constexpr InputTypes kInputTypes[] = {
    {"Add", "AA"},
    {"And", "AA"},
    {"Attention", "AAB.AB."},
    {"BatchNormalization", ".BBCC"},
    {"BitShift", "AA"},
    {"BitwiseAnd", "AA"},
    {"BitwiseOr", "AA"},
    {"BitwiseXor", "AA"},
    {"CausalConvWithState", "AAAA"},
    {"Clip", "AAA"},
    {"Col2Im", ".BB"},
    {"Concat", "A*"},
    {"Conv", "AAA"},
    {"ConvInteger", "ABAB"},
    {"ConvTranspose", "AAA"},
    {"DeformConv", "AAAAA"},
    {"DequantizeLinear", "A.A"},
    {"Div", "AA"},
    {"Einsum", "A*"},
    {"Equal", "AA"},
    {"GRU", "AAAA.A"},
    {"Gemm", "AAA"},
    {"Greater", "AA"},
    {"GreaterOrEqual", "AA"},
    {"GroupNormalization", "AAA"},
    {"InstanceNormalization", "AAA"},
    {"LSTM", "AAAA.AAA"},
    {"LayerNormalization", "AAA"},
    {"Less", "AA"},
    {"LessOrEqual", "AA"},
    {"LinearAttention", "AAA.AA"},
    {"MatMul", "AA"},
    {"MatMulInteger", "ABAB"},
    {"Max", "A*"},
    {"MaxRoiPool", "AA"},
    {"MaxUnpool", ".BB"},
    {"Mean", "A*"},
    {"MelWeightMatrix", "AAABB"},
    {"Min", "A*"},
    {"Mod", "AA"},
    {"Mul", "AA"},
    {"NegativeLogLikelihoodLoss", "A.A"},
    {"NonMaxSuppression", "AA.AA"},
    {"Or", "AA"},
    {"PRelu", "AA"},
    {"Pad", "A.A."},
    {"QLinearConv", "ABACBCB.."},
    {"QLinearMatMul", "ABACBCB."},
    {"RNN", "AAAA.A"},
    {"Range", "AAA"},
    {"RoiAlign", "AA."},
    {"RotaryEmbedding", "AAA."},
    {"STFT", "ABAB"},
    {"Scatter", "A.A"},
    {"ScatterElements", "A.A"},
    {"ScatterND", "A.A"},
    {"Slice", ".BBBB"},
    {"SoftmaxCrossEntropyLoss", "A.A"},
    {"StringConcat", "AA"},
    {"Sub", "AA"},
    {"Sum", "A*"},
    {"SwiGLU", "AA"},
    {"TensorScatter", "AA."},
    {"Where", ".BB"},
    {"Xor", "AA"},
};

std::string_view letters_of(std::string_view op_type) {
  const auto* found = std::lower_bound(
      std::begin(kInputTypes), std::end(kInputTypes), op_type,
      [](const InputTypes& row, std::string_view name) { return row.op_type < name; });
  return found != std::end(kInputTypes) && found->op_type == op_type ? found->letters : "";
}

// Of input k; a dot for what is not in the table.
char letter_of(std::string_view letters, size_t k) {
  if (letters.ends_with('*')) return letters[std::min(k, letters.size() - 2)];
  return k < letters.size() ? letters[k] : '.';
}

}  // namespace

Status check_input_types(std::string_view op_type, std::span<const Tensor* const> inputs) {
  const std::string_view letters = letters_of(op_type);
  std::map<char, const Tensor*> firsts;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const char letter = letter_of(letters, k);
    if (!inputs[k] || inputs[k]->type == DataType::kUndefined || letter == '.') continue;
    const Tensor* first = firsts.emplace(letter, inputs[k]).first->second;
    if (first->type != inputs[k]->type)
      return invalid("inputs \"{}\" and \"{}\" have different types: {} and {}", first->name,
                     inputs[k]->name, ir::type_name(first->type), ir::type_name(inputs[k]->type));
  }
  return ok_status();
}

}  // namespace camshaft::onnx_import
