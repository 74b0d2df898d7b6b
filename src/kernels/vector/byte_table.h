// SPDX-License-Identifier: Apache-2.0
// 256-entry tables of codes.
#pragma once

#include <cstdint>

#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// to[k] = table[from[k]]; in place, or apart.
void look_up_codes(const uint8_t* table, const uint8_t* from, uint8_t* to, int64_t count);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
