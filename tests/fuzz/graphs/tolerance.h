// SPDX-License-Identifier: Apache-2.0
// How far an engine's outputs may be from the interpreter's.
//
// Nearly all outputs are within 2e-5 of the largest value of the tensor, and nothing more is asked.
// What is not is judged by the graph itself: the interpreter runs again, several times, and every
// layer that computes in floats reads operands of which each element is off by a random share of
// 2u of itself, every step of a pointwise program loses up to 4u of its value, and each element of
// its results is moved by a random share of
//     u * (8 + 2 sqrt(K)) * largest,   u = 2^-24 (2^-8 where engines may store bfloat16)
// with K the length of the layer's sums and `largest` the largest of its results and of the
// products they are sums of (GELU and its like: of the operand). That is what another order of
// summation, a fused multiplier, factors folded into weights or another polynomial may do.
// (Convolutions that Winograd's transforms may run: 16 times that; what a Cast took that made 16
// bits of floats before may have been kept.) Equal elements move alike in every second run. An
// output may then be off by 4 times the largest movement seen. Integers must be equal, unless such
// a movement changes them as well: then nothing can be said, and the output is counted as
// unsettled. So it is where the interpreter itself meets NaN or infinity.
#pragma once

#include <span>

#include "fuzz/graphs/graph_case.h"

namespace camshaft::fuzz {

class Tolerance {
 public:
  Tolerance(const Case& test, std::vector<kernels::Value> inputs,
            std::vector<kernels::Value> expected, bool bfloat16)
      : test_(test),
        inputs_(std::move(inputs)),
        expected_(std::move(expected)),
        bfloat16_(bfloat16) {}

  enum class Verdict { kEqual, kWithin, kUnsettled, kDiffers };
  struct Judgement {
    Verdict verdict = Verdict::kEqual;
    double error = 0, largest = 0, allowed = 0;
    int64_t at = 0;
  };
  Judgement judge(size_t output, const kernels::Value& found);
  // Rounding decides the output's extents.
  bool is_unsettled(size_t output);

 private:
  Judgement judge_by_movements(size_t output, const kernels::Value& found);
  void measure();
  void move_until(int count);

  const Case& test_;
  std::vector<kernels::Value> inputs_, expected_;
  bool bfloat16_;
  int movements_ = 0;
  bool has_nan_ = false;
  std::vector<double> movement_;  // largest, per output
};

}  // namespace camshaft::fuzz
