// SPDX-License-Identifier: Apache-2.0
// What folds, and that what is folded computes what the program says.
#include "kernels/epilogue/folded_epilogue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace camshaft::kernels {
namespace {

constexpr int64_t kChannels = 3;

// A quantized convolution's problem: operand v1 is a constant per channel, v2 a constant, v3 a
// tensor as large as the output.
struct Case {
  ir::Layer layer;
  Problem problem;
  std::vector<float> per_channel{0.031F, 0.5F, 2.25F}, single{0.7F};
  std::vector<int32_t> bias{-70, 0, 1234};
  std::vector<std::shared_ptr<const ir::ConstantData>> constants;

  template <class T>
  void add(DataType type, ir::Extents extents, const std::vector<T>* values) {
    ProblemTensor tensor{true, type, ir::Format::kLinear, std::move(extents)};
    if (values) {
      std::vector<std::byte> bytes(values->size() * sizeof(T));
      std::memcpy(bytes.data(), values->data(), bytes.size());
      constants.push_back(ir::make_constant(std::move(bytes)));
      tensor.constant = constants.back().get();
    }
    problem.inputs.push_back(tensor);
  }

  Case(const char* program, DataType out) {
    ir::ConvolutionAttrs attrs;
    attrs.epilogue = ir::parse_program(4, program).value();
    layer.kind = ir::LayerKind::kConvolution;
    layer.attrs = attrs;
    problem.layer = &layer;
    add<uint8_t>(DataType::kUInt8, {1, kChannels, 4, 5}, nullptr);
    add<int8_t>(DataType::kInt8, {kChannels, 1, 3, 3}, nullptr);
    add(DataType::kInt32, {kChannels}, &bias);
    add(DataType::kFloat, {1, kChannels, 1, 1}, &per_channel);
    add(DataType::kFloat, {}, &single);
    add<float>(DataType::kFloat, {1, kChannels, 4, 5}, nullptr);
    problem.outputs.push_back({true, out, ir::Format::kLinear, {1, kChannels, 4, 5}});
  }

  double run(double sum, size_t c) const {
    const ir::Program& program = std::get_if<ir::ConvolutionAttrs>(&layer.attrs)->epilogue;
    std::vector<double> values = {sum, static_cast<double>(per_channel[c]),
                                  static_cast<double>(single[0]), NAN};
    for (const ir::Instruction& code : program.code) {
      const auto at = [&values](int k) { return k < 0 ? 0.0 : values[static_cast<size_t>(k)]; };
      values.push_back(ir::evaluate_point_op(code.op, at(code.a), at(code.b), at(code.c),
                                             static_cast<double>(code.x),
                                             static_cast<double>(code.y)));
    }
    return values.back();
  }
};

double clamp_to(double v, double low, double high) {
  return std::min(high, std::max(low, v));
}

// As the kernels do it.
double folded_value(const FoldedEpilogue& folded, double sum, size_t c) {
  const FoldedHeader& header = folded.header;
  double v =
      sum * static_cast<double>(folded.multipliers[c]) + static_cast<double>(folded.addends[c]);
  if (header.is_gated != 0) {
    const Gate& gate = header.gate;
    const double factor =
        clamp_to(v * static_cast<double>(gate.scale) + static_cast<double>(gate.shift),
                 static_cast<double>(gate.low), static_cast<double>(gate.high));
    v = v * factor * static_cast<double>(header.scale) + static_cast<double>(header.shift);
  }
  return clamp_to(v, static_cast<double>(header.low), static_cast<double>(header.high));
}

void expect_folds(const char* text, DataType out, Bias bias, bool has_table = false) {
  const Case made(text, out);
  FoldedEpilogue folded;
  fold_epilogue(made.problem, bias, folded);
  ASSERT_EQ(folded.header.is_folded, 1) << text;
  ASSERT_EQ(folded.header.has_table != 0, has_table) << text;
  for (size_t c = 0; c < kChannels; ++c)
    for (double sum = -900; sum < 900; sum += 7.3) {
      const double biased = bias == Bias::kInSum ? sum : sum + made.bias[c];
      double expected = made.run(biased, c), got = folded_value(folded, sum, c);
      double tolerance = 1e-5 * (1 + std::abs(expected));
      if (out == DataType::kUInt8) {
        expected = clamp_to(std::nearbyint(expected), 0, 255);
        got = std::nearbyint(got) + folded.header.after;
        tolerance = 0;
        // At a tie either neighbour is right.
        const double before = folded_value(folded, sum, c);
        const bool is_tie = std::abs(before - std::floor(before) - 0.5) < 1e-4;
        if (is_tie && has_table) continue;
        if (is_tie) tolerance = 1;
        if (has_table) got = folded.table[static_cast<size_t>(got)];
      }
      EXPECT_NEAR(got, expected, tolerance) << text << " of " << sum << ", channel " << c;
    }
}

TEST(FoldedEpilogue, IsWhatTheProgramSays) {
  for (Bias bias : {Bias::kInSum, Bias::kInAddend}) {
    for (const char* text :
         {"v4 = mul v0 v1", "v4 = mul v1 v0; v5 = relu v4", "v4 = div v0 v1; v5 = clip v4 -1 6",
          "v4 = fma v0 v1 v2; v5 = neg v4", "v4 = relu v0; v5 = mul v4 v1",
          "v4 = mul v0 v1; v5 = hard_swish v4", "v4 = sub v2 v0; v5 = max v4 v2",
          "v4 = mul v0 v1; v5 = hard_swish v4; v6 = mul v5 v2; v7 = clip v6 -2 9"})
      expect_folds(text, DataType::kFloat, bias);
    for (const char* text :
         {"v4 = mul v0 v1; v5 = round v4; v6 = const 12; v7 = add v5 v6; v8 = clip v7 0 255",
          "v4 = mul v0 v1; v5 = relu v4; v6 = div v5 v2; v7 = round v6; v8 = clip v7 0 255",
          "v4 = mul v0 v1; v5 = hard_swish v4; v6 = div v5 v2; v7 = const 3; v8 = add v6 v7; v9 = "
          "round v8; v10 = clip v9 0 255"})
      expect_folds(text, DataType::kUInt8, bias);
    for (const char* text :
         {"v4 = mul v0 v1; v5 = round v4; v6 = const 12; v7 = add v5 v6; v8 = clip v7 0 255; "
          "v9 = sigmoid v8; v10 = mul v8 v9",
          "v4 = div v0 v2; v5 = round v4; v6 = clip v5 -128 127; v7 = leaky_relu v6 0.1; "
          "v8 = const 40; v9 = add v7 v8"})
      expect_folds(text, DataType::kUInt8, bias, true);
  }
}

TEST(FoldedEpilogue, NothingElse) {
  for (const char* text :
       {"v4 = add v0 v3", "v4 = leaky_relu v0 0.1", "v4 = mul v0 v1; v5 = silu v4 1",
        "v4 = mul v0 v0", "v4 = mul v0 v2; v5 = round v4; v6 = mul v5 v2",
        "v4 = clip v0 -1 6; v5 = mul v4 v1", "v4 = hard_swish v0; v5 = hard_swish v4",
        "v4 = relu v0; v5 = hard_swish v4"}) {
    const Case made(text, DataType::kFloat);
    EXPECT_FALSE(is_epilogue_folded(made.problem)) << text;
  }
  const Case bytes("v4 = mul v0 v1", DataType::kInt8);
  EXPECT_FALSE(is_epilogue_folded(bytes.problem));
}

// A loaded engine keeps packed constants nowhere else.
TEST(FoldedEpilogue, ConstantsThatAreGoneAreNone) {
  Case made("v4 = mul v0 v1", DataType::kFloat);
  const ir::ConstantData gone;
  made.problem.inputs[3].constant = &gone;
  EXPECT_FALSE(is_epilogue_folded(made.problem));
}

}  // namespace
}  // namespace camshaft::kernels
