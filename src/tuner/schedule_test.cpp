// SPDX-License-Identifier: Apache-2.0
// Schedules of random networks, simulated: what a step reads is what was written there last.
#include "runtime/schedule.h"
#include "runtime/placing.h"

#include <cstring>
#include <functional>

#include "ir/extents.h"
#include "tuner/random_graph.h"
#include "tuner/test_util.h"

namespace camshaft::runtime {
namespace {

using engine::kNoTensor;

// Who wrote each byte of the arena last, as root tensors.
class Simulation {
 public:
  Simulation(const PlanFacts& facts, const Schedule& schedule)
      : facts_(facts), schedule_(schedule), owner_(schedule.arena_bytes, -1) {}

  void run() {
    for (const ScheduledStep& scheduled : schedule_.steps) {
      const engine::PlanStep& step = facts_.plan->steps[scheduled.step];
      for (const int t : step.inputs)
        visit(t, [&](int root, size_t byte) { EXPECT_EQ(owner_[byte], root) << step.layer.name; });
      for (const int t : step.outputs)
        visit(t, [&](int root, size_t byte) { owner_[byte] = root; });
    }
  }

 private:
  template <class F>
  void visit(int t, const F& each) const {
    if (t == kNoTensor) return;
    const Location& location = schedule_.locations[t];
    const TensorView& view = schedule_.tensors[t];
    if (location.space != Space::kBase || location.base != 0 || view.elements() == 0) return;
    const size_t size = ir::bits_of(view.type) / 8;
    for (int64_t k = 0; k < view.elements(); ++k) {
      int64_t rest = k, offset = 0;
      for (int d = view.rank - 1; d >= 0; --d) {
        offset += rest % view.extents[d] * view.strides[d];
        rest /= view.extents[d];
      }
      const size_t byte = location.offset + offset * size;
      ASSERT_LE(byte + size, schedule_.arena_bytes);
      each(facts_.tensors[t].root, byte);
    }
  }

  const PlanFacts& facts_;
  const Schedule& schedule_;
  std::vector<int> owner_;
};

TEST(Schedule, NothingAliveIsOverwritten) {
  ThreadPool pool(1);
  for (uint32_t seed = 1; seed <= 40 && !testing::Test::HasFailure(); ++seed) {
    tuner::BuildOptions options;
    options.random_choices = seed;
    const auto engine = tuner::engine_of(tuner::random_graph(seed, 25, false), options);
    ASSERT_TRUE(engine);
    const auto facts = PlanFacts::make(*engine, engine->plan());
    ASSERT_STATUS_OK(facts.status());
    const ir::Extents extents =
        ir::extents_of(engine->plan().tensors[engine->plan().inputs[0]].shape);
    const auto schedule = make_schedule(facts.value(), std::span(&extents, 1), nullptr, &pool);
    ASSERT_STATUS_OK(schedule.status());
    Simulation(facts.value(), *schedule.value()).run();
  }
}

// A chain of pointwise layers of one shape runs in one buffer.
TEST(Schedule, PointwiseChainsRunInPlace) {
  tuner::BuildOptions options;
  options.optimization_level = 0;
  const auto engine = tuner::engine_of(tuner::graph_of(R"(graph "g" {
    input x: float[1, 64]
    a: float[1, 64] = SoftMax(x) {axis=1, last_axis=1}
    b: float[1, 64] = Activation(a) {op=sigmoid}
    c: float[1, 64] = SoftMax(b) {axis=1, last_axis=1}
    output c
  })"),
                                       options);
  ASSERT_TRUE(engine);
  const auto facts = PlanFacts::make(*engine, engine->plan());
  ThreadPool pool(1);
  const ir::Extents extents{1, 64};
  const auto schedule = make_schedule(facts.value(), std::span(&extents, 1), nullptr, &pool);
  ASSERT_STATUS_OK(schedule.status());
  EXPECT_EQ(schedule.value()->arena_bytes, 256u);
}

// --- advance

// All but places in the arena, which may be those of another length.
void expect_same(const PlanFacts& facts, const Schedule& found, const Schedule& expected) {
  EXPECT_EQ(found.input_extents, expected.input_extents);
  EXPECT_EQ(found.bindings.values, expected.bindings.values);
  ASSERT_EQ(found.steps.size(), expected.steps.size());
  for (size_t k = 0; k < found.steps.size(); ++k) {
    EXPECT_EQ(found.steps[k].step, expected.steps[k].step);
    const std::string& name = facts.plan->steps[found.steps[k].step].layer.name;
    EXPECT_TRUE(lie_alike(found.steps[k].args.inputs, expected.steps[k].args.inputs)) << name;
    EXPECT_TRUE(lie_alike(found.steps[k].args.outputs, expected.steps[k].args.outputs)) << name;
    EXPECT_EQ(found.steps[k].run, expected.steps[k].run) << name;
  }
  for (size_t base = 1; base < found.patches.size(); ++base)
    for (size_t k = 0; k < found.patches[base].size(); ++k)
      EXPECT_EQ(found.patches[base][k].offset, expected.patches[base][k].offset);
  for (size_t t = 0; t < found.values.size(); ++t) {
    if (!found.values[t]) continue;
    const size_t bytes = facts.plan->tensors[t].value->size() * 8;
    EXPECT_EQ(std::memcmp(found.values[t].get(), expected.values[t].get(), bytes), 0);
  }
}

using Lengths = std::function<std::vector<ir::Extents>(int64_t)>;

// One schedule goes from length to length, beside new ones.
void advance_through(const char* graph, const Lengths& inputs, std::vector<int64_t> capacities,
                     std::span<const int64_t> lengths) {
  tuner::BuildOptions options;
  options.optimization_level = 0;
  engine::Profile profile;
  const auto parsed = tuner::graph_of(graph);
  for (size_t k = 0; k < parsed->inputs().size(); ++k)
    profile.push_back(
        {parsed->inputs()[k]->name, inputs(0)[k], inputs(lengths.front())[k], inputs(1000)[k]});
  options.profiles = {profile};
  const auto engine = tuner::engine_of(tuner::graph_of(graph), options);
  ASSERT_TRUE(engine);
  const auto facts = PlanFacts::make(*engine, engine->plan());
  ASSERT_STATUS_OK(facts.status());
  ThreadPool pool(1);
  const auto made_for = [&](int64_t length) {
    return make_schedule(facts.value(), inputs(length), nullptr, &pool, capacities);
  };
  const auto schedule = made_for(lengths.front());
  ASSERT_STATUS_OK(schedule.status());
  for (const int64_t length : lengths) {
    const auto advanced = advance(facts.value(), inputs(length), nullptr, *schedule.value());
    ASSERT_STATUS_OK(advanced.status());
    ASSERT_TRUE(advanced.value()) << length;
    const auto fresh = made_for(length);
    ASSERT_STATUS_OK(fresh.status());
    expect_same(facts.value(), *schedule.value(), *fresh.value());
    Simulation(facts.value(), *schedule.value()).run();
  }
  // No elements where there were some: steps come and go.
  const auto advanced = advance(facts.value(), inputs(0), nullptr, *schedule.value());
  ASSERT_STATUS_OK(advanced.status());
  EXPECT_FALSE(advanced.value());
  const auto fresh = made_for(lengths.back());
  expect_same(facts.value(), *schedule.value(), *fresh.value());
}

TEST(Schedule, AdvancesBySequencesInOneBuffer) {
  const std::vector<int64_t> lengths = {20, 21, 22, 60, 30, 31, 140};
  advance_through(R"(graph "g" {
      symbols past
      input past_k: float[2, 2, past, 8]
      input past_v: float[2, 2, past, 8]
      input q: float[2, 4, 1, 8]
      input k: float[2, 1, 2, 8]
      input v: float[2, 2, 1, 8]
      input mask: float[2, 1, 1, (past + 1)]
      kt: float[2, 2, 1, 8] = Shuffle(k) {first_transpose=[0, 2, 1, 3]}
      present_k: float[2, 2, (past + 1), 8] = Concatenation(past_k, kt) {axis=2}
      present_v: float[2, 2, (past + 1), 8] = Concatenation(past_v, v) {axis=2}
      soft: float[2, 1, 1, (past + 1)] = SoftMax(mask) {axis=3, last_axis=3}
      y: float[2, 4, 1, 8] = Attention(q, present_k, present_v, _, soft) {right_window=0, first_query=[past], epilogue=<2: v2 = add v0 v1>}
      output y
      output present_k
      output present_v
    })",
                  [](int64_t n) {
                    return std::vector<ir::Extents>{{2, 2, n, 8}, {2, 2, n, 8}, {2, 4, 1, 8},
                                                    {2, 1, 2, 8}, {2, 2, 1, 8}, {2, 1, 1, n + 1}};
                  },
                  {700, 700}, lengths);
}

// Views, elements that are extents, and attributes that hold them.
TEST(Schedule, AdvancesToShorterLengths) {
  const std::vector<int64_t> lengths = {90, 89, 12, 13, 90, 2};
  advance_through(R"(graph "g" {
      symbols n
      input x: float[3, n, 8]
      a: float[3, n, 8] = SoftMax(x) {axis=2, last_axis=2}
      f: float[3, (n*8)] = Shuffle(a) {has_reshape=true, reshape=[3, (n*8)]}
      h: float[3, (n*8)] = SoftMax(f) {axis=1, last_axis=1}
      s: int64[1] value [n] = ShapeOf(x) {first=1, last=2}
      d: float[1] = Cast(s)
      b: float[3, n, 8] = Shuffle(h) {has_reshape=true, reshape=[3, n, 8]}
      c: float[3, n, 8] = ElementWise(b, d) {op=div}
      e: float[1, n, 8] = Slice(c) {start=[1, 0, 0], size=[1, n, 8], step=[1, 1, 1]}
      g: float[1, n, 8] = SoftMax(e) {axis=1, last_axis=1}
      output c
      output g
    })",
                  [](int64_t n) {
                    return std::vector<ir::Extents>{{3, n, 8}};
                  },
                  {}, lengths);
}

}  // namespace
}  // namespace camshaft::runtime
