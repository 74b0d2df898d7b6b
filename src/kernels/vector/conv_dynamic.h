// SPDX-License-Identifier: Apache-2.0
// What convolutions and deconvolutions share whose weights (or bias) only running can tell: they
// are packed in the workspace at the beginning of every run.
#pragma once

#include "kernels/vector/conv_gemm.h"

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
double pack_dynamic_us(const ConvShape& s);

// Also where nothing is left to running.
std::string refuse_dynamic_conv(const Problem& problem, bool has_shape);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
