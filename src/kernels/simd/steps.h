// SPDX-License-Identifier: Apache-2.0
// How many steps of K a tile of floats takes between two tests of its loop, and what keeps them one
// after another:
//   kFloatSteps; add_in_place(row, column, sum): sum += row * column, where sum lies; of several
//   steps also pin(sum): as it is here, for the next step
#pragma once

#include "kernels/simd/simd.h"

#include CAMSHAFT_SIMD(steps.h)
