// SPDX-License-Identifier: Apache-2.0
// What convolutions and deconvolutions share whose weights (or bias) only running can tell: they
// are packed in the workspace at the beginning of every run.
#pragma once

#include "kernels/vector/convolution/conv_gemm.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// Weights that are a view as [group][n][c][kh][kw], of a transposed operator as
// [group][c][n][kh][kw].
Filter<float> view_filter(const ConvShape& s, const TensorView& weights, bool transposed);

int64_t dynamic_bias_bytes(const ConvShape& s);
int64_t dynamic_filter_bytes(const ConvShape& s);
// `bias` is absent or floats along the channels.
void pack_dynamic_bias(const ConvShape& s, const TensorView& bias, std::byte* packed);
void pack_dynamic_filter(const ConvShape& s, const Filter<float>& filter, int max_vecs,
                         ThreadPool* pool, std::byte* packed);
inline constexpr double kPackUsPerFloat = 0.5e-3;  // of one thread
double pack_dynamic_us(const ConvShape& s);

// The views of the weights, and where they are packed.
struct DynamicWeights {
  TensorView filter, bias;
  int64_t filter_at, rest_at;  // in the workspace, behind the packed bias
  // Of a call.
  std::byte *packed_bias = nullptr, *packed_filter = nullptr, *rest = nullptr;

  DynamicWeights(const KernelArgs& args, const ConvShape& s, int64_t filter_bytes);
  size_t bytes() const { return static_cast<size_t>(rest_at); }
};
void set_addresses(const KernelCall& call, ConvRun& run, DynamicWeights& weights);

// Also where nothing is left to running.
std::string refuse_dynamic_conv(const Problem& problem, bool has_shape);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
