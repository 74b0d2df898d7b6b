// SPDX-License-Identifier: Apache-2.0
#include "base/amx.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/cpu.h"

namespace camshaft {
namespace {

#if defined(__x86_64__)

// arch_prctl(2): ARCH_REQ_XCOMP_PERM for the component of tile data. A process asks for all of its
// threads; the state itself is made when a thread first uses it.
bool ask_for_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// XCR0: tile configuration and tile data are saved.
bool saves_tiles() {
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low >> 17 & 3) == 3;
}

bool is_held_below() {
  const char* wanted = std::getenv("CAMSHAFT_ISA");
  return wanted != nullptr && std::string_view(wanted) != "amx";
}

bool detect() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  constexpr uint32_t kBf16 = 1u << 22, kTiles = 1u << 24, kInt8 = 1u << 25;
  constexpr uint32_t kAll = kBf16 | kTiles | kInt8;
  // Whoever has tiles has AVX-512 too, unless a virtual machine hides it.
  const CpuInfo& cpu = cpu_info();
  if (cpu.best_isa != Isa::kAvx512 || !cpu.has_vnni || !cpu.has_bf16 || is_held_below())
    return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & kAll) == kAll && saves_tiles() &&
         ask_for_tiles();
}

#else
bool detect() {
  return false;
}
#endif

}  // namespace

bool has_amx() {
  static const bool found = detect();
  return found;
}

}  // namespace camshaft
