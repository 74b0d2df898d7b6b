// SPDX-License-Identifier: Apache-2.0
#include "tuner/timing.h"

#include <algorithm>

#include "base/cpu.h"
#include "runtime/image_passes.h"
#include "tuner/problem.h"
#include "tuner/test_util.h"

namespace camshaft::tuner {
namespace {

// Large batches are timed as they run: a pass of images that divides the batch.
TEST(Timing, LargeBatchesAreTimedAsPasses) {
  ir::Layer layer;
  layer.kind = ir::LayerKind::kConvolution;
  layer.attrs = ir::default_attrs(layer.kind);
  const auto tensor = [](ir::Extents extents) {
    kernels::ProblemTensor t;
    t.present = true;
    t.type = ir::DataType::kFloat;
    t.extents = std::move(extents);
    return t;
  };
  ir::ConstantData filter;
  kernels::Problem problem;
  problem.layer = &layer;
  problem.inputs = {tensor({12, 12, 32, 32}), tensor({12, 12, 3, 3})};
  problem.inputs[1].constant = &filter;
  problem.outputs = {tensor({12, 12, 30, 30})};
  const kernels::Problem whole = problem;
  EXPECT_EQ(runtime::cut_problem(problem, {1 << 20, 2 << 20}), 1);  // 1.1 MB
  EXPECT_EQ(runtime::cut_problem(problem, {1 << 19, 1 << 19}), 3);  // 93 KB an image, 4 in 384 KB
  EXPECT_EQ(problem.inputs[0].extents, (ir::Extents{4, 12, 32, 32}));
  EXPECT_EQ(problem.inputs[1].extents, (ir::Extents{12, 12, 3, 3}));  // as many filters as images
  EXPECT_EQ(problem.outputs[0].extents, (ir::Extents{4, 12, 30, 30}));
  layer.kind = ir::LayerKind::kSoftMax;
  problem = whole;
  EXPECT_EQ(runtime::cut_problem(problem, {1 << 19, 1 << 19}), 1);
}

TEST(Timer, WeightsComeFromWhereTheyFit) {
  const CpuInfo& cpu = cpu_info();
  EXPECT_EQ(weights_from(0), WeightsFrom::kL2);
  EXPECT_EQ(weights_from(cpu.l2_bytes / 5 * 4), WeightsFrom::kL2);
  EXPECT_EQ(weights_from(cpu.l2_bytes), WeightsFrom::kL3);
  EXPECT_EQ(weights_from(cpu.l3_bytes / 2), WeightsFrom::kL3);
  EXPECT_EQ(weights_from(cpu.l3_bytes / 2 + 1), WeightsFrom::kMemory);
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
