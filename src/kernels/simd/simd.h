// SPDX-License-Identifier: Apache-2.0
// The thin vector layer: the same names for every instruction set; a kernel source is compiled once
// per set. F32 is a vector of kLanes floats, I32 of kLanes int32, M32 a mask of kLanes. Everything
// has internal linkage per target namespace, so copies of different sets never meet in the linker.
#pragma once

#if defined(CAMSHAFT_TARGET_avx512)
#include "kernels/simd/avx512.h"
#elif defined(CAMSHAFT_TARGET_avx2)
#include "kernels/simd/avx2.h"
#else
#define CAMSHAFT_TARGET_scalar 1
#ifndef CAMSHAFT_TARGET
#define CAMSHAFT_TARGET scalar
#endif
#include "kernels/simd/scalar.h"
#endif

#include "base/cpu.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
#if defined(CAMSHAFT_TARGET_avx512)
inline constexpr Isa kIsa = Isa::kAvx512;
#elif defined(CAMSHAFT_TARGET_avx2)
inline constexpr Isa kIsa = Isa::kAvx2;
#else
inline constexpr Isa kIsa = Isa::kScalar;
#endif

// Whether kernels of this target use it on this machine.
inline bool uses(Feature feature) {
  return has_feature(kIsa, feature);
}
}  // namespace camshaft::kernels::CAMSHAFT_TARGET
