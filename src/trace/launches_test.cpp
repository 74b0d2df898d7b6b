// SPDX-License-Identifier: Apache-2.0
#include "trace/launches.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trace/insights.h"
#include "trace/testing.h"

namespace camshaft::trace {
namespace {

std::string range(const char* category, const char* name, int ts, int dur, int correlation) {
  const bool is_kernel = std::string_view(category) == "kernel";
  return fmt::format(
      R"({{"ph":"X","cat":"{}","name":"{}","pid":{},"tid":1,"ts":{},"dur":{},"args":{{"correlation":{}{}}}}})",
      category, name, is_kernel ? 0 : 1, ts, dur, correlation, is_kernel ? R"(,"device":0)" : "");
}

// A graph of two kernels is captured under operators and replayed in an annotation.
std::string replay(bool with_capture) {
  std::string events = "[";
  if (with_capture)
    events += range("cuda_runtime", "cudaStreamBeginCapture", 0, 1, 1) + "," +
              range("cpu_op", "aten::mm", 2, 10, 0) + "," +
              range("cuda_runtime", "cudaLaunchKernel", 4, 2, 2) + "," +
              range("cpu_op", "aten::relu", 14, 10, 0) + "," +
              range("cuda_runtime", "cudaLaunchKernel", 16, 2, 3) + "," +
              range("cuda_runtime", "cudaStreamEndCapture", 30, 1, 4) + ",";
  return events + range("user_annotation", "decode", 100, 100, 0) + "," +
         range("cuda_runtime", "cudaGraphLaunch", 110, 5, 5) + "," +
         range("kernel", "gemm", 120, 20, 5) + "," + range("kernel", "relu", 141, 9, 5) + "]";
}

std::vector<std::string> labels(const std::string& text) {
  const auto profile = testing::profile_of(text);
  std::vector<std::string> list;
  for (const KernelGroup& group : profile->kernels.by_properties)
    list.push_back(operator_label(profile->trace, group));
  return list;
}

TEST(Launches, ReplayedKernelsNameTheirLaunch) {
  const std::string site = "<cudaGraphLaunch in decode>";
  EXPECT_EQ(labels(replay(false)), (std::vector<std::string>{site, site}));
}

TEST(Launches, ReplayedKernelsNameTheirCaptureWhereItIsRecorded) {
  EXPECT_EQ(labels(replay(true)),
            (std::vector<std::string>{"<cudaGraphLaunch in decode, captured in aten::mm>",
                                      "<cudaGraphLaunch in decode, captured in aten::relu>"}));
}

}  // namespace
}  // namespace camshaft::trace
