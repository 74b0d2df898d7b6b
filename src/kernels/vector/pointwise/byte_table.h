// SPDX-License-Identifier: Apache-2.0
// 256-entry tables of codes.
#pragma once

#include <cstdint>

#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// code = table[code] of `rows` rows of `cols` codes, `stride` apart.
void look_up_codes(const uint8_t* table, uint8_t* codes, int64_t rows, int64_t cols,
                   int64_t stride);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
