// SPDX-License-Identifier: Apache-2.0
// Rows of bytes interleaved, so that a dword holds vertical neighbours of a channel and one
// instruction adds the products of its taps (CAMSHAFT_HAS_INTERLEAVED_ROWS).
#pragma once

#include "kernels/simd/bytes.h"

#include CAMSHAFT_SIMD(rows.h)
