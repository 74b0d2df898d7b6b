// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace camshaft::kernels {

inline constexpr int64_t kMostRadix = 31;  // the largest prime a fast transform is made of

// A length as rows times columns, as even as they come, both at least `least` and of primes up to
// kMostRadix: what the fast Fourier transform takes. False: there are none.
bool split_fourier_length(int64_t length, int64_t least, int64_t& rows, int64_t& columns);

// One that vectors of AVX2 take, so that a fast kernel is there on every set but the scalar one:
// 64 at least, where transforms begin to take less time than products of matrices.
bool is_fast_fourier_length(int64_t length);

}  // namespace camshaft::kernels
