// SPDX-License-Identifier: Apache-2.0
// Products that are summed, as register tiles want them: row(a) broadcasts a lane of A, column(b)
// is a vector of B, add_product adds to a Sum.
//   WordProduct: unsigned times signed bytes, four neighbours to an int32, exactly; VnniProduct:
//   the same in one instruction PairProduct, StreamedPairProduct (fetches B ahead),
//   VnniPairProduct: int16 pairs to an int32, wrapping Dpbf16Product: bfloat16 pairs to a float
#pragma once

#include "kernels/simd/simd.h"

#include CAMSHAFT_SIMD(products.h)
