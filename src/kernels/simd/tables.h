// SPDX-License-Identifier: Apache-2.0
// Tables of 256 bytes looked up: with CAMSHAFT_HAS_BYTE_ROWS pick() takes entries of a row of 16, 0
// where the index is negative, and look_up_at_once() is the whole of it where the machine has an
// instruction for that.
#pragma once

#include "kernels/simd/simd.h"

#include CAMSHAFT_SIMD(tables.h)
