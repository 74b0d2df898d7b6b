// SPDX-License-Identifier: Apache-2.0
// What engines must do when they run: values that decide shapes, control flow, empty tensors,
// bindings, several contexts.
#include <thread>

#include "kernels/interpreter.h"
#include "kernels/testing/graph_texts.h"
#include "tuner/random_graph.h"
#include "tuner/test_util.h"

namespace camshaft::tuner {
namespace {

TestTensor floats(const ir::Extents& extents, const std::vector<float>& values) {
  return tensor_of(extents, values);
}
TestTensor int64s(const ir::Extents& extents, const std::vector<int64_t>& values) {
  return tensor_of(extents, values);
}
TestTensor boolean(bool value) {
  return tensor_of<uint8_t>({}, {value});
}

template <class T>
std::vector<T> values(const TestTensor& tensor) {
  std::vector<T> list(tensor.bytes.size() / sizeof(T));
  if (!list.empty()) std::memcpy(list.data(), tensor.bytes.data(), tensor.bytes.size());
  return list;
}

// A profile from 0 to 100 in every dynamic dimension.
engine::Profile wide_profile(const ir::Graph& graph) {
  engine::Profile profile;
  for (const ir::Tensor* input : graph.inputs()) {
    engine::ShapeRange range{input->name, {}, {}, {}};
    for (const ir::Dim dim : input->shape) {
      range.min.push_back(dim.is_known() ? dim.extent() : 0);
      range.opt.push_back(dim.is_known() ? dim.extent() : 4);
      range.max.push_back(dim.is_known() ? dim.extent() : 100);
    }
    profile.push_back(range);
  }
  return profile;
}

std::unique_ptr<runtime::Context> context_of(std::string_view text, int threads = 1) {
  auto graph = graph_of(text);
  if (!graph) return nullptr;
  BuildOptions options;
  options.profiles = {wide_profile(*graph)};
  options.threads = threads;
  const auto engine = engine_of(std::move(graph), options);
  if (!engine) return nullptr;
  auto context = runtime::Context::create(engine, {.threads = threads});
  EXPECT_TRUE(context.ok()) << context.status().message();
  return context.ok() ? std::move(context).value() : nullptr;
}

TEST(EngineRuns, ShapesThatValuesDecide) {
  const auto context = context_of(R"(graph "g" {
    symbols n
    input x: float[n]
    y: int64[1, ?1found] = NonZero(x)
    z: int64[?1found, 1] = Shuffle(y) {first_transpose=[1, 0]}
    w: float[?1found, 1] = Gather(x, z) {axis=0}
    r: float[?1found, 1] = Unary(w) {op=neg}
    output r
    output y
  })");
  ASSERT_TRUE(context);
  std::vector<TestTensor> outputs;
  for (int round = 0; round < 2; ++round) {
    ASSERT_STATUS_OK(run(*context, {floats({4}, {0, 5, 0, 7})}, outputs));
    EXPECT_EQ(outputs[0].extents, (ir::Extents{2, 1}));
    EXPECT_EQ(values<float>(outputs[0]), (std::vector<float>{-5, -7}));
    EXPECT_EQ(values<int64_t>(outputs[1]), (std::vector<int64_t>{1, 3}));
    ASSERT_STATUS_OK(
        run(*context, {floats({4}, {1, 5, 0, 7})}, outputs));  // the same shape, another result
    EXPECT_EQ(values<float>(outputs[0]), (std::vector<float>{-1, -5, -7}));
    ASSERT_STATUS_OK(run(*context, {floats({3}, {0, 0, 0})}, outputs));
    EXPECT_EQ(outputs[0].extents, (ir::Extents{0, 1}));
  }
}

// A second run repeats what the first found out about shapes, as long as the values that decided
// them are the same; then it finds out anew, from the step on where they differ.
TEST(EngineRuns, RepeatedRunsFollowTheValues) {
  const auto context = context_of(R"(graph "g" {
    symbols n
    input x: float[n]
    input c: bool[]
    input s: int64[1]
    a: float[?1k] = If(c, x)
    graph "then" { input u: float[n]  r: float[n] = Unary(u) {op=neg}  output r }
    graph "else" { input u: float[n]  i: int64[1, ?2m] = NonZero(u) j: int64[?2m] = Shuffle(i) {has_reshape=true, reshape=[?2m]}
      r: float[?2m] = Gather(u, j) {axis=0}  output r }
    e: int64[1] = ShapeOf(a) {last=1}
    d: int64[1] = ElementWise(e, s) {op=add}
    f: float[?3f] = Fill(d) {type=float, is_static=false}
    y: float[?4y] = Concatenation(a, f) {axis=0}
    output y
    output d
  })");
  ASSERT_TRUE(context);
  std::vector<TestTensor> outputs;
  const auto check = [&](bool c, std::vector<float> x, int64_t s, std::vector<float> expected) {
    const auto extent = static_cast<int64_t>(x.size());
    ASSERT_STATUS_OK(
        run(*context, {floats({extent}, std::move(x)), boolean(c), int64s({1}, {s})}, outputs));
    EXPECT_EQ(values<float>(outputs[0]), expected);
    EXPECT_EQ(values<int64_t>(outputs[1])[0], static_cast<int64_t>(expected.size()) / 2 + s / 2);
  };
  for (int round = 0; round < 3; ++round) {
    check(true, {1, 0}, 0, {-1, 0, 0, 0});
    check(true, {2, 0}, 0, {-2, 0, 0, 0});
    check(true, {2, 3}, 0, {-2, -3, 0, 0});
  }
  check(true, {2, 3}, 2, {-2, -3, 0, 0, 0, 0});  // another sum decides an extent
  for (int round = 0; round < 2; ++round) {
    check(false, {2, 3}, 0, {2, 3, 0, 0});
    check(false, {0, 3}, 0, {3, 0});  // the branch's own extents change
    check(false, {5, 0}, 0, {5, 0});
    check(true, {5, 0, 1}, 0, {-5, 0, -1, 0, 0, 0});  // other memory, and back
    check(true, {5, 0}, 0, {-5, 0, 0, 0});
  }
}

// A layer whose shapes the tuner could not know gets a fast kernel at its second run.
TEST(EngineRuns, LateLayersGetKernels) {
  const auto context = context_of(R"(graph "g" {
    symbols n
    input c: bool[]
    input x: float[n, 16]
    constant w: float[16, 32] = random(3)
    a: float[?1k, 16] = If(c, x)
    graph "then" { symbols n
      input u: float[n, 16]  r: float[n, 16] = Unary(u) {op=neg}  output r }
    graph "else" { symbols n
      input u: float[n, 16]  r: float[(n + n), 16] = Concatenation(u, u) {axis=0}  output r }
    b: float[?1k, 32] = MatrixMultiply(a, w)
    y: float[?1k, 32] = Activation(b) {op=relu}
    output y
  })");
  ASSERT_TRUE(context);
  const TestTensor x = random_tensor({3, 16}, 1);
  for (const bool c : {true, false, true}) {
    std::vector<TestTensor> first, later;
    ASSERT_STATUS_OK(run(*context, {boolean(c), x}, first));
    ASSERT_EQ(first[0].extents, (ir::Extents{c ? 3 : 6, 32}));
    for (int round = 0; round < 3; ++round) {
      ASSERT_STATUS_OK(run(*context, {boolean(c), x}, later));
      ASSERT_EQ(later[0].extents, first[0].extents);
      for (size_t k = 0; k < first[0].floats().size(); ++k)
        EXPECT_NEAR(later[0].floats()[k], first[0].floats()[k], 1e-5);
    }
  }
}

TEST(EngineRuns, LoopsCarryCaptureAndStack) {
  const auto context = context_of(kernels::kSumLoop);
  ASSERT_TRUE(context);
  std::vector<TestTensor> outputs;
  ASSERT_STATUS_OK(
      run(*context, {int64s({}, {3}), boolean(true), floats({}, {1}), floats({}, {0.5})}, outputs));
  EXPECT_EQ(values<float>(outputs[0]), std::vector<float>{2.5});
  EXPECT_EQ(values<float>(outputs[1]), (std::vector<float>{1.5, 2, 2.5}));
  ASSERT_STATUS_OK(run(
      *context, {int64s({}, {3}), boolean(false), floats({}, {1}), floats({}, {0.5})}, outputs));
  EXPECT_EQ(values<float>(outputs[0]), std::vector<float>{1});
  EXPECT_EQ(outputs[1].extents, ir::Extents{0});
}

TEST(EngineRuns, ScansStackForwardAndBackward) {
  const auto context = context_of(R"(graph "g" {
    symbols n
    input start: float[2]
    input x: float[n, 2]
    last: float[2], sums: float[n, 2] = Scan(start, x) {num_scan_inputs=1, scan_input_axes=[0], scan_input_directions=[1],
        scan_output_axes=[0], scan_output_directions=[1]} graph "body" {
      input state: float[2]
      input element: float[2]
      next: float[2] = ElementWise(state, element) {op=add}
      copy: float[2] = Unary(next) {op=identity}
      output next
      output copy
    }
    output last
    output sums
  })");
  ASSERT_TRUE(context);
  std::vector<TestTensor> outputs;
  ASSERT_STATUS_OK(
      run(*context, {floats({2}, {10, 20}), floats({3, 2}, {1, 2, 3, 4, 5, 6})}, outputs));
  EXPECT_EQ(values<float>(outputs[0]), (std::vector<float>{19, 32}));
  EXPECT_EQ(values<float>(outputs[1]), (std::vector<float>{19, 32, 18, 30, 15, 26}));
}

TEST(EngineRuns, BranchesOfDifferentShapes) {
  const auto context = context_of(R"(graph "g" {
    symbols n
    input c: bool[]
    input x: float[n]
    y: float[?1m] = If(c, x)
    graph "then" { input a: float[n]  r: float[n] = Unary(a) {op=neg}  output r }
    graph "else" { input a: float[n]  i: int64[1, ?2k] = NonZero(a) j: int64[?2k] = Shuffle(i) {has_reshape=true, reshape=[?2k]}
      r: float[?2k] = Gather(a, j) {axis=0}  output r }
    z: float[?1m] = Unary(y) {op=abs}
    output z
  })");
  ASSERT_TRUE(context);
  std::vector<TestTensor> outputs;
  for (int round = 0; round < 2; ++round) {
    ASSERT_STATUS_OK(run(*context, {boolean(true), floats({3}, {0, -1, 2})}, outputs));
    EXPECT_EQ(values<float>(outputs[0]), (std::vector<float>{0, 1, 2}));
    ASSERT_STATUS_OK(run(*context, {boolean(false), floats({3}, {0, -1, 2})}, outputs));
    EXPECT_EQ(values<float>(outputs[0]), (std::vector<float>{1, 2}));
  }
}

TEST(EngineRuns, EmptyTensors) {
  const auto context = context_of(R"(graph "g" {
    symbols past, now
    input cache: float[1, past, 4]
    input x: float[1, now, 4]
    constant w: float[4, 3] = random(1)
    y: float[1, (now + past), 4] = Concatenation(cache, x) {axis=1}
    z: float[1, (now + past), 3] = MatrixMultiply(y, w)
    r: float[1, (now + past), 3] = Activation(z) {op=relu}
    output y
    output r
  })");
  ASSERT_TRUE(context);
  std::vector<TestTensor> outputs;
  const TestTensor x = random_tensor({1, 2, 4}, 1);
  ASSERT_STATUS_OK(run(*context, {floats({1, 0, 4}, {}), x}, outputs));
  EXPECT_EQ(outputs[0].bytes, x.bytes);
  EXPECT_EQ(outputs[1].extents, (ir::Extents{1, 2, 3}));
  ASSERT_STATUS_OK(run(*context, {floats({1, 0, 4}, {}), floats({1, 0, 4}, {})}, outputs));
  EXPECT_EQ(outputs[1].extents, (ir::Extents{1, 0, 3}));
}

TEST(EngineRuns, OutputsThatAreInputsConstantsOrTheSame) {
  const auto context = context_of(R"(graph "g" {
    input x: float[2, 3, 2]
    constant c: float[2] = [3, 4]
    y: float[3, 4] = Shuffle(x) {has_reshape=true, reshape=[3, 4]}
    z: float[4, 3] = Shuffle(x) {has_reshape=true, reshape=[4, 3]}
    r: float[2, 3, 2] = Unary(x) {op=neg}
    s: float[12] = Shuffle(r) {has_reshape=true, reshape=[12]}
    output x
    output c
    output y
    output z
    output r
    output s
  })");
  ASSERT_TRUE(context);
  const TestTensor x = random_tensor({2, 3, 2}, 3);
  std::vector<TestTensor> outputs;
  ASSERT_STATUS_OK(run(*context, {x}, outputs));
  ASSERT_EQ(outputs.size(), 6u);
  EXPECT_EQ(outputs[0].bytes, x.bytes);
  EXPECT_EQ(values<float>(outputs[1]), (std::vector<float>{3, 4}));
  EXPECT_EQ(outputs[2].bytes, x.bytes);
  EXPECT_EQ(outputs[3].bytes, x.bytes);
  EXPECT_EQ(outputs[4].bytes, outputs[5].bytes);
  EXPECT_EQ(values<float>(outputs[4])[5], -x.floats()[5]);
}

constexpr const char* kTwoInputs = R"(graph "g" {
    symbols n
    input a: float[n, 4]
    input b: float[n, 4]
    y: float[n, 4] = ElementWise(a, b) {op=add}
    output y
  })";

TEST(EngineRuns, BindingsAreChecked) {
  const auto context = context_of(kTwoInputs);
  ASSERT_TRUE(context);
  std::vector<TestTensor> outputs;
  EXPECT_EQ(context->execute().code(), ErrorCode::kInvalidArgument);  // no extents
  EXPECT_FALSE(run(*context, {random_tensor({2, 4}, 1), random_tensor({3, 4}, 1)}, outputs).ok());
  EXPECT_FALSE(context->set_input_extents(0, ir::Extents{2, 5}).ok());
  EXPECT_FALSE(context->set_input_extents(0, ir::Extents{2}).ok());
  EXPECT_FALSE(context->set_input_extents(0, ir::Extents{101, 4}).ok());
  EXPECT_FALSE(context->set_input_extents(2, ir::Extents{2, 4}).ok());
  ASSERT_STATUS_OK(run(*context, {random_tensor({2, 4}, 1), random_tensor({2, 4}, 2)}, outputs));
  std::vector<float> few(7);
  ASSERT_STATUS_OK(context->set_input(0, few.data(), few.size() * 4));
  EXPECT_FALSE(context->execute().ok());
  ASSERT_STATUS_OK(context->set_input(0, outputs[0].bytes.data(), 32));
  ASSERT_STATUS_OK(context->set_output(0, few.data(), few.size() * 4));
  EXPECT_FALSE(context->execute().ok());
  EXPECT_EQ(context->binding_index("b"), 1);
  EXPECT_EQ(context->binding_index("y"), 2);
  EXPECT_EQ(context->binding_index("nobody"), -1);
}

TEST(EngineRuns, MemoryOfTheCallerInAnyAlignment) {
  const auto context = context_of(kTwoInputs);
  ASSERT_TRUE(context);
  const TestTensor a = random_tensor({3, 4}, 1), b = random_tensor({3, 4}, 2);
  std::vector<TestTensor> expected;
  ASSERT_STATUS_OK(run(*context, {a, b}, expected));
  for (const size_t shift : {0, 1, 4}) {
    std::vector<std::byte> in(a.bytes.size() + shift), out(48 + shift);
    std::memcpy(in.data() + shift, a.bytes.data(), a.bytes.size());
    ASSERT_STATUS_OK(context->set_input(0, in.data() + shift, a.bytes.size()));
    ASSERT_STATUS_OK(context->set_input(1, b.bytes.data(), b.bytes.size()));
    ASSERT_STATUS_OK(context->set_output(0, out.data() + shift, 48));
    ASSERT_STATUS_OK(context->execute());
    EXPECT_EQ(std::memcmp(out.data() + shift, expected[0].bytes.data(), 48), 0) << shift;
  }
}

TEST(EngineRuns, ContextsOnSeveralThreads) {
  BuildOptions options;
  options.threads = 2;
  const auto engine = engine_of(random_graph(5, 20, true), [&] {
    const auto graph = random_graph(5, 20, true);
    BuildOptions wide = options;
    wide.profiles = {wide_profile(*graph)};
    return wide;
  }());
  ASSERT_TRUE(engine);
  const auto& shape = engine->plan().tensors[engine->plan().inputs[0]].shape;
  const auto work = [&](int which, std::vector<TestTensor>& outputs) {
    auto context = runtime::Context::create(engine, {.threads = 2});
    ASSERT_STATUS_OK(context.status());
    for (int round = 0; round < 5; ++round)
      ASSERT_STATUS_OK(
          run(**context,
              {random_tensor({1 + which, shape[1].extent(), shape[2].extent(), shape[3].extent()},
                             which)},
              outputs));
  };
  std::vector<std::vector<TestTensor>> alone(4), together(4);
  for (int which = 0; which < 4; ++which) work(which, alone[which]);
  std::vector<std::thread> threads;
  for (int which = 0; which < 4; ++which)
    threads.emplace_back([&, which] { work(which, together[which]); });
  for (std::thread& thread : threads) thread.join();
  for (int which = 0; which < 4; ++which)
    for (size_t k = 0; k < alone[which].size(); ++k)
      EXPECT_EQ(alone[which][k].bytes, together[which][k].bytes);
}

// Cut batches: the same bits, mostly in less memory.
TEST(EngineRuns, ImageAfterImageGivesTheSame) {
  int cut = 0;
  size_t arena[2] = {};
  for (uint32_t seed = 1; seed <= 60 && !testing::Test::HasFailure(); ++seed) {
    auto graph = random_graph(seed, 25, true);
    BuildOptions options;
    options.profiles = {wide_profile(*graph)};
    options.random_choices = seed;
    options.threads = 1 + static_cast<int>(seed % 2);
    const auto engine = engine_of(std::move(graph), options);
    ASSERT_TRUE(engine);
    ir::Extents extents;
    for (const ir::Dim dim : engine->plan().tensors[engine->plan().inputs[0]].shape)
      extents.push_back(dim.is_known() ? dim.extent() : 6);
    std::vector<TestTensor> outputs[2];
    for (const bool cuts : {false, true}) {
      runtime::ContextOptions context_options{.threads = options.threads};
      context_options.cut_batches_beyond = cuts ? 0 : runtime::kWholeBatches;
      auto context = runtime::Context::create(engine, context_options);
      ASSERT_STATUS_OK(context.status());
      for (int round = 0; round < 2; ++round)
        ASSERT_STATUS_OK(run(**context, {random_tensor(extents, seed)}, outputs[cuts]));
      arena[cuts] += (*context)->arena_bytes();
      EXPECT_TRUE(cuts || (*context)->image_passes().empty());
      cut += static_cast<int>((*context)->image_passes().size());
    }
    for (size_t k = 0; k < outputs[0].size(); ++k)
      EXPECT_EQ(outputs[0][k].bytes, outputs[1][k].bytes) << "seed " << seed;
  }
  EXPECT_GT(cut, 20);
  EXPECT_LT(arena[1], arena[0]);
}

// Operators that make their own outputs write them row by row, whatever their neighbours prefer.
TEST(EngineRuns, GenericOperatorsBetweenConvolutions) {
  std::string weights;
  for (int k = 0; k < 32 * 32; ++k)
    weights += fmt::format("{}{}", k > 0 ? ", " : "", k * 7 % 13 - 6);
  const std::string text = fmt::format(R"(graph "g" {{
    input x: float[1, 32, 9, 7]
    constant v: float[32, 32, 1, 1] = [{}]
    a: float[1, 32, 9, 7] = Convolution(x, v) {{kernel=[1, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}}
    b: float[1, 32, 9, 7] = Generic(a) {{op_type="LRN", opset=13, attributes=[("size", [3], [], "")]}}
    y: float[1, 32, 9, 7] = Convolution(b, v) {{kernel=[1, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}}
    output y
  }})",
                                       weights);
  const TestTensor x = random_tensor({1, 32, 9, 7}, 3);
  const auto graph = graph_of(text);
  ASSERT_TRUE(graph);
  const kernels::Value input =
      kernels::make_value(ir::DataType::kFloat, x.extents, x.bytes).value();
  auto expected = kernels::evaluate(*graph, std::span(&input, 1));
  ASSERT_STATUS_OK(expected.status());
  for (uint64_t choices = 0; choices < 20; ++choices) {
    BuildOptions options;
    options.random_choices = choices;
    const auto engine = engine_of(graph_of(text), options);
    ASSERT_TRUE(engine);
    auto context = runtime::Context::create(engine, {});
    ASSERT_STATUS_OK(context.status());
    std::vector<TestTensor> outputs;
    ASSERT_STATUS_OK(run(**context, {x}, outputs));
    for (size_t k = 0; k < outputs[0].floats().size(); ++k)
      ASSERT_NEAR(outputs[0].floats()[k], (*expected)[0].as<float>()[k], 0.05) << choices;
  }
}

// A reader may want an output's elements row by row and have them copied for itself: that copy may
// become the output, but not under a name of its own.
TEST(EngineRuns, OutputsKeepTheirNames) {
  std::string weights;
  for (int k = 0; k < 32 * 32; ++k) weights += k > 0 ? ", 1" : "1";
  const std::string text = fmt::format(R"(graph "g" {{
    input x: float[1, 32, 9, 7]
    constant v: float[32, 32, 1, 1] = [{}]
    y: float[1, 32, 9, 7] = Convolution(x, v) {{kernel=[1, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]}}
    r: float[1, 2016] = Shuffle(y) {{has_reshape=true, reshape=[1, 2016]}}
    t: float[1, 2016] = SoftMax(r) {{axis=1, last_axis=1}}
    output y
    output t
  }})",
                                       weights);
  for (uint64_t choices = 0; choices < 20; ++choices) {
    BuildOptions options;
    options.random_choices = choices;
    const auto engine = engine_of(graph_of(text), options);
    ASSERT_TRUE(engine);
    const engine::Plan& plan = engine->plan();
    ASSERT_EQ(plan.outputs.size(), 2u);
    EXPECT_EQ(plan.tensors[plan.outputs[0]].name, "y") << choices;
    EXPECT_EQ(plan.tensors[plan.outputs[1]].name, "t") << choices;
    EXPECT_EQ(std::count_if(plan.tensors.begin(), plan.tensors.end(),
                            [](const engine::PlanTensor& tensor) { return tensor.name == "y"; }),
              1)
        << choices;
  }
}

TEST(EngineRuns, ProfilerSeesEveryStepThatRuns) {
  const auto context = context_of(kTwoInputs);
  ASSERT_TRUE(context);
  std::vector<runtime::LayerTime> times;
  context->set_profiler([&](const runtime::LayerTime& time) { times.push_back(time); });
  std::vector<TestTensor> outputs;
  ASSERT_STATUS_OK(run(*context, {random_tensor({2, 4}, 1), random_tensor({2, 4}, 2)}, outputs));
  ASSERT_EQ(times.size(), 1u);
  EXPECT_EQ(times[0].step, 0);
  EXPECT_GT(times[0].start_ns, 0);
}

}  // namespace
}  // namespace camshaft::tuner
