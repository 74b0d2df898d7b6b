// SPDX-License-Identifier: Apache-2.0
// libcamshaft_bench: the FMA probe as a C function, for bench/peers.py.
#include "kernels/probe.h"

extern "C" double camshaft_bench_fma_peak(void) {
  return camshaft::kernels::measure_fma_peak(camshaft::active_isa());
}
