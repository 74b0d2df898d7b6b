// SPDX-License-Identifier: Apache-2.0
#include "trace/call_stacks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trace/testing.h"
#include "trace/timeline.h"

namespace camshaft::trace {
namespace {

std::string range(const char* category, const std::string& name, int ts, int dur) {
  return fmt::format(R"({{"ph":"X","cat":"{}","name":"{}","pid":1,"tid":1,"ts":{},"dur":{}}})",
                     category, name, ts, dur);
}

TEST(CallStacks, FramesAroundAnOperatorAreItsStack) {
  const auto profile = testing::profile_of(
      "[" + range("python_function", "main.py(1): <module>", 0, 100) + "," +
      range("python_function", "model.py(7): forward", 10, 50) + "," +
      range("python_function", "<built-in method add of type object at 0x7f>", 11, 40) + "," +
      range("cpu_op", "aten::add", 20, 10) + "," + range("cpu_op", "aten::mul", 70, 10) + "," +
      range("cpu_op", "aten::sub", 200, 10) + "]");
  std::vector<std::string> stacks;
  for (uint32_t event = 0; event < profile->trace.events.size(); ++event)
    if (profile->trace.events.kind[event] == EventKind::kOperator)
      stacks.push_back(
          profile->stacks.text(profile->trace, profile->stacks.of(profile->trace, event)));
  EXPECT_EQ(stacks, (std::vector<std::string>{"model.py(7): forward;main.py(1): <module>",
                                              "main.py(1): <module>", ""}));
}

// As deep as a recursion may be, and deeper: nothing vanishes from the timeline.
TEST(Timeline, DeepEventsStay) {
  constexpr int kDepth = 1500;
  std::string events = "[";
  for (int k = 0; k < kDepth; ++k)
    events +=
        (k == 0 ? "" : ",") + range("python_function", fmt::format("f{}", k), k, 4000 - 2 * k);
  const auto trace = testing::read_text(events + "]");
  const Timeline lines = build_timeline(*trace);
  size_t shown = 0;
  for (const Lane& lane : lines.lanes) shown += lane.events.size();
  EXPECT_EQ(shown, static_cast<size_t>(kDepth));
  const auto window = timeline_window(*trace, lines, 0, 5'000'000, 4000, 0, 1000, 10000);
  EXPECT_EQ(window.rows.size(), 1000u);
}

}  // namespace
}  // namespace camshaft::trace
