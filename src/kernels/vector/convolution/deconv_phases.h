// SPDX-License-Identifier: Apache-2.0
// A transposed convolution as plain ones: the output pixels of one phase (row and column modulo the
// stride) are a convolution of the input with every stride-th tap of the flipped filter.
#pragma once

#include "kernels/vector/convolution/conv_gemm.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// One phase along one axis.
struct Phase {
  int64_t first_out, outs;  // output positions first_out + k * stride
  int64_t first_tap, taps;  // taps first_tap + j * stride of the filter
  int64_t pad;              // of the plain convolution
};

// All column phases as one convolution whose output channels are (column phase, channel): position
// q of it is the outputs q * stride … of a row, and it reads every input that one of them does,
// from q + `first` on. Taps that a phase lacks are zero.
struct JoinedColumns {
  int64_t crop, first, taps;
};

// The convolutions a layer is made of.
struct DeconvForm {
  ConvShape s;  // of the layer
  bool joins_columns = false;
  JoinedColumns joined{};

  int64_t count() const { return joins_columns ? s.sh : s.sh * s.sw; }
};
// Columns are joined where that takes no more steps than phases one by one. It hangs on attributes
// and weights alone: extents may be known only when packed weights are there.
DeconvForm best_form(const ir::ConvolutionAttrs& attrs, const ConvShape& s);

struct PhasePair {
  Phase h, w;
  ConvShape shape;  // of the plain convolution
};
PhasePair phase_pair(const DeconvForm& form, int64_t index);

// Weights as [group][c][n][kh][kw], strides in elements; the plain convolution of a phase runs
// through its taps backwards.
template <class T>
Filter<T> phase_filter(const ConvShape& s, const PhasePair& pair, Filter<T> whole) {
  const int64_t last_h = pair.h.first_tap + (pair.h.taps - 1) * s.sh,
                last_w = pair.w.first_tap + (pair.w.taps - 1) * s.sw;
  whole.data += last_h * whole.h + last_w * whole.w;
  whole.h *= -s.sh;
  whole.w *= -s.sw;
  return whole;
}

// `layer` (its shape that of the transposed convolution) restricted to one phase.
ConvRun phase_run(const ConvRun& layer, const PhasePair& pair);

// How far the output and the operands of a phase begin behind those of the layer, in bytes.
struct PhaseOffsets {
  int64_t out, operands[kMaxOperands];
};
PhaseOffsets phase_offsets(const TileFinish& layer, const TileFinish& phase);
void shift_addresses(const PhaseOffsets& offsets, TileFinish& finish);

// Dilated and strided at once, which phases cannot say.
std::string refuse_phases(const ConvShape& s);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
