// SPDX-License-Identifier: Apache-2.0
#include "base/amx.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace camshaft {

#if defined(__x86_64__)
namespace {

// XCR0: tile configuration and tile data are saved.
bool saves_tiles() {
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low >> 17 & 3) == 3;
}

}  // namespace

bool has_matrix_registers() {
  constexpr uint32_t kBf16 = 1u << 22, kTiles = 1u << 24, kInt8 = 1u << 25;
  constexpr uint32_t kAll = kBf16 | kTiles | kInt8;
  uint32_t a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & kAll) == kAll && saves_tiles();
}

// arch_prctl(2): ARCH_REQ_XCOMP_PERM for the component of tile data. The state itself is made when
// a thread first uses it.
bool ask_for_matrix_registers() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

#else

bool has_matrix_registers() {
  return false;
}
bool ask_for_matrix_registers() {
  return false;
}

#endif

}  // namespace camshaft
