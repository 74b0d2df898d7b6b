// SPDX-License-Identifier: Apache-2.0
// What this machine is: instruction sets, caches, the processors this process may use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/status.h"

namespace camshaft {

// Instruction-set targets the vector kernels are compiled for, weakest first.
enum class Isa : uint8_t { kScalar, kAvx2, kAvx512 };
inline constexpr int kIsaCount = 3;

std::string_view isa_name(Isa isa);  // "scalar", "avx2", "avx512"
// The target of a word of CAMSHAFT_ISA: these three, and those that say more of its features.
Result<Isa> parse_isa(std::string_view name);

// What a processor may have beyond a target. Kernels that need it are built with the target's and
// run where it is.
enum class Feature : uint8_t {
  kVnni,  // vpdpbusd: AVX-512 VNNI of avx512, AVX-VNNI of avx2
  kBf16,  // vdpbf16ps: AVX-512 BF16
  kAmx,   // products of bytes and of bfloat16s in matrix registers, of avx512
};
inline constexpr int kFeatureCount = 3;

class Features {
 public:
  constexpr Features() = default;
  constexpr Features(std::initializer_list<Feature> list) {
    for (const Feature feature : list) bits_ |= bit(feature);
  }
  constexpr bool has(Feature feature) const { return (bits_ & bit(feature)) != 0; }
  constexpr bool has_all(Features others) const { return (others.bits_ & ~bits_) == 0; }
  constexpr void add(Feature feature) { bits_ |= bit(feature); }
  constexpr Features operator&(Features others) const { return Features(bits_ & others.bits_); }
  constexpr Features without(Features others) const { return Features(bits_ & ~others.bits_); }
  constexpr bool operator==(const Features&) const = default;

 private:
  constexpr explicit Features(int bits) : bits_(static_cast<uint8_t>(bits)) {}
  static constexpr uint8_t bit(Feature feature) {
    return static_cast<uint8_t>(1 << static_cast<int>(feature));
  }
  uint8_t bits_ = 0;
};

struct CpuInfo {
  std::string model;  // brand string, e.g. "AMD EPYC"
  Isa best_isa = Isa::kScalar;
  Features features[kIsaCount];  // of the processor, by target; what is in force: features_of
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

// What kernels of a target may use: what the processor has, the system grants, CAMSHAFT_ISA allows
// and nobody holds back. Asks the system for matrix registers, once.
Features features_of(Isa isa);
inline bool has_feature(Isa isa, Feature feature) {
  return features_of(isa).has(feature);
}
// For tests and benchmarks: from now on as on a machine without these.
void hold_back(Features features);

// Key of this machine kind for timing caches and engines: model, instruction sets and cache sizes.
std::string cpu_fingerprint();

// CAMSHAFT_NUM_THREADS if set, else usable_processors.
int default_num_threads();

}  // namespace camshaft
