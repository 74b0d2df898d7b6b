// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "passes/test_util.h"

namespace camshaft::passes {
namespace {

constexpr const char* kWindow =
    "kernel=[1, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]";
constexpr const char* kPadded =
    "kernel=[1, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[1, 1], post_padding=[1, 1]";

// Channel 1 is zero behind the ReLU, channel 2 is read by nobody, channel 3 is a constant.
std::string network(const char* second_window) {
  return fmt::format(R"ir(graph "g" {{
    input x: float[1, 2, 3, 3]
    constant w: float[4, 2, 1, 1] = [1, 2, 0, 0, 5, 6, 0, 0]
    constant b: float[4] = [0.5, -1, 1, 2]
    constant v: float[2, 4, 1, 1] = [1, 2, 0, 3, 4, 5, 0, 6]
    y: float[1, 4, 3, 3] = Convolution(x, w, b) {{{0}}}
    r: float[1, 4, 3, 3] = Activation(y) {{op=relu}}
    z: float[1, 2, {2}, {2}] = Convolution(r, v) {{{1}}}
    output z
  }})ir",
                     kWindow, second_window, second_window == kPadded ? 5 : 3);
}

TEST(ZeroChannelRemoval, DeadZeroAndConstantChannels) {
  Records records;
  expect_rewrite(
      zero_channel_removal, network(kWindow),
      fmt::format(R"ir(y = Convolution(x, "w (channels kept)", "b (channels kept)") {{{0}}}
      r = Activation(y) {{op=relu}}
      z = Convolution(r, "v (channels kept)", "z bias + constant channels") {{{0}}})ir",
                  kWindow),
      &records);
  EXPECT_EQ(records.back().text, "3 of 4 channels before z carry nothing and are gone");
}

// Padding is zero where the constant would be: that channel stays.
TEST(ZeroChannelRemoval, ConstantsStayBeforePadding) {
  Records records;
  expect_rewrite(
      zero_channel_removal, network(kPadded),
      fmt::format(R"ir(y = Convolution(x, "w (channels kept)", "b (channels kept)") {{{0}}}
      r = Activation(y) {{op=relu}}
      z = Convolution(r, "v (channels kept)") {{{1}}})ir",
                  kWindow, kPadded),
      &records);
  EXPECT_EQ(records.back().text, "2 of 4 channels before z carry nothing and are gone");
}

TEST(ZeroChannelRemoval, MatrixProducts) {
  expect_rewrite(zero_channel_removal, R"ir(graph "g" {
    input x: float[2, 3]
    constant w: float[3, 3] = [1, 0, 2, 3, 0, 4, 5, 0, 6]
    constant v: float[3, 2] = [1, 2, 3, 4, 5, 6]
    y: float[2, 3] = MatrixMultiply(x, w)
    g: float[2, 3] = Activation(y) {op=gelu}
    z: float[2, 2] = MatrixMultiply(g, v)
    output z
  })ir",
                 R"ir(y = MatrixMultiply(x, "w (channels kept)")
      g = Activation(y) {op=gelu}
      z = MatrixMultiply(g, "v (channels kept)"))ir");
}

// A second reader, a network output, all channels: nothing goes.
TEST(ZeroChannelRemoval, LeavesTheRest) {
  for (const char* outputs : {"z, y", "z"}) {
    const std::string before = fmt::format(
        R"ir(graph "g" {{
    input x: float[2, 2]
    constant w: float[2, 2] = {1}
    constant v: float[2, 2] = [1, 2, 3, 4]
    y: float[2, 2] = MatrixMultiply(x, w)
    z: float[2, 2] = MatrixMultiply(y, v)
    output {0}
  }})ir",
        outputs, *outputs == 'z' && outputs[1] != '\0' ? "[1, 0, 2, 0]" : "[0, 0, 0, 0]");
    expect_rewrite(zero_channel_removal, before, R"ir(y = MatrixMultiply(x, w)
      z = MatrixMultiply(y, v))ir");
  }
}

}  // namespace
}  // namespace camshaft::passes
