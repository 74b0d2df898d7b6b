// SPDX-License-Identifier: Apache-2.0
// What this machine is: instruction sets, caches, the processors this process may use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace camshaft {

// Instruction-set targets the vector kernels are compiled for, weakest first.
enum class Isa : uint8_t { kScalar, kAvx2, kAvx512 };
inline constexpr int kIsaCount = 3;

std::string_view isa_name(Isa isa);  // "scalar", "avx2", "avx512": the words of CAMSHAFT_ISA
Result<Isa> parse_isa(std::string_view name);

struct CpuInfo {
  std::string model;  // brand string, e.g. "AMD EPYC"
  Isa best_isa = Isa::kScalar;
  bool has_vnni = false;      // AVX-512 VNNI (vpdpbusd zmm)
  bool has_avx_vnni = false;  // the VEX form
  bool has_bf16 = false;      // AVX-512 BF16 (vdpbf16ps)
  size_t l1d_bytes = 32 << 10;
  size_t l2_bytes = 512 << 10;  // per core
  size_t l3_bytes = 8 << 20;    // shared
  int usable_processors = 1;    // affinity mask, capped by the cgroup's cpu quota
};

const CpuInfo& cpu_info();

// The instruction set in force: the machine's best, or what CAMSHAFT_ISA forces (never more than
// the machine has). An unknown word in CAMSHAFT_ISA is reported once as a warning and ignored.
Isa active_isa();
void force_isa(Isa isa);  // for tests and benchmarks: at most cpu_info().best_isa

// Key of this machine kind for timing caches and engines: model, instruction sets and cache sizes.
std::string cpu_fingerprint();

// CAMSHAFT_NUM_THREADS if set, else usable_processors.
int default_num_threads();

}  // namespace camshaft
