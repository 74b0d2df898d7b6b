// SPDX-License-Identifier: Apache-2.0
// libcamshaft_bench: the probes as C functions, for bench/peers.py and bench/audit.py.
#include "kernels/probe.h"

extern "C" double camshaft_bench_fma_peak(void) {
  return camshaft::kernels::measure_fma_peak(camshaft::active_isa());
}

extern "C" double camshaft_bench_byte_peak(void) {
  return camshaft::kernels::measure_byte_peak(camshaft::active_isa());
}

extern "C" double camshaft_bench_read_bandwidth(size_t bytes) {
  return camshaft::kernels::measure_read_bandwidth(0.02, bytes);
}
