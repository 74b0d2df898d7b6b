// SPDX-License-Identifier: Apache-2.0
// Quantized convolutions and matrix products: exact accumulators, codes that differ from the double
// answer at rounding ties only; every tactic, instruction set and arithmetic.
#include <array>

#include "kernels/vector/byte_test_util.h"
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels::test {
namespace {

constexpr double kTieWidth = 2e-3;  // of codes: float rounding of acc * multiplier + addend

enum class Operand { kScalar, kPowerOfTwo, kChannels, kSame, kSameCodes, kImageChannels };

struct Spec {
  int64_t batch = 1, ic = 4, ih = 5, iw = 6, oc = 16, kh = 1, kw = 1, stride = 1, dilation = 1;
  int64_t pad = 0, groups = 1, zero_point = 0, w_zero_point = 0;
  bool bias = true, one_dimension = false, transposed = false;
  DataType w_type = DataType::kInt8, type = DataType::kInt32;
  const char* epilogue = "";
  std::vector<Operand> operands = {};
  std::function<double(int64_t)> x = {}, w = {};
};

// Scales that bring sums of about 100 * 100 * sqrt(k) into the range of codes.
TestTensor operand_of(Operand kind, const Extents& y) {
  TestTensor tensor;
  tensor.is_data = false;
  const auto small = [](int64_t k) { return 0.0004 * (1 + static_cast<double>(k % 7)); };
  switch (kind) {
    case Operand::kScalar:
      tensor.extents = {};
      tensor.is_constant = true;
      tensor.value = small;
      break;
    case Operand::kPowerOfTwo:  // products are exact, and some are ties
      tensor.is_constant = true;
      tensor.value = [](int64_t) { return 1.0 / 2048; };
      break;
    case Operand::kChannels:
      tensor.extents = y;
      for (size_t d = 0; d < y.size(); ++d)
        if (d != 1) tensor.extents[d] = 1;
      tensor.is_constant = true;
      tensor.value = small;
      break;
    case Operand::kSame:
    case Operand::kSameCodes:
      tensor.extents = y;
      tensor.is_data = true;
      if (kind == Operand::kSameCodes) tensor.type = DataType::kUInt8;
      break;
    case Operand::kImageChannels:
      tensor.extents = y;
      for (size_t d = 2; d < y.size(); ++d) tensor.extents[d] = 1;
      break;
  }
  return tensor;
}

int64_t out_extent(const Spec& s, int64_t in, int64_t kernel) {
  if (s.transposed) return (in - 1) * s.stride + (kernel - 1) * s.dilation + 1 - 2 * s.pad;
  return (in + 2 * s.pad - (kernel - 1) * s.dilation - 1) / s.stride + 1;
}

TestLayer layer_of(const Spec& s) {
  ir::ConvolutionAttrs attrs;
  Extents x{s.batch, s.ic}, y{s.batch, s.oc};
  Extents w = s.transposed ? Extents{s.ic, s.oc / s.groups} : Extents{s.oc, s.ic / s.groups};
  const auto add_axis = [&](int64_t in, int64_t kernel) {
    x.push_back(in), w.push_back(kernel), y.push_back(out_extent(s, in, kernel));
    attrs.kernel.push_back(kernel), attrs.stride.push_back(s.stride);
    attrs.dilation.push_back(s.dilation);
    attrs.pre_padding.push_back(s.pad), attrs.post_padding.push_back(s.pad);
    if (s.transposed) attrs.output_padding.push_back(0);
  };
  if (!s.one_dimension) add_axis(s.ih, s.kh);
  add_axis(s.iw, s.kw);
  attrs.groups = s.groups;
  attrs.zero_point = s.zero_point;
  attrs.w_zero_point = s.w_zero_point;
  attrs.type = s.type;
  if (*s.epilogue)
    attrs.epilogue = ir::parse_program(1 + static_cast<int>(s.operands.size()), s.epilogue).value();
  TestLayer test;
  test.layer =
      make_layer(s.transposed ? ir::LayerKind::kDeconvolution : ir::LayerKind::kConvolution, attrs);
  test.inputs.push_back({.extents = x, .type = DataType::kUInt8, .value = s.x});
  test.inputs.push_back(
      {.extents = w, .type = s.w_type, .is_data = false, .is_constant = true, .value = s.w});
  test.inputs.push_back({.extents = {s.oc},
                         .type = DataType::kInt32,
                         .is_data = false,
                         .is_constant = true,
                         .present = s.bias,
                         .value = [](int64_t k) { return static_cast<double>(k * 137 - 999); }});
  for (Operand operand : s.operands) test.inputs.push_back(operand_of(operand, y));
  test.outputs.push_back({.extents = y, .type = s.type});
  test.tolerance = s.type == DataType::kUInt8 ? kTieWidth : *s.epilogue ? 1e-5 : 0;
  test.rounds = true;
  return test;
}

void check(const Spec& s) {
  const TestLayer test = layer_of(s);
  SCOPED_TRACE(words({s.batch, s.ic, s.ih, s.iw, s.oc, s.kh, s.kw, s.stride, s.dilation, s.pad,
                      s.groups, s.zero_point, s.w_zero_point}) +
               s.epilogue);
  for (const bool words_only : {false, true}) {
    if (words_only && active_isa() == Isa::kScalar) break;
    force_word_products(words_only);
    check_layer(test, words_only ? "16-bit products" : "");
  }
  force_word_products(false);
}

Spec square(int64_t ic, int64_t size, int64_t oc, int64_t kernel, int64_t stride, int64_t pad,
            int64_t zero_point = 0) {
  Spec s;
  s.ic = ic, s.ih = s.iw = size, s.oc = oc, s.kh = s.kw = kernel, s.stride = stride, s.pad = pad;
  s.zero_point = zero_point;
  return s;
}

TEST(ByteConv, ExactAccumulators) {
  for (int64_t oc : {1, 7, 16, 33, 50, 130})
    for (int64_t ic : {1, 3, 4, 6, 8, 17}) check(square(ic, 5, oc, 1, 1, 0, 3));
  for (int64_t kernel : {2, 3, 5})
    for (int64_t stride : {1, 2})
      for (int64_t zero_point : {0, 128})
        for (int64_t ic : {3, 8, 10})
          check(square(ic, 9, 20, kernel, stride, kernel / 2, zero_point));
}

TEST(ByteConv, RowTails) {
  for (int64_t width = 1; width <= 30; ++width) {
    Spec s = square(8, 3, 40, 3, 1, 1, 7);
    s.iw = width;
    check(s);
  }
}

Spec transposed(Spec s) {
  s.transposed = true;
  return s;
}

// Joined columns (kernel = stride), overlapping taps, crops; epilogues whose constants are per
// channel and whose operands lie like the output; extremes of weights and codes.
TEST(ByteDeconv, ExactAccumulators) {
  for (int64_t zero_point : {0, 131, 255})
    for (const auto& [kernel, stride, pad] :
         {std::array<int64_t, 3>{2, 2, 0}, {3, 2, 1}, {4, 2, 1}, {3, 1, 1}, {3, 3, 0}, {5, 2, 0}})
      for (const auto& [ic, oc] :
           {std::pair<int64_t, int64_t>{24, 24}, {24, 1}, {3, 5}, {16, 33}, {6, 2}})
        check(transposed(square(ic, 7, oc, kernel, stride, pad, zero_point)));
  Spec grouped = transposed(square(12, 5, 8, 2, 2, 0, 77));
  grouped.groups = 2, grouped.batch = 2;
  check(grouped);
  Spec line = transposed(square(9, 1, 7, 4, 2, 1, 5));
  line.one_dimension = true, line.iw = 19, line.kh = 1;
  check(line);
}

TEST(ByteDeconv, Epilogues) {
  for (const auto& [kernel, stride] : {std::pair<int64_t, int64_t>{2, 2}, {3, 2}, {3, 1}})
    for (const int64_t oc : {1, 5, 24, 40})
      for (const DataType type : {DataType::kUInt8, DataType::kFloat}) {
        Spec s = transposed(square(24, 6, oc, kernel, stride, 0, 121));
        s.type = type;
        s.epilogue = "v2 = mul v0 v1; v3 = relu v2";
        s.operands = {Operand::kChannels};
        check(s);
        s.epilogue = "v3 = fma v0 v1 v2; v4 = sigmoid v3";
        s.operands = {Operand::kChannels, Operand::kChannels};
        check(s);
        s.epilogue = "v3 = mul v0 v1; v4 = add v3 v2; v5 = hard_swish v4";
        s.operands = {Operand::kChannels, Operand::kSame};
        check(s);
        s.operands = {Operand::kScalar, Operand::kSameCodes};
        check(s);
      }
}

TEST(ByteDeconv, Extremes) {
  for (const double weight : {-128.0, 127.0})
    for (const double code : {0.0, 255.0})
      for (const int64_t zero_point : {0, 128, 255}) {
        Spec s = transposed(square(40, 4, 20, 2, 2, 0, zero_point));
        s.w = [weight](int64_t) { return weight; };
        s.x = [code](int64_t) { return code; };
        check(s);
        s.w = [](int64_t k) { return k % 2 == 0 ? -128.0 : 127.0; };
        s.x = [](int64_t k) { return k % 3 == 0 ? 255.0 : 0.0; };
        check(s);
      }
}

TEST(ByteConv, GroupsDilationsBatchesAndRows) {
  for (int64_t zero_point : {0, 9}) {
    Spec s = square(12, 7, 40, 3, 1, 1, zero_point);
    s.groups = 2;
    check(s);
    s.ic = 10;  // groups of 5 channels: steps are not whole
    s.batch = 2;
    check(s);
    s = square(8, 13, 20, 3, 1, 2, zero_point);
    s.dilation = 2;
    check(s);
    s.ic = 6;
    check(s);
    s = square(8, 20, 20, 3, 1, 9, zero_point);
    s.dilation = 9;
    check(s);
    s = square(8, 1, 33, 1, 1, 0, zero_point);
    s.one_dimension = true;
    s.iw = 23, s.kw = 4, s.stride = 3, s.pad = 2;
    check(s);
    s = square(3, 20, 32, 7, 2, 3, zero_point);
    check(s);
    s = square(16, 40, 30, 3, 1, 1, zero_point);
    s.iw = 2;
    check(s);
    s = square(40, 15, 33, 3, 2, 2, zero_point);  // windows of all images as rows of a product
    s.batch = 3, s.dilation = 2;
    check(s);
  }
}

// 0, 255, -128, 127 and alternating: where saturating instructions would saturate.
TEST(ByteConv, WeightsOfAnyZeroPoint) {
  for (const DataType type : {DataType::kUInt8, DataType::kInt8})
    for (int64_t w_zero_point : {0, 77, 255})
      for (int64_t zero_point : {0, 131}) {
        const auto check_it = [&](Spec s) {
          s.w_type = type;
          s.w_zero_point = type == DataType::kUInt8 ? w_zero_point : w_zero_point - 128;
          check(s);
        };
        check_it(square(24, 7, 33, 1, 1, 0, zero_point));
        check_it(square(21, 9, 20, 3, 1, 1, zero_point));
        check_it(square(8, 12, 40, 3, 2, 1, zero_point));
        check_it(square(3, 20, 32, 7, 2, 3, zero_point));
        Spec s = square(12, 11, 36, 3, 1, 2, zero_point);
        s.dilation = 2;
        check_it(s);
        s = square(12, 7, 24, 3, 1, 1, zero_point);
        s.groups = 3, s.batch = 2, s.ih = 5;
        check_it(s);
        s = square(16, 30, 24, 5, 1, 2, zero_point);
        s.one_dimension = true, s.kw = 5;
        check_it(s);
        s = square(40, 6, 30, 1, 1, 0, zero_point);
        s.type = DataType::kUInt8;
        s.epilogue = "v2 = mul v0 v1; v3 = const 100; v4 = add v2 v3";
        s.operands = {Operand::kChannels};
        check_it(s);
      }
}

TEST(ByteConv, ExtremeValues) {
  // The first value `period` times, then the second, and again.
  const auto alternating = [](double even, double odd, int64_t period) {
    return [=](int64_t k) { return k / period % 2 == 0 ? even : odd; };
  };
  const auto constant = [alternating](double value) { return alternating(value, value, 1); };
  for (const auto& x : {constant(255), constant(0), alternating(255, 0, 1), alternating(0, 255, 2)})
    for (const auto& w : {constant(-128), constant(127), alternating(-128, 127, 1),
                          alternating(127, -128, 2), alternating(-128, 127, 9)})
      for (int64_t zero_point : {0, 128, 255}) {
        Spec s = square(20, 4, 20, 3, 1, 1, zero_point);
        s.x = x, s.w = w;
        check(s);
      }
}

// Mostly small weights, some steps of K with large ones: without VNNI, 8-bit products that saturate
// are split where they could.
TEST(ByteConv, SmallAndLargeWeights) {
  const auto weights = [](int64_t rare, double large) {
    return [rare, large](int64_t k) {
      return k / 4 % rare == rare - 1 ? (k % 8 < 4 ? large : -1 - large)
                                      : static_cast<double>(k * 37 % 129 - 64);
    };
  };
  for (int64_t rare : {5, 301, 100000})
    for (double large : {127.0, 90.0})
      for (int64_t ic : {3, 4, 24})
        for (int64_t oc : {8, 33}) {
          Spec s = square(ic, 6, oc, 3, 1, 1, 3);
          s.w = weights(rare, large);
          s.x = [](int64_t k) { return k % 5 == 0 ? 0.0 : 255.0; };
          check(s);
          s.kh = s.kw = 1, s.pad = 0;
          check(s);
          s.groups = oc == 8 && ic % 4 == 0 ? 2 : 1;
          check(s);
        }
}

TEST(ByteConv, Codes) {
  struct Row {
    const char* epilogue;
    std::vector<Operand> operands;
  };
  using enum Operand;
  const Row rows[] = {
      {"v2 = mul v0 v1", {kScalar}},
      {"v2 = mul v0 v1; v3 = relu v2", {kChannels}},
      {"v3 = fma v0 v1 v2; v4 = const 131; v5 = add v3 v4; v6 = clip v5 12 200",
       {kChannels, kChannels}},
      {"v2 = mul v0 v1; v3 = relu v2; v4 = const 2.5; v5 = mul v3 v4; v6 = round v5; v7 = const 3; "
       "v8 = add v6 v7",
       {kPowerOfTwo}},
      {"v2 = mul v0 v1; v3 = leaky_relu v2 0.1; v4 = const 0.5; v5 = div v3 v4; v6 = const 100; v7 "
       "= "
       "add v5 v6",
       {kChannels}},
      // residual codes with their own scale and zero point, added before the activation
      {"v3 = mul v0 v1; v4 = const 11; v5 = sub v2 v4; v6 = const 0.5; v7 = mul v5 v6; v8 = add v3 "
       "v7; "
       "v9 = relu v8; v10 = const 0.75; v11 = mul v9 v10; v12 = const 7; v13 = add v11 v12",
       {kChannels, kSameCodes}},
      {"v3 = mul v0 v1; v4 = add v2 v3; v5 = const 90; v6 = add v4 v5", {kChannels, kSame}},
      // not absorbed: a tile program
      {"v2 = mul v0 v1; v3 = silu v2 1; v4 = const 30; v5 = mul v3 v4; v6 = const 5; v7 = add v5 "
       "v6",
       {kChannels}},
      {"v2 = mul v0 v1; v3 = abs v2; v4 = const 0.5; v5 = div v3 v4; v6 = round v5; v7 = "
       "const "
       "128; v8 = add v6 v7",
       {kPowerOfTwo}},
      // a table of codes, with the inner codes in both conventions
      {"v2 = mul v0 v1; v3 = round v2; v4 = const 128; v5 = add v3 v4; v6 = clip v5 0 255; v7 = "
       "const 0.05; v8 = const -6.4; v9 = fma v6 v7 v8; v10 = silu v9 1; v11 = const 20; v12 = mul "
       "v10 v11; v13 = round v12; v14 = add v13 v4",
       {kPowerOfTwo}},
      {"v2 = mul v0 v1; v3 = round v2; v4 = clip v3 -128 127; v5 = silu v4 0.05; v6 = round v5; v7 "
       "= "
       "const 128; v8 = add v6 v7",
       {kPowerOfTwo}},
      {"v4 = mul v0 v1; v5 = sigmoid v4; v6 = mul v5 v2; v7 = mul v6 v3; v8 = const 255; v9 = mul "
       "v7 v8",
       {kChannels, kSameCodes, kChannels}},
      {"v3 = mul v0 v1; v4 = relu v3; v5 = add v4 v2", {kChannels, kSame}},
      // gates
      {"v3 = fma v0 v1 v2; v4 = hard_swish v3; v5 = const 7.5; v6 = const 2.25; v7 = fma v4 v5 v6; "
       "v8 = clip v7 -inf 127; v9 = round v8; v10 = const 20; v11 = add v9 v10",
       {kChannels, kChannels}},
      {"v2 = mul v0 v1; v3 = hard_swish v2", {kChannels}},
      {"v3 = mul v0 v1; v4 = hard_swish v3; v5 = const 6; v6 = fma v2 v5 v4; v7 = relu v6",
       {kChannels, kSameCodes}},
      {"v3 = mul v0 v1; v4 = hard_swish v3; v5 = mul v4 v2", {kChannels, kChannels}},
      // codes in between: then a residual, a value, a residual and a program
      {"v3 = mul v0 v1; v4 = round v3; v5 = const 128; v6 = add v4 v5; v7 = clip v6 0 255; v8 = "
       "const -128; v9 = add v7 v8; v10 = add v2 v8; v11 = add v9 v10; v12 = relu v11",
       {kPowerOfTwo, kSameCodes}},
      {"v3 = mul v0 v1; v4 = relu v3; v5 = round v4; v6 = const 0.25; v7 = mul v5 v6; v8 = const "
       "-9.5; v9 = fma v2 v6 v8; v10 = add v9 v7; v11 = const 3; v12 = mul v10 v11; v13 = round "
       "v12; v14 = const 40; v15 = add v13 v14; v16 = clip v15 3 250",
       {kPowerOfTwo, kSameCodes}},
      {"v3 = mul v0 v1; v4 = round v3; v5 = clip v4 -100 90; v6 = const 0.5; v7 = mul v5 v6; v8 = "
       "add v7 v2; v9 = const 64; v10 = add v8 v9",
       {kPowerOfTwo, kSame}},
      {"v2 = mul v0 v1; v3 = round v2; v4 = clip v3 -128 127; v5 = const 0.5; v6 = mul v4 v5",
       {kPowerOfTwo}},
      {"v3 = mul v0 v1; v4 = round v3; v5 = clip v4 -128 127; v6 = const 0.5; v7 = fma v5 v6 v2; "
       "v8 = hard_swish v7",
       {kPowerOfTwo, kSame}},
      {"v3 = mul v0 v1; v4 = mul v3 v2; v5 = const 60; v6 = add v4 v5",
       {kChannels, kImageChannels}},
      {"v2 = mul v0 v1; v3 = round v2; v4 = tanh v3; v5 = const 9.5; v6 = mul v4 v5",
       {kPowerOfTwo}},
  };
  for (const Row& row : rows)
    for (const DataType type : {DataType::kUInt8, DataType::kFloat})
      for (int64_t kernel : {1, 3}) {
        Spec s = square(8, 6, 37, kernel, 1, kernel / 2, 5);
        s.batch = 2;
        s.type = type;
        s.epilogue = row.epilogue;
        s.operands = row.operands;
        check(s);
      }
  Spec many = square(8, 3, 600, 1, 1, 0);  // more channels than are finished together
  many.type = DataType::kUInt8;
  many.epilogue = rows[7].epilogue;
  many.operands = rows[7].operands;
  check(many);
}

// Values beyond 32 and 16 bits, at both ends of the codes, with offsets that are added in 16 bits
// and one that is not; bounds within the codes.
TEST(ByteConv, CodesSaturate) {
  struct Row {
    const char* epilogue;
    std::vector<Operand> operands;
  };
  using enum Operand;
  const Row rows[] = {
      {"v1 = const 3000000; v2 = mul v0 v1; v3 = round v2; v4 = const 100; v5 = add v3 v4", {}},
      {"v1 = const -3000000; v2 = mul v0 v1; v3 = round v2; v4 = const 100; v5 = add v3 v4; v6 = "
       "clip v5 7 201",
       {}},
      {"v1 = const 2; v2 = mul v0 v1; v3 = round v2; v4 = const 100; v5 = add v3 v4", {}},
      {"v1 = const 2; v2 = mul v0 v1; v3 = round v2; v4 = const -20000; v5 = add v3 v4", {}},
      {"v1 = const 2; v2 = mul v0 v1; v3 = round v2; v4 = const 31999; v5 = add v3 v4", {}},
      {"v1 = const 2; v2 = mul v0 v1; v3 = round v2; v4 = const 40000; v5 = add v3 v4", {}},
      {"v2 = const 2; v3 = mul v0 v2; v4 = const 1e10; v5 = mul v1 v4; v6 = add v3 v5", {kSame}},
      {"v2 = const 2; v3 = mul v0 v2; v4 = const 1e8; v5 = mul v1 v4; v6 = add v3 v5; v7 = round "
       "v6; v8 = clip v7 -3 9; v9 = const 30; v10 = add v8 v9",
       {kSameCodes}},
  };
  for (const Row& row : rows)
    for (int64_t oc : {5, 16, 24, 37}) {
      Spec s = square(10, 7, oc, 1, 1, 0, 5);
      s.type = DataType::kUInt8;
      s.epilogue = row.epilogue;
      s.operands = row.operands;
      check(s);
    }
}

TEST(ByteConv, FloatOutputsAreExact) {
  Spec s = square(16, 6, 40, 3, 1, 1, 77);
  s.type = DataType::kFloat;
  check(s);
  s.bias = false;
  s.type = DataType::kUInt8;
  check(s);
}

TEST(ByteConv, Threads) {
  check(square(64, 19, 70, 3, 1, 1, 9));
  check(square(512, 9, 200, 1, 1, 0, 9));
  check(square(256, 2, 300, 3, 1, 1));
}

// Tiles cut by the image's edge, odd and unaligned channels, several blocks, images, epilogues that
// wait for the sums of a strip.
TEST(ByteConv, WinogradTiles) {
  for (int64_t size : {3, 4, 5, 8, 9, 13})
    for (int64_t channels : {8, 17, 41}) check(square(channels, size, channels + 9, 3, 1, 1, 5));
  check(square(72, 10, 24, 3, 1, 0, 200));
  check(square(16, 70, 16, 3, 1, 1, 3));
  Spec s = square(33, 9, 70, 3, 1, 2, 128);
  s.batch = 3;
  check(s);
  s.pad = 1;
  s.type = DataType::kUInt8;
  s.epilogue = "v3 = mul v0 v1; v4 = add v3 v2; v5 = silu v4 1; v6 = round v5";
  s.operands = {Operand::kChannels, Operand::kSame};
  check(s);
  s.epilogue = "v3 = mul v0 v1; v4 = mul v2 v1; v5 = add v3 v4; v6 = relu v5; v7 = round v6";
  s.operands = {Operand::kScalar, Operand::kSameCodes};
  check(s);
}

TEST(ByteConv, WinogradGroups) {
  for (int64_t inputs : {8, 13, 24})
    for (int64_t outputs : {8, 19, 40}) {
      Spec s = square(inputs * 3, 9, outputs * 3, 3, 1, 1, 77);
      s.groups = 3;
      check(s);
      s.type = DataType::kUInt8;
      s.epilogue = "v3 = mul v0 v1; v4 = add v3 v2; v5 = silu v4 1; v6 = round v5";
      s.operands = {Operand::kChannels, Operand::kSame};
      check(s);
      TestLayer test = layer_of(s);
      test.only = "winograd";
      EXPECT_GT(LayerCheck(test).run(), 0) << inputs << " to " << outputs;
    }
}

// Sums as large as the transform back can divide exactly, 2^25 for F(4,3), and just beyond.
TEST(ByteConv, WinogradLargestSums) {
  const auto constant = [](double value) { return [value](int64_t) { return value; }; };
  struct Case {
    int64_t ic;
    double w;
    bool divides;
  };
  for (const Case& c : {Case{115, 127, true}, Case{116, 127, false}, Case{114, -128, true},
                        Case{115, -128, false}}) {
    Spec s = square(c.ic, 6, 12, 3, 1, 1);
    s.x = constant(255), s.w = constant(c.w);
    TestLayer test = layer_of(s);
    test.rounds = false;  // floats would not hold the answer
    check_layer(test, "largest sums");
    test.only = "winograd_f43_nhwc_u8i8";
    LayerCheck winograd(test);
    EXPECT_EQ(winograd.run() > 0, c.divides) << c.ic << " channels, weights of " << c.w;
  }
}

struct Product {
  Extents a, b, y;
  bool transpose_a = false, transpose_b = false;
  int64_t a_zero_point = 0, b_zero_point = 0;
  bool b_constant = true;
  DataType b_type = DataType::kInt8, type = DataType::kInt32;
  bool bias = false;
  const char* epilogue = "";
  std::vector<Extents> operands = {};
};

void check(const Product& p) {
  ir::MatrixMultiplyAttrs attrs;
  attrs.transpose_a = p.transpose_a;
  attrs.transpose_b = p.transpose_b;
  attrs.a_zero_point = p.a_zero_point;
  attrs.b_zero_point = p.b_zero_point;
  attrs.type = p.type;
  if (*p.epilogue)
    attrs.epilogue = ir::parse_program(1 + static_cast<int>(p.operands.size()), p.epilogue).value();
  TestLayer test;
  test.layer = make_layer(ir::LayerKind::kMatrixMultiply, attrs);
  test.inputs.push_back({.extents = p.a, .type = DataType::kUInt8});
  test.inputs.push_back(
      {.extents = p.b, .type = p.b_type, .is_data = !p.b_constant, .is_constant = p.b_constant});
  test.inputs.push_back({.extents = {p.y.back()},
                         .type = DataType::kInt32,
                         .is_data = false,
                         .is_constant = true,
                         .present = p.bias});
  for (const Extents& operand : p.operands)
    test.inputs.push_back(
        {.extents = operand,
         .is_data = operand.size() >= 3,
         .is_constant = operand.size() < 2,
         .value = [](int64_t k) { return 0.0004 * (1 + static_cast<double>(k % 7)); }});
  test.outputs.push_back({.extents = p.y, .type = p.type});
  test.tolerance = p.type == DataType::kUInt8 ? kTieWidth : *p.epilogue ? 1e-3 : 0;
  test.rounds = true;
  const std::string what = words({p.a[p.a.size() - 2], p.a.back(), p.y.back()}) + p.epilogue;
  for (const bool words_only : {false, true}) {
    if (words_only && active_isa() == Isa::kScalar) break;
    force_word_products(words_only);
    check_layer(test, what);
  }
  force_word_products(false);
}

Product plain(int64_t m, int64_t k, int64_t n) {
  return {.a = {m, k}, .b = {k, n}, .y = {m, n}};
}

TEST(ByteMatmul, Tails) {
  for (int64_t n : {1, 7, 16, 17, 33, 64, 130})
    for (int64_t m : {1, 2, 5, 29})
      for (int64_t k : {1, 8, 11}) {
        Product p = plain(m, k, n);
        p.a_zero_point = 9;
        check(p);
      }
}

TEST(ByteMatmul, TransposedAndBiased) {
  for (int64_t m : {1, 4, 19})
    for (const int which : {1, 2, 3}) {
      Product p = plain(m, 21, 45);
      p.transpose_a = (which & 1) != 0;
      p.transpose_b = (which & 2) != 0;
      if (p.transpose_a) p.a = {21, m};
      if (p.transpose_b) p.b = {45, 21};
      p.bias = true;
      p.a_zero_point = 128;
      check(p);
    }
}

TEST(ByteMatmul, Codes) {
  Product p;
  p.a = {2, 3, 9, 24};
  p.b = {24, 40};
  p.y = {2, 3, 9, 40};
  for (const DataType type : {DataType::kUInt8, DataType::kFloat}) {
    p.type = type;
    p.epilogue = "v3 = fma v0 v1 v2; v4 = const 100; v5 = add v3 v4";
    p.operands = {{40}, {40}};
    check(p);
    p.epilogue = "v2 = mul v0 v1; v3 = gelu v2; v4 = const 30; v5 = mul v3 v4";
    p.operands = {{40}};
    check(p);
    p.operands = {{}};
    check(p);
    // A bias between two quantizers, and what follows the second by a table.
    p.epilogue =
        "v3 = mul v0 v1; v4 = round v3; v5 = const 100; v6 = add v4 v5; v7 = clip v6 0 255; v8 = "
        "const 900; v9 = fma v2 v8 v7; v10 = round v9; v11 = const 3; v12 = add v10 v11; v13 = "
        "clip "
        "v12 0 255; v14 = const 0.03; v15 = const -4; v16 = fma v13 v14 v15; v17 = erf v16; v18 = "
        "mul v13 v17; v19 = const 0.4; v20 = mul v18 v19; v21 = add v20 v5";
    p.operands = {{40}, {40}};
    check(p);
    p.epilogue = "v3 = mul v0 v1; v4 = add v3 v2; v5 = relu v4";
    p.operands = {{40}, {2, 3, 9, 40}};
    check(p);
    p.epilogue = "v2 = mul v0 v1; v3 = relu v2";
    p.operands = {{2, 1, 1, 1}};  // known when it runs
    check(p);
  }
  p.a = {2, 1, 2, 3, 9, 24};
  p.y = {2, 1, 2, 3, 9, 40};
  p.type = DataType::kInt32;
  p.epilogue = "";
  p.operands = {};
  check(p);
}

// Weights of any zero point, of either type: packed as int8 beside what rows start from, or as
// int16.
TEST(ByteMatmul, ZeroPointsOfConstants) {
  for (const DataType type : {DataType::kUInt8, DataType::kInt8})
    for (int64_t b_zero_point : {0, 77, 128, 255})
      for (int64_t a_zero_point : {0, 5})
        for (const auto& [m, k, n] :
             {std::array<int64_t, 3>{1, 64, 70}, {17, 13, 33}, {29, 40, 9}}) {
          Product p = plain(m, k, n);
          p.b_type = type;
          p.a_zero_point = a_zero_point;
          p.b_zero_point = type == DataType::kUInt8 ? b_zero_point : b_zero_point - 128;
          p.bias = m == 17;
          check(p);
          p.b = {n, k};
          p.transpose_b = true;
          check(p);
          p.a = {k, m};
          p.transpose_a = true;
          check(p);
        }
  Product p = plain(70, 600, 65);
  p.b_type = DataType::kUInt8;
  p.b_zero_point = 3;
  check(p);
  p.a = {2, 1, 2, 3, 9, 24};
  p.b = {24, 40};
  p.y = {2, 1, 2, 3, 9, 40};
  p.type = DataType::kUInt8;
  p.epilogue = "v3 = fma v0 v1 v2; v4 = const 100; v5 = add v3 v4";
  p.operands = {{40}, {40}};
  check(p);
}

// Both factors known only at run time: attention.
TEST(ByteMatmul, Activations) {
  for (const DataType type : {DataType::kUInt8, DataType::kInt8})
    for (int64_t b_zero_point : {0, 128, 77})
      for (int64_t a_zero_point : {0, 5})
        for (int64_t n : {3, 33, 70}) {
          Product p = plain(17, 13, n);
          p.b_constant = false;
          p.b_type = type;
          p.a_zero_point = a_zero_point;
          p.b_zero_point = type == DataType::kUInt8 ? b_zero_point : b_zero_point - 77;
          check(p);
          p.b = {n, 13};
          p.transpose_b = true;
          check(p);
          p.a = {13, 17};
          p.transpose_a = true;
          check(p);
        }
  Product p;
  p.b_constant = false;
  p.b_type = DataType::kUInt8;
  p.a = {2, 3, 9, 24};
  p.b = {2, 3, 24, 40};
  p.y = {2, 3, 9, 40};
  p.a_zero_point = p.b_zero_point = 128;
  check(p);
  p.b = {3, 24, 40};
  p.type = DataType::kUInt8;
  p.epilogue = "v2 = mul v0 v1; v3 = const 100; v4 = add v2 v3";
  p.operands = {{}};
  check(p);
  p.operands = {{40}};
  check(p);
  p.type = DataType::kFloat;
  p.epilogue = "v3 = mul v0 v1; v4 = add v3 v2";
  p.operands = {{}, {2, 1, 1, 40}};
  check(p);
  p.type = DataType::kUInt8;
  check(p);
}

TEST(ByteMatmul, ThreadsAndDepth) {
  for (const bool transposed : {false, true}) {
    Product p;
    p.b_constant = false;
    p.b_type = DataType::kUInt8;
    p.b_zero_point = 128;
    p.transpose_b = transposed;
    p.a = {4, 64, 96};
    p.b = transposed ? Extents{4, 130, 96} : Extents{4, 96, 130};
    p.y = {4, 64, 130};
    check(p);
  }
  check(plain(1, 2048, 1000));
  check(plain(70, 600, 65));
  check(plain(9, 1024, 50));
  check(plain(0, 3, 5));
}

}  // namespace
}  // namespace camshaft::kernels::test
