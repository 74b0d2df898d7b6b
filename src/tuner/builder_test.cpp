// SPDX-License-Identifier: Apache-2.0
// From a graph to an engine and back: shapes, numbers, determinism.
#include "tuner/test_util.h"

namespace camshaft::tuner {
namespace {

constexpr const char* kSmallNet = R"(
graph "small" {
  symbols batch
  input x: float[batch, 3, 8, 8]
  constant w: float[4, 3, 3, 3] = random(1)
  constant fc: float[64, 5] = random(2)
  y: float[batch, 4, 8, 8] = Convolution "conv"(x, w) {kernel=[3, 3], stride=[1, 1], dilation=[1, 1], pre_padding=[1, 1], post_padding=[1, 1]}
  r: float[batch, 4, 8, 8] = Activation "relu"(y) {op=relu}
  p: float[batch, 4, 4, 4] = Pooling "pool"(r) {type=max, kernel=[2, 2], stride=[2, 2], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}
  f: float[batch, 64] = Shuffle "flatten"(p) {has_reshape=true, reshape=[batch, 64]}
  o: float[batch, 5] = MatrixMultiply "fc"(f, fc)
  output o
}
)";

engine::Profile batch_profile(int64_t low, int64_t opt, int64_t high) {
  return {{"x", {low, 3, 8, 8}, {opt, 3, 8, 8}, {high, 3, 8, 8}}};
}

TEST(Builder, RunsAtEveryShapeOfTheProfile) {
  BuildOptions options;
  options.profiles = {batch_profile(1, 2, 4)};
  const auto engine = engine_of(graph_of(kSmallNet), options);
  ASSERT_TRUE(engine);
  auto context = runtime::Context::create(engine);
  ASSERT_STATUS_OK(context.status());
  // Each image of a batch gives what it gives alone.
  const TestTensor batch = random_tensor({4, 3, 8, 8}, 7);
  std::vector<TestTensor> together, alone;
  ASSERT_STATUS_OK(run(**context, {batch}, together));
  ASSERT_EQ(together[0].extents, (ir::Extents{4, 5}));
  for (int k = 0; k < 4; ++k) {
    const size_t bytes = 3 * 8 * 8 * sizeof(float);
    const TestTensor image{
        {1, 3, 8, 8}, {batch.bytes.begin() + k * bytes, batch.bytes.begin() + (k + 1) * bytes}};
    ASSERT_STATUS_OK(run(**context, {image}, alone));
    for (int n = 0; n < 5; ++n)
      EXPECT_NEAR(alone[0].floats()[n], together[0].floats()[k * 5 + n], 1e-4);
  }
  EXPECT_FALSE(run(**context, {random_tensor({5, 3, 8, 8}, 1)}, alone).ok());
}

// What a profile allows and a layer cannot have is an error of the build that names both.
TEST(Builder, NamesTheLayerAProfileRulesOut) {
  const std::string text = R"(
graph "windows" {
  symbols h
  input x: float[1, 2, h, 16]
  constant w: float[3, 2, 5, 5] = random(1)
  p: float[1, 2, floor_div(h, 2), 8] = Pooling "halve"(x) {type=max, kernel=[2, 2], stride=[2, 2], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}
  y: float[1, 3, (floor_div(h, 2) - 4), 4] = Convolution "wide"(p, w) {kernel=[5, 5], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}
  output y
}
)";
  const auto message = [&](int64_t low, int64_t high) {
    BuildOptions options;
    options.profiles = {{{"x", {1, 2, 16, 16}, {1, 2, 16, 16}, {1, 2, 16, 16}}},
                        {{"x", {1, 2, low, 16}, {1, 2, 16, 16}, {1, 2, high, 16}}}};
    const auto bytes = build(graph_of(text), options);
    return bytes.ok() ? "" : bytes.status().message();
  };
  EXPECT_EQ(message(10, 20), "");
  EXPECT_EQ(
      message(8, 20),
      "the network cannot have the smallest shapes of profile 1: Convolution wide: a window of "
      "5 does not fit into an extent of 4");
  EXPECT_NE(message(1, 20).find("Pooling halve: a window of 2"), std::string::npos);
}

// Extents that each fit the profile, but not each other or a layer: errors, never memory read
// beyond an input.
TEST(Builder, RefusesExtentsThatContradictEachOther) {
  struct Case {
    const char* layers;  // of x: float[n, 4] and z: float[m, 4]
    int64_t n, m;        // what they cannot have
    const char* message;
  };
  const Case cases[] = {
      {R"(y: float[max(n, m), 4] = ElementWise "meet"(x, z) {op=add})", 6, 7, "[6,4] and [7,4]"},
      {R"(y: float[n, 8] = Concatenation "meet"(x, z) {axis=1})", 6, 7, "[6,4] and [7,4]"},
      {R"(t: float[4, n] = Shuffle "turn"(x) {first_transpose=[1, 0]}
  y: float[4, 4] = MatrixMultiply "meet"(t, z))",
       6, 7, "factors [6,4] and [7,4]"},
      {R"(s: float[m, 4] = Activation "other"(z) {op=relu}
  y: float[floor_div((n*4), 16), 16] = Shuffle "meet"(x) {has_reshape=true, reshape=[floor_div((n*4), 16), 16]})",
       6, 8, "layer"},
  };
  for (const Case& c : cases) {
    BuildOptions options;
    options.profiles = {{{"x", {4, 4}, {4, 4}, {8, 4}}, {"z", {4, 4}, {4, 4}, {8, 4}}}};
    const auto engine =
        engine_of(graph_of(std::string("graph \"two\" {\n  symbols n, m\n  input x: float[n, 4]\n"
                                       "  input z: float[m, 4]\n  ") +
                           c.layers + "\n  output y\n}\n"),
                  options);
    ASSERT_TRUE(engine) << c.layers;
    auto context = runtime::Context::create(engine);
    ASSERT_STATUS_OK(context.status());
    const auto status = [&](int64_t n, int64_t m) {
      std::vector<TestTensor> outputs;
      return run(**context, {random_tensor({n, 4}, 1), random_tensor({m, 4}, 2)}, outputs);
    };
    ASSERT_STATUS_OK(status(4, 4));
    EXPECT_FALSE(status(c.n, c.m).ok()) << c.layers;
    EXPECT_NE(status(c.n, c.m).message().find(c.message), std::string::npos)
        << status(c.n, c.m).message();
    ASSERT_STATUS_OK(status(8, 8));
  }
}

// A dynamic model built for one shape is a static one.
TEST(Builder, OneShapeMakesItStatic) {
  BuildOptions options;
  options.profiles = {batch_profile(2, 2, 2)};
  const auto fixed = engine_of(graph_of(kSmallNet), options);
  options.profiles = {batch_profile(1, 2, 3)};
  const auto dynamic = engine_of(graph_of(kSmallNet), options);
  ASSERT_TRUE(fixed && dynamic);
  for (const engine::PlanTensor& tensor : fixed->plan().tensors)
    for (const ir::Dim dim : tensor.shape) EXPECT_TRUE(dim.is_known()) << tensor.name;
  EXPECT_FALSE(dynamic->plan().tensors[dynamic->plan().inputs[0]].shape[0].is_known());
  const TestTensor x = random_tensor({2, 3, 8, 8}, 3);
  std::vector<TestTensor> a, b;
  auto first = runtime::Context::create(fixed), second = runtime::Context::create(dynamic);
  ASSERT_STATUS_OK(first.status());
  ASSERT_STATUS_OK(second.status());
  ASSERT_STATUS_OK(run(**first, {x}, a));
  ASSERT_STATUS_OK(run(**second, {x}, b));
  for (size_t k = 0; k < a[0].floats().size(); ++k)
    EXPECT_NEAR(a[0].floats()[k], b[0].floats()[k], 1e-4);
}

// An engine made here runs where only weaker instruction sets are, if it is portable; else it says
// what is missing.
TEST(Builder, PortableEnginesRunOnLesserMachines) {
  if (cpu_info().best_isa == Isa::kScalar) GTEST_SKIP() << "nothing is weaker than this machine";
  BuildOptions options;
  options.profiles = {batch_profile(1, 2, 3)};
  const auto plain = engine_of(graph_of(kSmallNet), options);
  options.portable = true;
  const auto portable = engine_of(graph_of(kSmallNet), options);
  ASSERT_TRUE(plain && portable);
  const TestTensor x = random_tensor({2, 3, 8, 8}, 3);
  std::vector<TestTensor> expected, outputs;
  auto context = runtime::Context::create(portable);
  ASSERT_STATUS_OK(context.status());
  ASSERT_STATUS_OK(run(**context, {x}, expected));
  force_isa(Isa::kScalar);
  const auto refused = runtime::Context::create(plain);
  auto lesser = runtime::Context::create(portable);
  force_isa(cpu_info().best_isa);
  EXPECT_EQ(refused.status().code(), ErrorCode::kUnsupported);
  EXPECT_NE(refused.status().message().find(isa_name(cpu_info().best_isa)), std::string::npos)
      << refused.status().message();
  ASSERT_STATUS_OK(lesser.status());
  ASSERT_STATUS_OK(run(**lesser, {x}, outputs));
  for (size_t k = 0; k < outputs[0].floats().size(); ++k)
    EXPECT_NEAR(outputs[0].floats()[k], expected[0].floats()[k], 1e-4);
}

// Steps too short to share are found, stored, and run as before with any number of threads.
TEST(Builder, ShortStepsRunOnOneThread) {
  BuildOptions options;
  options.profiles = {batch_profile(1, 2, 4)};
  options.threads = 2;
  const auto engine = engine_of(graph_of(kSmallNet), options);
  ASSERT_TRUE(engine);
  int alone = 0;
  for (const engine::PlanStep& step : engine->plan().steps) {
    alone += step.threads == 1;
    int chosen = 0;
    for (const engine::Candidate& c : step.candidates) chosen += c.chosen;
    EXPECT_EQ(chosen, step.candidates.empty() || step.tactic.empty() ? 0 : 1) << step.layer.name;
  }
  EXPECT_GT(alone, 0);
  const TestTensor x = random_tensor({2, 3, 8, 8}, 3);
  std::vector<TestTensor> one, three;
  auto first = runtime::Context::create(engine, {.threads = 1});
  auto second = runtime::Context::create(engine, {.threads = 3});
  ASSERT_STATUS_OK(first.status());
  ASSERT_STATUS_OK(second.status());
  ASSERT_STATUS_OK(run(**first, {x}, one));
  ASSERT_STATUS_OK(run(**second, {x}, three));
  for (size_t k = 0; k < one[0].floats().size(); ++k)
    EXPECT_NEAR(one[0].floats()[k], three[0].floats()[k], 1e-5);
}

// A second profile has its own opt shapes, which are timed as well.
TEST(Builder, EveryProfileIsTimed) {
  const auto timed = [](std::vector<engine::Profile> profiles) {
    BuildOptions options;
    options.profiles = std::move(profiles);
    options.threads = 1;
    BuildStatistics statistics;
    EXPECT_TRUE(build(graph_of(kSmallNet), options, &statistics).ok());
    return statistics.timed_tactics;
  };
  const int one = timed({batch_profile(1, 1, 8)});
  EXPECT_EQ(timed({batch_profile(1, 1, 8), batch_profile(1, 1, 4)}), one);
  EXPECT_GT(timed({batch_profile(1, 1, 8), batch_profile(2, 8, 8)}), one);
}

TEST(Builder, ProgressCanCancel) {
  BuildOptions options;
  int calls = 0;
  options.progress = [&](const char*, int, int) { return ++calls < 3; };
  EXPECT_EQ(build(graph_of(kSmallNet), options).status().code(), ErrorCode::kCancelled);
  EXPECT_EQ(calls, 3);
}

TEST(Builder, SameInputSameBytes) {
  BuildOptions options;
  options.optimization_level = 0;
  const auto first = build(graph_of(kSmallNet), options),
             second = build(graph_of(kSmallNet), options);
  ASSERT_STATUS_OK(first.status());
  ASSERT_STATUS_OK(second.status());
  EXPECT_EQ(first.value(), second.value());
}

TEST(Builder, RefusesProfilesThatContradictTheModel) {
  for (const engine::Profile& profile :
       {batch_profile(3, 2, 4), engine::Profile{{"y", {1}, {1}, {1}}},
        engine::Profile{{"x", {1, 3, 8, 9}, {1, 3, 8, 9}, {1, 3, 8, 9}}},
        engine::Profile{{"x", {1, 3, 8}, {1, 3, 8}, {1, 3, 8}}}}) {
    BuildOptions options;
    options.profiles = {profile};
    EXPECT_EQ(build(graph_of(kSmallNet), options).status().code(), ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace camshaft::tuner
