// SPDX-License-Identifier: Apache-2.0
// Random programs that kernels finish where their sums are, each thing they do spelled in one of
// its ways.
#pragma once

#include <random>
#include <utility>

#include "ir/program.h"

namespace camshaft::kernels {

class EpilogueSpelling {
 public:
  explicit EpilogueSpelling(uint32_t seed) : random_(seed) {
    program_.num_inputs = 2;
    v_ = activated();
    if (below(2) == 0) v_ = added();
    for (int more = below(3); more > 0; --more) v_ = clamped();
    keep();
  }

  const ir::Program& program() const { return program_; }

 private:
  using Op = ir::PointOp;

  int below(uint32_t count) { return static_cast<int>(random_() % count); }
  float number(float low, float high) {
    return low + (high - low) * static_cast<float>(random_() % 1000) / 1000;
  }
  int constant(float x) { return ir::append(program_, Op::kConst, -1, -1, -1, x); }
  int unary(Op op, int a, float x = 0, float y = 0) {
    return ir::append(program_, op, a, -1, -1, x, y);
  }
  int either(Op op, int a, int b) {
    if (below(2) == 0) std::swap(a, b);
    return ir::append(program_, op, a, b);
  }
  void keep() { v_ = unary(Op::kIdentity, v_); }

  int activated() {
    switch (below(4)) {
      case 0:
        return leaky();
      case 1:
        return gated();
      default:
        keep();
        return v_;
    }
  }

  int leaky() {
    const float slope = number(0.01F, 1);
    if (below(4) == 0) return unary(Op::kLeakyRelu, 0, slope);
    const int scaled = either(Op::kMul, 0, constant(slope));
    if (below(3) == 0) return either(Op::kMax, 0, scaled);
    const bool less = below(2) == 0, swaps = below(2) == 0, equal = below(2) == 0;
    const Op op = less ? (equal ? Op::kLessOrEqual : Op::kLess)
                       : (equal ? Op::kGreaterOrEqual : Op::kGreater);
    const int zero = constant(0);
    const int test = ir::append(program_, op, swaps ? zero : 0, swaps ? 0 : zero);
    return less != swaps ? ir::append(program_, Op::kSelect, test, scaled, 0)
                         : ir::append(program_, Op::kSelect, test, 0, scaled);
  }

  int gated() {
    int line = -1;
    switch (below(4)) {
      case 0:
        return unary(Op::kHardSwish, 0);
      case 1:
        line = unary(Op::kHardSigmoid, 0, number(0.1F, 1), number(0.1F, 1));
        break;
      case 2:
        line = unary(Op::kClip, either(Op::kAdd, 0, constant(number(-3, 3.5F))), 0, 6);
        break;
      default:
        line = unary(Op::kRelu, 0);
    }
    return either(Op::kMul, 0, line);
  }

  int added() {
    if (below(3) > 0) return either(Op::kAdd, v_, 1);
    return ir::append(program_, Op::kFma, v_, constant(1), 1);
  }

  int clamped() {
    const float bound = number(0.1F, 2);
    switch (below(5)) {
      case 0:
        return unary(Op::kRelu, v_);
      case 1:
        return unary(Op::kClip, v_, -bound, number(0.1F, 2));
      case 2:
        return either(Op::kMin, v_, constant(bound));
      case 3:
        return either(Op::kMax, v_, constant(-bound));
      default:
        return ir::append(program_, Op::kMax, constant(0), v_);
    }
  }

  std::mt19937 random_;
  ir::Program program_;
  int v_ = 0;
};

}  // namespace camshaft::kernels
