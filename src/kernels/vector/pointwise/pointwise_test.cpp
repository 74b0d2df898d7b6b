// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels {
namespace {

using ir::Instruction;
using ir::LayerKind;
using ir::PointOp;
using test::check_layer;
using test::make_layer;
using test::TestLayer;
using test::TestTensor;

TestTensor floats(ir::Extents extents) {
  return {.extents = extents};
}
TestTensor bools(ir::Extents extents) {
  return {.extents = extents, .type = DataType::kBool};
}

Instruction instruction(PointOp op) {
  switch (op) {
    case PointOp::kSelu:
      return {op, 0, -1, -1, 1.6732632f, 1.0507010f};
    case PointOp::kClip:
      return {op, 0, -1, -1, -0.5f, 1.25f};
    case PointOp::kIsInf:
      return {op, 0, -1, -1, 1, 1};
    case PointOp::kHardSigmoid:
      return {op, 0, -1, -1, 0.2f, 0.5f};
    case PointOp::kLeakyRelu:
      return {op, 0, -1, -1, 0.01f, 0};
    default:
      return {op, 0, -1, -1, 1, 0.5f};
  }
}

bool is_integer_only(PointOp op) {
  return op >= PointOp::kBitAnd && op <= PointOp::kShiftRight;
}

// Every operator as a layer of its own, with tails.
TEST(Pointwise, EveryOperator) {
  for (int k = 0; k < ir::kPointOpCount; ++k) {
    const auto op = static_cast<PointOp>(k);
    if (is_integer_only(op)) continue;
    const ir::Extents shape = {2, 5, 3, 7};
    const DataType out = ir::gives_bool(op) ? DataType::kBool : DataType::kFloat;
    const Instruction literals = instruction(op);
    const bool logic =
        op == PointOp::kNot || op == PointOp::kAnd || op == PointOp::kOr || op == PointOp::kXor;
    const TestTensor in = logic ? bools(shape) : floats(shape);
    const ir::PointOpAttrs attrs{op, literals.x, literals.y};
    TestLayer layer{.layer = {}, .inputs = {in}, .outputs = {{.extents = shape, .type = out}}};
    switch (ir::arity(op)) {
      case 1:
        layer.layer = make_layer(LayerKind::kUnary, attrs);
        break;
      case 2:
        layer.layer = make_layer(LayerKind::kElementWise, attrs), layer.inputs.push_back(in);
        break;
      case 3:
        if (op != PointOp::kSelect) continue;
        layer.layer = make_layer(LayerKind::kSelect, attrs);
        layer.inputs = {bools(shape), in, in};
        break;
      default:
        continue;
    }
    check_layer(layer, std::string(ir::point_op_name(op)));
  }
}

TEST(Pointwise, Broadcasts) {
  const ir::Extents shapes[][3] = {
      {{2, 5, 3, 7}, {5, 1, 1}, {2, 5, 3, 7}},
      {{2, 5, 3, 7}, {}, {2, 5, 3, 7}},
      {{2, 5, 3, 7}, {7}, {2, 5, 3, 7}},
      {{2, 1, 3, 7}, {5, 1, 7}, {2, 5, 3, 7}},
      {{1, 40, 1, 1}, {2, 40, 9, 11}, {2, 40, 9, 11}},
      {{3, 1}, {1, 4}, {3, 4}},
      {{}, {}, {}},
      {{4, 1, 6, 1, 2}, {1, 5, 1, 3, 1}, {4, 5, 6, 3, 2}},
      {{0, 3}, {1, 3}, {0, 3}},
      {{1, 64, 33, 35}, {1, 64, 33, 35}, {1, 64, 33, 35}},
      {{1, 3, 200, 200}, {3, 1, 1}, {1, 3, 200, 200}},
      {{70000}, {70000}, {70000}},
  };
  for (const auto& [a, b, out] : shapes) {
    const TestLayer layer{
        .layer = make_layer(LayerKind::kElementWise, ir::PointOpAttrs{PointOp::kSub}),
        .inputs = {floats(a), floats(b)},
        .outputs = {floats(out)}};
    check_layer(layer, ::testing::PrintToString(std::vector<int64_t>(out.begin(), out.end())));
  }
}

// Operands of short rows are laid end to end: one value a row, one row for all, slices of
// longer rows, more rows than one gathered block and than one plane.
TEST(Pointwise, ShortRows) {
  for (const int64_t cols : {1, 3, 7, 8, 11, 16, 31}) {
    ir::Program program{5, {}};  // p * p + v4, p = (v0 - v1) / (v2 - v1) * v3: no chain
    const int low = ir::append(program, PointOp::kSub, 0, 1);
    const int width = ir::append(program, PointOp::kSub, 2, 1);
    const int part =
        ir::append(program, PointOp::kMul, ir::append(program, PointOp::kDiv, low, width), 3);
    ir::append(program, PointOp::kAdd, ir::append(program, PointOp::kMul, part, part), 4);
    const ir::Extents shape = {3, 75, cols};
    TestLayer layer{.layer = make_layer(LayerKind::kPointWise, ir::PointWiseAttrs{program}),
                    .inputs = {floats({3, 75, 1}), floats({cols}), floats({75, cols}),
                               floats(shape), floats({75, 1})},
                    .outputs = {floats(shape)}};
    layer.strided_outputs = false;
    for (TestTensor& input : layer.inputs)  // no division by almost nothing
      input.value = [](int64_t k) { return 0.25 * static_cast<double>(k * 7 % 13); };
    layer.inputs[1].value = [](int64_t k) { return 4.0 + 0.5 * static_cast<double>(k % 5); };
    check_layer(layer, "rows of " + std::to_string(cols));
    ir::append(program, PointOp::kLess, program.result(), 4);
    layer.layer->attrs = ir::PointWiseAttrs{program};
    layer.outputs[0].type = DataType::kBool;
    check_layer(layer, "bools, rows of " + std::to_string(cols));
    TestLayer select{.layer = make_layer(LayerKind::kSelect, ir::PointOpAttrs{PointOp::kSelect}),
                     .inputs = {bools({75, cols}), floats({3, 75, 1}), floats(shape)},
                     .outputs = {floats(shape)}};
    check_layer(select, "chosen, rows of " + std::to_string(cols));
  }
}

// Tiny matrices, and a row or a column of each: blocks of whole dimensions, of parts of one, a last
// one that is shorter.
TEST(Pointwise, TinyPlanes) {
  ir::Program program{3, {}};
  ir::append(program, PointOp::kExp, ir::append(program, PointOp::kSub, 0, 1));
  ir::append(program, PointOp::kMul, program.result(), 2);
  for (const ir::Extents& shape : {ir::Extents{64, 16, 1, 4, 4},
                                   {131, 4, 4},
                                   {7, 37, 4, 4},
                                   {5, 3, 11, 2, 3},
                                   {2, 130, 5},
                                   {3, 7, 200, 3},
                                   {40, 1, 9, 7},
                                   {2, 2, 300, 1}}) {
    ir::Extents rows = shape, columns = shape;
    rows[rows.size() - 2] = 1, columns[columns.size() - 1] = 1;
    TestLayer layer{.layer = make_layer(LayerKind::kPointWise, ir::PointWiseAttrs{program}),
                    .inputs = {floats(shape), floats(rows), floats(columns)},
                    .outputs = {floats(shape)}};
    layer.strided_outputs = false;
    layer.tolerance = 1e-5;
    check_layer(layer, ::testing::PrintToString(std::vector<int64_t>(shape.begin(), shape.end())));
  }
}

// A chain in registers: along long rows, across many short ones, one long row where all is dense.
TEST(Pointwise, ChainsOfAnyRows) {
  ir::Program program{4, {}};  // silu((v0 - v1) * v2 + v3)
  const int scaled =
      ir::append(program, PointOp::kMul, ir::append(program, PointOp::kSub, 0, 1), 2);
  const int sum = ir::append(program, PointOp::kAdd, scaled, 3);
  ir::append(program, PointOp::kSilu, sum, -1, -1, 1);
  const ir::Extents shapes[] = {{1, 5000}, {3, 150}, {3, 1200}, {70, 130}, {70, 1100}, {9, 64}};
  for (const ir::Extents& shape : shapes) {
    const int64_t rows = shape[0], cols = shape[1];
    for (const DataType out : {DataType::kFloat, DataType::kUInt8}) {
      const TestLayer layer{.layer = make_layer(LayerKind::kPointWise, ir::PointWiseAttrs{program}),
                            .inputs = {floats(shape),
                                       floats({cols}),
                                       floats({rows, 1}),
                                       {.extents = shape, .type = DataType::kUInt8}},
                            .outputs = {{.extents = shape, .type = out}}};
      check_layer(layer, std::to_string(rows) + " rows of " + std::to_string(cols));
    }
  }
  const TestLayer dense{.layer = make_layer(LayerKind::kPointWise, ir::PointWiseAttrs{program}),
                        .inputs = {floats({3, 1111}), floats({}), floats({3, 1111}), floats({1})},
                        .outputs = {floats({3, 1111})}};
  check_layer(dense, "one row");
}

// Behind another operation every operator of one operand is a step of a chain.
TEST(Pointwise, EveryOperatorInAChain) {
  for (int k = 0; k < ir::kPointOpCount; ++k) {
    const auto op = static_cast<PointOp>(k);
    if (is_integer_only(op) || ir::arity(op) != 1 || ir::gives_bool(op) || op == PointOp::kNot)
      continue;
    ir::Program program{2, {}};
    const int sum = ir::append(program, PointOp::kAdd, 0, 1);
    const Instruction literals = instruction(op);
    ir::append(program, op, sum, -1, -1, literals.x, literals.y);
    const ir::Extents shape = {2, 5, 90};
    const TestLayer layer{.layer = make_layer(LayerKind::kPointWise, ir::PointWiseAttrs{program}),
                          .inputs = {floats(shape), floats({90})},
                          .outputs = {floats(shape)}};
    check_layer(layer, std::string(ir::point_op_name(op)));
  }
}

TEST(Pointwise, ProgramsWithMixedTypes) {
  const ir::Extents shape = {2, 20, 9, 31};
  ir::Program program{4, {}};  // select(mask & (a < b), silu(a) + b, 0.5 c)
  const int less = ir::append(program, PointOp::kLess, 0, 1);
  const int both = ir::append(program, PointOp::kAnd, 3, less);
  const int sum =
      ir::append(program, PointOp::kAdd, ir::append(program, PointOp::kSilu, 0, -1, -1, 1), 1);
  const int half =
      ir::append(program, PointOp::kMul, 2, ir::append(program, PointOp::kConst, -1, -1, -1, 0.5f));
  ir::append(program, PointOp::kSelect, both, sum, half);
  TestLayer layer{
      .layer = make_layer(LayerKind::kPointWise, ir::PointWiseAttrs{program}),
      .inputs = {floats(shape), floats({20, 1, 1}), floats({2, 1, 9, 31}), bools(shape)},
      .outputs = {floats(shape)}};
  check_layer(layer, "float result");
  ir::append(program, PointOp::kLess, program.result(), 0);
  layer.layer->attrs = ir::PointWiseAttrs{program};
  layer.outputs[0].type = DataType::kBool;
  check_layer(layer, "bool result");
}

// --- 8-bit codes

TestTensor codes(ir::Extents extents, DataType type = DataType::kUInt8) {
  // All codes, the extreme ones twice as often.
  return {.extents = extents, .type = type, .value = [type](int64_t k) {
            const auto low = type == DataType::kInt8 ? -128.0 : 0.0;
            const int64_t code = k * 37 % 258;
            return low + static_cast<double>(code > 256 ? 0 : code > 255 ? 255 : code);
          }};
}

struct QuantizedCase {
  const char* program;
  std::vector<DataType> inputs;
  DataType output;
};

constexpr DataType kF = DataType::kFloat, kU = DataType::kUInt8, kS = DataType::kInt8,
                   kB = DataType::kBool;

const QuantizedCase kQuantizedCases[] = {
    // dequantize, quantize, requantize
    {"v1 = const 113; v2 = sub v0 v1; v3 = const 0.0237; v4 = mul v2 v3", {kU}, kF},
    {"v1 = const -3; v2 = sub v0 v1; v3 = const 0.0237; v4 = mul v2 v3", {kS}, kF},
    {"v1 = const 80.3; v2 = mul v0 v1; v3 = round v2; v4 = const 113; v5 = add v3 v4", {kF}, kU},
    {"v1 = const 80.3; v2 = mul v0 v1; v3 = round v2", {kF}, kS},
    {"v1 = const 0.0117; v2 = div v0 v1; v3 = round v2; v4 = const 7; v5 = add v3 v4", {kF}, kU},
    {"v1 = const 0.25; v2 = div v0 v1; v3 = round v2", {kF}, kU},
    {"v1 = const 3; v2 = const -17.5; v3 = fma v0 v1 v2", {kU}, kU},
    {"v1 = const -0.73; v2 = const 17.5; v3 = fma v0 v1 v2; v4 = relu v3", {kS}, kU},
    {"", {kU}, kF},
    {"", {kS}, kF},
    {"", {kF}, kU},
    {"", {kU}, kS},
    // residuals
    {"v2 = const 0.031; v3 = mul v0 v2; v4 = const 0.017; v5 = const -2.2; v6 = fma v1 v4 v5; "
     "v7 = add v3 v6; v8 = relu v7; v9 = const 31.3; v10 = mul v8 v9; v11 = round v10",
     {kU, kU},
     kU},
    {"v2 = const 12; v3 = sub v0 v2; v4 = const 0.031; v5 = mul v3 v4; v6 = sub v5 v1; "
     "v7 = clip v6 -1 2.5; v8 = const 40; v9 = mul v7 v8; v10 = round v9; v11 = const 99; "
     "v12 = add v10 v11",
     {kU, kF},
     kU},
    {"v2 = const 12; v3 = sub v0 v2; v4 = const 0.031; v5 = mul v3 v4; v6 = const 99; "
     "v7 = sub v1 v6; v8 = const 0.3; v9 = fma v7 v8 v5",
     {kU, kU},
     kF},
    {"v2 = add v0 v1", {kS, kS}, kS},
    {"v2 = add v0 v1", {kS, kU}, kU},
    {"v2 = mul v0 v1; v3 = const 0.01; v4 = mul v2 v3", {kU, kU}, kU},
    // activations, bools
    {"v1 = const 113; v2 = sub v0 v1; v3 = const 0.0237; v4 = mul v2 v3; v5 = silu v4 1; "
     "v6 = const 51.7; v7 = mul v5 v6; v8 = round v7; v9 = const 14; v10 = add v8 v9",
     {kU},
     kU},
    {"v1 = const 0.0237; v2 = mul v0 v1; v3 = sigmoid v2", {kU}, kF},
    {"v2 = less v0 v1", {kU, kS}, kB},
    {"v3 = select v2 v0 v1", {kU, kU, kB}, kU},
};

TestTensor tensor_of(DataType type, const ir::Extents& extents) {
  return type == kF ? floats(extents) : type == kB ? bools(extents) : codes(extents, type);
}

void check_quantized(const QuantizedCase& test, const ir::Extents& out,
                     const std::vector<ir::Extents>& in) {
  const int count = static_cast<int>(test.inputs.size());
  TestLayer layer{
      .layer = make_layer(LayerKind::kPointWise,
                          ir::PointWiseAttrs{ir::parse_program(count, test.program).value()}),
      .inputs = {},
      .outputs = {tensor_of(test.output, out)},
      .off_by_one = 0.01};
  for (size_t k = 0; k < test.inputs.size(); ++k)
    layer.inputs.push_back(tensor_of(test.inputs[k], in[k % in.size()]));
  check_layer(layer, std::string(test.program) + " of " +
                         ::testing::PrintToString(std::vector<int64_t>(out.begin(), out.end())));
}

TEST(Pointwise, EightBitTensors) {
  for (const QuantizedCase& test : kQuantizedCases)
    for (const ir::Extents& shape :
         {ir::Extents{1, 24, 9, 31}, {2, 5, 3, 7}, {3}, {130}, {1, 64, 40, 3}, {0, 4}})
      check_quantized(test, shape, {shape});
}

TEST(Pointwise, EightBitBroadcasts) {
  const ir::Extents shape = {2, 20, 5, 9};
  for (const QuantizedCase& test : kQuantizedCases) {
    if (test.inputs.size() < 2) continue;
    for (const ir::Extents& other : {ir::Extents{20, 1, 1}, {}, {9}, {2, 1, 5, 9}, {5, 1}}) {
      check_quantized(test, shape, {shape, other, shape});
      check_quantized(test, shape, {other, shape, shape});
    }
  }
}

// Tables have every code, signed or not, scalar constants inside, and are exact.
TEST(Pointwise, Tables) {
  const char* kText =
      "v2 = sub v0 v1; v3 = const 0.0437; v4 = mul v2 v3; v5 = silu v4 1; v6 = const 51.7; "
      "v7 = mul v5 v6; v8 = round v7; v9 = const 14; v10 = add v8 v9";
  for (const DataType in : {kU, kS})
    for (const DataType out : {kU, kS, kF})
      for (const ir::Extents& shape : {ir::Extents{1, 24, 9, 31}, {1, 2, 3, 1}, {700}}) {
        const TestTensor zero_point{
            .extents = {}, .is_data = false, .is_constant = true, .value = [](int64_t) {
              return 57;
            }};
        check_layer({.layer = make_layer(LayerKind::kPointWise,
                                         ir::PointWiseAttrs{ir::parse_program(2, kText).value()}),
                     .inputs = {codes(shape, in), zero_point},
                     .outputs = {tensor_of(out, shape)},
                     .only = "table"},
                    "table");
      }
}

// The quotient is rounded as a division's, not as a product with the reciprocal.
TEST(Pointwise, QuantizesAsADivision) {
  const ir::Extents shape = {64, 999};
  TestTensor x = floats(shape);
  x.value = [](int64_t k) {  // multiples of half a step, and their neighbours
    const float tie = (static_cast<float>(k % 600) - 300) * 0.5f * 0.0117f;
    return k % 3 == 0 ? tie : std::nextafter(tie, k % 3 == 1 ? 10.0f : -10.0f);
  };
  const char* kText =
      "v1 = const 0.0117; v2 = div v0 v1; v3 = round v2; v4 = const 128; v5 = add v3 v4";
  check_layer({.layer = make_layer(LayerKind::kPointWise,
                                   ir::PointWiseAttrs{ir::parse_program(1, kText).value()}),
               .inputs = {x},
               .outputs = {codes(shape)}},
              "quantize");
}

// The same with a scale and a zero point that only running tells.
TEST(Pointwise, QuantizesDynamically) {
  const ir::Extents shape = {3, 5, 99};
  TestTensor x = floats(shape);
  x.value = [](int64_t k) { return (static_cast<float>(k % 600) - 300) * 0.5f * 0.0117f; };
  const auto one = [](DataType type, double value) {
    return TestTensor{
        .extents = {}, .type = type, .is_data = false, .value = [value](int64_t) { return value; }};
  };
  const char* kText = "v3 = div v0 v1; v4 = round v3; v5 = add v4 v2";
  check_layer({.layer = make_layer(LayerKind::kPointWise,
                                   ir::PointWiseAttrs{ir::parse_program(3, kText).value()}),
               .inputs = {x, one(kF, 0.0117f), one(kU, 119)},
               .outputs = {codes(shape)}},
              "dynamic");
}

// Images to pixels of codes: steps and halves of them, their neighbours, what is not a number;
// scalars and constants per channel; any number of pixels.
TEST(Pointwise, QuantizesPlanes) {
  const float kInf = std::numeric_limits<float>::infinity(), kNan = std::nanf("");
  const auto value = [&](int64_t k) {
    if (k % 97 == 5) return k % 2 == 0 ? kInf : -kInf;
    if (k % 97 == 6) return kNan;
    const float tie = (static_cast<float>(k * 7 % 900) - 450) * 0.5f * 0.0117f;
    return k % 3 == 0 ? tie : std::nextafter(tie, k % 3 == 1 ? 10.0f : -10.0f);
  };
  struct Case {
    const char* program;
    double off_by_one;  // products may round ties otherwise than the reference's two steps
  };
  for (const Case& test :
       {Case{"v3 = const 0.0117; v4 = div v0 v3; v5 = round v4; v6 = const 128; v7 = add v5 v6", 0},
        {"v3 = div v0 v1; v4 = round v3; v5 = const 3; v6 = add v4 v5; v7 = clip v6 9 201", 0},
        {"v3 = sub v0 v2; v4 = mul v3 v1; v5 = const 80.3; v6 = mul v4 v5; v7 = round v6", 0.01}})
    for (const ir::Extents& shape : {ir::Extents{1, 3, 37, 41},
                                     {2, 4, 5, 7},
                                     {1, 2, 64, 64},
                                     {3, 3, 65},
                                     {1, 3, 2, 3, 11},
                                     {1, 3, 1, 1},
                                     {1, 3, 280, 271}}) {
      const int64_t channels = shape[1];
      const ir::Extents along(shape.size() - 1, 1);
      ir::Extents per_channel = along;
      per_channel[0] = channels;
      TestTensor x = floats(shape);
      x.value = value;
      TestTensor scale{.extents = per_channel, .is_data = false, .is_constant = true};
      scale.value = [](int64_t k) { return 0.0117f * static_cast<float>(k + 1); };
      TestTensor mean{.extents = shape.size() == 3 ? ir::Extents{} : per_channel,
                      .is_data = false,
                      .is_constant = true};
      mean.value = [](int64_t k) { return 0.25f * static_cast<float>(k + 1); };
      check_layer(
          {.layer = make_layer(LayerKind::kPointWise,
                               ir::PointWiseAttrs{ir::parse_program(3, test.program).value()}),
           .inputs = {x, scale, mean},
           .outputs = {codes(shape)},
           .only = "planes",
           .off_by_one = test.off_by_one},
          test.program);
    }
}

TEST(Pointwise, PlanesRefuseOthers) {
  const auto layer =
      make_layer(LayerKind::kPointWise,
                 ir::PointWiseAttrs{ir::parse_program(1, "v1 = const 8; v2 = mul v0 v1").value()});
  const auto refusal = [&](const ir::Extents& shape, DataType out) -> std::string {
    const Problem problem{layer.get(),
                          {{true, kF, Format::kLinear, shape, nullptr}},
                          {{true, out, Format::kChannelLast, shape, nullptr}},
                          1};
    for (const Tactic* tactic : tactics_for(LayerKind::kPointWise))
      if (std::string_view(tactic->name) == "pointwise_planes_u8") return tactic->refusal(problem);
    return "no such tactic";
  };
  EXPECT_EQ(refusal({1, 3, 8, 8}, kU), "");
  EXPECT_EQ(refusal({1, 3, 8, 8}, kF), "the output is not uint8");
  EXPECT_EQ(refusal({1, 16, 8, 8}, kU), "not 2 to 4 channels");
  EXPECT_EQ(refusal({1, 3}, kU), "not 2 to 4 channels");
}

// Integer arithmetic on 8-bit tensors (integers_test.cpp) is another thing than arithmetic on
// codes.
TEST(Pointwise, OtherKindsRefuseEightBits) {
  const auto layer = make_layer(LayerKind::kElementWise, ir::PointOpAttrs{PointOp::kAdd});
  const ProblemTensor tensor{true, DataType::kUInt8, Format::kLinear, {4}, nullptr};
  const Problem problem{layer.get(), {tensor, tensor}, {tensor}, 1};
  for (const Tactic* tactic : tactics_for(LayerKind::kElementWise))
    EXPECT_EQ(tactic->refusal(problem).empty(),
              std::string_view(tactic->name) == "elementwise_integers");
}

TEST(Pointwise, ScaleAlongAnAxis) {
  for (const int64_t axis : {0, 1, 2, 3}) {
    const ir::Extents shape = {3, 17, 5, 19};
    const TestTensor vector{
        .extents = {shape[static_cast<size_t>(axis)]}, .is_data = false, .is_constant = true};
    check_layer({.layer = make_layer(LayerKind::kScale, ir::ScaleAttrs{axis}),
                 .inputs = {floats(shape), vector, vector},
                 .outputs = {floats(shape)}},
                "axis " + std::to_string(axis));
  }
}

// Integers have tactics of their own (integers_test.cpp).
TEST(Pointwise, RefusesIntegers) {
  const auto layer = make_layer(LayerKind::kUnary, ir::PointOpAttrs{PointOp::kAbs});
  const Problem problem{layer.get(),
                        {{true, DataType::kInt64, Format::kLinear, {4}, nullptr}},
                        {{true, DataType::kInt64, Format::kLinear, {4}, nullptr}},
                        1};
  for (const Tactic* tactic : tactics_for(LayerKind::kUnary))
    EXPECT_EQ(tactic->refusal(problem).empty(), std::string_view(tactic->name) == "unary_integers")
        << tactic->name;
}

}  // namespace
}  // namespace camshaft::kernels
