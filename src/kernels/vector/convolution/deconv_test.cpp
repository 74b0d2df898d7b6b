// SPDX-License-Identifier: Apache-2.0
// Every tactic of transposed convolutions against the definition in double precision.
#include "kernels/vector/convolution/conv_check.h"

namespace camshaft::kernels {
namespace {

ConvCaseSpec transposed(int64_t ic, int64_t size, int64_t oc, int64_t kernel, int64_t stride,
                        int64_t pad, int64_t groups = 1) {
  ConvCaseSpec spec = square(ic, size, oc, kernel, stride, pad, groups);
  spec.transposed = true;
  return spec;
}

TEST(Deconv, KernelsStridesAndPads) {
  for (int64_t kernel : {1, 2, 3, 4, 5})
    for (int64_t stride : {1, 2, 3})
      for (int64_t pad = 0; pad < kernel; ++pad) {
        ConvCaseSpec spec = transposed(5, 6, 19, kernel, stride, pad);
        EXPECT_GT(check(spec), 0);
        spec.output_padding = stride - 1;
        spec.shape.iw = 5;
        spec.shape.sh = 1 + stride % 2;
        if (spec.output_padding < spec.shape.sh) check(spec);
      }
}

TEST(Deconv, GroupsDilationSlicesAndEpilogues) {
  check(transposed(6, 5, 9, 3, 2, 1, 3));
  check(transposed(8, 5, 68, 2, 2, 0, 2));
  ConvCaseSpec spec = transposed(6, 7, 20, 3, 1, 2);
  spec.shape.dh = spec.shape.dw = 2;
  check(spec);
  spec = transposed(6, 4, 20, 3, 2, 0);
  spec.shape.batch = 2;
  spec.slack = 3;
  spec.pad_right = 1;
  spec.operands = {OperandKind::kSame};
  spec.epilogue = "v2 = add v0 v1; v3 = relu v2";
  check(spec);
  spec.operands = {OperandKind::kPerImageChannel};
  spec.epilogue = "v2 = mul v0 v1; v3 = sigmoid v2";
  check(spec);
  spec.bias = false;
  check(spec);
}

// Groups of one channel, of one output or several: phases of any number of taps, none among them.
TEST(Deconv, Depthwise) {
  for (const int64_t channels : {3, 32, 33, 140})
    for (const int64_t multiplier : {1, 2, 3})
      for (const int64_t kernel : {1, 2, 3, 4, 7})
        for (const int64_t stride : {1, 2, 3}) {
          ConvCaseSpec spec = transposed(channels, 6, channels * multiplier, kernel, stride,
                                         (kernel - 1) / 2, channels);
          spec.shape.iw = 11;
          spec.output_padding = stride - 1;
          EXPECT_GT(check(spec), 0);
          if (multiplier == 3) continue;
          spec.operands = {OperandKind::kSame};
          spec.epilogue = "v2 = add v0 v1; v3 = relu v2";
          spec.slack = 3;
          check(spec);
          spec.operands = {OperandKind::kPerPixel};
          spec.epilogue = "v2 = mul v0 v1; v3 = sigmoid v2";
          spec.bias = false;
          check(spec);
        }
  ConvCaseSpec spec = transposed(40, 9, 40, 3, 1, 2, 40);
  spec.shape.dh = spec.shape.dw = 2;
  check(spec);
  spec = transposed(72, 20, 72, 4, 2, 1, 72);
  spec.shape.batch = 2, spec.shape.iw = 61;
  check(spec, true);
  spec = {};
  spec.rank = 3;
  spec.transposed = true;
  spec.shape = {.batch = 2, .groups = 24, .ic = 24, .iw = 33, .oc = 24, .kw = 12, .sw = 4};
  spec.pad_right = 7;
  check(spec);
}

// Kernels as wide as the stride: column phases side by side, in dense outputs.
TEST(Deconv, JoinedColumnsAndFewChannels) {
  for (int64_t oc : {1, 2, 4, 8, 12, 24})
    for (int64_t stride : {2, 3}) {
      ConvCaseSpec spec = transposed(24, 6, oc, stride, stride, 0);
      check(spec);
      spec.operands = {OperandKind::kSame};
      spec.epilogue = "v2 = add v0 v1; v3 = relu v2";
      check(spec);
      spec.operands = {OperandKind::kPerChannel};
      check(spec);
      spec.slack = 1;
      check(spec);
      spec.operands = {};
      spec.epilogue = "v1 = sigmoid v0";
      spec.shape.kh = stride + 1;
      spec.slack = 0;
      spec.bias = false;
      check(spec);
      check(transposed(17, 6, oc, 5, 1, 1));
    }
}

// Kernels wider than the stride, cropped by any amount: joined where phases would leave lanes idle.
TEST(Deconv, JoinedColumnsOfSeveralTaps) {
  for (int64_t oc : {1, 3, 7, 16})
    for (int64_t stride : {2, 3, 4})
      for (int64_t kernel : {stride + 1, 2 * stride, 3 * stride - 1})
        for (int64_t pad = 0; pad < kernel; ++pad) {
          ConvCaseSpec spec = transposed(20, 5, oc, kernel, stride, pad);
          spec.output_padding = (stride - (4 * stride + kernel - 2 * pad) % stride) % stride;
          EXPECT_GT(check(spec), 0);
        }
  ConvCaseSpec spec;
  spec.rank = 3;
  spec.transposed = true;
  spec.shape = {.batch = 2, .ic = 129, .iw = 13, .oc = 1, .kw = 256, .sw = 64, .pad_left = 96};
  spec.pad_right = 96;
  spec.epilogue = "v1 = tanh v0";
  EXPECT_GT(check(spec, true), 0);
}

TEST(Deconv, OneDimensionAndThreads) {
  ConvCaseSpec spec;
  spec.rank = 3;
  spec.transposed = true;
  spec.shape = {.batch = 2, .ic = 5, .iw = 13, .oc = 19, .kw = 4, .sw = 2, .pad_left = 1};
  spec.pad_right = 2;
  check(spec);
  check(transposed(32, 17, 40, 4, 2, 1), true);
  check(transposed(48, 17, 40, 3, 1, 1), true);
}

}  // namespace
}  // namespace camshaft::kernels
