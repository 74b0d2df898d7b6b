// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <regex>

#include "passes/pipeline.h"
#include "passes/test_util.h"

namespace camshaft::passes {
namespace {

// A static cache as PyTorch exports index_copy along its third dimension.
TEST(ScatterTransposition, RowsOfACache) {
  expect_rewrite(scatter_transposition, R"ir(graph "g" {
    input cache: float[1, 2, 16, 4]
    input rows: float[3, 1, 2, 4]
    constant positions: int64[3, 1] = [7, 2, -1]
    front: float[16, 1, 2, 4] = Shuffle(cache) {first_transpose=[2, 0, 1, 3]}
    filled: float[16, 1, 2, 4] = Scatter(front, positions, rows) {mode=nd}
    y: float[1, 2, 16, 4] = Shuffle(filled) {first_transpose=[1, 2, 0, 3]}
    output y
  })ir",
                 R"ir(front = Shuffle(cache) {first_transpose=[2, 0, 1, 3]}
                    "filled (rows)" = Shuffle(rows) {first_transpose=[1, 2, 0, 3]}
                    y = Scatter "filled"(cache, positions, "filled (rows)") {mode=nd, axis=2})ir");
}

// Sums, an order of its own, open extents.
TEST(ScatterTransposition, SumsAndOrders) {
  expect_rewrite(scatter_transposition, R"ir(graph "g" {
    input x: float[N, 5, 6]
    input u: float[2, 5, N]
    constant i: int32[2, 1] = [0, 5]
    t: float[6, 5, N] = Shuffle(x) {first_transpose=[2, 1, 0]}
    s: float[6, 5, N] = Scatter(t, i, u) {mode=nd, reduction=add}
    y: float[N, 5, 6] = Shuffle(s) {first_transpose=[2, 1, 0]}
    output y
  })ir",
                 R"ir(t = Shuffle(x) {first_transpose=[2, 1, 0]}
                    "s (rows)" = Shuffle(u) {first_transpose=[2, 1, 0]}
                    y = Scatter "s"(x, i, "s (rows)") {mode=nd, axis=2, reduction=add})ir");
}

TEST(ScatterTransposition, LeavesWhatItCannotTurn) {
  // The result is wanted as it is; another order back; tuples of two; the first dimension stays.
  const std::string layers = R"ir(
    t: float[5, 4, 6] = Shuffle(x) {first_transpose=[1, 0, 2]}
    s: float[5, 4, 6] = Scatter(t, i, u) {mode=nd}
    a: float[4, 5, 6] = Shuffle(s) {first_transpose=[1, 0, 2]}
    p: float[5, 4, 6] = Scatter(t, i, u) {mode=nd}
    b: float[6, 5, 4] = Shuffle(p) {first_transpose=[2, 0, 1]}
    q: float[5, 4, 6] = Scatter(t, j, v) {mode=nd}
    c: float[4, 5, 6] = Shuffle(q) {first_transpose=[1, 0, 2]}
    f: float[4, 6, 5] = Shuffle(x) {first_transpose=[0, 2, 1]}
    r: float[4, 6, 5] = Scatter(f, i, w) {mode=nd}
    d: float[4, 5, 6] = Shuffle(r) {first_transpose=[0, 2, 1]})ir";
  expect_rewrite(scatter_transposition,
                 R"ir(graph "g" {
    input x: float[4, 5, 6]
    input u: float[2, 4, 6]
    input v: float[2, 6]
    input w: float[2, 6, 5]
    constant i: int64[2, 1] = [1, 3]
    constant j: int64[2, 2] = [1, 3, 4, 0])ir" +
                     layers + "\n    output a, b, c, d, s\n  }",
                 std::regex_replace(layers, std::regex(": float[^=]*="), " ="));
}

}  // namespace
}  // namespace camshaft::passes
