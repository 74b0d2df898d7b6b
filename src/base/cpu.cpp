// SPDX-License-Identifier: Apache-2.0
#include "base/cpu.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/amx.h"
#include "base/log.h"

namespace camshaft {
namespace {

// The words of CAMSHAFT_ISA: the most a process uses of its machine.
struct Limit {
  std::string_view word;
  Isa isa;
  Features features;
};
constexpr Features kAllFeatures = {Feature::kVnni, Feature::kBf16, Feature::kAmx};
constexpr Limit kLimits[] = {
    {"scalar", Isa::kScalar, {}},
    {"avx2", Isa::kAvx2, {}},
    {"avx_vnni", Isa::kAvx2, {Feature::kVnni}},
    {"avx512_core", Isa::kAvx512, {}},  // the first servers with AVX-512
    {"avx512", Isa::kAvx512, {Feature::kVnni, Feature::kBf16}},
    {"amx", Isa::kAvx512, kAllFeatures},
};

const Limit* find_limit(std::string_view word) {
  const auto* found = std::find_if(std::begin(kLimits), std::end(kLimits),
                                   [&](const Limit& limit) { return limit.word == word; });
  return found == std::end(kLimits) ? nullptr : found;
}

#if defined(__x86_64__)
struct Registers {
  uint32_t a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(uint32_t leaf, uint32_t subleaf = 0) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d);
  return r;
}

// What the operating system saves on a context switch; without it the registers are not usable.
uint64_t enabled_state() {
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

bool bit(uint32_t word, int index) {
  return (word >> index) & 1;
}

void detect_instruction_sets(CpuInfo& info) {
  const Registers basic = cpuid(1);
  if (!bit(basic.c, 27)) return;  // OSXSAVE
  const uint64_t state = enabled_state();
  const bool ymm = (state & 0x6) == 0x6, zmm = (state & 0xe6) == 0xe6;
  const Registers extended = cpuid(7), extended1 = cpuid(7, 1);
  const bool avx2 =
      ymm && bit(extended.b, 5) && bit(basic.c, 12) && bit(basic.c, 29) && bit(extended.b, 8);
  const bool avx512 = zmm && bit(extended.b, 16) && bit(extended.b, 17) && bit(extended.b, 30) &&
                      bit(extended.b, 31);
  if (avx2) info.best_isa = Isa::kAvx2;
  if (avx2 && avx512) info.best_isa = Isa::kAvx512;
  const auto add = [&info](Isa isa, Feature feature, bool is_there) {
    if (is_there) info.features[static_cast<int>(isa)].add(feature);
  };
  add(Isa::kAvx2, Feature::kVnni, avx2 && bit(extended1.a, 4));
  add(Isa::kAvx512, Feature::kVnni, avx512 && bit(extended.c, 11));
  add(Isa::kAvx512, Feature::kBf16, avx512 && bit(extended1.a, 5));
  // Its kernels use both others, which whoever has it has, unless a virtual machine hides them.
  add(Isa::kAvx512, Feature::kAmx,
      info.features[static_cast<int>(Isa::kAvx512)].has_all({Feature::kVnni, Feature::kBf16}) &&
          has_matrix_registers());
}

std::string brand_string() {
  char text[49] = {};
  for (uint32_t k = 0; k < 3; ++k) {
    const Registers r = cpuid(0x80000002 + k);
    std::memcpy(text + 16 * k, &r, 16);
  }
  std::string brand = text;
  brand.erase(brand.find_last_not_of(" \0") + 1);
  brand.erase(0, brand.find_first_not_of(' '));
  return brand;
}
#else
void detect_instruction_sets(CpuInfo&) {}
std::string brand_string() {
  return "unknown";
}
#endif

// Size of the data or unified cache of `level` this processor uses. The kernel's figure is per
// instance; sysconf's may be the whole socket's, many times what a virtual machine gets.
size_t cache_bytes(int level, int sysconf_name, size_t fallback) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    std::ifstream level_file(folder + "level"), type_file(folder + "type"),
        size_file(folder + "size");
    int found = 0;
    std::string type;
    size_t kib = 0;
    char unit = 0;
    if (level_file >> found && type_file >> type && size_file >> kib >> unit && found == level &&
        type != "Instruction")
      return kib << (unit == 'M' ? 20 : 10);
  }
  const long bytes = sysconf(sysconf_name);
  return bytes > 0 ? static_cast<size_t>(bytes) : fallback;
}

// Processors worth of time the cgroup (v2, then v1) grants; a large number when there is no limit.
int cgroup_processors() {
  std::ifstream v2("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (v2 >> quota >> period && quota != "max" && period > 0)
    return std::max(1, static_cast<int>(std::ceil(std::atof(quota.c_str()) / period)));
  std::ifstream quota_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
      period_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  double quota_us = -1, period_us = 0;
  if (quota_file >> quota_us && period_file >> period_us && quota_us > 0 && period_us > 0)
    return std::max(1, static_cast<int>(std::ceil(quota_us / period_us)));
  return 1 << 20;
}

int affinity_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return std::max(1u, std::thread::hardware_concurrency());
}

CpuInfo detect_cpu() {
  CpuInfo info;
  info.model = brand_string();
  detect_instruction_sets(info);
  info.l1d_bytes = cache_bytes(1, _SC_LEVEL1_DCACHE_SIZE, info.l1d_bytes);
  info.l2_bytes = cache_bytes(2, _SC_LEVEL2_CACHE_SIZE, info.l2_bytes);
  info.l3_bytes = cache_bytes(3, _SC_LEVEL3_CACHE_SIZE, info.l3_bytes);
  info.usable_processors = std::max(1, std::min(affinity_processors(), cgroup_processors()));
  return info;
}

Limit limit_from_environment() {
  const Limit none = {"", cpu_info().best_isa, kAllFeatures};
  const char* wanted = std::getenv("CAMSHAFT_ISA");
  if (!wanted) return none;
  if (const Limit* found = find_limit(wanted)) return *found;
  log(Severity::kWarning, "CAMSHAFT_ISA={}: {}; using {}", wanted,
      parse_isa(wanted).status().message(), isa_name(none.isa));
  return none;
}

const Limit& limit_in_force() {
  static const Limit limit = limit_from_environment();
  return limit;
}

std::atomic<Isa>& isa_in_force() {
  static std::atomic<Isa> isa{std::min(limit_in_force().isa, cpu_info().best_isa)};
  return isa;
}

// Of a target, as long as nobody holds any back.
Features allowed_features(Isa isa) {
  Features features = cpu_info().features[static_cast<int>(isa)] & limit_in_force().features;
  if (features.has(Feature::kAmx) && !ask_for_matrix_registers())
    features = features.without({Feature::kAmx});
  return features;
}

std::atomic<Features>& held_back() {
  static std::atomic<Features> features{Features()};
  return features;
}

std::string_view feature_name(Feature feature) {
  constexpr std::string_view names[kFeatureCount] = {"vnni", "bf16", "amx"};
  return names[static_cast<int>(feature)];
}

}  // namespace

std::string_view isa_name(Isa isa) {
  constexpr std::string_view names[kIsaCount] = {"scalar", "avx2", "avx512"};
  return names[static_cast<int>(isa)];
}

Result<Isa> parse_isa(std::string_view name) {
  if (const Limit* found = find_limit(name)) return found->isa;
  std::string words;
  for (const Limit& limit : kLimits)
    words += fmt::format("{}{}", words.empty() ? "" : ", ", limit.word);
  return make_error(ErrorCode::kInvalidArgument,
                    "unknown instruction set \"{}\", expected one of {}", name, words);
}

const CpuInfo& cpu_info() {
  static const CpuInfo info = detect_cpu();
  return info;
}

Isa active_isa() {
  return isa_in_force().load(std::memory_order_relaxed);
}
void force_isa(Isa isa) {
  isa_in_force() = std::min(isa, cpu_info().best_isa);
}

Features features_of(Isa isa) {
  static const std::array<Features, kIsaCount> kAllowed = {
      allowed_features(Isa::kScalar), allowed_features(Isa::kAvx2), allowed_features(Isa::kAvx512)};
  return kAllowed[static_cast<size_t>(isa)].without(held_back().load(std::memory_order_relaxed));
}

void hold_back(Features features) {
  held_back() = features;
}

std::string cpu_fingerprint() {
  const CpuInfo& cpu = cpu_info();
  std::string features;
  for (int k = 0; k < kFeatureCount; ++k)
    if (has_feature(active_isa(), static_cast<Feature>(k)))
      features += fmt::format("+{}", feature_name(static_cast<Feature>(k)));
  return fmt::format("{}/{}{}/L1d {}K/L2 {}K/L3 {}K", cpu.model, isa_name(active_isa()), features,
                     cpu.l1d_bytes >> 10, cpu.l2_bytes >> 10, cpu.l3_bytes >> 10);
}

int default_num_threads() {
  if (const char* wanted = std::getenv("CAMSHAFT_NUM_THREADS")) {
    const int threads = std::atoi(wanted);
    if (threads > 0) return threads;
    log(Severity::kWarning, "CAMSHAFT_NUM_THREADS={} is not a positive number; using {}", wanted,
        cpu_info().usable_processors);
  }
  return cpu_info().usable_processors;
}

}  // namespace camshaft
