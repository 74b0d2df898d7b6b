// SPDX-License-Identifier: Apache-2.0
// One function per finding; a finding that does not hold adds nothing.
#include "trace/findings.h"

#include <algorithm>

#include <fmt/format.h>

#include "trace/advice.h"

namespace camshaft::trace {
namespace {

constexpr const char* kRuleIds[] = {"",
                                    "data-loading",
                                    "data-parallel",
                                    "ddp-backend",
                                    "communication",
                                    "low-utilization",
                                    "tensor-cores",
                                    "memory-pressure"};
constexpr int kTensorCoreRule = 6;
constexpr int64_t kEnoughKernels = 100;
constexpr double kUnknownPercent = 5;  // of kernel time: more, and "none" cannot be said

double percent(double part, double whole) {
  return whole > 0 ? 100 * part / whole : 0;
}
double percent(int64_t part, int64_t whole) {
  return percent(static_cast<double>(part), static_cast<double>(whole));
}

// The original's rule does not know the kernels of later devices, nor AMD's.
bool uses_no_matrix_units(const Profile& profile) {
  double unknown = 0;
  for (const KernelGroup& group : profile.kernels.by_name) {
    const MatrixUse use = matrix_use(profile.trace.strings[group.name], profile.semantics);
    if (use == MatrixUse::kYes) return false;
    if (use == MatrixUse::kUnknown) unknown += group.total;
  }
  return percent(unknown, profile.kernels.total) < kUnknownPercent;
}

void add_advice(const Profile& profile, std::vector<Finding>& list) {
  const bool none_used = uses_no_matrix_units(profile);
  for (const std::vector<Advice>& some : {advise_more(profile), advise(profile, profile)})
    for (const Advice& advice : some)
      if (advice.rule != kTensorCoreRule || none_used)
        list.push_back({kRuleIds[advice.rule], advice.text, advice.figure});
}

void add_short_kernels(const LaunchStats& launches, std::vector<Finding>& list) {
  if (launches.single_kernels < kEnoughKernels ||
      launches.single_short_kernels * 2 <= launches.single_kernels)
    return;
  const double share = percent(launches.single_short_kernels, launches.single_kernels);
  list.push_back(
      {"short-kernels",
       fmt::format("{:.0f}% of the kernels launched one by one are shorter than {:.0f} us ({} of "
                   "{}). Fusing them (torch.compile) or replaying them as a graph saves their "
                   "launches.",
                   share, kShortKernelUs, launches.single_short_kernels, launches.single_kernels),
       share});
}

void add_launch_bound(const LaunchStats& launches, std::vector<Finding>& list) {
  if (launches.single_kernels < kEnoughKernels ||
      launches.launch_bound_kernels * 2 <= launches.single_kernels)
    return;
  const double share = percent(launches.launch_bound_kernels, launches.single_kernels);
  list.push_back({"launch-bound",
                  fmt::format("{:.0f}% of the kernels launched one by one run shorter than the "
                              "call that launches them: a row of them goes at the host's pace. "
                              "Larger batches, graphs or fewer, fused operators help.",
                              share),
                  share});
}

void add_host_waits(const Insights& insights, std::vector<Finding>& list) {
  for (const IdleSplit& split : insights.idle) {
    const double share = percent(split.host_wait_us, split.span_us);
    if (share <= 20) continue;
    std::string text = fmt::format("Device {} waits for the host during {:.1f}% of the steps ({})",
                                   split.device, share, time_text(split.host_wait_us));
    if (split.longest_us > 0)
      text += fmt::format("; {} of it before work launched by {} ({})",
                          2 * split.longest_us > split.host_wait_us ? "most" : "the largest part",
                          split.longest, time_text(split.longest_us));
    list.push_back({"host-wait", text + ".", share});
  }
}

void add_critical_path(const CriticalPath& path, std::vector<Finding>& list) {
  if (path.host_us + path.launch_us <= 0.5 * path.span_us) return;
  const double share = percent(path.host_us + path.launch_us, path.span_us);
  const auto longest =
      std::find_if(path.parts.begin(), path.parts.end(),
                   [](const CriticalPart& part) { return part.kind == CriticalPart::Kind::kHost; });
  std::string text = fmt::format(
      "{:.0f}% of the steps' time hung on the host: back from their end, each piece of work waited "
      "longest for what ran there.",
      share);
  if (longest != path.parts.end())
    text += fmt::format(" The longest part of it is {} ({}).", longest->name,
                        time_text(longest->total_us));
  list.push_back({"host-critical", text, share});
}

void add_unrecorded(const Profile& profile, std::vector<Finding>& list) {
  const double share = percent(profile.kernels.unrecorded_total, profile.kernels.total);
  if (share <= 5) return;
  list.push_back({"unrecorded",
                  fmt::format("The launch of {:.1f}% of the kernel time ({} kernels) is not in the "
                              "trace: it was before the recording began, or was not recorded.",
                              share, profile.kernels.unrecorded_calls),
                  share});
}

}  // namespace

std::string time_text(double us) {
  if (us >= 1e6) return fmt::format("{:.2f} s", us / 1e6);
  return us >= 1e3 ? fmt::format("{:.1f} ms", us / 1e3) : fmt::format("{:.0f} us", us);
}

std::vector<Finding> find_findings(const Profile& profile, const Insights& insights) {
  std::vector<Finding> list;
  add_advice(profile, list);
  // Kernels that run on the host's own threads (traces of our engines) have no device to launch to.
  const bool on_devices = !profile.devices.devices.empty();
  if (on_devices) add_short_kernels(insights.launches, list);
  if (on_devices) add_launch_bound(insights.launches, list);
  add_host_waits(insights, list);
  if (on_devices) add_critical_path(insights.critical, list);
  add_unrecorded(profile, list);
  return list;
}

}  // namespace camshaft::trace
