// SPDX-License-Identifier: Apache-2.0
#include "base/cpu.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
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

bool is_held_to(std::string_view name) {
  const char* wanted = std::getenv("CAMSHAFT_ISA");
  return wanted != nullptr && wanted == name;
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
  info.has_vnni = avx512 && bit(extended.c, 11);
  info.has_avx_vnni = avx2 && bit(extended1.a, 4) && !is_held_to("avx2");
  info.has_bf16 = avx512 && bit(extended1.a, 5);
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

CpuInfo detect() {
  CpuInfo info;
  info.model = brand_string();
  detect_instruction_sets(info);
  info.l1d_bytes = cache_bytes(1, _SC_LEVEL1_DCACHE_SIZE, info.l1d_bytes);
  info.l2_bytes = cache_bytes(2, _SC_LEVEL2_CACHE_SIZE, info.l2_bytes);
  info.l3_bytes = cache_bytes(3, _SC_LEVEL3_CACHE_SIZE, info.l3_bytes);
  info.usable_processors = std::max(1, std::min(affinity_processors(), cgroup_processors()));
  return info;
}

Isa isa_from_environment() {
  const Isa best = cpu_info().best_isa;
  const char* wanted = std::getenv("CAMSHAFT_ISA");
  if (!wanted) return best;
  Result<Isa> parsed = parse_isa(wanted);
  if (!parsed.ok()) {
    log(Severity::kWarning, "CAMSHAFT_ISA={}: {}; using {}", wanted, parsed.status().message(),
        isa_name(best));
    return best;
  }
  return std::min(*parsed, best);
}

std::atomic<Isa>& isa_in_force() {
  static std::atomic<Isa> isa{isa_from_environment()};
  return isa;
}

}  // namespace

std::string_view isa_name(Isa isa) {
  constexpr std::string_view names[kIsaCount] = {"scalar", "avx2", "avx512"};
  return names[static_cast<int>(isa)];
}

Result<Isa> parse_isa(std::string_view name) {
  for (int k = 0; k < kIsaCount; ++k)
    if (name == isa_name(static_cast<Isa>(k))) return static_cast<Isa>(k);
  if (name == "avx_vnni") return Isa::kAvx2;
  if (name == "amx") return Isa::kAvx512;
  return make_error(
      ErrorCode::kInvalidArgument,
      "unknown instruction set \"{}\", expected scalar, avx2, avx_vnni, avx512 or amx", name);
}

const CpuInfo& cpu_info() {
  static const CpuInfo info = detect();
  return info;
}

Isa active_isa() {
  return isa_in_force().load(std::memory_order_relaxed);
}
void force_isa(Isa isa) {
  isa_in_force() = std::min(isa, cpu_info().best_isa);
}

std::string cpu_fingerprint() {
  const CpuInfo& cpu = cpu_info();
  const bool avx_vnni = active_isa() == Isa::kAvx2 && cpu.has_avx_vnni;
  const bool amx = active_isa() == Isa::kAvx512 && has_amx();
  return fmt::format("{}/{}{}{}{}{}/L1d {}K/L2 {}K/L3 {}K", cpu.model, isa_name(active_isa()),
                     avx_vnni ? "+avx_vnni" : "", cpu.has_vnni ? "+vnni" : "",
                     cpu.has_bf16 ? "+bf16" : "", amx ? "+amx" : "", cpu.l1d_bytes >> 10,
                     cpu.l2_bytes >> 10, cpu.l3_bytes >> 10);
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
