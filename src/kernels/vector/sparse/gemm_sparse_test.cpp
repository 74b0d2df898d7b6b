// SPDX-License-Identifier: Apache-2.0
// Sparse tactics of bytes against the plain loops on the same zeros: every bit the same, for random
// masks, windows, groups and strides, at the extremes, on every instruction set and arithmetic.
#include "kernels/vector/byte_test_util.h"
#include "kernels/vector/layer_test_util.h"

namespace camshaft::kernels::test {
namespace {

// Which of every four (eight) channels keep their weights.
enum class Mask { kFirstTwo, kRandom, kFourOfEight, kSome };

struct Spec {
  int64_t batch = 1, ic = 16, ih = 5, iw = 6, oc = 20, kh = 1, kw = 1;
  int64_t stride = 1, dilation = 1, pad = 0, groups = 1, zero_point = 0, x_maximum = 255;
  Mask mask = Mask::kRandom;
  uint32_t seed = 1;
  DataType type = DataType::kInt32;
  const char* epilogue = "";
  std::function<double(int64_t)> x = {}, w = {};
};

uint32_t mixed(uint32_t h) {
  h = (h ^ 61u ^ (h >> 16)) * 9u;
  return (h ^ (h >> 4)) * 0x27d4eb2du ^ (h >> 15);
}

// Of channel c of a filter at some place.
bool is_kept(Mask mask, uint32_t seed, int64_t place, int64_t c) {
  static constexpr int kPairs[6] = {3, 5, 9, 6, 10, 12};
  const int64_t size = mask == Mask::kFourOfEight ? 8 : 4, at = c % size;
  const uint32_t random = mixed(seed * 7919u + static_cast<uint32_t>(place * 131 + c / size));
  switch (mask) {
    case Mask::kFirstTwo:
      return at < 2;
    case Mask::kRandom:
      return (kPairs[random % 6] >> at & 1) != 0;
    case Mask::kFourOfEight:  // four neighbours, around the end: often more than two of four
      return (at + random) % 8 < 4;
    case Mask::kSome:  // fewer than two
      return (kPairs[random % 6] >> at & 1) != 0 && random % 5 != static_cast<uint32_t>(at);
  }
  return false;
}

std::function<double(int64_t)> masked(const Spec& s, int64_t channels, int64_t inner) {
  return [=](int64_t k) {
    const int64_t c = k / inner % channels, place = k / inner / channels * inner + k % inner;
    if (!is_kept(s.mask, s.seed, place, c)) return 0.0;
    return s.w ? s.w(k) : static_cast<double>(mixed(static_cast<uint32_t>(k) + s.seed) % 256) - 128;
  };
}

void check_all(const TestLayer& layer, const std::string& what, bool has_bits) {
  SCOPED_TRACE(what);
  for (const bool words_only : {false, true}) {
    if (words_only && active_isa() == Isa::kScalar) break;
    force_word_products(words_only);
    TestLayer test = layer;
    test.only = "_sparse";
    check_layer(test, words_only ? "without VNNI" : "");
    test.only = "_sparse_bits";
    LayerCheck bits(test);
    EXPECT_EQ(bits.run() > 0, has_bits) << bits.last_refusal();
  }
  force_word_products(false);
}

int64_t out_extent(const Spec& s, int64_t in, int64_t kernel) {
  return (in + 2 * s.pad - (kernel - 1) * s.dilation - 1) / s.stride + 1;
}

void check(const Spec& s) {
  ir::ConvolutionAttrs attrs;
  attrs.kernel = {s.kh, s.kw};
  attrs.stride = {s.stride, s.stride};
  attrs.dilation = {s.dilation, s.dilation};
  attrs.pre_padding = attrs.post_padding = {s.pad, s.pad};
  attrs.groups = s.groups;
  attrs.zero_point = s.zero_point;
  attrs.x_maximum = s.x_maximum;
  attrs.type = s.type;
  if (*s.epilogue) attrs.epilogue = ir::parse_program(1, s.epilogue).value();
  const int64_t channels = s.ic / s.groups;
  TestLayer test;
  test.layer = make_layer(ir::LayerKind::kConvolution, attrs);
  const auto code = [s](int64_t k) {
    return static_cast<double>(mixed(static_cast<uint32_t>(k) * 3u + s.seed) %
                               static_cast<uint32_t>(s.x_maximum + 1));
  };
  test.inputs.push_back({.extents = {s.batch, s.ic, s.ih, s.iw},
                         .type = DataType::kUInt8,
                         .value = s.x ? s.x : code});
  test.inputs.push_back({.extents = {s.oc, channels, s.kh, s.kw},
                         .type = DataType::kInt8,
                         .is_data = false,
                         .is_constant = true,
                         .value = masked(s, channels, s.kh * s.kw)});
  test.inputs.push_back({.extents = {s.oc},
                         .type = DataType::kInt32,
                         .is_data = false,
                         .is_constant = true,
                         .value = [](int64_t k) { return static_cast<double>(k * 137 - 999); }});
  test.outputs.push_back(
      {.extents = {s.batch, s.oc, out_extent(s, s.ih, s.kh), out_extent(s, s.iw, s.kw)},
       .type = s.type});
  test.tolerance = s.type == DataType::kUInt8 ? 2e-3 : 0;
  test.rounds = true;
  check_all(test,
            words({s.batch, s.ic, s.ih, s.iw, s.oc, s.kh, s.kw, s.stride, s.dilation, s.pad,
                   s.groups, s.zero_point, s.x_maximum, static_cast<int64_t>(s.mask), s.seed}),
            s.mask != Mask::kFourOfEight);
}

Spec square(int64_t ic, int64_t size, int64_t oc, int64_t kernel, int64_t stride = 1) {
  Spec s;
  s.ic = ic, s.ih = s.iw = size, s.oc = oc, s.kh = s.kw = kernel, s.stride = stride;
  s.pad = kernel / 2;
  return s;
}

TEST(SparseConv, ExactForEveryMask) {
  uint32_t seed = 1;
  for (const Mask mask : {Mask::kFirstTwo, Mask::kRandom, Mask::kFourOfEight, Mask::kSome})
    for (const int64_t oc : {1, 16, 33, 130})
      for (const int64_t ic : {8, 12, 17, 40}) {
        Spec s = square(ic, 5, oc, 1);
        s.mask = mask, s.seed = ++seed;
        check(s);
      }
}

TEST(SparseConv, WindowsStridesGroupsAndDilations) {
  uint32_t seed = 100;
  for (const int64_t kernel : {2, 3, 5})
    for (const int64_t stride : {1, 2, 3})
      for (const int64_t ic : {8, 9, 24}) {
        Spec s = square(ic, 9, 20, kernel, stride);
        s.seed = ++seed, s.zero_point = seed % 2 == 0 ? 0 : 131, s.batch = 2;
        check(s);
      }
  for (const int64_t ic : {32, 40, 48}) {
    Spec s = square(ic, 7, 24, 3);
    s.groups = 2, s.seed = ++seed;
    check(s);
    s.dilation = 2, s.pad = 2, s.x_maximum = 127;
    check(s);
  }
  Spec wide = square(16, 20, 20, 3);
  wide.dilation = wide.pad = 9;
  check(wide);
}

// All ways to multiply: chains of four where codes and weights are small, words where they are not.
TEST(SparseConv, RowsAndCodes) {
  for (int64_t width = 1; width <= 30; ++width) {
    Spec s = square(24, 2, 40, 3);
    s.iw = width, s.seed = static_cast<uint32_t>(width);
    s.x_maximum = width % 3 == 0 ? 255 : width % 3 == 1 ? 127 : 15;
    if (width % 2 == 0) s.w = [](int64_t k) { return static_cast<double>(k % 129 - 64); };
    check(s);
  }
}

TEST(SparseConv, Extremes) {
  const auto alternating = [](double even, double odd, int64_t period) {
    return [=](int64_t k) { return k / period % 2 == 0 ? even : odd; };
  };
  for (const auto& x : {alternating(255, 255, 1), alternating(0, 0, 1), alternating(255, 0, 2)})
    for (const auto& w : {alternating(-128, -128, 1), alternating(127, 127, 1),
                          alternating(-128, 127, 1), alternating(127, -128, 9)})
      for (const Mask mask : {Mask::kRandom, Mask::kFourOfEight})
        for (const int64_t zero_point : {0, 255}) {
          Spec s = square(40, 4, 20, 3);
          s.x = x, s.w = w, s.mask = mask, s.zero_point = zero_point;
          check(s);
        }
}

TEST(SparseConv, Epilogues) {
  for (const char* epilogue :
       {"v1 = const 0.001; v2 = mul v0 v1; v3 = relu v2; v4 = const 3; v5 = add v3 v4",
        "v1 = const 0.0005; v2 = mul v0 v1; v3 = silu v2 1; v4 = const 30; v5 = mul v3 v4"}) {
    Spec s = square(24, 6, 37, 3);
    s.type = DataType::kUInt8, s.epilogue = epilogue, s.zero_point = 5;
    check(s);
    s.kh = s.kw = 1, s.pad = 0;
    check(s);
  }
}

void check_matmul(int64_t m, int64_t n, int64_t k, bool transposed, Mask mask, uint32_t seed) {
  ir::MatrixMultiplyAttrs attrs;
  attrs.transpose_b = transposed;
  attrs.a_zero_point = seed % 2 == 0 ? 0 : 128;
  attrs.type = DataType::kInt32;
  Spec s;
  s.mask = mask, s.seed = seed;
  TestLayer test;
  test.layer = make_layer(ir::LayerKind::kMatrixMultiply, attrs);
  test.inputs.push_back({.extents = {m, k}, .type = DataType::kUInt8});
  test.inputs.push_back({.extents = transposed ? Extents{n, k} : Extents{k, n},
                         .type = DataType::kInt8,
                         .is_data = false,
                         .is_constant = true,
                         .value = masked(s, k, transposed ? 1 : n)});
  test.inputs.push_back({.extents = {n},
                         .type = DataType::kInt32,
                         .is_data = false,
                         .is_constant = true,
                         .value = [](int64_t j) { return static_cast<double>(j * 77 - 500); }});
  test.outputs.push_back({.extents = {m, n}, .type = DataType::kInt32});
  test.tolerance = 0;
  check_all(test, words({m, n, k, transposed, static_cast<int64_t>(mask), seed}),
            mask != Mask::kFourOfEight);
}

TEST(SparseMatmul, Exact) {
  uint32_t seed = 1;
  for (const Mask mask : {Mask::kRandom, Mask::kFourOfEight, Mask::kSome})
    for (const int64_t m : {1, 2, 13, 31})
      for (const int64_t n : {5, 40, 150})
        for (const int64_t k : {8, 27, 96}) {
          ++seed;
          check_matmul(m, n, k, seed % 3 == 0, mask, seed);
        }
}

// What sparse tactics do not take, and why.
TEST(Sparse, RefusesWhatIsNotSparse) {
  ir::ConvolutionAttrs attrs;
  attrs.kernel = attrs.stride = attrs.dilation = {1, 1};
  attrs.pre_padding = attrs.post_padding = {0, 0};
  attrs.type = DataType::kInt32;
  TestLayer test;
  test.layer = make_layer(ir::LayerKind::kConvolution, attrs);
  test.inputs.push_back({.extents = {1, 16, 4, 4}, .type = DataType::kUInt8});
  test.inputs.push_back({.extents = {20, 16, 1, 1},
                         .type = DataType::kInt8,
                         .is_data = false,
                         .is_constant = true,
                         .value = [](int64_t k) { return k == 77 ? 0.0 : 5.0; }});
  test.inputs.push_back({.extents = {20}, .type = DataType::kInt32, .present = false});
  test.outputs.push_back({.extents = {1, 20, 4, 4}, .type = DataType::kInt32});
  test.only = "_sparse_nhwc";
  LayerCheck any(test);
  EXPECT_EQ(any.run(), 0);
  EXPECT_NE(any.last_refusal().find("not 4:8"), std::string::npos) << any.last_refusal();
  test.only = "_sparse_bits";
  LayerCheck bits(test);
  EXPECT_EQ(bits.run(), 0);
  EXPECT_NE(bits.last_refusal().find("not 2:4"), std::string::npos) << bits.last_refusal();
}

TEST(Sparse, NamesSayIt) {
  for (const ir::LayerKind kind : {ir::LayerKind::kConvolution, ir::LayerKind::kMatrixMultiply}) {
    int found = 0;
    for (const Tactic* tactic : tactics_for(kind))
      found += std::string_view(tactic->name).find("_sparse") != std::string_view::npos;
    EXPECT_GT(found, 0);
  }
}

}  // namespace
}  // namespace camshaft::kernels::test
