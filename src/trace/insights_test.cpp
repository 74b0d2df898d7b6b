// SPDX-License-Identifier: Apache-2.0
#include "trace/insights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "trace/cross_rank.h"
#include "trace/testing.h"
#include "trace/timeline.h"
#include "trace/views.h"

namespace camshaft::trace {
namespace {

std::map<std::string, double> figures(const Profile& profile) {
  const auto list = metrics(profile, find_insights(profile));
  return {list.begin(), list.end()};
}

TEST(Insights, LaunchesOfEveryKindAreCounted) {
  const auto profile = testing::profile_of(testing::sample_trace());
  const Insights insights = find_insights(*profile);
  EXPECT_EQ(insights.launches.kernels, 10);  // per step: runtime, driver, two of a graph, NCCL
  EXPECT_EQ(insights.launches.launches, 6);
  EXPECT_EQ(insights.launches.graph_launches, 2);
  EXPECT_EQ(insights.launches.graph_kernels, 4);
  EXPECT_DOUBLE_EQ(insights.launches.graph_kernel_us, 4 * 9.5);
}

TEST(Insights, IdleTimeAddsUpToTheSteps) {
  const auto profile = testing::profile_of(testing::sample_trace());
  const Insights insights = find_insights(*profile);
  ASSERT_EQ(insights.idle.size(), 2u);
  for (const IdleSplit& split : insights.idle)
    EXPECT_NEAR(split.busy_us + split.host_wait_us + split.kernel_wait_us + split.other_us,
                split.span_us, 1e-6);
}

TEST(Insights, BreakdownAddsUpToEveryStep) {
  const auto profile = testing::profile_of(testing::sample_trace());
  ASSERT_EQ(profile->steps.list.size(), 2u);  // the GPU-side marks are none
  for (size_t k = 0; k < profile->steps.list.size(); ++k) {
    const auto& parts = profile->breakdown.steps[k];
    EXPECT_NEAR(std::accumulate(parts.begin(), parts.end(), 0.0),
                profile->steps.list[k].end - profile->steps.list[k].start, 1e-6);
  }
}

TEST(Insights, KernelsOfTheDriverBelongToTheirOperator) {
  const auto corrected = testing::profile_of(testing::sample_trace());
  Semantics original;
  original.original = true;
  const auto compat = testing::profile_of(testing::sample_trace(), original);
  const auto self_of = [](const Profile& profile, std::string_view name) {
    for (const OperatorGroup& group : profile.operators.by_name)
      if (profile.trace.strings[group.name] == name) return profile.clock.to_us(group.device_self);
    return -1.0;
  };
  EXPECT_DOUBLE_EQ(self_of(*corrected, "aten::relu"), 2 * 20.5);
  EXPECT_DOUBLE_EQ(self_of(*compat, "aten::relu"), 0);
}

TEST(Insights, CollectivesKnowTheirGroupAndBytes) {
  const auto profile = testing::profile_of(testing::sample_trace());
  const Insights insights = find_insights(*profile);
  ASSERT_EQ(insights.collectives.size(), 1u);
  const CollectiveUse& use = insights.collectives[0];
  EXPECT_EQ(use.name, "allreduce");
  EXPECT_EQ(use.group, "default_pg");
  EXPECT_EQ(use.calls, 2);
  EXPECT_EQ(use.group_size, 2);
  EXPECT_EQ(use.bytes, 2 * 1024 * 4);
  EXPECT_DOUBLE_EQ(use.total_us, 2 * 80.5);
  EXPECT_DOUBLE_EQ(use.exposed_us, use.total_us);
}

TEST(Insights, MemoryAtThePeakIsSplitByPurpose) {
  const auto profile = testing::profile_of(testing::sample_trace());
  const Insights insights = find_insights(*profile);
  const auto gpu = std::find_if(insights.memory.begin(), insights.memory.end(),
                                [](const MemoryUse& use) { return use.device == "GPU0"; });
  ASSERT_NE(gpu, insights.memory.end());
  EXPECT_EQ(gpu->peak, 2048 + 1024 + 512);
  EXPECT_EQ(gpu->capacity, int64_t{1} << 34);
  int64_t sum = 0;
  for (const auto& [purpose, bytes] : gpu->at_peak) sum += bytes;
  EXPECT_EQ(sum, gpu->peak);
}

TEST(Insights, FiguresHaveNamesForConditions) {
  const auto profile = testing::profile_of(testing::sample_trace());
  const auto found = figures(*profile);
  for (const char* name : {"steps", "step.average_us", "step.kernel_percent", "kernels.calls",
                           "gpu0.utilization_percent", "communication.total_us", "launches.graphs",
                           "memory.gpu0.peak_bytes"})
    EXPECT_EQ(found.count(name), 1u) << name;
  EXPECT_EQ(found.at("steps"), 2);
}

TEST(Insights, CriticalPathAddsUpToTheSteps) {
  const auto profile = testing::profile_of(testing::sample_trace());
  const CriticalPath path = find_critical_path(*profile);
  double sum = 0;
  for (const CriticalPart& part : path.parts) sum += part.total_us;
  EXPECT_NEAR(sum, path.span_us, 1e-6);
  EXPECT_NEAR(path.kernel_us + path.launch_us + path.queue_us + path.host_us, path.span_us, 1e-6);
}

// One long kernel that the host waits for is the whole path but for what came before its launch.
TEST(Insights, CriticalPathGoesThroughWhatTheHostWaitsFor) {
  const auto profile = testing::profile_of(
      R"([{"ph":"X","cat":"cpu_op","name":"ProfilerStep#1","pid":1,"tid":1,"ts":0,"dur":1000},)"
      R"({"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":10,"dur":50,"args":{"External id":1}},)"
      R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":20,"dur":10,"args":{"External id":1,"correlation":1}},)"
      R"({"ph":"X","cat":"cuda_runtime","name":"cudaDeviceSynchronize","pid":1,"tid":1,"ts":100,"dur":860,"args":{"External id":2,"correlation":2}},)"
      R"({"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":30,"dur":900,"args":{"correlation":1,"device":0}}])");
  const CriticalPath path = find_critical_path(*profile);
  EXPECT_DOUBLE_EQ(path.span_us, 1000);
  EXPECT_DOUBLE_EQ(path.kernel_us, 900);
  EXPECT_DOUBLE_EQ(path.launch_us, 10);
  EXPECT_DOUBLE_EQ(path.host_us, 90);  // before the launch, and behind the kernel's end
  ASSERT_FALSE(path.parts.empty());
  EXPECT_EQ(path.parts[0].name, "gemm");
}

// The main thread waits, without any event, for the thread that runs the backward pass.
TEST(Insights, CriticalPathGoesFromThreadToThread) {
  const auto profile = testing::profile_of(
      R"([{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,"ts":0,"dur":1000},)"
      R"({"ph":"X","cat":"cpu_op","name":"aten::forward","pid":1,"tid":1,"ts":10,"dur":190,"args":{"External id":1}},)"
      R"({"ph":"X","cat":"cpu_op","name":"MmBackward","pid":1,"tid":2,"ts":220,"dur":480,"args":{"External id":2}},)"
      R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":2,"ts":230,"dur":10,"args":{"External id":2,"correlation":1}},)"
      R"({"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":250,"dur":20,"args":{"correlation":1,"device":0}},)"
      R"({"ph":"X","cat":"cpu_op","name":"aten::step","pid":1,"tid":1,"ts":720,"dur":270,"args":{"External id":3}}])");
  const CriticalPath path = find_critical_path(*profile);
  std::map<std::string, double> found;
  for (const CriticalPart& part : path.parts) found[part.name] = part.total_us;
  const std::map<std::string, double> expected{{"aten::forward", 190},
                                               {"MmBackward", 480},
                                               {"aten::step", 270},
                                               {"host code outside operators", 60}};
  EXPECT_EQ(found, expected);
}

TEST(Lightning, ModulesComeFromDottedNames) {
  const auto range = [](const char* name, int ts, int dur) {
    return R"({"ph":"X","cat":"cpu_op","pid":1,"tid":1,"name":")" + std::string(name) +
           "\",\"ts\":" + std::to_string(ts) + ",\"dur\":" + std::to_string(dur) + "}";
  };
  const std::string events = range("[pl][profile]run_training_batch", 0, 100) + "," +
                             range("[pl][module]torch.nn.Sequential: encoder", 10, 50) + "," +
                             range("[pl][module]torch.nn.Linear: encoder.0", 20, 30) + "," +
                             range("aten::linear", 25, 10) + "," +
                             range("[pl][module]torch.nn.Linear: head.out", 70, 20);
  const auto profile =
      testing::profile_of("{\"Framework\":\"pytorch-lightning\",\"traceEvents\":[" + events + "]}");
  EXPECT_TRUE(profile->is_lightning);
  const auto views = view_names(*profile);
  EXPECT_EQ(std::count(views.begin(), views.end(), "Lightning"), 1);
  ASSERT_EQ(profile->modules.size(), 2u);
  const ModuleNode &encoder = profile->modules[0], &head = profile->modules[1];
  EXPECT_EQ(encoder.name, "encoder");
  EXPECT_DOUBLE_EQ(profile->clock.to_us(encoder.host_total), 50);
  ASSERT_EQ(encoder.children.size(), 1u);
  EXPECT_EQ(encoder.children[0].name, "encoder.0");
  EXPECT_EQ(encoder.children[0].operators, 1);
  EXPECT_EQ(head.occurrences, 0);
  ASSERT_EQ(head.children.size(), 1u);
  EXPECT_EQ(head.children[0].occurrences, 1);
  ASSERT_EQ(profile->operators.by_name.size(), 1u);  // the ranges are no operators
}

TEST(CrossRank, CollectivesMeetByGroupAndNumber) {
  const auto rank = [](int ts, int first, int second) {
    const auto kernel = [](int seq, int at, int dur) {
      return R"({"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":7,"ts":)" +
             std::to_string(at) + ",\"dur\":" + std::to_string(dur) +
             R"(,"args":{"device":0,"Collective name":"allreduce","Process Group Name":"0","Process Group Ranks":"[0, 1]","Seq":)" +
             std::to_string(seq) + "}}";
    };
    return testing::profile_of("[" + kernel(5, ts, first) + "," + kernel(6, ts + 500, second) +
                               "," + kernel(ts, ts + 900, 1) + "]");
  };
  const auto a = rank(1000, 100, 30), b = rank(9000, 40, 90);
  const CrossRank found = match_collectives({a.get(), b.get()});
  EXPECT_EQ(found.collectives, 2);
  EXPECT_EQ(found.ranks[0].matched, 2);
  EXPECT_EQ(found.ranks[0].unmatched, 1);  // their third ones have other numbers
  EXPECT_EQ(found.ranks[0].came_last, 1);
  EXPECT_DOUBLE_EQ(found.ranks[0].wait_us, 60);
  EXPECT_DOUBLE_EQ(found.ranks[1].wait_us, 60);
  EXPECT_DOUBLE_EQ(found.ranks[1].transfer_us, 70);
}

TEST(Steps, AnnotationsStandForStepsWhereNoneAreMarked) {
  std::string text = "[";
  for (int k = 0; k < 3; ++k)
    text += R"({"ph":"X","cat":"user_annotation","name":"request","pid":1,"tid":1,"dur":80,"ts":)" +
            std::to_string(k * 100) + "},";
  text += R"({"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"dur":9,"ts":5}])";
  const auto profile = testing::profile_of(text);
  EXPECT_TRUE(profile->steps.from_annotation);
  EXPECT_EQ(profile->steps.annotation, "request");
  EXPECT_EQ(profile->steps.list.size(), 3u);
}

TEST(Steps, TheFirstStepThatHoldsAStretchIsFound) {
  const std::vector<Step> steps{{"0", 0, 10}, {"1", 10, 30}, {"2", 12, 20}, {"3", 40, 50}};
  const StepFinder finder(steps);
  EXPECT_EQ(finder.find(1, 10), 0);
  EXPECT_EQ(finder.find(13, 19), 1);
  EXPECT_EQ(finder.find(9, 11), -1);
  EXPECT_EQ(finder.find(41, 50), 3);
  EXPECT_EQ(finder.find(41, 51), -1);
  EXPECT_EQ(finder.find(35, 45), -1);
}

TEST(Timeline, WindowsAreBoundedAndLoseNothing) {
  const auto trace = testing::read_text(testing::sample_trace());
  const Timeline timeline = build_timeline(*trace);
  size_t in_lanes = 0;
  for (const Lane& lane : timeline.lanes) {
    in_lanes += lane.events.size();
    for (size_t k = 1; k < lane.events.size(); ++k)
      EXPECT_LE(trace->end_ns(lane.events[k - 1]), trace->events.start_ns[lane.events[k]]);
  }
  EXPECT_EQ(in_lanes, trace->events.size());
  for (const int64_t pixels : {1, 10, 100, 100000}) {
    const TimelineWindow window = timeline_window(*trace, timeline, timeline.first_ns,
                                                  timeline.last_ns + 1, pixels, 0, 1000, 1000000);
    size_t events = 0;
    for (const auto& row : window.rows)
      for (const TimelineBlock& block : row.blocks) events += block.count;
    EXPECT_EQ(events, trace->events.size()) << pixels;
  }
  const TimelineWindow small = timeline_window(*trace, timeline, timeline.first_ns,
                                               timeline.last_ns + 1, 100000, 0, 1000, 20);
  size_t blocks = 0;
  for (const auto& row : small.rows) blocks += row.blocks.size();
  EXPECT_LE(blocks, 20u);
}

TEST(TreeView, LimitsLeaveOutWhatTheyCount) {
  const auto profile = testing::profile_of(testing::sample_trace());
  const auto text_of = [&](const TreeRequest& request) {
    std::string text;
    write_tree(*profile, request, [&](std::string_view piece) {
      text += piece;
      return true;
    });
    return text;
  };
  const auto count = [](const std::string& text, const std::string& part) {
    size_t found = 0;
    for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  const std::string whole = text_of({}), part = text_of({kNoRow, 4});
  EXPECT_EQ(count(whole, "\"omitted\""), 0u);
  EXPECT_EQ(count(part, "\"omitted\""), 2u);  // both steps
  EXPECT_LT(count(part, "\"name\""), count(whole, "\"name\""));
  EXPECT_FALSE(write_tree(*profile, {}, [](std::string_view) { return false; }));
}

}  // namespace
}  // namespace camshaft::trace
