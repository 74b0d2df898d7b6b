// SPDX-License-Identifier: Apache-2.0
#include "tuner/problem.h"

#include "tuner/profiles.h"
#include "tuner/test_util.h"

namespace camshaft::tuner {
namespace {

// Bindings hold a value per symbol of the graph: who asks what a layer infers must not add any.
TEST(Problem, InferenceAddsNoSymbols) {
  const auto graph = graph_of(R"(graph "g" {
    symbols n
    input x: float[n, 4]
    constant at: int64[1] = [-1]
    y: float[1, 4] = Gather(x, at) {axis=0}
    output y
  })");
  ASSERT_TRUE(graph);
  const engine::Profile profile = {{"x", {2, 4}, {3, 4}, {5, 4}}};
  const auto bindings = bindings_at(*graph, profile, ProfilePoint::kOpt);
  ASSERT_STATUS_OK(bindings.status());
  const int symbols = graph->symbols().size();
  ASSERT_STATUS_OK(check_layers(*graph, *bindings, 0, ProfilePoint::kOpt));
  EXPECT_EQ(graph->symbols().size(), symbols);
}

}  // namespace
}  // namespace camshaft::tuner
