// SPDX-License-Identifier: Apache-2.0
// The binary pointwise operators whose result is a truth value, of any type of number.
#pragma once

#include "ir/program.h"

namespace camshaft::ir {

inline bool is_truth_op(PointOp op) {
  return gives_bool(op) && arity(op) == 2;
}

template <class T>
bool evaluate_truth_op(PointOp op, T a, T b) {
  switch (op) {
    case PointOp::kEqual:
      return a == b;
    case PointOp::kLess:
      return a < b;
    case PointOp::kLessOrEqual:
      return a <= b;
    case PointOp::kGreater:
      return a > b;
    case PointOp::kGreaterOrEqual:
      return a >= b;
    case PointOp::kAnd:
      return a != 0 && b != 0;
    case PointOp::kOr:
      return a != 0 || b != 0;
    default:  // kXor
      return (a != 0) != (b != 0);
  }
}

}  // namespace camshaft::ir
