// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "passes/pipeline.h"
#include "passes/test_util.h"

namespace camshaft::passes {
namespace {

// x[:, 1:3] = u as TorchScript exports it: numbers, broadcast over the block and stacked.
TEST(ScatterElimination, SlicesBesideTheBlock) {
  expect_rewrite(scatter_elimination, R"ir(graph "g" {
    input x: float[2, 3, 4]
    input u: float[2, 2, 4]
    constant zero: int64[] = [0]
    constant one: int64[] = [1]
    constant two: int64[] = [2]
    constant three: int64[] = [3]
    r: int64[2] = Range(zero, two, one)
    ru: int64[2, 1] = Shuffle(r) {has_reshape=true, reshape=[2, 1]}
    re: int64[2, 2] = Expand(ru) {shape=[2, 2]}
    rc: int64[2, 2, 1] = Shuffle(re) {has_reshape=true, reshape=[2, 2, 1]}
    c: int64[2] = Range(one, three, one)
    ce: int64[2, 2] = Expand(c) {shape=[2, 2]}
    cc: int64[2, 2, 1] = Shuffle(ce) {has_reshape=true, reshape=[2, 2, 1]}
    i: int64[2, 2, 2] = Concatenation(rc, cc) {axis=2}
    y: float[2, 3, 4] = Scatter(x, i, u) {mode=nd}
    output y
  })ir",
                 R"ir(r = Range(zero, two, one)
                    ru = Shuffle(r) {has_reshape=true, reshape=[2, 1]}
                    re = Expand(ru) {shape=[2, 2]}
                    rc = Shuffle(re) {has_reshape=true, reshape=[2, 2, 1]}
                    c = Range(one, three, one)
                    ce = Expand(c) {shape=[2, 2]}
                    cc = Shuffle(ce) {has_reshape=true, reshape=[2, 2, 1]}
                    i = Concatenation(rc, cc) {axis=2}
                    "y (part 1)" = Shuffle(u) {has_reshape=true, reshape=[2, 2, 4]}
                    "y (part 2)" = Slice(x) {start=[0, 0, 0], size=[2, 1, 4], step=[1, 1, 1]}
                    y = Concatenation("y (part 2)", "y (part 1)") {axis=1})ir");
}

// A block of all of them; of constant indices, along two dimensions; of elements.
TEST(ScatterElimination, WholeBlocksConstantsAndElements) {
  expect_rewrite(scatter_elimination, R"ir(graph "g" {
    input x: float[2, 3]
    input u: float[2, 3]
    input w: float[2, 2]
    input big: float[3, 4]
    input v: float[2, 3]
    constant a: int64[2, 1] = [0, 1]
    constant b: int64[2, 3, 2] = [-2, 0, -2, 1, -2, 2, -1, 0, -1, 1, -1, 2]
    constant e: int64[2, 2] = [1, 2, 1, 2]
    y: float[2, 3] = Scatter(x, a, u) {mode=nd}
    z: float[2, 3] = Scatter(x, e, w) {mode=elements, axis=1}
    t: float[3, 4] = Scatter(big, b, v) {mode=nd}
    output y, z, t
  })ir",
                 R"ir(y = Shuffle(u) {has_reshape=true, reshape=[2, 3]}
                    "z (part 1)" = Shuffle(w) {has_reshape=true, reshape=[2, 2]}
                    "z (part 2)" = Slice(x) {start=[0, 0], size=[2, 1], step=[1, 1]}
                    z = Concatenation("z (part 2)", "z (part 1)") {axis=1}
                    "t (part 1)" = Shuffle(v) {has_reshape=true, reshape=[2, 3]}
                    "t (part 2)" = Slice(big) {start=[1, 3], size=[2, 1], step=[1, 1]}
                    "t (part 3)" = Concatenation("t (part 1)", "t (part 2)") {axis=1}
                    "t (part 4)" = Slice(big) {start=[0, 0], size=[1, 4], step=[1, 1]}
                    t = Concatenation("t (part 4)", "t (part 3)"))ir");
}

// A tuple costs more than copying what is around its element does.
TEST(ScatterElimination, SmallBlocksByTuples) {
  Records records;
  expect_rewrite(scatter_elimination, R"ir(graph "g" {
    input x: float[3, 8]
    input u: float[1, 2]
    constant i: int64[1, 2, 2] = [0, 3, 0, 4]
    y: float[3, 8] = Scatter(x, i, u) {mode=nd}
    output y
  })ir",
                 R"ir("y (part 1)" = Shuffle(u) {has_reshape=true, reshape=[1, 2]}
                    "y (part 2)" = Slice(x) {start=[0, 0], size=[1, 3], step=[1, 1]}
                    "y (part 3)" = Slice(x) {start=[0, 5], size=[1, 3], step=[1, 1]}
                    "y (part 4)" = Concatenation("y (part 2)", "y (part 1)", "y (part 3)") {axis=1}
                    "y (part 5)" = Slice(x) {start=[1, 0], size=[2, 8], step=[1, 1]}
                    y = Concatenation("y (part 4)", "y (part 5)"))ir",
                 &records);
}

TEST(ScatterElimination, WhatStays) {
  Records records;
  expect_rewrite(scatter_elimination, R"ir(graph "g" {
    input x: float[4, 30]
    input u: float[2, 30]
    input v: float[1, 30]
    constant back: int64[2, 1] = [1, 0]
    constant same: int64[2, 1] = [2, 2]
    constant few: int64[1, 1] = [3]
    constant up: int64[2, 1] = [2, 3]
    a: float[4, 30] = Scatter(x, back, u) {mode=nd}
    b: float[4, 30] = Scatter(x, same, u) {mode=nd}
    c: float[4, 30] = Scatter(x, few, v) {mode=nd}
    e: float[4, 30] = Scatter(x, up, u) {mode=nd, reduction=add}
    output a, b, c, e
  })ir",
                 R"ir(a = Scatter(x, back, u) {mode=nd}
                    b = Scatter(x, same, u) {mode=nd}
                    c = Scatter(x, few, v) {mode=nd}
                    e = Scatter(x, up, u) {mode=nd, reduction=add})ir",
                 &records);
  ASSERT_EQ(ir::told_once(records).size(), 1);
  EXPECT_EQ(ir::told_once(records)[0].text, "it replaces less than half of the data");
}

}  // namespace
}  // namespace camshaft::passes
