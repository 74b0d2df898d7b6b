// SPDX-License-Identifier: Apache-2.0
// What the page and the terminal say about recorded traces, trace by trace. Skipped with a reason
// where the recordings are not there.
#include <algorithm>
#include <cstring>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trace/cross_rank.h"
#include "trace/distributed.h"
#include "trace/findings.h"
#include "trace/golden.h"
#include "trace/reader.h"
#include "trace/timeline.h"
#include "trace/views.h"

namespace camshaft::golden {
namespace {

using nlohmann::json;
using trace::Finding;
using trace::Insights;
using trace::Profile;

class Findings : public testing::Test {
 public:
  void SetUp() override {
    if (data_folder().empty())
      GTEST_SKIP() << "no recorded traces: neither CAMSHAFT_SHARED nor ../shared holds profiler/";
  }

  static std::unique_ptr<Profile> read(const std::string& name, bool original = false) {
    const std::string path =
        fmt::format("{}/profiler/traces/{}.pt.trace.json.gz", data_folder(), name);
    auto found = trace::read_trace(path);
    EXPECT_TRUE(found.ok()) << found.status().message();
    trace::Semantics semantics;
    semantics.original = original;
    semantics.dialect = trace::dialect_of(*found);
    auto profile =
        trace::analyze(std::make_shared<const trace::Trace>(std::move(found).value()), semantics);
    profile->worker = name.substr(name.find('/') + 1);
    return profile;
  }
  static const Finding* find(const std::vector<Finding>& list, const char* id) {
    const auto found = std::find_if(list.begin(), list.end(), [&](const Finding& finding) {
      return std::strcmp(finding.id, id) == 0;
    });
    return found == list.end() ? nullptr : &*found;
  }
  static std::map<std::string, double> figures(const Profile& profile) {
    const auto list = trace::metrics(profile, trace::find_insights(profile));
    return {list.begin(), list.end()};
  }
};

struct Ranks {
  std::vector<std::unique_ptr<Profile>> profiles;
  std::vector<const Profile*> plain;
  trace::CrossRank together;

  explicit Ranks(std::vector<std::unique_ptr<Profile>> from) : profiles(std::move(from)) {
    for (const auto& profile : profiles) plain.push_back(profile.get());
    together = trace::match_collectives(plain);
  }
  std::vector<Finding> findings(size_t worker) const {
    return trace::with_ranks(trace::find_insights(*plain[worker]).findings, together, worker);
  }
};

Ranks ddp(bool original = false) {
  std::vector<std::unique_ptr<Profile>> list;
  for (const char* worker : {"worker0", "worker1"})
    list.push_back(Findings::read(fmt::format("old_resnet50_newAPI_ddp/{}", worker), original));
  return Ranks(std::move(list));
}

// Worker 0 waits inside its collectives for worker 1, which waits for its DataLoader.
TEST_F(Findings, WaitingIsToldFromTransferringAndItsCauseNamed) {
  const Ranks ranks = ddp();
  const trace::RankUse &first = ranks.together.ranks[0], &second = ranks.together.ranks[1];
  EXPECT_EQ(ranks.together.collectives, 16);  // recorded by both; without numbers
  EXPECT_EQ(second.came_last, 15);
  EXPECT_NEAR(first.wait_us, 2'616'856, 1);
  EXPECT_LT(second.wait_us, 1000);
  EXPECT_EQ(second.busy_with, trace::Part::kDataLoader);
  EXPECT_NEAR(second.busy_percent, 70.5, 0.1);

  const auto found = ranks.findings(0);
  const Finding* wait = find(found, "rank-wait");
  ASSERT_NE(wait, nullptr);
  EXPECT_NEAR(wait->value, 45.0, 0.1);  // of 52.1 % communication
  EXPECT_NE(wait->text.find("worker1"), std::string::npos) << wait->text;
  EXPECT_NE(wait->text.find("71% of its steps are DataLoader"), std::string::npos) << wait->text;
  EXPECT_NE(wait->text.find("num_workers"), std::string::npos);
  const Finding* transfer = find(found, "communication");
  ASSERT_NE(transfer, nullptr);
  EXPECT_NEAR(transfer->value, 10.7, 0.1);
  const auto others = ranks.findings(1);
  EXPECT_NE(find(others, "straggler"), nullptr);
  EXPECT_EQ(find(others, "rank-wait"), nullptr);
}

TEST_F(Findings, OneRankAloneDoesNotTellWaitingFromTransferring) {
  const auto profile = read("old_resnet50_newAPI_ddp/worker0");
  const auto list = trace::find_insights(*profile).findings;
  const Finding* found = find(list, "communication");
  ASSERT_NE(found, nullptr);
  EXPECT_NEAR(found->value, 52.1, 0.1);
  EXPECT_NE(found->text.find("waiting for other ranks included"), std::string::npos);
}

// 23 of its 27 NCCL kernels have a recorded launch, though outside operators.
TEST_F(Findings, KernelsOfThreadsWithoutOperatorsBelongToTheirCall) {
  const auto profile = read("old_resnet50_newAPI_ddp/worker0");
  int recorded = 0, all = 0;
  for (const uint32_t device : profile->launches.devices) {
    if (!trace::is_collective_kernel(profile->trace.name_of(device))) continue;
    ++all;
    recorded += profile->launches.runtime_of_device[device] != trace::kNoRow ? 1 : 0;
  }
  EXPECT_EQ(all, 27);
  EXPECT_EQ(recorded, 23);
  const auto list = trace::find_insights(*profile).findings;
  const Finding* found = find(list, "unrecorded");
  ASSERT_NE(found, nullptr);
  EXPECT_NEAR(found->value, 5.3, 0.1);  // not the 91.5 % outside operators
  const bool has_call =
      std::any_of(profile->kernels.by_properties.begin(), profile->kernels.by_properties.end(),
                  [&](const trace::KernelGroup& group) {
                    return operator_label(profile->trace, group) == "<cudaLaunchKernel>";
                  });
  EXPECT_TRUE(has_call);
}

TEST_F(Findings, ReplayedKernelsBelongToTheirGraphLaunch) {
  const auto profile = read("tl_vllm_decode/rank0");
  const Insights insights = trace::find_insights(*profile);
  EXPECT_EQ(insights.launches.graph_kernels, 421);
  EXPECT_EQ(profile->kernels.unrecorded_calls, 0);
  EXPECT_EQ(find(insights.findings, "unrecorded"), nullptr);
  EXPECT_EQ(find(insights.findings, "short-kernels"), nullptr);  // a graph is replayed already
  EXPECT_EQ(find(insights.findings, "launch-bound"), nullptr);
  int64_t replayed = 0;
  for (const trace::KernelGroup& group : profile->kernels.by_properties)
    if (operator_label(profile->trace, group).rfind("<hipGraphLaunch in execute_32_context", 0) ==
        0)
      replayed += group.calls;
  EXPECT_EQ(replayed, 421);
}

TEST_F(Findings, AnnotationsThatCoverLittleAreNoSteps) {
  for (const char* name : {"hta_simple_add/rank0", "hta_mtia_infer/rank0", "tl_mi300_norm/rank0"}) {
    const auto profile = read(name);
    ASSERT_EQ(profile->steps.list.size(), 1u) << name;
    EXPECT_FALSE(profile->steps.from_annotation) << name;
    EXPECT_NE(profile->steps.note.find("the whole span is one step"), std::string::npos) << name;
  }
  // What the device waited and what it worked are of one span: that of the step.
  const auto profile = read("hta_simple_add/rank0");
  const trace::IdleSplit idle = trace::find_insights(*profile).idle.at(0);
  EXPECT_NEAR(idle.span_us, profile->clock.to_us(profile->breakdown.average_step), 1e-3);
  EXPECT_NEAR(idle.busy_us + idle.host_wait_us + idle.kernel_wait_us + idle.other_us, idle.span_us,
              1);
  EXPECT_NEAR(idle.busy_us, 49'758, 1);
  EXPECT_GT(profile->devices.devices.at(0).utilization, 0);
  const auto inference = read("hta_mtia_infer/rank0");
  EXPECT_GT(inference->clock.to_us(inference->breakdown.average_step), 333'000);
}

// /distributed/* by default knows the all-reduce kernels that the plugin's five names leave out.
TEST_F(Findings, DistributedRoutesKnowKernelsWithoutOperators) {
  const Ranks ranks = ddp();
  ASSERT_TRUE(trace::has_distributed_view(ranks.plain));
  const json table = json::parse(trace::collectives_json(ranks.plain))["data"]["worker0"];
  std::map<std::string, json> rows;
  for (const json& row : table["rows"]) rows[row[0]] = row;
  ASSERT_EQ(rows.count("nccl:all_reduce"), 1u);
  EXPECT_EQ(rows["nccl:all_reduce"][1], 19);
  EXPECT_EQ(rows["nccl:broadcast"][1], 8);
  const double latency = rows["nccl:all_reduce"][4], transfer = rows["nccl:all_reduce"][6];
  EXPECT_NEAR(latency - transfer, 2'616'856, 2000);
  const json wait = json::parse(trace::wait_time_json(ranks.plain))["data"]["all"];
  EXPECT_GT(wait["worker0"][1], 600'000);  // per step; the plugin says 0
  EXPECT_LT(wait["worker1"][1], 1000);
  const Ranks original = ddp(true);
  EXPECT_EQ(json::parse(trace::wait_time_json(original.plain))["data"]["all"]["worker0"][1], 0);
}

TEST_F(Findings, MatrixUnitsAreUnknownWhereNamesDoNotTell) {
  const auto profile = read("tl_xdit_sd35/rank0");
  EXPECT_EQ(trace::matrix_use("attn_fwd", profile->semantics), trace::MatrixUse::kUnknown);
  EXPECT_EQ(trace::matrix_use("triton_poi_fused_0", profile->semantics), trace::MatrixUse::kNo);
  const auto found = figures(*profile);
  EXPECT_NEAR(found.at("gpu2.tensor_core_percent"), 56.0, 0.5);
  EXPECT_NEAR(found.at("gpu2.tensor_core_unknown_percent"), 29.3, 0.1);
}

TEST_F(Findings, CallStacksComeFromPythonFrames) {
  const auto profile = read("tl_xdit_sd35/rank0");
  ASSERT_FALSE(profile->operators.by_name_stack.empty());
  const auto stacks = trace::operation_stacks(*profile, false, "aten::addmm", "");
  int64_t calls = 0, listed = 0;
  for (const trace::OperatorGroup& group : profile->operators.by_name)
    if (profile->trace.strings[group.name] == "aten::addmm") calls = group.calls;
  for (const trace::OperationRow& row : stacks.rows) listed += row.calls;
  EXPECT_EQ(listed, calls);
  const auto other = read("tl_h100_bertsmall/rank0");
  const auto linear = trace::operation_stacks(*other, false, "aten::linear", "");
  ASSERT_FALSE(linear.rows.empty());
  const auto text = std::get<std::string>(linear.rows[0].call_stack);
  EXPECT_NE(text.find("torch/nn/modules/linear.py("), std::string::npos) << text;
  EXPECT_LT(text.find("linear.py("), text.find("threading.py(")) << "the innermost comes first";
  EXPECT_EQ(text.find("<built-in"), std::string::npos);
  EXPECT_TRUE(read("tl_h100_bertsmall/rank0", true)->operators.by_name_stack.empty());
}

TEST_F(Findings, EveryFrameStandsInTheTimeline) {
  const auto profile = read("tl_xdit_sd35/rank0");
  const trace::Timeline lines = trace::build_timeline(profile->trace);
  size_t shown = 0;
  for (const trace::Lane& lane : lines.lanes) shown += lane.events.size();
  EXPECT_EQ(shown, profile->trace.events.size());
}

// What an operator kept is part of what the device held.
TEST_F(Findings, NobodyKeepsMoreThanTheDeviceHeld) {
  for (const char* name : {"tl_h100_qwen/rank0", "tl_mi300_qwen/rank0", "hta_mem_index/rank0"}) {
    const auto profile = read(name);
    const auto tables =
        trace::memory_stats(profile->trace, profile->clock, profile->semantics, profile->forest,
                            profile->memory, trace::moved_away(*profile), {});
    for (const trace::MemoryUse& use : trace::find_insights(*profile).memory) {
      const auto device =
          std::find(profile->memory.devices.begin(), profile->memory.devices.end(), use.device) -
          profile->memory.devices.begin();
      int64_t kept = 0;
      for (const trace::MemoryStat& stat : tables[device]) {
        EXPECT_LE(stat.kept, use.peak) << name << " " << profile->trace.strings[stat.name];
        EXPECT_GE(stat.kept, stat.self_kept);
        kept += stat.self_kept;
      }
      EXPECT_LE(kept, use.peak) << name << " " << use.device;
    }
  }
}

const trace::CriticalPart& longest(const Insights& insights) {
  return insights.critical.parts.at(0);
}

// The path goes from thread to thread and through waits: not the whole of a backward pass's thread
// is "code outside operators".
TEST_F(Findings, TheCriticalPathGoesWhereTheWorkWas) {
  struct Case {
    const char *trace, *part;
    double percent;
  };
  for (const Case& expected :
       {Case{"old_bert_newAPI_fp16_ddp/worker0", "ncclAllReduceRingLLKernel_sum_f32", 54.6},
        Case{"old_resnet50_newAPI_ddp/worker1", "enumerate(DataLoader)", 70.5},
        Case{"hta_trace_diff/test", "ncclKernel_SendRecv_RING_SIMPLE", 15.5},
        Case{"hta_mem_index/rank0", "CompiledFunctionBackward", 25.1},
        Case{"hta_amd_mi250/worker0", "aten::add_", 71.2},
        Case{"tl_mi300_resnet_ckpt/rank0", "ncclDevKernel_Generic", 83.5}}) {
    const auto profile = read(expected.trace);
    const Insights insights = trace::find_insights(*profile);
    const trace::CriticalPath& path = insights.critical;
    EXPECT_EQ(longest(insights).name.rfind(expected.part, 0), 0u)
        << expected.trace << ": " << longest(insights).name;
    EXPECT_NEAR(100 * longest(insights).total_us / path.span_us, expected.percent, 0.1)
        << expected.trace;
    EXPECT_NEAR(path.kernel_us + path.launch_us + path.queue_us + path.host_us, path.span_us,
                1e-6 * path.span_us)
        << expected.trace;
    const auto outside = std::find_if(
        path.parts.begin(), path.parts.end(),
        [](const trace::CriticalPart& part) { return part.name == "host code outside operators"; });
    EXPECT_LT(outside == path.parts.end() ? 0 : outside->total_us, 0.1 * path.span_us)
        << expected.trace;
  }
  // Most of its time hangs on the other ranks: nothing is said of the host.
  EXPECT_EQ(find(trace::find_insights(*read("old_bert_newAPI_fp16_ddp/worker0")).findings,
                 "host-critical"),
            nullptr);
}

// The first launch of a kernel loads its code: until the call returns the host is late.
TEST_F(Findings, TheHostIsLateUntilItsCallReturns) {
  for (const auto& [name, percent] :
       {std::pair("tl_mi300_norm/rank0", 99.8), std::pair("hta_amd_mi250/worker0", 96.2),
        std::pair("hta_simple_add/rank0", 98.8)}) {
    const auto list = trace::find_insights(*read(name)).findings;
    const Finding* wait = find(list, "host-wait");
    ASSERT_NE(wait, nullptr) << name;
    EXPECT_NEAR(wait->value, percent, 0.1) << name;
  }
}

TEST_F(Findings, MostIsSaidOfMoreThanHalf) {
  const auto text = [&](const char* name) {
    const auto list = trace::find_insights(*read(name)).findings;
    const Finding* wait = find(list, "host-wait");
    return wait == nullptr ? std::string() : wait->text;
  };
  EXPECT_NE(text("hta_simple_add/rank0").find("most of it before work launched by aten::to (25.14"),
            std::string::npos);
  EXPECT_NE(text("hta_nccl_data/rank0")
                .find("the largest part of it before work launched by "
                      "aten::copy_ (90.1 ms)"),
            std::string::npos)
      << text("hta_nccl_data/rank0");
}

// One process that drives two devices by DataParallel has no other ranks to wait for.
TEST_F(Findings, OneProcessWaitsForNoOtherRank) {
  const auto list = trace::find_insights(*read("old_bert_newAPI_fp16_dp/worker0")).findings;
  const Finding *parallel = find(list, "data-parallel"), *transfer = find(list, "communication");
  ASSERT_NE(parallel, nullptr);
  EXPECT_EQ(parallel->value, 2);
  ASSERT_NE(transfer, nullptr);
  EXPECT_NEAR(transfer->value, 71.5, 0.1);
  EXPECT_EQ(transfer->text.find("rank"), std::string::npos) << transfer->text;
  EXPECT_NE(transfer->text.find("DataParallel copies the model"), std::string::npos);
}

TEST_F(Findings, AdviceFitsWhatTheTimeIsSpentOn) {
  const auto text = [&](const char* name, const char* id) {
    const auto list = trace::find_insights(*read(name)).findings;
    const Finding* found = find(list, id);
    return found == nullptr ? std::string() : found->text;
  };
  const auto has = [](const std::string& whole, const char* part) {
    return whole.find(part) != std::string::npos;
  };
  // Gradients are compressed where they are what is sent.
  EXPECT_TRUE(has(text("old_bert_newAPI_fp16_ddp/worker0", "communication"), "Gradient compr"));
  const std::string exchange = text("hta_sampled_2ranks/trainer_0", "communication");
  EXPECT_TRUE(has(exchange, "Most of it is send_recv") && !has(exchange, "Gradient")) << exchange;
  // A larger batch brings no more input.
  const std::string idle = text("old_resnet50_newAPI_ddp/worker1", "low-utilization");
  EXPECT_TRUE(has(idle, "What is missing is input") && !has(idle, "batch")) << idle;
  EXPECT_TRUE(has(text("tl_b200_eager/rank0", "low-utilization"), "A larger batch"));
  EXPECT_TRUE(has(text("old_resnet50_newAPI_ddp/worker1", "data-loading"), "off the training"));
}

}  // namespace
}  // namespace camshaft::golden
