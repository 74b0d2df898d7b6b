// SPDX-License-Identifier: Apache-2.0
// ShortTimeSpectra: what convolutions with windowed waves give. A Generic layer of x [N, samples]
// and a window [length] of floats with the attributes hop and conjugate (0 or 1): y [2, N, frames,
// length / 2 + 1], frames = (samples - length) / hop + 1. y[0] are the real parts, the sums of x[n]
// window[n] cos(2π n bin / length) over a frame, y[1] the imaginary ones, those of -sin (conjugate:
// of sin).
#pragma once

namespace camshaft::ir {

inline constexpr const char* kShortTimeSpectra = "ShortTimeSpectra";

}  // namespace camshaft::ir
