// SPDX-License-Identifier: Apache-2.0
// Vectors of kLanes dwords, each of which is four bytes, two int16 or packed codes of few bits.
#pragma once

#include "kernels/simd/simd.h"

#include CAMSHAFT_SIMD(dwords.h)
