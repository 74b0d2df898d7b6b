// SPDX-License-Identifier: Apache-2.0
// Shape inference: symbols and numbers agree, values are followed, contradictions are refused.
#include "ir/infer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ir/infer_internal.h"
#include "ir/verify_shapes.h"

namespace camshaft::ir {
namespace {

// Evaluates `dim` with its one input bound to `value`.
int64_t at(const SymbolTable& symbols, Dim dim, Dim input, int64_t value) {
  std::vector<int64_t> bindings(symbols.size());
  std::vector<bool> bound(symbols.size());
  bindings[input.symbol_id()] = value;
  bound[input.symbol_id()] = true;
  symbols.evaluate_all(bindings, bound);
  return symbols.evaluate(dim, bindings);
}

TEST(Infer, WindowsOnSymbolsAndNumbersAgree) {
  SymbolTable symbols;
  const Dim n = symbols.input("n");
  for (PaddingMode mode : {PaddingMode::kExplicit, PaddingMode::kExplicitRoundUp,
                           PaddingMode::kSameUpper, PaddingMode::kSameLower})
    for (int64_t kernel : {1, 2, 3, 5})
      for (int64_t stride : {1, 2, 3})
        for (int64_t dilation : {1, 2})
          for (int64_t pre : {0, 1, 2})
            for (int64_t post : {0, 1}) {
              const Dim output =
                  window_output(mode, n, kernel, stride, dilation, pre, post, symbols);
              for (int64_t input = (kernel - 1) * dilation + 1; input < 24; ++input)
                ASSERT_EQ(at(symbols, output, n, input),
                          resolve_window(mode, input, kernel, stride, dilation, pre, post).output)
                    << symbols.to_string(output) << " input " << input << " kernel " << kernel
                    << " stride " << stride << " pre " << pre;
            }
}

TEST(Infer, SameWindowsCoverTheInput) {
  for (int64_t input = 1; input < 30; ++input)
    for (int64_t kernel : {1, 2, 3, 4})
      for (int64_t stride : {1, 2, 3}) {
        const Window upper =
            resolve_window(PaddingMode::kSameUpper, input, kernel, stride, 1, 0, 0);
        const Window lower =
            resolve_window(PaddingMode::kSameLower, input, kernel, stride, 1, 0, 0);
        EXPECT_EQ(upper.output, (input + stride - 1) / stride);
        EXPECT_EQ(upper.pre_padding, lower.post_padding);
        EXPECT_LE(upper.post_padding - upper.pre_padding, 1);
        EXPECT_EQ(resolve_window(PaddingMode::kExplicit, input, kernel, stride, 1,
                                 upper.pre_padding, upper.post_padding)
                      .output,
                  upper.output);
      }
}

// numpy's rules, written as they are documented.
SliceRange slice_numbers(int64_t extent, int64_t start, int64_t end, int64_t step) {
  const auto clamp = [&](int64_t position, int64_t low, int64_t high) {
    return std::clamp(position < 0 ? position + extent : position, low, high);
  };
  const int64_t first = step > 0 ? clamp(start, 0, extent) : clamp(start, -1, extent - 1);
  const int64_t last = step > 0 ? clamp(end, 0, extent) : clamp(end, -1, extent - 1);
  int64_t count = 0;
  for (int64_t at = first; step > 0 ? at < last : at > last; at += step) ++count;
  return {Dim(std::max<int64_t>(first, 0)), Dim(count)};
}

TEST(Infer, SlicesOnSymbolsAndNumbersAgree) {
  SymbolTable symbols;
  const Dim n = symbols.input("n");
  for (int64_t start : {-7, -2, -1, 0, 1, 3, 8})
    for (int64_t end : {-9, -3, -1, 0, 2, 5, 9})
      for (int64_t step : {1, 2, 3, -1, -2}) {
        const auto symbolic =
            resolve_slice(n, symbols.constant(start), symbols.constant(end), step, symbols);
        ASSERT_TRUE(symbolic);
        for (int64_t extent = 0; extent < 9; ++extent) {
          const SliceRange wanted = slice_numbers(extent, start, end, step);
          const auto numbers =
              resolve_slice(extent, symbols.constant(start), symbols.constant(end), step, symbols);
          ASSERT_TRUE(numbers);
          ASSERT_EQ(numbers->size, wanted.size)
              << extent << "[" << start << ":" << end << ":" << step << "]";
          ASSERT_EQ(at(symbols, symbolic->size, n, extent), wanted.size.extent())
              << extent << "[" << start << ":" << end << ":" << step << "]";
          if (wanted.size.extent() > 0) {
            ASSERT_EQ(at(symbols, symbolic->start, n, extent), wanted.start.extent());
          }
        }
      }
}

TEST(Infer, SlicesToTheEndKeepTheSymbol) {
  SymbolTable symbols;
  const Dim n = symbols.input("n");
  EXPECT_EQ(resolve_slice(n, 0, INT64_MAX, 1, symbols)->size, n);
  EXPECT_EQ(resolve_slice(n, 0, INT32_MAX, 1, symbols)->size, n);
  EXPECT_EQ(resolve_slice(n, symbols.constant(-1), symbols.constant(INT64_MIN), -1, symbols)->size,
            n);
}

TEST(Infer, SlicesFromPositionsOfEitherSign) {
  SymbolTable symbols;
  const Dim n = symbols.input("n"), position = symbols.sub(n, 4);
  for (int64_t step : {1, 2, -1}) {
    const auto symbolic = resolve_slice(n, position, step > 0 ? n : Dim(0), step, symbols);
    ASSERT_TRUE(symbolic);
    for (int64_t extent = 0; extent < 9; ++extent)
      EXPECT_EQ(at(symbols, symbolic->size, n, extent),
                slice_numbers(extent, extent - 4, step > 0 ? extent : 0, step).size.extent())
          << extent << " step " << step;
  }
}

TEST(Infer, ReshapeRules) {
  SymbolTable symbols;
  const Dim n = symbols.input("n"), minus = symbols.constant(-1);
  const Shape x = {n, Dim(4), Dim(6)};
  const auto reshape = [&](std::vector<Dim> wanted, bool allow_zero = false) {
    return resolve_reshape(x, wanted, allow_zero, symbols);
  };
  EXPECT_EQ(reshape({0, minus}).value(), (Shape{n, Dim(24)}));
  EXPECT_EQ(reshape({minus, 3}).value(), (Shape{symbols.mul(n, 8), Dim(3)}));
  EXPECT_EQ(reshape({minus, n}).value(), (Shape{Dim(24), n}));
  EXPECT_FALSE(reshape({minus, minus}).ok());
  EXPECT_FALSE(resolve_reshape(Shape{Dim(5)}, std::vector<Dim>{minus, 2}, false, symbols).ok());
  EXPECT_FALSE(resolve_reshape(Shape{Dim(5)}, std::vector<Dim>{4}, false, symbols).ok());
  EXPECT_FALSE(resolve_reshape(Shape{Dim(5)}, std::vector<Dim>{1, 0}, false, symbols).ok());
  EXPECT_EQ(resolve_reshape(Shape{Dim(0), Dim(5)}, std::vector<Dim>{0, 7}, true, symbols).value(),
            (Shape{Dim(0), Dim(7)}));
}

// --- whole layers

struct LayerCase {
  Layer layer;
  std::vector<InferInput> inputs;
  SymbolTable symbols;

  LayerCase(LayerKind kind, Attrs attrs) {
    layer.kind = kind;
    layer.name = "layer";
    layer.attrs = std::move(attrs);
  }
  LayerCase& input(DataType type, const Shape& shape,
                   std::optional<std::vector<Dim>> value = std::nullopt) {
    InferInput given;
    given.present = true;
    given.type = type;
    given.shape = shape;
    given.value = std::move(value);
    inputs.push_back(std::move(given));
    return *this;
  }
  Result<std::vector<InferOutput>> run() { return infer(layer, inputs, symbols); }
};

TEST(Infer, ValuesThroughTwoDimensions) {
  // pads as PyTorch exports them: reshape to pairs, reverse, transpose, flatten.
  LayerCase reverse(LayerKind::kSlice,
                    SliceAttrs{Shape{Dim(1), Dim(0)}, Shape{Dim(2), Dim(2)}, {-1, 1}});
  const auto reversed =
      reverse.input(DataType::kInt64, {2, 2}, std::vector<Dim>{0, 64, 0, 7}).run();
  ASSERT_TRUE(reversed.ok()) << reversed.status().message();
  EXPECT_EQ(reversed.value()[0].value, (std::vector<Dim>{0, 7, 0, 64}));
  ShuffleAttrs transpose;
  transpose.first_transpose = {1, 0};
  const auto transposed = LayerCase(LayerKind::kShuffle, transpose)
                              .input(DataType::kInt64, {2, 2}, reversed.value()[0].value)
                              .run();
  EXPECT_EQ(transposed.value()[0].value, (std::vector<Dim>{0, 0, 7, 64}));
}

TEST(Infer, ComparisonsThatSymbolsProve) {
  LayerCase equal(LayerKind::kElementWise, PointOpAttrs{PointOp::kEqual});
  const Dim n = equal.symbols.input("n");
  equal.input(DataType::kInt64, {3}, std::vector<Dim>{n, equal.symbols.add(n, 1), 4})
      .input(DataType::kInt64, {3}, std::vector<Dim>{n, 0, 5});
  EXPECT_EQ(equal.run().value()[0].value, (std::vector<Dim>{1, 0, 0}));
  equal.inputs[1].value = std::vector<Dim>{1, 0, 0};  // n may be 1
  const auto value = equal.run().value()[0].value;
  ASSERT_TRUE(value);
  for (int64_t extent : {0, 1, 2, 7})
    EXPECT_EQ(at(equal.symbols, (*value)[0], n, extent), extent == 1);
}

// Integer operators on symbols give what they give on numbers, whatever the signs.
TEST(Infer, OperatorsOnSymbolsAndNumbersAgree) {
  SymbolTable symbols;
  const Dim n = symbols.input("n");
  for (PointOp op : {PointOp::kDiv, PointOp::kMod, PointOp::kFmod, PointOp::kEqual, PointOp::kLess,
                     PointOp::kLessOrEqual, PointOp::kGreater, PointOp::kGreaterOrEqual})
    for (int64_t b : {-3, -2, -1, 1, 2, 5}) {
      const Dim shifted = symbols.sub(n, 6), right = symbols.constant(b);
      const auto symbolic = evaluate_symbolic(op, false, shifted, right, symbols);
      if (op == PointOp::kMod || op == PointOp::kFmod) {
        if (b < 0) continue;  // not followed
      }
      ASSERT_TRUE(symbolic) << enum_name(op) << " " << b;
      for (int64_t extent = 0; extent < 14; ++extent) {
        const int64_t a = extent - 6;
        const int64_t wanted = op == PointOp::kDiv           ? a / b
                               : op == PointOp::kMod         ? (a % b + b) % b
                               : op == PointOp::kFmod        ? a % b
                               : op == PointOp::kEqual       ? a == b
                               : op == PointOp::kLess        ? a < b
                               : op == PointOp::kLessOrEqual ? a <= b
                               : op == PointOp::kGreater     ? a > b
                                                             : a >= b;
        EXPECT_EQ(at(symbols, *symbolic, n, extent), wanted)
            << a << " " << enum_name(op) << " " << b;
      }
    }
}

TEST(Infer, ChoicesThatSymbolsDecide) {
  LayerCase select(LayerKind::kSelect, NoAttrs{});
  const Dim n = select.symbols.input("n");
  const Dim is_long = *evaluate_symbolic(PointOp::kGreater, false, n, 8, select.symbols);
  select.input(DataType::kBool, {2}, std::vector<Dim>{is_long, 1})
      .input(DataType::kInt64, {2}, std::vector<Dim>{n, n})
      .input(DataType::kInt64, {1}, std::vector<Dim>{8});
  const auto value = select.run().value()[0].value;
  ASSERT_TRUE(value);
  EXPECT_EQ((*value)[1], n);
  for (int64_t extent : {0, 8, 9, 30})
    EXPECT_EQ(at(select.symbols, (*value)[0], n, extent), extent > 8 ? extent : 8);
}

TEST(Infer, RefusesAbsurdOutputs) {
  LayerCase fill(
      LayerKind::kFill,
      FillAttrs{DataType::kFloat, 0, true, Shape{Dim(INT32_MAX), Dim(INT32_MAX), Dim(INT32_MAX)}});
  EXPECT_NE(fill.run().status().message().find("too large"), std::string::npos);
  LayerCase pad(LayerKind::kPad, PadAttrs{PadMode::kConstant, {-3}, {-3}, 0});
  EXPECT_NE(pad.input(DataType::kFloat, {5}).run().status().message().find("would have shape [-1]"),
            std::string::npos);
}

TEST(Infer, RangesOfFloatsSubtractAsFloats) {
  const auto graph = parse_graph(R"ir(graph "g" {
    constant start: float[] = [0.1]
    constant limit: float[] = [-7.9]
    constant delta: float[] = [-4]
    constant end: float[] = [-8]
    a: float[2] = Range(start, limit, delta)
    b: float[3] = Range(start, end, delta)
    output a, b
  })ir");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const Status status = verify_shapes(*graph.value(), false);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Infer, PoolingWithAnEpilogueHasItsExtentsAndNoKnownRange) {
  PoolingAttrs attrs;
  attrs.global = true;
  attrs.epilogue = {2, {{PointOp::kSub, 0, 1}}};
  LayerCase pooling(LayerKind::kPooling, attrs);
  const auto made =
      pooling.input(DataType::kFloat, {1, 4, 8}).input(DataType::kFloat, {1, 4, 1}).run();
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ((*made)[0].shape, (Shape{1, 4, 1}));
  Tensor x, y;
  x.type = y.type = DataType::kFloat;
  x.facts.minimum = 0, x.facts.maximum = 6;
  Layer layer;
  layer.kind = LayerKind::kPooling;
  layer.inputs = {&x, &x}, layer.outputs = {&y};
  layer.attrs = PoolingAttrs();
  infer_ranges(layer);
  EXPECT_EQ(y.facts.maximum, 6);
  layer.attrs = attrs;
  infer_ranges(layer);
  EXPECT_GT(y.facts.maximum, 6);
  EXPECT_LT(y.facts.minimum, 0);
}

TEST(Infer, UnknownRanksPassThrough) {
  LayerCase add(LayerKind::kElementWise, PointOpAttrs{PointOp::kAdd});
  add.input(DataType::kFloat, {}).input(DataType::kFloat, {2});
  add.inputs[0].has_rank = false;
  EXPECT_FALSE(add.run().value()[0].has_rank);
  ConvolutionAttrs conv;
  conv.kernel = {3};
  conv.stride = conv.dilation = {1};
  conv.pre_padding = conv.post_padding = {0};
  LayerCase convolution(LayerKind::kConvolution, conv);
  convolution.input(DataType::kFloat, {}).input(DataType::kFloat, {8, 4, 3});
  convolution.inputs[0].has_rank = false;
  EXPECT_EQ(convolution.run().value()[0].shape[1], Dim(8));
}

}  // namespace
}  // namespace camshaft::ir
