// SPDX-License-Identifier: Apache-2.0
// Schedules of random networks, simulated: what a step reads is what was written there last.
#include "runtime/schedule.h"

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

}  // namespace
}  // namespace camshaft::runtime
