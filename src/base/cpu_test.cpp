// SPDX-License-Identifier: Apache-2.0
#include "base/cpu.h"

#include <gtest/gtest.h>

#include <atomic>

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
  EXPECT_EQ(parse_isa("avx512_core").value(), Isa::kAvx512);
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

// What is held back is not used, told or kept in mind; what a target has not, it never gets.
TEST(Cpu, FeaturesHeldBack) {
  const Isa before = active_isa();
  force_isa(Isa::kAvx512);
  const std::string all = cpu_fingerprint();
  const Features had = features_of(active_isa());
  hold_back({Feature::kVnni, Feature::kAmx});
  EXPECT_FALSE(has_feature(active_isa(), Feature::kVnni));
  EXPECT_EQ(features_of(active_isa()), had.without({Feature::kVnni, Feature::kAmx}));
  EXPECT_EQ(cpu_fingerprint().find("vnni"), std::string::npos);
  hold_back({});
  EXPECT_EQ(features_of(active_isa()), had);
  EXPECT_EQ(cpu_fingerprint(), all);
  EXPECT_EQ(features_of(Isa::kScalar), Features());
  EXPECT_FALSE(has_feature(Isa::kAvx2, Feature::kAmx));
  force_isa(before);
}

TEST(Cpu, SetsOfFeatures) {
  constexpr Features both = {Feature::kVnni, Feature::kBf16};
  EXPECT_TRUE(both.has_all({Feature::kBf16}) && both.has_all({}));
  EXPECT_FALSE(both.has_all({Feature::kBf16, Feature::kAmx}));
  EXPECT_EQ(both & Features({Feature::kAmx, Feature::kVnni}), Features({Feature::kVnni}));
}

// Engines and timings of a machine with matrix registers are not those of one without.
TEST(Cpu, FingerprintTellsMatrixRegisters) {
  const Isa before = active_isa();
  const auto is_told = [] { return cpu_fingerprint().find("+amx") != std::string::npos; };
  force_isa(Isa::kAvx512);
  EXPECT_EQ(is_told(), has_feature(Isa::kAvx512, Feature::kAmx));
  force_isa(Isa::kAvx2);
  EXPECT_FALSE(is_told());
  force_isa(before);
}

}  // namespace
}  // namespace camshaft
