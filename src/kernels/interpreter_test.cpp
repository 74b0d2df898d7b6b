// SPDX-License-Identifier: Apache-2.0
// Graphs in text form, evaluated: symbols, run-time parameters, dynamic extents, control flow,
// errors.
#include "kernels/interpreter.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/testing/graph_texts.h"

namespace camshaft::kernels {
namespace {

template <class T>
Value value_of(DataType type, const ir::Extents& extents, const std::vector<T>& elements) {
  std::vector<std::byte> bytes(elements.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), elements.data(), bytes.size());
  return make_value(type, extents, std::move(bytes)).value();
}
Value floats(const ir::Extents& extents, const std::vector<float>& elements) {
  return value_of(DataType::kFloat, extents, elements);
}
Value int64s(const ir::Extents& extents, const std::vector<int64_t>& elements) {
  return value_of(DataType::kInt64, extents, elements);
}

Result<std::vector<Value>> run(std::string_view text, std::vector<Value> inputs) {
  CAMSHAFT_ASSIGN(const std::unique_ptr<ir::Graph> graph, ir::parse_graph(text));
  CAMSHAFT_TRY(ir::verify(*graph));
  return evaluate(*graph, inputs);
}

void expect_output(const Result<std::vector<Value>>& outputs, const ir::Extents& extents,
                   const std::vector<double>& elements) {
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  EXPECT_EQ(outputs.value()[0].extents, extents);
  EXPECT_EQ(outputs.value()[0].to_doubles(), elements);
}

TEST(Interpreter, ConvolutionWithEpilogue) {
  const auto outputs = run(R"(graph "g" {
    input x: float[1, 1, 1, 4]
    constant w: float[2, 1, 1, 2] = [1, -1, 2, 0]
    constant b: float[2] = [0, 1]
    y: float[1, 2, 1, 3] = Convolution(x, w, b) {kernel=[1, 2], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0],
        post_padding=[0, 0], epilogue=<1: v1 = relu v0>}
    output y
  })",
                           {floats({1, 1, 1, 4}, {5, 1, 2, 7})});
  expect_output(outputs, {1, 2, 1, 3}, {4, 0, 0, 11, 3, 5});
}

// acc = (x - 3) · w + bias, padding adds nothing; y = round(acc * multiplier + addend) saturated.
TEST(Interpreter, QuantizedConvolution) {
  const auto outputs = run(R"(graph "g" {
    input x: uint8[1, 1, 1, 4]
    constant w: int8[2, 1, 1, 2] = [1, -1, 2, 0]
    constant b: int32[2] = [10, -1]
    constant multiplier: float[2, 1, 1] = [0.5, 100]
    constant addend: float[2, 1, 1] = [1, 0]
    y: uint8[1, 2, 1, 4] = Convolution(x, w, b, multiplier, addend) {kernel=[1, 2], stride=[1, 1], dilation=[1, 1],
        pre_padding=[0, 1], post_padding=[0, 0], zero_point=3, type=uint8, epilogue=<3: v3 = fma v0 v1 v2; v4 = relu v3>}
    output y
  })",
                           {value_of<uint8_t>(DataType::kUInt8, {1, 1, 1, 4}, {3, 4, 255, 5})});
  // Channel 0: 10 + {0-0, 0-1, 1-252, 252-2}; channel 1: -1 + 2 * {0, 0, 1, 252}.
  expect_output(outputs, {1, 2, 1, 4}, {6, 6, 0, 131, 0, 0, 100, 255});
}

TEST(Interpreter, QuantizedMatrixMultiply) {
  const auto outputs = run(R"(graph "g" {
    input a: uint8[1, 2]
    input b: int8[2, 2]
    constant scale: float[] = [0.5]
    y: float[1, 2] = MatrixMultiply(a, b, _, scale) {a_zero_point=128, b_zero_point=-1, epilogue=<2: v2 = mul v0 v1>}
    output y
  })",
                           {value_of<uint8_t>(DataType::kUInt8, {1, 2}, {128, 0}),
                            value_of<int8_t>(DataType::kInt8, {2, 2}, {5, 6, 0, -128})});
  expect_output(outputs, {1, 2}, {-64, 8128});
}

TEST(Interpreter, PointWiseOnCodes) {
  const auto outputs = run(R"(graph "g" {
    input a: uint8[4]
    input b: int8[4]
    y: int8[4] = PointWise(a, b) {type=int8, program=<2: v2 = add v0 v1; v3 = const 0.5; v4 = mul v2 v3>}
    output y
  })",
                           {value_of<uint8_t>(DataType::kUInt8, {4}, {255, 255, 0, 3}),
                            value_of<int8_t>(DataType::kInt8, {4}, {127, -120, -128, 0})});
  expect_output(outputs, {4}, {127, 68, -64, 2});
}

TEST(Interpreter, SymbolsAreBoundFromInputs) {
  constexpr std::string_view kText = R"(graph "g" {
    symbols n
    input x: float[n, 2]
    y: float[(n*2)] = Shuffle(x) {has_reshape=true, reshape=[(n*2)]}
    output y
  })";
  expect_output(run(kText, {floats({3, 2}, {1, 2, 3, 4, 5, 6})}), {6}, {1, 2, 3, 4, 5, 6});
  expect_output(run(kText, {floats({0, 2}, {})}), {0}, {});
  const auto wrong = run(kText, {floats({3, 3}, std::vector<float>(9))});
  EXPECT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.status().code(), ErrorCode::kInvalidArgument);
}

TEST(Interpreter, InputsMustAgreeOnASymbol) {
  const auto outputs = run(R"(graph "g" {
    symbols n
    input a: float[n]
    input b: float[n]
    y: float[n] = ElementWise(a, b) {op=add}
    output y
  })",
                           {floats({2}, {1, 2}), floats({3}, {1, 2, 3})});
  EXPECT_FALSE(outputs.ok());
}

TEST(Interpreter, NonZeroDecidesItsExtents) {
  expect_output(run(R"(graph "g" {
    input x: float[2, 3]
    y: int64[2, ?0found] = NonZero(x)
    output y
  })",
                    {floats({2, 3}, {0, 1, 0, 2, 0, 3})}),
                {2, 3}, {0, 1, 1, 1, 0, 2});
}

TEST(Interpreter, IndexOutOfRangeIsAnErrorWithTheLayersName) {
  const auto outputs = run(R"(graph "g" {
    input x: float[3]
    input k: int64[1]
    y: float[1] = Gather "pick"(x, k) {axis=0}
    output y
  })",
                           {floats({3}, {1, 2, 3}), int64s({1}, {3})});
  ASSERT_FALSE(outputs.ok());
  EXPECT_NE(outputs.status().message().find("'pick'"), std::string::npos)
      << outputs.status().message();
}

TEST(Interpreter, IntegerDivisionByZeroIsAnError) {
  EXPECT_FALSE(run(R"(graph "g" {
    input a: int64[1]
    input b: int64[1]
    y: int64[1] = ElementWise(a, b) {op=div}
    output y
  })",
                   {int64s({1}, {3}), int64s({1}, {0})})
                   .ok());
}

TEST(Interpreter, LoopCarriesCapturesAndStacks) {
  const Value yes = value_of<uint8_t>(DataType::kBool, {}, {1}),
              no = value_of<uint8_t>(DataType::kBool, {}, {0});
  const auto outputs = run(kSumLoop, {int64s({}, {3}), yes, floats({}, {1}), floats({}, {0.5})});
  expect_output(outputs, {}, {2.5});
  ASSERT_TRUE(outputs.ok());
  EXPECT_EQ(outputs.value()[1].to_doubles(), (std::vector<double>{1.5, 2, 2.5}));
  const auto none = run(kSumLoop, {int64s({}, {3}), no, floats({}, {1}), floats({}, {0.5})});
  expect_output(none, {}, {1});
  EXPECT_EQ(none.value()[1].extents, ir::Extents{0});
}

TEST(Interpreter, IfTakesOneBranch) {
  constexpr std::string_view kText = R"(graph "g" {
    input c: bool[]
    input x: float[2]
    y: float[2] = If(c, x)
    graph "then" { input a: float[2]  r: float[2] = Unary(a) {op=neg}  output r }
    graph "else" { input a: float[2]  r: float[2] = Unary(a) {op=abs}  output r }
    output y
  })";
  const Value x = floats({2}, {-1, 2});
  expect_output(run(kText, {value_of<uint8_t>(DataType::kBool, {}, {1}), x}), {2}, {1, -2});
  expect_output(run(kText, {value_of<uint8_t>(DataType::kBool, {}, {0}), x}), {2}, {1, 2});
}

TEST(Interpreter, ObserverSeesEveryLayer) {
  const auto graph = ir::parse_graph(R"(graph "g" {
    input x: float[2]
    a: float[2] = Unary(x) {op=neg}
    b: float[2] = Unary(a) {op=abs}
    output b
  })");
  ASSERT_TRUE(graph.ok());
  std::vector<std::string> seen;
  EvaluateOptions options;
  options.observer = [&](const ir::Layer& layer, std::span<const Value* const> outputs) {
    seen.push_back(layer.name);
    EXPECT_EQ(outputs.size(), 1u);
  };
  const Value x = floats({2}, {1, -2});
  ASSERT_TRUE(evaluate(*graph.value(), std::span(&x, 1), options).ok());
  EXPECT_EQ(seen, (std::vector<std::string>{"a", "b"}));
}

TEST(Interpreter, WrongNumberOfBytesIsRefused) {
  EXPECT_FALSE(make_value(DataType::kFloat, {2}, std::vector<std::byte>(7)).ok());
  EXPECT_TRUE(make_value(DataType::kInt4, {3}, std::vector<std::byte>(2)).ok());
}

}  // namespace
}  // namespace camshaft::kernels
