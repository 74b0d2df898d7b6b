// SPDX-License-Identifier: Apache-2.0
// Layers of ResNet-50, YOLOv8s and BERT-base at batch 1 divide evenly over more threads than this
// machine has: the kernels of engines for so many threads are prepared, and one thread rehearses.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/pool_rehearsal.h"
#include "base/thread_pool.h"
#include "ir/extents.h"
#include "runtime/executor.h"
#include "tuner/test_util.h"

namespace camshaft::tuner {
namespace {

struct Shape {
  const char* name;
  // Kernel 0: a product of `extent` rows; -1: attention of `outputs` heads over as many tokens.
  int channels, extent, outputs, kernel, stride;
};

constexpr Shape kShapes[] = {
    {"resnet50 stem", 3, 224, 64, 7, 2},
    {"resnet50 stage 1, 3x3", 64, 56, 64, 3, 1},
    {"resnet50 stage 1, wide", 64, 56, 256, 1, 1},
    {"resnet50 stage 2, 3x3", 128, 28, 128, 3, 1},
    {"resnet50 stage 2, narrow", 512, 28, 128, 1, 1},
    {"resnet50 stage 3, first", 512, 28, 256, 1, 2},
    {"resnet50 stage 3, 3x3", 256, 14, 256, 3, 1},
    {"resnet50 stage 3, narrow", 1024, 14, 256, 1, 1},
    {"resnet50 stage 4, 3x3", 512, 7, 512, 3, 1},
    {"resnet50 stage 4, wide", 512, 7, 2048, 1, 1},
    {"yolov8s 3x3 stride 2", 64, 80, 128, 3, 2},
    {"yolov8s c2f", 192, 40, 128, 1, 1},
    {"yolov8s head", 128, 40, 64, 3, 1},
    {"yolov8s sppf", 1024, 20, 512, 1, 1},
    {"bert qkv", 768, 128, 768, 0, 0},
    {"bert ffn up", 768, 128, 3072, 0, 0},
    {"bert ffn down", 3072, 128, 768, 0, 0},
    {"bert attention", 64, 128, 12, -1, 0},
};

std::string text_of(const Shape& s) {
  if (s.kernel < 0)
    return fmt::format(R"(graph "g" {{
  input x: float[1, {0}, {1}, {2}]
  y: float[1, {0}, {1}, {2}] = Attention(x, x, x) {{scale=0.1}}
  output y
}})",
                       s.outputs, s.extent, s.channels);
  if (s.kernel == 0)
    return fmt::format(R"(graph "g" {{
  input x: float[{0}, {1}]
  constant w: float[{1}, {2}] = random(1)
  y: float[{0}, {2}] = MatrixMultiply(x, w)
  output y
}})",
                       s.extent, s.channels, s.outputs);
  return fmt::format(R"(graph "g" {{
  input x: float[1, {0}, {1}, {1}]
  constant w: float[{2}, {0}, {3}, {3}] = random(1)
  y: float[1, {2}, {5}, {5}] = Convolution(x, w) {{kernel=[{3}, {3}], stride=[{4}, {4}], dilation=[1, 1], pre_padding=[{6}, {6}], post_padding=[{6}, {6}]}}
  output y
}})",
                     s.channels, s.extent, s.outputs, s.kernel, s.stride,
                     (s.extent + s.stride - 1) / s.stride, s.kernel / 2);
}

ir::Extents input_extents(const engine::Engine& engine) {
  return ir::extents_of(engine.plan().tensors[engine.plan().inputs[0]].shape);
}

// Of the job that takes most of the layer's time; 0: nothing is shared.
double imbalance_of(const Shape& shape, int threads) {
  BuildOptions options;
  options.threads = threads;
  options.optimization_level = 0;
  const auto engine = engine_of(graph_of(text_of(shape)), options);
  if (!engine) return 0;
  PoolRehearsal rehearsal;
  ThreadPool pool(threads);
  const auto executor = runtime::Executor::create(*engine, engine->plan(), pool);
  if (!executor.ok()) return 0;
  const ir::Extents extents = input_extents(*engine);
  if (!executor.value()->prepare(std::span(&extents, 1)).ok()) return 0;
  const TestTensor input = random_tensor(extents, 1);
  executor.value()->set_input(0, input.bytes.data());
  std::vector<double> least_us;
  for (int round = 0; round < 5; ++round) {
    rehearsal.jobs.clear();
    if (!executor.value()->run().ok() || rehearsal.jobs.empty()) return 0;
    least_us.resize(rehearsal.jobs.size(), 1e9);
    for (size_t k = 0; k < least_us.size(); ++k) {
      least_us[k] = std::min(least_us[k], rehearsal.jobs[k].total_us());
    }
  }
  const auto longest = std::max_element(least_us.begin(), least_us.end()) - least_us.begin();
  return rehearsal.jobs[static_cast<size_t>(longest)].imbalance();
}

std::vector<std::byte> output_in(ThreadPool& pool, const engine::Engine& engine) {
  const auto executor = runtime::Executor::create(engine, engine.plan(), pool);
  if (!executor.ok()) return {};
  const ir::Extents extents = input_extents(engine);
  if (!executor.value()->prepare(std::span(&extents, 1)).ok()) return {};
  const TestTensor input = random_tensor(extents, 1);
  executor.value()->set_input(0, input.bytes.data());
  if (!executor.value()->run().ok()) return {};
  const kernels::TensorView y = executor.value()->output(0);
  const auto* bytes = static_cast<const std::byte*>(y.data);
  return {bytes, bytes + y.elements() * static_cast<int64_t>(sizeof(float))};
}

std::vector<std::byte> output_of(const engine::Engine& engine, int threads) {
  PoolRehearsal rehearsal;
  ThreadPool pool(threads);
  return output_in(pool, engine);
}

// Whatever the number of threads, and whichever tactic.
TEST(ThreadShares, GiveTheSameBits) {
  constexpr Shape kSmall[] = {
      {"3x3", 24, 19, 40, 3, 1},      {"3x3 stride 2", 17, 21, 33, 3, 2}, {"1x1", 48, 13, 72, 1, 1},
      {"product", 96, 37, 130, 0, 0}, {"attention", 24, 150, 3, -1, 0},
  };
  for (const Shape& shape : kSmall)
    for (int way = 0, ways = 1; way < ways; ++way) {
      BuildOptions options;
      options.random_choices = 1;
      options.forced_way = way;
      BuildStatistics statistics;
      auto bytes = build(graph_of(text_of(shape)), options, &statistics);
      ASSERT_STATUS_OK(bytes.status());
      ways = statistics.most_ways;
      const auto engine = engine::Engine::load(std::move(bytes).value());
      ASSERT_STATUS_OK(engine.status());
      const std::vector<std::byte> expected = output_of(**engine, 1);
      ASSERT_FALSE(expected.empty());
      for (const int threads : {2, 3, 7, 64})
        EXPECT_EQ(output_of(**engine, threads), expected)
            << shape.name << ", " << engine.value()->plan().steps.back().tactic << ", " << threads;
    }
}

// A layer that few of many threads run: in a pool that has them, and in one that has fewer.
TEST(ThreadShares, TeamsGiveTheSameBits) {
  constexpr Shape kSmall = {"3x3", 24, 19, 40, 3, 1};
  std::set<int> teams;
  for (uint64_t seed = 1; seed < 100 && teams.size() < 2; ++seed) {
    BuildOptions options;
    options.threads = 8;
    options.random_choices = seed;
    const auto engine = engine_of(graph_of(text_of(kSmall)), options);
    ASSERT_TRUE(engine);
    const std::vector<engine::PlanStep>& steps = engine->plan().steps;
    const int threads = std::max_element(steps.begin(), steps.end(), [](auto& a, auto& b) {
                          return a.threads < b.threads;
                        })->threads;
    if (threads < 2 || !teams.insert(threads).second) continue;
    const std::vector<std::byte> expected = output_of(*engine, 1);
    for (const int pool_threads : {8, 3, 2}) {
      ThreadPool pool(pool_threads);
      for (int round = 0; round < 20; ++round)
        ASSERT_EQ(output_in(pool, *engine), expected) << threads << " of " << pool_threads;
    }
  }
  EXPECT_EQ(teams, (std::set<int>{2, 4}));
}

TEST(ThreadShares, AreEven) {
  fmt::print("largest share over the mean, by threads      8    16    32    64\n");
  for (const Shape& shape : kShapes) {
    fmt::print("{:<42}", shape.name);
    for (const int threads : {8, 16, 32, 64}) {
      const double found = imbalance_of(shape, threads);
      fmt::print("{:6.2f}", found);
      EXPECT_GE(found, 1) << shape.name << " is not shared by " << threads << " threads";
      EXPECT_LE(found, 1.15) << shape.name << " with " << threads << " threads";
    }
    fmt::print("\n");
  }
}

}  // namespace
}  // namespace camshaft::tuner
