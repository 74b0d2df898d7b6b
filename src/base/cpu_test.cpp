// SPDX-License-Identifier: Apache-2.0
#include "base/cpu.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/amx.h"
#include "base/thread_pool.h"

namespace camshaft {
namespace {

TEST(Cpu, IsaNamesRoundTrip) {
  for (int k = 0; k < kIsaCount; ++k) {
    Result<Isa> isa = parse_isa(isa_name(static_cast<Isa>(k)));
    ASSERT_TRUE(isa.ok());
    EXPECT_EQ(*isa, static_cast<Isa>(k));
  }
  EXPECT_EQ(parse_isa("avx_vnni").value(), Isa::kAvx2);
  EXPECT_EQ(parse_isa("amx").value(), Isa::kAvx512);
  EXPECT_FALSE(parse_isa("avx3").ok());
}

TEST(Cpu, ForcedIsaNeverExceedsTheMachine) {
  const Isa before = active_isa();
  force_isa(Isa::kAvx512);
  EXPECT_LE(active_isa(), cpu_info().best_isa);
  force_isa(Isa::kScalar);
  EXPECT_EQ(active_isa(), Isa::kScalar);
  force_isa(before);
}

// Engines and timings of a machine with matrix registers are not those of one without.
TEST(Cpu, FingerprintTellsMatrixRegisters) {
  const Isa before = active_isa();
  const auto is_told = [] { return cpu_fingerprint().find("+amx") != std::string::npos; };
  force_isa(Isa::kAvx512);
  EXPECT_EQ(is_told(), has_amx());
  force_isa(Isa::kAvx2);
  EXPECT_FALSE(is_told());
  force_isa(before);
  EXPECT_TRUE(!has_amx() || cpu_info().best_isa == Isa::kAvx512);
}

}  // namespace
}  // namespace camshaft
