// SPDX-License-Identifier: Apache-2.0
// Mutated models: every one gives a model that verifies, or one error. CAMSHAFT_FUZZ=1000000 runs a
// million (default 20000).
#include <gtest/gtest.h>

#include <cstdlib>

#include "ir/graph.h"
#include "onnx/importer.h"
#include "onnx/testing_models.h"

namespace camshaft::onnx_import {
namespace {

using testing::as_bytes;
using testing::Mutator;

TEST(Fuzz, MutatedModels) {
  const char* wanted = std::getenv("CAMSHAFT_FUZZ");
  const long rounds = wanted ? std::atol(wanted) : 20000;
  const std::vector<std::string> models = testing::small_models();
  std::vector<Mutator> mutators;
  for (const std::string& bytes : models) {
    EXPECT_TRUE(import_bytes(as_bytes(bytes)).ok())
        << import_bytes(as_bytes(bytes)).status().message();
    mutators.emplace_back(bytes, static_cast<uint32_t>(mutators.size() + 1));
  }
  long accepted = 0;
  for (long round = 0; round < rounds; ++round) {
    const std::string bytes = mutators[round % mutators.size()].mutate();
    const Result<ImportedModel> m = import_bytes(as_bytes(bytes));
    if (!m.ok()) {
      ASSERT_FALSE(m.status().message().empty()) << "round " << round;
      continue;
    }
    ++accepted;
    const Status verified = ir::verify(*m.value().graph);
    ASSERT_TRUE(verified.ok()) << "round " << round << ": " << verified.message();
  }
  // Mutations that never get past the parser would test nothing.
  EXPECT_GT(accepted, rounds / 50);
  EXPECT_LT(accepted, rounds);
}

}  // namespace
}  // namespace camshaft::onnx_import
