// SPDX-License-Identifier: Apache-2.0
// Rules 2, 3 and 7, which no recording triggers: when they fire, and the texts that the plugin's
// protocol fixes.
#include "trace/advice.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trace/testing.h"

namespace camshaft::trace {
namespace {

// Two kernels on two devices under a range of this name and category.
std::string trace_of(const char* range, const char* category, const char* more = "") {
  const char* const kForm =
      R"({{"deviceProperties":[{{"id":0,"name":"V100","totalGlobalMem":1000,"computeMajor":7,"computeMinor":0}},)"
      R"({{"id":1,"name":"V100","totalGlobalMem":2000,"computeMajor":7,"computeMinor":0}}],"traceEvents":[)"
      R"({{"ph":"X","cat":"{}","name":"{}","pid":1,"tid":1,"ts":0,"dur":100}},)"
      R"({{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":10,"dur":50,"args":{{"External id":1}}}},)"
      R"({{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":20,"dur":10,"args":{{"External id":1,"correlation":1}}}},)"
      R"({{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":30,"dur":10,"args":{{"External id":1,"correlation":2}}}},)"
      R"({{"ph":"X","cat":"kernel","name":"volta_h884","pid":0,"tid":7,"ts":30,"dur":90,"args":{{"External id":1,"correlation":1,"device":0}}}},)"
      R"({{"ph":"X","cat":"kernel","name":"volta_h884","pid":1,"tid":7,"ts":30,"dur":90,"args":{{"External id":1,"correlation":2,"device":1}}}}{}]}})";
  return fmt::format(fmt::runtime(kForm), category, range, more);
}

std::vector<Advice> advice_of(const std::string& text, bool original) {
  Semantics semantics;
  semantics.original = original;
  const auto profile = testing::profile_of(text, semantics);
  return profile == nullptr ? std::vector<Advice>{} : advise(*profile, profile->plugin_figures());
}

const Advice* rule(const std::vector<Advice>& list, int number) {
  for (const Advice& advice : list)
    if (advice.rule == number) return &advice;
  return nullptr;
}

TEST(Advice, DataParallelOnSeveralDevices) {
  for (const char* category : {"cpu_op", "user_annotation"}) {
    const std::string text = trace_of("DataParallel.forward", category);
    const auto original = advice_of(text, true), ours = advice_of(text, false);
    ASSERT_NE(rule(original, 2), nullptr) << category;
    EXPECT_EQ(rule(original, 2)->html,
              "It is recommended to <a href=\"https://pytorch.org/docs/stable/notes/cuda.html"
              "#cuda-nn-ddp-instead\" target=\"_blank\">use DistributedDataParallel instead of "
              "DataParallel</a> to do multi-GPU training.");
    ASSERT_NE(rule(ours, 2), nullptr) << category;
    EXPECT_EQ(rule(ours, 2)->text.rfind("2 devices are driven by DataParallel", 0), 0u);
  }
  EXPECT_EQ(rule(advice_of(trace_of("forward", "cpu_op"), true), 2), nullptr);
}

TEST(Advice, DistributedDataParallelWithoutNccl) {
  const char* const kReduce =
      R"(,{"ph":"X","cat":"cpu_op","name":"%s:all_reduce","pid":1,"tid":1,"ts":70,"dur":5,"args":{"External id":5}})";
  const auto with = [&](const char* library) {
    return std::string(kReduce).replace(std::string(kReduce).find("%s"), 2, library);
  };
  const std::string range = "DistributedDataParallel.forward";
  const auto gloo = trace_of(range.c_str(), "user_annotation", with("gloo").c_str());
  ASSERT_NE(rule(advice_of(gloo, true), 3), nullptr);
  EXPECT_EQ(rule(advice_of(gloo, true), 3)->html,
            "Nccl backend is currently the fastest and highly recommended backend when using DDP "
            "for training.");
  ASSERT_NE(rule(advice_of(gloo, false), 3), nullptr);
  EXPECT_NE(rule(advice_of(gloo, false), 3)->text.find("faster than gloo"), std::string::npos);
  const auto nccl = trace_of(range.c_str(), "user_annotation", with("nccl").c_str());
  EXPECT_EQ(rule(advice_of(nccl, true), 3), nullptr);
  EXPECT_EQ(rule(advice_of(nccl, false), 3), nullptr);
}

TEST(Advice, MemoryAtItsLimit) {
  const auto held = [](int device_type, int id, int bytes) {
    return fmt::format(
        R"(,{{"ph":"i","cat":"cpu_instant_event","name":"[memory]","pid":1,"tid":1,"ts":20,"args":{{"Device Type":{},"Device Id":{},"Addr":16,"Bytes":{},"Total Allocated":{},"Total Reserved":{}}}}})",
        device_type, id, bytes, bytes, bytes);
  };
  const auto of = [&](const std::string& records, bool original) {
    return advice_of(trace_of("forward", "cpu_op", records.c_str()), original);
  };
  const auto original = of(held(1, 1, 1900), true);
  ASSERT_NE(rule(original, 7), nullptr);
  EXPECT_EQ(
      rule(original, 7)->text,
      "Device memory usage is at the limit of device memory capacity (95.0% of 0.0GB on GPU1). "
      "To get better value of your GPU or to use larger batch size for training, please refer "
      "to Gradient Checkpoint or Automatic Mixed Precision.");
  EXPECT_NE(rule(of(held(1, 1, 1900), false), 7), nullptr);
  EXPECT_EQ(rule(of(held(1, 1, 1700), false), 7), nullptr);
  // The host's memory is none of a device's; the plugin holds it against the last one's.
  EXPECT_EQ(rule(of(held(0, -1, 1900), false), 7), nullptr);
  EXPECT_NE(rule(of(held(0, -1, 1900), true), 7), nullptr);
}

}  // namespace
}  // namespace camshaft::trace
