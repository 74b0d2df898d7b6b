// SPDX-License-Identifier: Apache-2.0
// Damaged traces must be read around: no crash, no hang. tests/fuzz/fuzz_trace does the same for
// as long as one likes.
#include <gtest/gtest.h>

#include "trace/testing.h"

namespace camshaft::trace {
namespace {

TEST(Fuzz, DamagedTracesAreReadAround) {
  testing::Mutator mutator({testing::sample_trace()}, 1);
  int readable = 0;
  for (int run = 0; run < 400; ++run) {
    const std::string text = mutator.next();
    const auto trace = testing::read_text(text);
    if (trace == nullptr) continue;
    ++readable;
    EXPECT_GT(testing::exercise(trace), 0u);
  }
  EXPECT_GT(readable, 300);
}

}  // namespace
}  // namespace camshaft::trace
