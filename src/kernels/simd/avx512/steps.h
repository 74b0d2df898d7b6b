// SPDX-License-Identifier: Apache-2.0
// A step takes 14 cycles: time for all that goes with it, even for half a core.
#pragma once

#include "kernels/simd/single_steps.h"
