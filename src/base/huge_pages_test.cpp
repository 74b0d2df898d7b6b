// SPDX-License-Identifier: Apache-2.0
#include "base/huge_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

namespace camshaft {
namespace {

constexpr size_t kSizes[] = {1,
                             64,
                             4097,
                             kHugePageBytes - 1,
                             kHugePageBytes,
                             kHugePageBytes + 1,
                             3 * kHugePageBytes,
                             3 * kHugePageBytes + 4097};

uintptr_t address_of(const std::byte* memory) {
  return reinterpret_cast<uintptr_t>(memory);
}

// The kernel's flags of the mapping that holds `memory`: "hg" where huge pages were asked for.
std::string flags_of(const std::byte* memory) {
  std::ifstream file("/proc/self/smaps");
  std::string line;
  bool is_inside = false;
  while (std::getline(file, line)) {
    uintptr_t first = 0, end = 0;
    char dash = 0;
    std::istringstream words(line);
    if (words >> std::hex >> first >> dash >> end && dash == '-')
      is_inside = first <= address_of(memory) && address_of(memory) < end;
    if (is_inside && line.rfind("VmFlags:", 0) == 0) return line + " ";
  }
  return "";
}

bool has_huge_pages() {
  return std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled").good();
}

TEST(HugePages, AllocatedMemoryIsThereAndAligned) {
  for (const size_t bytes : kSizes) {
    std::byte* memory = allocate_lines(bytes);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(address_of(memory) % (bytes >= kHugePageBytes ? kHugePageBytes : 64), 0u) << bytes;
    std::memset(memory, 1, bytes);
    std::free(memory);
  }
}

TEST(HugePages, MappedZerosAreThereAlignedAndNoMore) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (const size_t bytes : kSizes) {
    std::byte* memory = map_zeros(bytes);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(address_of(memory) % (bytes >= kHugePageBytes ? kHugePageBytes : page), 0u) << bytes;
    EXPECT_TRUE(std::all_of(memory, memory + bytes, [](std::byte b) { return b == std::byte{0}; }));
    std::memset(memory, 1, bytes);
    EXPECT_EQ(munmap(memory, bytes), 0);
  }
}

TEST(HugePages, AreAskedForFromOneOn) {
  if (!has_huge_pages()) GTEST_SKIP() << "a kernel without huge pages";
  std::byte *large = allocate_lines(kHugePageBytes), *mapped = map_zeros(2 * kHugePageBytes + 5),
            *small = map_zeros(kHugePageBytes - 1);
  EXPECT_NE(flags_of(large).find(" hg "), std::string::npos) << flags_of(large);
  EXPECT_NE(flags_of(mapped + kHugePageBytes).find(" hg "), std::string::npos);
  EXPECT_EQ(flags_of(small).find(" hg "), std::string::npos);
  std::free(large);
  munmap(mapped, 2 * kHugePageBytes + 5);
  munmap(small, kHugePageBytes - 1);
}

}  // namespace
}  // namespace camshaft
