// SPDX-License-Identifier: Apache-2.0
// Convolutions of volumes.
#include <gtest/gtest.h>

#include "ir/text.h"
#include "passes/test_util.h"

namespace camshaft::passes {
namespace {

TEST(VolumeLowering, OverDepthOnly) {
  expect_rewrite(
      volume_lowering, R"ir(graph "g" {
    input x: float[n, 4, 6, 3, 5]
    constant w: float[6, 2, 3, 1, 1] = random(1)
    constant b: float[6] = random(2)
    y: float[n, 6, 3, 3, 5] = Convolution(x, w, b) {kernel=[3, 1, 1], stride=[2, 1, 1], dilation=[1, 1, 1], pre_padding=[1, 0, 0], post_padding=[1, 0, 0], groups=2, epilogue=<1: v1 = relu v0>}
    output y
  })ir",
      R"ir("x (as images)" = Shuffle "y (as images)"(x) {has_reshape=true, reshape=[n, 4, 6, 15]}
      "y (images)" = Convolution("x (as images)", "w (image)", b) {kernel=[3, 1], stride=[2, 1], dilation=[1, 1], pre_padding=[1, 0], post_padding=[1, 0], groups=2, epilogue=<1: v1 = relu v0>}
      y = Shuffle("y (images)") {has_reshape=true, reshape=[n, 6, 3, 3, 5]})ir");
}

TEST(VolumeLowering, OverSpaceOnly) {
  expect_rewrite(
      volume_lowering, R"ir(graph "g" {
    input x: float[n, 4, 6, 7, 5]
    constant w: float[6, 2, 1, 3, 3] = random(1)
    y: float[n, 6, 6, 4, 5] = Convolution(x, w) {kernel=[1, 3, 3], stride=[1, 2, 1], dilation=[1, 1, 1], pre_padding=[0, 1, 1], post_padding=[0, 1, 1], groups=2}
    output y
  })ir",
      R"ir("x (as images)" = Shuffle "y (as images)"(x) {first_transpose=[0, 2, 1, 3, 4], has_reshape=true, reshape=[(n*6), 4, 7, 5]}
      "y (images)" = Convolution("x (as images)", "w (image)") {kernel=[3, 3], stride=[2, 1], dilation=[1, 1], pre_padding=[1, 1], post_padding=[1, 1], groups=2}
      y = Shuffle("y (images)") {has_reshape=true, reshape=[n, 6, 6, 4, 5], second_transpose=[0, 2, 1, 3, 4]})ir");
}

// The numbers of every form, with a residual and a factor per channel behind.
class Volumes : public ::testing::TestWithParam<const char*> {};

TEST_P(Volumes, SameNumbers) {
  const std::string text = fmt::format(R"ir(graph "g" {{
    input x: float[n, 3, 7, 6, 5]
    {}
    output y
  }})ir",
                                       GetParam());
  auto before = ir::parse_graph(text), after = ir::parse_graph(text);
  ASSERT_TRUE(before.ok()) << before.status().message();
  Records records;
  EXPECT_GT(volume_lowering(**after, &records), 0);
  ASSERT_TRUE(ir::verify(**after).ok()) << ir::verify(**after).message();
  for (const auto& layer : (*after)->layers()) {
    const bool is_convolution =
        layer->kind == ir::LayerKind::kConvolution || layer->kind == ir::LayerKind::kDeconvolution;
    EXPECT_TRUE(!is_convolution || layer->inputs[0]->shape.size() == 4) << layer->name;
  }
  expect_same_numbers(**before, **after, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Forms, Volumes,
                         ::testing::Values(
                             R"(constant w: float[4, 3, 3, 3, 3] = random(1)
    constant b: float[4] = random(2)
    y: float[n, 4, 7, 6, 5] = Convolution(x, w, b) {kernel=[3, 3, 3], stride=[1, 1, 1], dilation=[1, 1, 1], pre_padding=[1, 1, 1], post_padding=[1, 1, 1]})",
                             R"(constant w: float[4, 3, 3, 3, 2] = random(1)
    y: float[n, 4, 3, 3, 2] = Convolution(x, w) {kernel=[3, 3, 2], stride=[2, 2, 2], dilation=[2, 1, 1], pre_padding=[2, 1, 0], post_padding=[1, 1, 0]})",
                             R"(constant w: float[4, 3, 1, 1, 1] = random(1)
    y: float[n, 4, 4, 3, 3] = Convolution(x, w) {kernel=[1, 1, 1], stride=[2, 2, 2], dilation=[1, 1, 1], pre_padding=[0, 0, 0], post_padding=[0, 0, 0]})",
                             R"(constant w: float[4, 3, 1, 1, 1] = random(1)
    y: float[n, 4, 7, 6, 5] = Convolution(x, w) {kernel=[1, 1, 1], stride=[1, 1, 1], dilation=[1, 1, 1], pre_padding=[0, 0, 0], post_padding=[0, 0, 0]})",
                             R"(constant w: float[3, 1, 1, 3, 3] = random(1)
    constant f: float[3, 1, 1, 1] = random(3)
    r: float[n, 3, 9, 6, 5] = Pad(x) {pre=[0, 0, 1, 0, 0], post=[0, 0, 1, 0, 0]}
    y: float[n, 3, 9, 6, 5] = Convolution(x, w, _, r, f) {kernel=[1, 3, 3], stride=[1, 1, 1], dilation=[1, 1, 1], pre_padding=[1, 1, 1], post_padding=[1, 1, 1], groups=3, epilogue=<3: v3 = add v0 v1; v4 = mul v3 v2>})",
                             R"(constant w: float[3, 3, 5, 1, 1] = random(1)
    y: float[n, 3, 7, 6, 5] = Convolution(x, w, _, x) {kernel=[5, 1, 1], stride=[1, 1, 1], dilation=[1, 1, 1], pre_padding=[2, 0, 0], post_padding=[2, 0, 0], epilogue=<2: v2 = add v0 v1>})",
                             // Groups of windows over depth and space: a sum, with what follows.
                             R"(constant w: float[6, 1, 3, 3, 3] = random(1)
    constant b: float[6] = random(2)
    constant f: float[6, 1, 1, 1] = random(3)
    y: float[n, 6, 4, 3, 5] = Convolution(x, w, b, f) {kernel=[3, 3, 3], stride=[2, 2, 1], dilation=[1, 1, 1], pre_padding=[1, 1, 1], post_padding=[1, 1, 1], groups=3, epilogue=<2: v2 = mul v0 v1; v3 = relu v2>})",
                             R"(constant w: float[3, 1, 2, 3, 1] = random(1)
    y: float[n, 3, 5, 6, 5] = Convolution(x, w) {kernel=[2, 3, 1], stride=[1, 1, 1], dilation=[2, 1, 1], pre_padding=[0, 1, 0], post_padding=[0, 1, 0], groups=3})",
                             // Transposed: depths of both residues with one tap and two, three with
                             // one each, dilated, of groups; steps over depth only.
                             R"(constant w: float[3, 4, 3, 3, 3] = random(1)
    constant b: float[4] = random(2)
    y: float[n, 4, 14, 12, 10] = Deconvolution(x, w, b) {kernel=[3, 3, 3], stride=[2, 2, 2], dilation=[1, 1, 1], pre_padding=[1, 1, 1], post_padding=[1, 1, 1], output_padding=[1, 1, 1]})",
                             R"(constant w: float[3, 3, 3, 2, 2] = random(1)
    constant f: float[3, 1, 1, 1] = random(3)
    r: float[n, 3, 21, 12, 10] = Pad(x) {pre=[0, 0, 7, 3, 2], post=[0, 0, 7, 3, 3]}
    y: float[n, 3, 21, 12, 10] = Deconvolution(x, w, _, r, f) {kernel=[3, 2, 2], stride=[3, 2, 2], dilation=[1, 1, 1], pre_padding=[0, 0, 0], post_padding=[0, 0, 0], epilogue=<3: v3 = add v0 v1; v4 = mul v3 v2>})",
                             R"(constant w: float[3, 2, 3, 3, 1] = random(1)
    y: float[n, 2, 9, 6, 5] = Deconvolution(x, w) {kernel=[3, 3, 1], stride=[1, 1, 1], dilation=[2, 1, 1], pre_padding=[1, 1, 0], post_padding=[1, 1, 0]})",
                             R"(constant w: float[3, 2, 1, 4, 4] = random(1)
    y: float[n, 6, 7, 12, 10] = Deconvolution(x, w) {kernel=[1, 4, 4], stride=[1, 2, 2], dilation=[1, 1, 1], pre_padding=[0, 1, 1], post_padding=[0, 1, 1], groups=3})",
                             R"(constant w: float[3, 4, 5, 1, 1] = random(1)
    y: float[n, 4, 14, 6, 5] = Deconvolution(x, w) {kernel=[5, 1, 1], stride=[2, 1, 1], dilation=[1, 1, 1], pre_padding=[2, 0, 0], post_padding=[1, 0, 0]})"));

// Codes: padded with what stands for zero, a factor per channel and a residual behind.
TEST(VolumeLowering, Codes) {
  for (const char* window :
       {"kernel=[3, 3, 3], stride=[2, 1, 1], dilation=[1, 1, 1], pre_padding=[1, 1, 1], "
        "post_padding=[1, 1, 1]",
        "kernel=[3, 1, 1], stride=[1, 1, 1], dilation=[2, 1, 1], pre_padding=[2, 0, 0], "
        "post_padding=[3, 0, 0]",
        "kernel=[1, 3, 3], stride=[1, 2, 1], dilation=[1, 1, 1], pre_padding=[0, 1, 1], "
        "post_padding=[0, 1, 1]"}) {
    const auto kernel = std::string_view(window).substr(8, 7);
    const bool deep = window[8] == '3', wide = window[11] == '3';
    const ir::Ints y = {deep && wide ? 4 : deep ? 8 : 7, !deep ? 3 : 6, 5};
    const std::string text = fmt::format(R"ir(graph "g" {{
    input x: uint8[n, 3, 7, 6, 5]
    input f: float[4, 1, 1, 1]
    input r: float[n, 4, {1}, {2}, {3}]
    constant w: int8[4, 3, {0}] = random(1)
    y: uint8[n, 4, {1}, {2}, {3}] = Convolution(x, w, _, f, r) {{{4}, zero_point=7, type=uint8, epilogue=<3: v3 = mul v0 v1; v4 = add v3 v2; v5 = const 128; v6 = add v4 v5>}}
    output y
  }})ir",
                                         kernel, y[0], y[1], y[2], window);
    auto before = ir::parse_graph(text), after = ir::parse_graph(text);
    ASSERT_TRUE(before.ok()) << before.status().message();
    EXPECT_GT(volume_lowering(**after, nullptr), 0);
    ASSERT_TRUE(ir::verify(**after).ok()) << ir::verify(**after).message();
    for (const auto& layer : (*after)->layers())
      EXPECT_TRUE(layer->kind != ir::LayerKind::kConvolution ||
                  layer->inputs[0]->shape.size() == 4);
    expect_same_numbers(**before, **after, 0);
  }
}

// What does not become a convolution of images is not made one of codes: a window over depth alone
// that steps in space, of groups.
TEST(VolumeLowering, SaysWhatStaysFloat) {
  auto graph = ir::parse_graph(R"ir(graph "g" {
    input q: uint8[1, 4, 5, 6, 6]
    constant s: float[] = [0.1]
    constant z: uint8[] = [3]
    constant w: int8[4, 2, 3, 1, 1] = random(1)
    x: float[1, 4, 5, 6, 6] = Dequantize(q, s, z)
    d: float[4, 2, 3, 1, 1] = Dequantize(w, s, _)
    y: float[1, 4, 3, 3, 3] = Convolution(x, d) {kernel=[3, 1, 1], stride=[1, 2, 2], dilation=[1, 1, 1], pre_padding=[0, 0, 0], post_padding=[0, 0, 0], groups=2}
    output y
  })ir");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  Records records;
  EXPECT_EQ(quantize_double_input_nodes(**graph, &records), 0);
  ASSERT_FALSE(records.empty());
  EXPECT_NE(records.back().text.find("its groups have windows over depth and space"),
            std::string::npos)
      << records.back().text;
}

TEST(VolumeSplit, PoolsCodes) {
  for (const auto& [pooling, type] :
       {std::pair("max, kernel=[3, 2, 3], stride=[2, 2, 2], dilation=[1, 1, 1], pre_padding=[1, 0, "
                  "1], post_padding=[1, 0, 1]",
                  "uint8[n, 3, 4, 3, 3]"),
        std::pair(
            "average, kernel=[3, 2, 3], stride=[2, 2, 2], dilation=[1, 1, 1], pre_padding=[1, "
            "0, 1], post_padding=[1, 0, 1]",
            "float[n, 3, 4, 3, 3]"),
        std::pair("average, global=true", "float[n, 3, 1, 1, 1]"),
        std::pair("max, global=true", "uint8[n, 3, 1, 1, 1]")}) {
    const std::string text = fmt::format(R"ir(graph "g" {{
    input x: uint8[n, 3, 7, 6, 5]
    y: {} = Pooling(x) {{type={}}}
    output y
  }})ir",
                                         type, pooling);
    auto before = ir::parse_graph(text), after = ir::parse_graph(text);
    ASSERT_TRUE(before.ok()) << before.status().message();
    EXPECT_GT(volume_split(**after, nullptr), 0);
    ASSERT_TRUE(ir::verify(**after).ok()) << ir::verify(**after).message();
    for (const auto& layer : (*after)->layers())
      EXPECT_TRUE(layer->kind == ir::LayerKind::kShuffle || layer->inputs[0]->shape.size() == 4);
    expect_same_numbers(**before, **after, 1e-6);
  }
}

TEST(VolumeSplit, ResizesTheSmallerVolumeFirst) {
  expect_rewrite(volume_split, R"ir(graph "g" {
    input x: float[n, 4, 3, 5, 6]
    y: float[n, 4, 6, 10, 6] = Resize(x) {mode=linear, scales=[1, 1, 2, 2, 1], sizes=[n, 4, 6, 10, 6]}
    output y
  })ir",
                 R"ir("y (before depth)" = Shuffle(x) {has_reshape=true, reshape=[n, 4, 3, 30]}
      "y (depth)" = Resize("y (before depth)") {mode=linear, scales=[1, 1, 2, 1], sizes=[n, 4, 6, 30]}
      "y (before space)" = Shuffle("y (depth)") {has_reshape=true, reshape=[n, 24, 5, 6]}
      "y (space)" = Resize("y (before space)") {mode=linear, scales=[1, 1, 2, 1], sizes=[n, 24, 10, 6]}
      y = Shuffle("y (space)") {has_reshape=true, reshape=[n, 4, 6, 10, 6]})ir");
}

// Kinds, windows, modes; sides that stay as they are.
class SplitVolumes : public ::testing::TestWithParam<const char*> {};

TEST_P(SplitVolumes, SameNumbers) {
  const std::string text = fmt::format(R"ir(graph "g" {{
    input x: float[n, 3, 7, 6, 5]
    {}
    output y
  }})ir",
                                       GetParam());
  auto before = ir::parse_graph(text), after = ir::parse_graph(text);
  ASSERT_TRUE(before.ok()) << before.status().message();
  Records records;
  EXPECT_GT(volume_split(**after, &records), 0);
  ASSERT_TRUE(ir::verify(**after).ok()) << ir::verify(**after).message();
  for (const auto& layer : (*after)->layers())
    EXPECT_TRUE(layer->kind == ir::LayerKind::kShuffle || layer->inputs[0]->shape.size() == 4)
        << layer->name;
  expect_same_numbers(**before, **after, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(
    Forms, SplitVolumes,
    ::testing::Values(
        R"(y: float[n, 3, 3, 3, 2] = Pooling(x) {type=max, kernel=[3, 2, 3], stride=[2, 2, 2], dilation=[1, 1, 1], pre_padding=[0, 0, 0], post_padding=[0, 0, 0]})",
        R"(y: float[n, 3, 4, 3, 3] = Pooling(x) {type=average, kernel=[3, 3, 3], stride=[2, 2, 2], dilation=[1, 1, 1], pre_padding=[1, 1, 1], post_padding=[1, 1, 1]})",
        R"(y: float[n, 3, 4, 3, 3] = Pooling(x) {type=average, kernel=[3, 3, 3], stride=[2, 2, 2], dilation=[1, 1, 1], pre_padding=[1, 1, 1], post_padding=[1, 1, 1], count_includes_padding=true})",
        R"(y: float[n, 3, 7, 3, 3] = Pooling(x) {type=average, kernel=[1, 2, 2], stride=[1, 2, 2], dilation=[1, 1, 1], pre_padding=[0, 0, 0], post_padding=[0, 0, 0], padding_mode=explicit_round_up})",
        R"(y: float[n, 3, 3, 6, 5] = Pooling(x) {type=max, kernel=[2, 1, 1], stride=[2, 1, 1], dilation=[1, 1, 1], pre_padding=[0, 0, 0], post_padding=[0, 0, 0]})",
        R"(y: float[n, 3, 14, 12, 10] = Resize(x) {mode=nearest, scales=[1, 1, 2, 2, 2], sizes=[n, 3, 14, 12, 10]})",
        R"(y: float[n, 3, 3, 13, 11] = Resize(x) {mode=linear, transform=align_corners, sizes=[n, 3, 3, 13, 11]})",
        R"(y: float[n, 3, 4, 3, 2] = Resize(x) {mode=linear, transform=half_pixel, sizes=[n, 3, 4, 3, 2]})",
        R"(y: float[n, 3, 10, 6, 5] = Resize(x) {mode=nearest, transform=asymmetric, rounding=floor, sizes=[n, 3, 10, 6, 5]})",
        R"(y: float[n, 3, 7, 6, 5] = Resize(x) {mode=linear, sizes=[n, 3, 7, 6, 5]})"));

TEST(VolumeLowering, SaysWhyNot) {
  const auto reason = [](const char* conv) {
    auto graph = ir::parse_graph(fmt::format(R"ir(graph "g" {{
    input x: float[1, 4, d, 6, 5]
    {}
    output y
  }})ir",
                                             conv));
    EXPECT_TRUE(graph.ok()) << graph.status().message();
    Records records;
    if (!graph.ok()) return std::string();
    EXPECT_EQ(volume_lowering(**graph, &records), 0);
    return records.empty() ? std::string() : records.back().text;
  };
  EXPECT_EQ(reason(R"(constant w: float[4, 4, 1, 1, 1] = random(1)
    y: float[1, 4, d, 6, 5] = Convolution(x, w) {kernel=[1, 1, 1], stride=[1, 1, 1], dilation=[1, 1, 1], pre_padding=[0, 0, 0], post_padding=[0, 0, 0]})"),
            "stays a convolution of volumes: only running can tell its extents");
  EXPECT_EQ(reason(R"(input w: float[4, 4, 1, 1, 1]
    y: float[1, 4, d, 6, 5] = Convolution(x, w) {kernel=[1, 1, 1], stride=[1, 1, 1], dilation=[1, 1, 1], pre_padding=[0, 0, 0], post_padding=[0, 0, 0]})"),
            "stays a convolution of volumes: its weights are no constant floats or codes");
  EXPECT_EQ(
      reason(
          R"(z: float[1, 4, 3, 6, 5] = Slice(x) {start=[0, 0, 0, 0, 0], size=[1, 4, 3, 6, 5], step=[1, 1, 1, 1, 1]}
    constant w: float[4, 4, 3, 1, 1] = random(1)
    y: float[1, 4, 7, 6, 5] = Deconvolution(z, w) {kernel=[3, 1, 1], stride=[2, 1, 1], dilation=[1, 1, 1], pre_padding=[0, 0, 0], post_padding=[0, 0, 0]})"),
      "stays a convolution of volumes: its depth is no multiple of the stride");
}

}  // namespace
}  // namespace camshaft::passes
