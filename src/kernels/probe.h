// SPDX-License-Identifier: Apache-2.0
// What one thread of this machine can do right now: the yardstick of every "percent of peak". The
// clock moves, so measure it in the same second as what it is compared with.
#pragma once

#include <cstddef>

#include "base/cpu.h"

namespace camshaft::kernels {

// Fused multiply-adds per second of one thread in registers, in 1e9 MAC/s, on the given instruction
// set.
double measure_fma_peak(Isa isa, double seconds = 0.005);

// The same for products of uint8 and int8 added to int32.
double measure_byte_peak(Isa isa, double seconds = 0.005);

// The same for products of bfloat16 pairs added to float: vdpbf16ps where there is it.
double measure_bf16_peak(Isa isa, double seconds = 0.005);

// Bytes per second one thread reads again and again from a buffer of so many bytes, in 1e9 B/s; 0:
// from memory (four times the last-level cache, at most 256 MiB).
double measure_read_bandwidth(double seconds = 0.05, size_t bytes = 0);

}  // namespace camshaft::kernels
