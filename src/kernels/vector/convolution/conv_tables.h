// SPDX-License-Identifier: Apache-2.0
// What a planned convolution looks up: zones of output columns, offsets of steps.
#pragma once

#include "kernels/vector/convolution/conv_gemm.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// `memory`: plan.bytes.tables.
void make_tables(ConvRun& run, std::byte* memory);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
