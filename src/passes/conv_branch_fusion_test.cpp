// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "passes/pipeline.h"
#include "passes/test_util.h"

namespace camshaft::passes {
namespace {

// As RepVGG adds its branches; the normalization of x is a Scale, or a product and a sum.
TEST(ConvBranchFusion, WindowsAndTheTensorItself) {
  expect_rewrite(
      conv_branch_fusion,
      fmt::format(R"ir(graph "g" {{
    input x: float[2, 4, 5, 6]
    constant w: float[4, 4, 3, 3] = random(1)
    constant b: float[4] = random(2)
    constant v: float[4, 4, 1, 1] = random(3)
    constant s: float[4] = random(4)
    constant t: float[4] = random(5)
    a: float[2, 4, 5, 6] = Convolution(x, v) {{{1}}}
    n: float[2, 4, 5, 6] = Scale(x, s, t)
    c: float[2, 4, 5, 6] = Convolution(x, w, b) {{{0}}}
    d: float[2, 4, 5, 6] = ElementWise(n, a) {{op=add}}
    e: float[2, 4, 5, 6] = ElementWise(d, c) {{op=add}}
    f: float[2, 4, 5, 6] = ElementWise(x, e) {{op=add}}
    output f
  }})ir",
                  kWindow3x3, kWindow1x1),
      fmt::format(
          R"ir(f = Convolution "c + a + n + d + e + f"(x, "w + a + n + d + x", "b + a + n + d + x") {{{}}})ir",
          kWindow3x3));
}

// Groups: those of the wider window are unions of the others'.
TEST(ConvBranchFusion, GroupsStridesAndSides) {
  expect_rewrite(
      conv_branch_fusion, R"ir(graph "g" {
    input x: float[1, 6, 7]
    constant w: float[6, 3, 4] = random(1)
    constant v: float[6, 1, 2] = random(2)
    constant m: float[6, 1] = random(3)
    constant z: float[6, 3, 4] = random(4)
    constant u: float[6, 1, 1] = random(5)
    a: float[1, 6, 7] = Convolution(x, w) {kernel=[4], stride=[1], dilation=[1], pre_padding=[2], post_padding=[1], groups=2}
    b: float[1, 6, 7] = Convolution(x, v) {kernel=[2], stride=[1], dilation=[1], pre_padding=[0], post_padding=[1], groups=6}
    c: float[1, 6, 7] = ElementWise(a, b) {op=add}
    n: float[1, 6, 7] = ElementWise(m, x) {op=mul}
    d: float[1, 6, 7] = ElementWise(c, n) {op=add}
    e: float[1, 6, 3] = Convolution(x, z) {kernel=[4], stride=[2], dilation=[1], pre_padding=[1], post_padding=[0], groups=2}
    f: float[1, 6, 3] = Convolution(x, u) {kernel=[1], stride=[2], dilation=[3], pre_padding=[0], post_padding=[-2], groups=6}
    g: float[1, 6, 3] = ElementWise(f, e) {op=add}
    output d, g
  })ir",
      R"ir(d = Convolution "a + b + c + n + d"(x, "w + b + n") {kernel=[4], stride=[1], dilation=[1], pre_padding=[2], post_padding=[1], groups=2}
                    g = Convolution "e + f + g"(x, "z + f") {kernel=[4], stride=[2], dilation=[1], pre_padding=[1], post_padding=[0], groups=2})ir");
}

TEST(ConvBranchFusion, WhatStays) {
  Records records;
  expect_rewrite(
      conv_branch_fusion,
      fmt::format(R"ir(graph "g" {{
    input x: float[1, 4, 5, 5]
    input y: float[1, 4, 5, 5]
    constant w: float[4, 4, 3, 1] = random(1)
    constant v: float[4, 4, 1, 3] = random(3)
    constant u: float[4, 4, 1, 1] = random(4)
    constant d: float[4, 1, 1, 1] = random(5)
    a: float[1, 4, 5, 5] = Convolution(x, w) {{kernel=[3, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[1, 0], post_padding=[1, 0]}}
    b: float[1, 4, 5, 5] = Convolution(x, v) {{kernel=[1, 3], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 1], post_padding=[0, 1]}}
    c: float[1, 4, 5, 5] = ElementWise(a, b) {{op=add}}
    e: float[1, 4, 5, 5] = Convolution(x, u) {{{0}}}
    f: float[1, 4, 5, 5] = Convolution(y, u) {{{0}}}
    g: float[1, 4, 5, 5] = ElementWise(e, f) {{op=add}}
    h: float[1, 4, 5, 5] = Convolution(x, d) {{{0}, groups=4}}
    i: float[1, 4, 5, 5] = ElementWise(h, x) {{op=add}}
    j: float[1, 4, 5, 5] = ElementWise(h, i) {{op=add}}
    output c, g, j
  }})ir",
                  kWindow1x1),
      fmt::format(
          R"ir(a = Convolution(x, w) {{kernel=[3, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[1, 0], post_padding=[1, 0]}}
                    b = Convolution(x, v) {{kernel=[1, 3], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 1], post_padding=[0, 1]}}
                    c = ElementWise(a, b) {{op=add}}
                    e = Convolution(x, u) {{{0}}}
                    f = Convolution(y, u) {{{0}}}
                    g = ElementWise(e, f) {{op=add}}
                    h = Convolution(x, d) {{{0}, groups=4}}
                    i = ElementWise(h, x) {{op=add}}
                    j = ElementWise(h, i) {{op=add}})ir",
          kWindow1x1),
      &records);
  std::vector<std::string> reasons;
  for (const ir::RewriteRecord& record : ir::told_once(records)) reasons.push_back(record.text);
  EXPECT_EQ(reasons,
            (std::vector<std::string>{"a not fused with b: neither window covers the other"}));
}

}  // namespace
}  // namespace camshaft::passes
