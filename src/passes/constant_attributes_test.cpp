// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "passes/pipeline.h"
#include "passes/test_util.h"

namespace camshaft::passes {
namespace {

TEST(ConstantAttributes, RangesAmountsAndSizes) {
  expect_rewrite(constant_attributes, R"ir(graph "g" {
    input x: float[1, 2, 4, 6]
    input n: float[N, 5]
    constant from: int64[2] = [-3, 5]
    constant to: int64[2] = [9223372036854775807, -7]
    constant along: int64[2] = [2, -1]
    constant by: int64[2] = [1, -2]
    constant one: int64[1] = [1]
    constant four: int64[1] = [4]
    constant amounts: int64[4] = [1, 0, -1, 2]
    constant value: float[] = [3]
    constant sizes: int64[4] = [1, 2, 8, 9]
    constant scales: float[4] = [1, 1, 2, 0.5]
    constant none: float[0] = []
    s: float[1, 2, 3, 3] = Slice(x, from, to, along, by) {start=[], size=[], step=[]}
    t: float[N, 3] = Slice(n, one, four, one) {start=[], size=[], step=[]}
    p: float[1, 2, 4, 8] = Pad(x, amounts, value, along) {pre=[], post=[]}
    r: float[1, 2, 8, 9] = Resize(x, _, none, sizes) {mode=linear}
    u: float[1, 2, 8, 3] = Resize(x, none, scales) {mode=linear}
    output s, t, p, r, u
  })ir",
                 R"ir(s = Slice(x) {start=[0, 0, 1, 5], size=[1, 2, 3, 3], step=[1, 1, 1, -2]}
                    t = Slice(n) {start=[0, 1], size=[N, 3], step=[1, 1]}
                    p = Pad(x) {pre=[0, 0, 1, 0], post=[0, 0, -1, 2], value=3}
                    r = Resize(x) {mode=linear, sizes=[1, 2, 8, 9]}
                    u = Resize(x) {mode=linear, scales=[1, 1, 2, 0.5], sizes=[1, 2, 8, 3]})ir");
}

TEST(ConstantAttributes, WhatOnlyRunningTellsStays) {
  auto graph = ir::parse_graph(R"ir(graph "g" {
    input x: float[4, 6]
    input from: int64[1]
    input sizes: int64[2]
    constant to: int64[1] = [3]
    constant region: float[4] = [0, 0, 1, 1]
    constant known: int64[2] = [2, 3]
    s: float[?0a, 6] = Slice(x, from, to) {start=[], size=[], step=[]}
    r: float[?1b, ?2c] = Resize(x, _, _, sizes) {mode=linear}
    t: float[2, 3] = Resize(x, region, _, known) {mode=linear, transform=tf_crop_and_resize}
    output s, r, t
  })ir");
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(constant_attributes(**graph, nullptr), 0);
}

}  // namespace
}  // namespace camshaft::passes
