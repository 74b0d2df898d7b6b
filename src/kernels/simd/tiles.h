// SPDX-License-Identifier: Apache-2.0
// The register tiles of products. Registers decide: rows * vecs accumulators + vecs of B + one or
// two broadcasts. The widest tiles are for products of a row or two, where they keep enough chains
// of additions going.
#pragma once

#include "kernels/simd/simd.h"

#include CAMSHAFT_SIMD(tiles.h)
