// SPDX-License-Identifier: Apache-2.0
// Steps of K of tiles of floats.
#pragma once

#include "kernels/simd/single_steps.h"
