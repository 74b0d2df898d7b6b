// SPDX-License-Identifier: Apache-2.0
// Sparse tactics of bytes against the plain loops on the same zeros: every bit the same, for random
// masks, with a pattern and without, windows, groups and strides, at the extremes, on every
// instruction set and arithmetic.
#include "kernels/vector/byte_test_util.h"
#include "kernels/vector/sparse/sparse_test_util.h"

namespace camshaft::kernels::test {
namespace {

// Which of every four (eight) channels keep their weights; or a share of them without a pattern, in
// blocks of four channels, of four filters.
enum class Mask { kFirstTwo, kRandom, kFourOfEight, kSome, kAnywhere, kFourChannels, kFourFilters };
bool is_pattern(Mask mask) {
  return mask < Mask::kAnywhere;
}

struct Spec {
  int64_t batch = 1, ic = 16, ih = 5, iw = 6, oc = 20, kh = 1, kw = 1;
  int64_t stride = 1, dilation = 1, pad = 0, groups = 1, zero_point = 0, x_maximum = 255;
  Mask mask = Mask::kRandom;
  uint32_t seed = 1;
  int64_t kept = 20;  // per cent of the weights, where there is no pattern
  DataType type = DataType::kInt32;
  const char* epilogue = "";
  std::function<double(int64_t)> x = {}, w = {};
};

// Of channel c at some place: a tap of filter place / taps.
bool is_kept(const Spec& s, int64_t place, int64_t c, int64_t taps) {
  const Mask mask = s.mask;
  const uint32_t seed = s.seed;
  if (!is_pattern(mask)) {
    const int64_t block =
        mask == Mask::kFourFilters ? place / taps / 4 * taps + place % taps : place;
    const int64_t channel = mask == Mask::kFourChannels ? c / 4 : c;
    return mixed(seed * 7919u + static_cast<uint32_t>(block * 4099 + channel)) % 100 <
           static_cast<uint32_t>(s.kept);
  }
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
    default:  // fewer than two
      return (kPairs[random % 6] >> at & 1) != 0 && random % 5 != static_cast<uint32_t>(at);
  }
}

std::function<double(int64_t)> masked(const Spec& s, int64_t channels, int64_t inner) {
  return [=](int64_t k) {
    const int64_t c = k / inner % channels, place = k / inner / channels * inner + k % inner;
    if (!is_kept(s, place, c, inner)) return 0.0;
    return s.w ? s.w(k) : static_cast<double>(mixed(static_cast<uint32_t>(k) + s.seed) % 256) - 128;
  };
}

// Per cent of the steps of four input channels that hold weights. `weights`: [filters][channels]
// [taps], or [channels][filters] of a product.
int64_t share_of_quads(const std::function<double(int64_t)>& weights, int64_t filters,
                       int64_t channels, int64_t taps, bool rows_first) {
  int64_t full = 0, quads = 0;
  for (int64_t n = 0; n < filters; ++n)
    for (int64_t tap = 0; tap < taps; ++tap)
      for (int64_t first = 0; first < channels; first += 4, ++quads) {
        bool any = false;
        for (int64_t c = first; c < std::min(first + 4, channels); ++c)
          any |= weights(rows_first ? c * filters + n : (n * channels + c) * taps + tap) != 0;
        full += any ? 1 : 0;
      }
  return quads == 0 ? 100 : (100 * full + quads - 1) / quads;
}

// `quads`: see above.
void check_all(const TestLayer& layer, const std::string& what, Mask mask, int64_t quads) {
  SCOPED_TRACE(what);
  for (const bool words_only : {false, true}) {
    if (words_only && active_isa() == Isa::kScalar) break;
    force_word_products(words_only);
    TestLayer test = layer;
    const auto runs = [&test](const char* only) {
      test.only = only;
      LayerCheck check(test);
      return check.run() > 0;
    };
    if (is_pattern(mask)) {
      test.only = "_sparse";
      check_layer(test, words_only ? "without VNNI" : "");
      EXPECT_EQ(runs("_sparse_bits"), mask != Mask::kFourOfEight);
    }
    EXPECT_EQ(runs("_sparse_quads_half"), quads <= 50) << quads;
    EXPECT_EQ(runs("_sparse_quads"), quads <= 75) << quads;
  }
  force_word_products(false);
}

void check(const Spec& s) {
  ir::ConvolutionAttrs attrs = attrs_of(s, 0);
  attrs.zero_point = s.zero_point;
  attrs.x_maximum = s.x_maximum;
  attrs.type = s.type;
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
  check_all(
      test,
      words({s.batch, s.ic, s.ih, s.iw, s.oc, s.kh, s.kw, s.stride, s.dilation, s.pad, s.groups,
             s.zero_point, s.x_maximum, static_cast<int64_t>(s.mask), s.kept, s.seed}),
      s.mask, share_of_quads(test.inputs[1].value, s.oc, channels, s.kh * s.kw, false));
}

TEST(SparseConv, ExactForEveryMask) {
  uint32_t seed = 1;
  for (const Mask mask : {Mask::kFirstTwo, Mask::kRandom, Mask::kFourOfEight, Mask::kSome})
    for (const int64_t oc : {1, 16, 33, 130})
      for (const int64_t ic : {8, 12, 17, 40}) {
        Spec s = square<Spec>(ic, 5, oc, 1);
        s.mask = mask, s.seed = ++seed;
        check(s);
      }
}

TEST(SparseConv, WindowsStridesGroupsAndDilations) {
  uint32_t seed = 100;
  for (const int64_t kernel : {2, 3, 5})
    for (const int64_t stride : {1, 2, 3})
      for (const int64_t ic : {8, 9, 24}) {
        Spec s = square<Spec>(ic, 9, 20, kernel, stride);
        s.seed = ++seed, s.zero_point = seed % 2 == 0 ? 0 : 131, s.batch = 2;
        check(s);
      }
  for (const int64_t ic : {32, 40, 48}) {
    Spec s = square<Spec>(ic, 7, 24, 3);
    s.groups = 2, s.seed = ++seed;
    check(s);
    s.dilation = 2, s.pad = 2, s.x_maximum = 127;
    check(s);
  }
  Spec wide = square<Spec>(16, 20, 20, 3);
  wide.dilation = wide.pad = 9;
  check(wide);
}

// All ways to multiply: chains of four where codes and weights are small, words where they are not.
// An even number of steps of eight channels may share their loads (16, 32, 48), an odd one (24, 40)
// may not.
TEST(SparseConv, RowsAndCodes) {
  for (const int64_t ic : {16, 24, 48})
    for (int64_t width = 1; width <= 30; ++width) {
      Spec s = square<Spec>(ic, 2, 40, 3);
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
        for (const int64_t zero_point : {0, 255})
          for (const int64_t ic : {16, 32, 40, 48}) {
            Spec s = square<Spec>(ic, 4, 20, 3);
            s.x = x, s.w = w, s.mask = mask, s.zero_point = zero_point;
            check(s);
          }
}

TEST(SparseConv, Epilogues) {
  for (const char* epilogue :
       {"v1 = const 0.001; v2 = mul v0 v1; v3 = relu v2; v4 = const 3; v5 = add v3 v4",
        "v1 = const 0.0005; v2 = mul v0 v1; v3 = silu v2 1; v4 = const 30; v5 = mul v3 v4"}) {
    Spec s = square<Spec>(24, 6, 37, 3);
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
  check_all(test, words({m, n, k, transposed, static_cast<int64_t>(mask), seed}), mask,
            share_of_quads(test.inputs[1].value, n, k, 1, !transposed));
}

TEST(SparseMatmul, Exact) {
  uint32_t seed = 1;
  for (const Mask mask : {Mask::kRandom, Mask::kFourOfEight, Mask::kSome, Mask::kAnywhere,
                          Mask::kFourChannels, Mask::kFourFilters})
    for (const int64_t m : {1, 2, 13, 31})
      for (const int64_t n : {5, 40, 150})
        for (const int64_t k : {8, 27, 96}) {
          ++seed;
          check_matmul(m, n, k, seed % 3 == 0, mask, seed);
        }
}

// Zeros anywhere: one vector of pixels to several blocks of four, K of one list to several, odd
// numbers of channels, which are read through a copy.
TEST(SparseBytesAnywhere, PixelsChannelsAndShares) {
  uint32_t seed = 300;
  for (const Mask mask : {Mask::kAnywhere, Mask::kFourChannels, Mask::kFourFilters})
    for (const int64_t kept : {0, 1, 10, 20, 30})
      for (const int64_t ic : {8, 13, 40, 130}) {
        Spec s = square<Spec>(ic, 3 + seed % 9, 1 + seed % 50, 1);
        s.mask = mask, s.kept = kept, s.seed = ++seed, s.batch = 1 + seed % 3;
        s.x_maximum = seed % 2 == 0 ? 255 : 127, s.zero_point = seed % 3 == 0 ? 77 : 0;
        check(s);
      }
  for (const int64_t ic : {1000, 1030})  // more than one block of K
    for (const int64_t oc : {1, 270}) {
      Spec s = square<Spec>(ic, 4, oc, 1);
      s.mask = Mask::kAnywhere, s.kept = 10, s.seed = ++seed;
      check(s);
    }
}

TEST(SparseBytesAnywhere, WindowsStridesGroupsAndDilations) {
  uint32_t seed = 400;
  for (const Mask mask : {Mask::kAnywhere, Mask::kFourChannels, Mask::kFourFilters})
    for (const int64_t kernel : {2, 3, 5})
      for (const int64_t stride : {1, 2, 3}) {
        Spec s = square<Spec>(9 + seed % 16, 9, 20, kernel, stride);
        s.mask = mask, s.kept = 12, s.seed = ++seed, s.zero_point = seed % 2 == 0 ? 0 : 131;
        s.batch = 2;
        check(s);
        s.groups = 2, s.ic = 2 * s.ic, s.oc = 2 * s.oc, s.dilation = s.pad = 2;
        check(s);
      }
}

TEST(SparseBytesAnywhere, Extremes) {
  const auto constant = [](double value) { return [value](int64_t) { return value; }; };
  const auto signs = [](int64_t k) { return k % 3 == 0 ? -128.0 : 127.0; };
  for (const double x : {0.0, 255.0})
    for (const auto& w : {std::function<double(int64_t)>(constant(-128)), {constant(127)}, {signs}})
      for (const int64_t kept : {3, 15}) {
        Spec s = square<Spec>(70, 5, 20, 3);
        s.mask = Mask::kAnywhere, s.kept = kept, s.x = constant(x), s.w = w;
        check(s);
        s.x_maximum = 255, s.zero_point = 255;
        check(s);
      }
}

TEST(SparseBytesAnywhere, Epilogues) {
  for (const char* epilogue :
       {"v1 = const 0.001; v2 = mul v0 v1; v3 = relu v2; v4 = const 3; v5 = add v3 v4",
        "v1 = const 0.0005; v2 = mul v0 v1; v3 = silu v2 1; v4 = const 30; v5 = mul v3 v4"})
    for (const int64_t oc : {7, 37, 300}) {
      Spec s = square<Spec>(24, 6, oc, 3);
      s.type = DataType::kUInt8, s.epilogue = epilogue, s.zero_point = 5;
      s.mask = Mask::kAnywhere, s.kept = 10;
      check(s);
      s.kh = s.kw = 1, s.pad = 0;
      check(s);
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
  test.only = "_sparse_quads_half";
  LayerCheck half(test);
  EXPECT_EQ(half.run(), 0);
  EXPECT_NE(half.last_refusal().find("more than half"), std::string::npos) << half.last_refusal();
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
