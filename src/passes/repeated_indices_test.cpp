// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "passes/pipeline.h"
#include "passes/test_util.h"

namespace camshaft::passes {
namespace {

// (What nobody reads any more is left to DeadLayerRemoval.) One list of rows; a list for each
// batch; constant rows.
TEST(RepeatedIndices, ElementsOfRowsAreGatheredTogether) {
  expect_rewrite(repeated_indices, R"ir(graph "g" {
    input x: float[5, 4]
    input b: float[2, 5, 4]
    input s: float[1, 5, 4]
    input i: int64[3]
    input j: int64[2, 3, 1]
    input k: int64[1, 3, 1]
    constant c: int64[3, 4] = [4, 4, 4, 4, 0, 0, 0, 0, -1, -1, -1, -1]
    iu: int64[3, 1] = Shuffle(i) {has_reshape=true, reshape=[3, 1]}
    ie: int64[3, 4] = Expand(iu) {shape=[3, 4]}
    je: int64[2, 3, 4] = Expand(j) {shape=[2, 3, 4]}
    ke: int64[1, 3, 4] = Expand(k) {shape=[1, 3, 4]}
    y: float[3, 4] = Gather(x, ie) {mode=elements}
    z: float[2, 3, 4] = Gather(b, je) {mode=elements, axis=1}
    t: float[1, 3, 4] = Gather(s, ke) {mode=elements, axis=1}
    w: float[3, 4] = Gather(x, c) {mode=elements}
    output y, z, t, w
  })ir",
                 R"ir(iu = Shuffle(i) {has_reshape=true, reshape=[3, 1]}
                    ie = Expand(iu) {shape=[3, 4]}
                    je = Expand(j) {shape=[2, 3, 4]}
                    ke = Expand(k) {shape=[1, 3, 4]}
                    "y (rows)" = Shuffle(iu) {has_reshape=true, reshape=[3]}
                    y = Gather(x, "y (rows)")
                    z = Gather(b, j) {mode=nd, batch_dims=1}
                    "t (rows)" = Shuffle(k) {has_reshape=true, reshape=[3]}
                    t = Gather(s, "t (rows)") {axis=1}
                    w = Gather(x, "c (rows)"))ir");
}

TEST(RepeatedIndices, ElementsOfRowsAreScatteredTogether) {
  expect_rewrite(repeated_indices, R"ir(graph "g" {
    input x: float[5, 4, 2]
    input i: int64[3, 1, 1]
    input u: float[3, 4, 2]
    e: int64[3, 4, 2] = Expand(i) {shape=[3, 4, 2]}
    y: float[5, 4, 2] = Scatter(x, e, u) {mode=elements, reduction=add}
    output y
  })ir",
                 R"ir(e = Expand(i) {shape=[3, 4, 2]}
                    "y (rows)" = Shuffle(i) {has_reshape=true, reshape=[3, 1]}
                    y = Scatter(x, "y (rows)", u) {mode=nd, reduction=add})ir");
}

// A batch shares one list of rows: expanded, and constant.
TEST(RepeatedIndices, BatchesShareAList) {
  expect_rewrite(repeated_indices, R"ir(graph "g" {
    input b: float[2, 5, 4]
    input k: int64[1, 3, 1]
    input u: float[2, 3, 4]
    input n: float[2, 2, 4]
    constant c: int64[2, 2, 4] = [1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0]
    shared: int64[2, 3, 4] = Expand(k) {shape=[2, 3, 4]}
    t: float[2, 3, 4] = Gather(b, shared) {mode=elements, axis=1}
    v: float[2, 5, 4] = Scatter(b, shared, u) {mode=elements, axis=1}
    w: float[2, 5, 4] = Scatter(b, c, n) {mode=elements, axis=1, reduction=add}
    output t, v, w
  })ir",
                 R"ir(shared = Expand(k) {shape=[2, 3, 4]}
                    "t (rows)" = Shuffle(k) {has_reshape=true, reshape=[3]}
                    t = Gather(b, "t (rows)") {axis=1}
                    "v (rows)" = Shuffle(k) {has_reshape=true, reshape=[3, 1]}
                    v = Scatter(b, "v (rows)", u) {mode=nd, axis=1}
                    "w (rows)" = Shuffle("c (rows)") {has_reshape=true, reshape=[2, 1]}
                    w = Scatter(b, "w (rows)", n) {mode=nd, axis=1, reduction=add})ir");
}

// Indices of a part of the rows; that differ within one; repeated along the axis itself; scattered
// along another axis by lists of their own.
TEST(RepeatedIndices, OthersStay) {
  expect_rewrite(repeated_indices, R"ir(graph "g" {
    input x: float[5, 4]
    input b: float[2, 5, 4]
    input i: int64[3, 1]
    input j: int64[1, 4]
    input k: int64[2, 3, 1]
    input u: float[2, 3, 4]
    constant c: int64[2, 4] = [4, 4, 4, 4, 0, 0, 0, 1]
    part: int64[3, 2] = Expand(i) {shape=[3, 2]}
    along: int64[3, 4] = Expand(j) {shape=[3, 4]}
    shared: int64[2, 3, 4] = Expand(k) {shape=[2, 3, 4]}
    y: float[3, 2] = Gather(x, part) {mode=elements}
    z: float[3, 4] = Gather(x, along) {mode=elements}
    w: float[2, 4] = Gather(x, c) {mode=elements}
    v: float[2, 5, 4] = Scatter(b, shared, u) {mode=elements, axis=1}
    output y, z, w, v
  })ir",
                 R"ir(part = Expand(i) {shape=[3, 2]}
                    along = Expand(j) {shape=[3, 4]}
                    shared = Expand(k) {shape=[2, 3, 4]}
                    y = Gather(x, part) {mode=elements}
                    z = Gather(x, along) {mode=elements}
                    w = Gather(x, c) {mode=elements}
                    v = Scatter(b, shared, u) {axis=1})ir");
}

}  // namespace
}  // namespace camshaft::passes
