// SPDX-License-Identifier: Apache-2.0
#include "tuner/timing.h"

#include <algorithm>

#include "base/cpu.h"
#include "tuner/problem.h"
#include "tuner/test_util.h"

namespace camshaft::tuner {
namespace {

TEST(Timer, WeightsComeFromWhereTheyFit) {
  const CpuInfo& cpu = cpu_info();
  EXPECT_EQ(weights_from(0), WeightsFrom::kL2);
  EXPECT_EQ(weights_from(cpu.l2_bytes), WeightsFrom::kL3);
  EXPECT_EQ(weights_from(cpu.l3_bytes), WeightsFrom::kMemory);
}

struct Product {
  std::unique_ptr<ir::Graph> graph;
  runtime::Bindings bindings;
  LayerProblem made;
  const kernels::Tactic* tactic = nullptr;

  explicit Product(int n)
      : graph(graph_of(fmt::format(R"(graph "g" {{
    input x: float[1, 512]
    constant w: float[512, {0}] = random(1)
    y: float[1, {0}] = MatrixMultiply(x, w)
    output y
  }})",
                                   n))),
        made(make_problem(*graph->layers()[0], {}, bindings, 1)) {
    for (const kernels::Tactic* t : kernels::tactics_for(ir::LayerKind::kMatrixMultiply))
      if (!tactic && t->refusal(made.problem).empty() && t->packed_bytes) tactic = t;
  }
};

TEST(Timer, AFewWeightsAreAlwaysNear) {
  const Product small(1), large(512);
  EXPECT_EQ(weights_from(WeightsFrom::kMemory, small.made.problem), WeightsFrom::kL2);
  EXPECT_EQ(weights_from(WeightsFrom::kMemory, large.made.problem), WeightsFrom::kMemory);
}

// A vector times a megabyte of weights takes longer when these come from memory.
TEST(Timer, ColdWeightsCostTime) {
  const Product product(512);
  ASSERT_NE(product.tactic, nullptr);
  Timer timer(1, 8);
  const kernels::Tactic* const tactics[] = {product.tactic};
  double near_us = 1e9, far_us = 1e9;
  for (int round = 0; round < 3; ++round) {
    near_us = std::min(near_us, timer.time(product.made.problem, tactics, WeightsFrom::kL2)[0]);
    far_us = std::min(far_us, timer.time(product.made.problem, tactics, WeightsFrom::kMemory)[0]);
    EXPECT_GT(timer.time(product.made.problem, tactics, WeightsFrom::kL3)[0], 0);
  }
#if defined(__x86_64__)
  EXPECT_GT(far_us, near_us);
#endif
}

}  // namespace
}  // namespace camshaft::tuner
