// SPDX-License-Identifier: Apache-2.0
#include "trace/condition.h"

#include <gtest/gtest.h>

namespace camshaft::trace {
namespace {

const Figures kFigures{{"gpu0.utilization_percent", 40}, {"step.average_us", 90000}, {"zero", 0}};

TEST(Condition, ArithmeticAndLogic) {
  const std::pair<const char*, bool> cases[] = {
      {"gpu0.utilization_percent < 50", true},
      {"gpu0.utilization_percent<50&&step.average_us>1e5", false},
      {"gpu0.utilization_percent < 50 || step.average_us > 1e5", true},
      {"step.average_us > 2 * 40000 + 1", true},
      {"(step.average_us - 10000) / 2 == 40000", true},
      {"-gpu0.utilization_percent <= -40", true},
      {"zero", false},
      {"zero != 0", false},
      {"1 + 2 * 3 == 7", true},
      {"10 - 2 - 3 == 5", true},
      {"zero / zero > 0", false},
      {".5 < 1", true},
  };
  for (const auto& [text, expected] : cases) {
    auto found = holds(text, kFigures);
    ASSERT_TRUE(found.ok()) << text << ": " << found.status().message();
    EXPECT_EQ(*found, expected) << text;
  }
}

TEST(Condition, MistakesAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"gpu0.utilisation_percent < 5", "nearest: gpu0.utilization_percent"},
      {"", "ends where a value"},
      {"1 <", "ends where a value"},
      {"(1", "')' is missing"},
      {"1 2", "not understood"},
      {"1 ; 2", "not understood"},
      {"..", "no number"},
  };
  for (const auto& [text, expected] : cases) {
    auto found = holds(text, kFigures);
    ASSERT_FALSE(found.ok()) << text;
    EXPECT_NE(found.status().message().find(expected), std::string::npos)
        << found.status().message();
  }
  EXPECT_FALSE(holds(std::string(100000, '('), kFigures).ok());
  EXPECT_FALSE(holds(std::string(100000, '-') + "1", kFigures).ok());
}

}  // namespace
}  // namespace camshaft::trace
