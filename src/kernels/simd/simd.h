// SPDX-License-Identifier: Apache-2.0
// The thin vector layer: the same names for every instruction set; a kernel source is compiled once
// per set. F32 is a vector of kLanes floats, I32 of kLanes int32, M32 a mask of kLanes. Everything
// has internal linkage per target namespace, so copies of different sets never meet in the linker.
//
// What an instruction set supplies is the folder of its name, with a header for each of these:
//
//   vector.h    F32, I32, M32 and their arithmetic; kIsa, kLanes; what it has (CAMSHAFT_HAS_…)
//   bytes.h     vectors of bytes to and from int32; codes
//   words.h     vectors of int16
//   float16.h   vectors of bfloat16 and half to and from float
//   shuffles.h  transposes, repeats, sums of neighbours, pixels packed
//   products.h  sums of products of bytes, of int16 and of bfloat16 pairs
//   picks.h     bytes and pairs picked from a few, for sparse products
//   dwords.h    dwords of packed codes of few bits
//   rows.h      rows of bytes interleaved
//   tables.h    tables of 256 bytes
//   tiles.h     the register tiles of products; steps.h: their steps of K, of floats
//
// Sources outside this folder ask for what a set has, not which it is (layering_test.py).
#pragma once

#include "base/cpu.h"
#include "kernels/simd/target.h"

#include CAMSHAFT_SIMD(vector.h)

namespace camshaft::kernels::CAMSHAFT_TARGET {

// Whether kernels of this target use it on this machine.
inline bool uses(Feature feature) {
  return has_feature(kIsa, feature);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
