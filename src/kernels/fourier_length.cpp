// SPDX-License-Identifier: Apache-2.0
#include "kernels/fourier_length.h"

namespace camshaft::kernels {

bool split_fourier_length(int64_t length, int64_t least, int64_t& rows, int64_t& columns) {
  int64_t rest = length;
  for (int64_t prime = 2; prime <= kMostRadix; ++prime)
    while (rest > 1 && rest % prime == 0) rest /= prime;
  if (length < 1 || rest != 1) return false;
  rows = 0;
  for (int64_t k = 1; k * k <= length; ++k)
    if (length % k == 0) rows = k;
  columns = length / rows;
  return rows >= least;
}

bool is_fast_fourier_length(int64_t length) {
  int64_t rows, columns;
  return split_fourier_length(length, 8, rows, columns);
}

}  // namespace camshaft::kernels
