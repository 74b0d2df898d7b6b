// SPDX-License-Identifier: Apache-2.0
// Arithmetic on counts: of pixels, tiles, bytes.
#pragma once

#include <cstdint>

#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

static inline int64_t ceil_div(int64_t a, int64_t b) {
  return a <= 0 ? 0 : (a + b - 1) / b;
}
static inline int64_t round_up(int64_t count, int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}
static inline int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static inline int64_t larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}
static inline int64_t at_least_one(int64_t a) {
  return a < 1 ? 1 : a;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
