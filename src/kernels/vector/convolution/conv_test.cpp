// SPDX-License-Identifier: Apache-2.0
// Every dense convolution tactic of every instruction set against the definition in double
// precision.
#include "kernels/vector/convolution/conv_check.h"

namespace camshaft::kernels {
namespace {

TEST(Conv, PointwiseTails) {
  for (int64_t oc : {1, 3, 8, 15, 16, 17, 31, 33, 48, 65, 81})
    for (int64_t size : {1, 2, 3, 5, 7}) EXPECT_GT(check(square(5, size, oc, 1, 1, 0)), 0);
}

TEST(Conv, RowTails) {
  for (int64_t width = 1; width <= 30; ++width) {
    ConvCaseSpec spec = square(3, 2, 40, 1, 1, 0);
    spec.shape.ih = 3;
    spec.shape.iw = width;
    check(spec);
    spec.shape.kh = spec.shape.kw = 3;
    spec.shape.pad_top = spec.shape.pad_left = spec.pad_bottom = spec.pad_right = 1;
    check(spec);
  }
}

TEST(Conv, KernelsStridesAndPads) {
  for (int64_t kernel : {1, 2, 3, 5, 7})
    for (int64_t stride : {1, 2, 3})
      for (int64_t pad : {int64_t{0}, kernel / 2, kernel - 1})
        check(square(4, 9, 20, kernel, stride, pad));
}

TEST(Conv, AsymmetricPadsDilationAndOddKernels) {
  ConvCaseSpec spec = square(6, 11, 24, 3, 1, 0);
  spec.shape.kw = 5;
  spec.shape.pad_top = 2;
  spec.pad_right = 3;
  spec.pad_bottom = 1;
  check(spec);
  spec.shape.dh = 2;
  spec.shape.dw = 3;
  spec.shape.pad_left = 6;
  spec.pad_right = 6;
  check(spec);
  spec.shape.sw = 2;
  spec.shape.sh = 3;
  check(spec);
  spec = square(3, 12, 17, 3, 2, 0);
  spec.pad_bottom = spec.pad_right = 1;
  check(spec);
}

// Filters whose panels leave L1 are passed part by part: parts of a tap, several taps, rows of taps
// outside the image; pixels that collide in L1.
TEST(Conv, PartsOfLongFilters) {
  for (int64_t channels : {64, 150, 600})
    for (int64_t stride : {1, 2})
      for (int64_t pad : {0, 1, 2}) check(square(channels, 7, 40, 3, stride, pad));
  for (int64_t channels : {512, 1024, 1100}) check(square(channels, 6, 80, 1, 1, 0), true);
  check(square(1024, 9, 70, 1, 2, 0));
  check(square(512, 8, 70, 3, 1, 1), true);
  check(square(600, 8, 36, 3, 1, 1, 2));
  ConvCaseSpec spec = square(40, 40, 20, 5, 1, 2);
  spec.shape.iw = 3;
  check(spec);
  spec.epilogue = "v2 = add v0 v1; v3 = relu v2";
  spec.operands = {OperandKind::kSame};
  check(spec);
  spec = square(300, 12, 33, 3, 1, 2);
  spec.shape.dh = spec.shape.dw = 2;
  spec.epilogue = "v1 = silu v0 1";
  spec.shape.batch = 2;
  check(spec, true);
}

// Copies of windows, a product's rows in several strips: images that join and, where lines have
// gaps, do not; many weights; patches that do not overlap.
TEST(Conv, WindowsAsRowsOfAProduct) {
  ConvCaseSpec spec = square(64, 30, 300, 3, 2, 1);
  spec.shape.batch = 3;
  spec.epilogue = "v2 = add v0 v1; v3 = relu v2";
  spec.operands = {OperandKind::kSame};
  check(spec, true);
  spec.slack = 3;
  spec.shape.dh = 2;
  spec.shape.dw = 3;
  spec.shape.pad_left = 5;
  check(spec, true);
  check(square(3, 50, 40, 16, 16, 0));
  check(square(7, 23, 24, 4, 5, 3));
  check(square(512, 4, 48, 2, 2, 0), true);
}

// Wide dilations read in place and skip the taps outside; tall and narrow images are computed along
// their height.
TEST(Conv, FarTapsAndTallImages) {
  for (int64_t dilation : {6, 9, 17, 40}) {
    ConvCaseSpec spec = square(5, 33, 20, 3, 1, dilation);
    spec.shape.dh = spec.shape.dw = dilation;
    check(spec);
    spec.shape.sw = 2;
    spec.shape.kw = 5;
    spec.shape.pad_left = 2 * dilation - 3;
    spec.pad_right = 2 * dilation;
    check(spec);
  }
  for (int64_t width : {1, 2, 3}) {
    ConvCaseSpec spec = square(6, 40, 30, 1, 1, 0);
    spec.shape.iw = width;
    spec.shape.kh = 5;
    check(spec);
    spec.shape.kw = width;
    spec.shape.pad_top = 2;
    spec.pad_bottom = 1;
    spec.shape.pad_left = width / 2;
    spec.slack = 2;
    spec.operands = {OperandKind::kSame};
    spec.epilogue = "v2 = add v0 v1";
    check(spec);
    spec.shape.sh = 2;
    spec.shape.batch = 2;
    spec.operands = {OperandKind::kPerPixel};
    spec.epilogue = "v2 = mul v0 v1";
    check(spec);
  }
}

// Few output channels: lanes hold several steps of K. Odd run lengths leave a rest.
TEST(Conv, FewOutputChannels) {
  for (int64_t oc : {1, 2, 3, 4, 6, 8, 9, 12, 20, 24, 40})
    for (int64_t ic : {1, 3, 7, 16, 33}) {
      check(square(ic, 7, oc, 3, 1, 1));
      check(square(ic, 5, oc, 1, 1, 0));
    }
  ConvCaseSpec spec = square(2, 6, 8, 3, 2, 1);
  spec.shape.iw = 70;
  spec.shape.kw = 39;
  spec.shape.pad_left = spec.pad_right = 19;
  check(spec);
  for (int64_t oc : {1, 2, 4, 8, 24}) {
    spec = square(20, 9, oc, 3, 1, 2);
    spec.shape.dh = spec.shape.dw = 2;
    spec.slack = 3;
    check(spec);
    spec.shape.dh = spec.shape.dw = 1;
    spec.operands = {OperandKind::kSame};
    spec.epilogue = "v2 = add v0 v1; v3 = clip v2 -1 1";
    check(spec);
    spec.epilogue = "v2 = mul v0 v1";
    spec.slack = 0;
    spec.bias = false;
    check(spec);
    spec.operands.clear();
    spec.epilogue = "v1 = hard_swish v0";
    check(spec);
    check(square(17 * 2, 5, oc * 2, 3, 1, 1, 2));
    check(square(33, 26, oc, 3, 1, 1), true);
  }
  spec = {};
  spec.rank = 3;
  spec.shape = {.ic = 1, .iw = 300, .oc = 1, .kw = 64, .sw = 2};
  spec.epilogue = "v1 = leaky_relu v0 0.1";
  check(spec);
}

TEST(Conv, Groups) {
  for (int64_t groups : {2, 3}) {
    check(square(4 * groups, 8, 5 * groups, 3, 1, 1, groups));
    check(square(4 * groups, 8, 36 * groups, 1, 1, 0, groups));
  }
  check(square(6, 7, 6, 3, 2, 1, 6));
}

// Vectors hold several groups.
TEST(Conv, SmallGroups) {
  for (int64_t inputs : {2, 4, 8, 16})
    for (int64_t channels : {32, 96}) {
      const int64_t groups = channels / inputs;
      check(square(channels, 9, channels, 3, 1, 1, groups), channels == 96);
      check(square(channels, 15, channels, 3, 2, 1, groups));
      check(square(channels, 5, channels, 1, 1, 0, groups));
      ConvCaseSpec spec = square(channels, 12, channels, 5, 1, 4, groups);
      spec.shape.dh = spec.shape.dw = 2;
      spec.slack = 8;
      spec.epilogue = "v1 = silu v0 1";
      check(spec);
      spec = square(channels, 37, channels, 3, 1, 1, groups);
      spec.shape.batch = 2;
      spec.bias = false;
      spec.epilogue = "v2 = add v0 v1; v3 = relu v2";
      spec.operands = {OperandKind::kSame};
      check(spec, true);
    }
}

TEST(Conv, WinogradTiles) {
  for (int64_t size : {3, 4, 5, 8, 9, 13})
    for (int64_t channels : {8, 17, 40}) check(square(channels, size, channels + 9, 3, 1, 1));
  check(square(72, 10, 24, 3, 1, 0));
  check(square(16, 70, 16, 3, 1, 1), true);  // several blocks, also when threads share them out
  ConvCaseSpec spec = square(24, 9, 20, 3, 1, 2);
  spec.shape.batch = 3;
  spec.pad_right = 0;
  check(spec);
}

TEST(Conv, WinogradGroups) {
  for (int64_t inputs : {8, 13, 24})
    for (int64_t outputs : {8, 19, 40})
      for (int64_t groups : {2, 3})
        check(square(inputs * groups, 11, outputs * groups, 3, 1, 1, groups), inputs == 24);
  ConvCaseSpec spec = square(64, 33, 96, 3, 1, 1, 2);
  spec.shape.batch = 2;
  spec.epilogue = "v2 = add v0 v1; v3 = relu v2";
  spec.operands = {OperandKind::kSame};
  check(spec, true);
  spec.epilogue = "v1 = silu v0 1";
  spec.operands = {};
  spec.shape.dh = spec.shape.dw = 2;
  check(spec);
}

TEST(Conv, WinogradDilated) {
  for (int64_t dilation : {2, 3, 5}) {
    ConvCaseSpec spec = square(9, 19, 17, 3, 1, dilation);
    spec.shape.batch = 2;
    spec.shape.dh = dilation;
    spec.shape.dw = dilation - 1;
    check(spec);
    spec.epilogue = "v1 = relu v0";
    spec.shape.pad_left = 0;
    check(spec);
  }
}

TEST(Conv, CollidingPixelsAndLongDepth) {
  check(square(1024, 4, 24, 1, 1, 0));
  check(square(512, 5, 24, 1, 2, 0));
  check(square(300, 6, 20, 3, 1, 1));
}

TEST(Conv, Batches) {
  ConvCaseSpec spec = square(7, 6, 33, 3, 1, 1);
  spec.shape.batch = 3;
  check(spec);
  spec.shape.kh = spec.shape.kw = 1;
  spec.shape.pad_left = spec.shape.pad_top = spec.pad_right = spec.pad_bottom = 0;
  check(spec);
}

// More weights than L2 holds long: panel after panel, the next one fetched ahead.
TEST(Conv, ManyWeights) {
  check(square(300, 7, 330, 1, 1, 0));
  check(square(64, 7, 150, 3, 1, 1), true);
  check(square(40, 9, 170, 3, 2, 1, 2));
}

// Enough work for several threads: shared out by rows, by pixels of one long row, by panels, by
// images.
TEST(Conv, Threads) {
  check(square(16, 19, 33, 3, 1, 1), true);
  check(square(33, 23, 40, 1, 1, 0), true);
  check(square(64, 3, 300, 3, 1, 1), true);
  check(square(640, 2, 300, 1, 1, 0), true);
  check(square(64, 9, 96, 3, 2, 1, 2), true);
  ConvCaseSpec spec = square(24, 9, 40, 3, 1, 1);
  spec.shape.batch = 3;
  spec.epilogue = "v2 = add v0 v1; v3 = silu v2 1";
  spec.operands = {OperandKind::kSame};
  check(spec, true);
}

TEST(Conv, OneDimension) {
  ConvCaseSpec spec;
  spec.rank = 3;
  spec.shape = {.batch = 2, .ic = 5, .iw = 33, .oc = 19, .kw = 4, .sw = 3, .pad_left = 1};
  spec.pad_right = 2;
  check(spec);
  spec.shape.kw = spec.shape.sw = 1;
  spec.shape.pad_left = spec.pad_right = 0;
  spec.epilogue = "v2 = add v0 v1; v3 = relu v2";
  spec.operands = {OperandKind::kSame};
  check(spec);
}

TEST(Conv, SlicesOfLargerBuffers) {
  for (int64_t kernel : {1, 3}) {
    ConvCaseSpec spec = square(6, 9, 21, kernel, 1, kernel / 2);
    spec.shape.batch = 2;
    spec.slack = 5;
    check(spec);
    spec.operands = {OperandKind::kSame};
    spec.epilogue = "v2 = add v0 v1";
    check(spec);
  }
}

TEST(Conv, Epilogues) {
  struct Row {
    const char* program;
    std::vector<OperandKind> operands;
  };
  const Row rows[] = {
      {"v1 = relu v0", {}},
      {"v1 = clip v0 -0.5 0.75", {}},
      {"v1 = leaky_relu v0 0.1", {}},
      {"v1 = silu v0 1", {}},
      {"v1 = hard_swish v0", {}},
      {"v1 = hard_sigmoid v0 0.2 0.5; v2 = mul v1 v0", {}},
      {"v2 = add v1 v0; v3 = relu v2", {OperandKind::kSame}},
      {"v2 = add v0 v1; v3 = clip v2 -1 1", {OperandKind::kPerChannel}},
      {"v2 = add v0 v1", {OperandKind::kScalar}},
      {"v2 = mul v0 v1", {OperandKind::kPerImageChannel}},
      {"v2 = add v0 v1", {OperandKind::kPerPixel}},
      {"v3 = relu v0; v4 = add v3 v1; v5 = mul v4 v2",
       {OperandKind::kSame, OperandKind::kPerImageChannel}},
  };
  for (const Row& row : rows)
    for (int64_t kernel : {1, 3}) {
      ConvCaseSpec spec = square(5, 7, 37, kernel, 1, kernel / 2);
      spec.shape.batch = 2;
      spec.epilogue = row.program;
      spec.operands = row.operands;
      EXPECT_GT(check(spec), 0);
      spec.bias = false;
      check(spec);
    }
}

// Few channels, row major: groups of one and more, tails of rows, strides, windows beyond borders.
TEST(Conv, Planes) {
  for (const int64_t groups : {1, 3})
    for (const int64_t inputs : {1, 2, 4})
      for (const int64_t outputs : {1, 2, 3, 8, 15})
        for (const int64_t stride : {1, 2, 3})
          for (const int64_t kernel : {1, 3, 5}) {
            ConvCaseSpec spec =
                square(inputs * groups, 7, outputs * groups, kernel, stride, kernel / 2, groups);
            spec.shape.iw = 37;
            EXPECT_GT(check(spec), 0);
            spec.shape.dw = spec.shape.dh = 2;
            spec.operands = {OperandKind::kSame, OperandKind::kPerImageChannel};
            spec.epilogue = "v3 = silu v0 1; v4 = add v3 v1; v5 = mul v4 v2";
            spec.bias = false;
            check(spec);
          }
  check(square(64, 20, 3, 3, 1, 1));
  check(square(3, 60, 8, 7, 2, 3), true);
  ConvCaseSpec spec = square(1, 9, 12, 5, 1, 2);
  spec.shape.iw = 700, spec.shape.batch = 2;
  spec.epilogue = "v2 = relu v0; v3 = add v2 v1";
  spec.operands = {OperandKind::kPerPixel};
  check(spec, true);
  spec = {};
  spec.rank = 3;
  spec.shape = {.batch = 2, .ic = 1, .iw = 1000, .oc = 6, .kw = 40, .sw = 7, .pad_left = 9};
  check(spec);
}

// Weights that only running can tell: groups, tails of columns and channels, taps that are read
// apart, parts of K, pixels in any order, with and without a bias.
TEST(Conv, DynamicWeights) {
  const auto check_dynamic = [](ConvCaseSpec spec, bool threaded = false) {
    spec.constant_weights = false;
    EXPECT_GT(check(spec, threaded), 0) << describe(spec);
    spec.bias = false;
    spec.epilogue = "v2 = mul v0 v1; v3 = leaky_relu v2 0.2";
    spec.operands = {OperandKind::kPerImageChannel};
    EXPECT_GT(check(spec), 0) << describe(spec);
  };
  for (const bool transposed : {false, true})
    for (int64_t oc : {1, 7, 16, 33, 100})
      for (int64_t groups : {1, 2, 3})
        for (int64_t stride : {1, 2})
          for (int64_t kernel : {1, 3, 4}) {
            ConvCaseSpec spec =
                square(5 * groups, 7, oc * groups, kernel, stride, kernel / 2, groups);
            spec.transposed = transposed;
            check_dynamic(spec);
          }
  for (const bool transposed : {false, true}) {
    ConvCaseSpec spec = square(300, 8, 40, 3, 1, 1);
    spec.transposed = transposed;
    spec.shape.batch = 2;
    spec.slack = 3;
    check_dynamic(spec, true);
    spec = square(120, 9, 140, 3, 1, 2, 2);
    spec.transposed = transposed;
    spec.shape.dh = spec.shape.dw = 2;
    check_dynamic(spec, true);
    spec = {};
    spec.rank = 3;
    spec.transposed = transposed;
    spec.shape = {.batch = 2, .ic = 5, .iw = 33, .oc = 19, .kw = 4, .sw = 3, .pad_left = 1};
    spec.pad_right = 2;
    check_dynamic(spec);
  }
}

}  // namespace
}  // namespace camshaft::kernels
