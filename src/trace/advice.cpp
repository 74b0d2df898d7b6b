// SPDX-License-Identifier: Apache-2.0
// Rules 1 to 7 are the original's triggers; in its mode the texts are its own too, because clients
// matched on them.
#include "trace/advice.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

namespace camshaft::trace {
namespace {

std::string link(std::string_view url, std::string_view text) {
  return fmt::format("<a href=\"{}\" target=\"_blank\">{}</a>", url, text);
}

double share(const Breakdown& breakdown, Part part) {
  if (breakdown.average.empty() || breakdown.average_step <= 0) return 0;
  return breakdown.average[static_cast<int>(part)] / breakdown.average_step;
}

bool has_operator(const Profile& profile, std::string_view name) {
  const StringId id = profile.trace.strings.find(name);
  if (id >= profile.trace.strings.size()) return false;
  for (size_t event = 0; event < profile.trace.events.size(); ++event)
    if (profile.trace.events.name[event] == id &&
        profile.trace.events.kind[event] == EventKind::kOperator)
      return true;
  return false;
}

void add(std::vector<Advice>& list, int rule, double figure, std::string html) {
  std::string text;
  for (size_t k = 0; k < html.size(); ++k) {  // without the tags
    if (html[k] == '<')
      k = std::min(html.find('>', k), html.size() - 1);
    else
      text += html[k];
  }
  list.push_back({rule, figure, std::move(text), std::move(html)});
}

void advise_data_loading(const Profile& profile, const StepFigures& figures,
                         std::vector<Advice>& list) {
  const double part = share(figures.breakdown, Part::kDataLoader);
  if (part <= 0.05) return;
  const std::string url =
      "https://pytorch.org/docs/stable/data.html#single-and-multi-process-data-loading";
  if (profile.semantics.original) {
    add(list, 1, part * 100,
        fmt::format("This run has high time cost on input data loading. {:.1f}% of the step time "
                    "is in DataLoader. You could try to set num_workers on DataLoader's "
                    "construction and {}.",
                    part * 100, link(url, "enable multi-processes on data loading")));
    return;
  }
  add(list, 1, part * 100,
      fmt::format("The steps wait for input during {:.1f}% of their time (DataLoader). {} with "
                  "num_workers moves that work off the training thread.",
                  part * 100, link(url, "More loader processes")));
}

void advise_distribution(const Profile& profile, const StepFigures& figures,
                         std::vector<Advice>& list) {
  if (figures.devices.devices.size() > 1 && has_operator(profile, "DataParallel.forward"))
    add(list, 2, static_cast<double>(figures.devices.devices.size()),
        fmt::format(
            "{} devices are driven by DataParallel from one process. {} scales better, also on one "
            "machine.",
            figures.devices.devices.size(),
            link("https://pytorch.org/docs/stable/notes/ddp.html", "DistributedDataParallel")));
  const std::string best = profile.semantics.is_mlu() ? "cncl" : "nccl";
  if (!has_operator(profile, "DistributedDataParallel.forward") ||
      profile.collectives.library == best)
    return;
  for (const DeviceUse& use : figures.devices.devices) {
    if (use.device >= static_cast<int64_t>(profile.trace.device_properties.size())) continue;
    const DeviceProperties& device = profile.trace.device_properties[use.device];
    if (device.compute_major * 10 + std::max(device.compute_minor, 0) < 35) continue;
    add(list, 3, static_cast<double>(use.device),
        fmt::format("DistributedDataParallel runs without {0}, though device {1} supports it. {2} "
                    "as its backend is "
                    "faster than {3} for device tensors.",
                    best == "nccl" ? "NCCL" : "CNCL", use.device,
                    link("https://pytorch.org/docs/stable/distributed.html#backends", best),
                    profile.collectives.library.empty() ? "others" : profile.collectives.library));
    return;
  }
}

void advise_communication(const Profile& profile, const StepFigures& figures,
                          std::vector<Advice>& list) {
  const double part = share(figures.breakdown, Part::kCommunication);
  if (part <= 0.1) return;
  const char* url = "https://pytorch.org/docs/stable/ddp_comm_hooks.html";
  if (!profile.semantics.original) {
    add(list, 4, part * 100,
        fmt::format("Communication takes {:.1f}% of the step, waiting for other ranks included: "
                    "the traces of all ranks together tell which. {}, gradient accumulation or a "
                    "larger batch lower transfers; waiting has its cause on another rank.",
                    part * 100, link(url, "Gradient compression")));
    return;
  }
  // The plugin's own words; the address is a tuple by accident.
  add(list, 4, part * 100,
      fmt::format("This run has high time cost on communication. {:.1f}% of the step time is in "
                  "communication. You could try {} or {} or increase the batch size. Note: "
                  "Gradient accumulation will increase global effective batch size, which may hurt "
                  "model convergence and accuracy. For such case, you may want to evaluate {}.",
                  part * 100, link(fmt::format("('{}',)", url), "Gradient Compression"),
                  link("https://towardsdatascience.com/"
                       "what-is-gradient-accumulation-in-deep-learning-ec034122cfa",
                       "Gradient Accumulation"),
                  link("https://nvidia.github.io/apex/optimizers.html#apex.optimizers.FusedLAMB",
                       "LAMB optimizer")));
}

// The plugin's own words, with its slips: no blank before "and", and the verb goes by the length of
// the text.
std::string plugin_utilization_text(const Profile& profile, const StepFigures& figures) {
  std::vector<std::string> ids;
  for (const DeviceUse& use : figures.devices.devices)
    if (use.utilization < 0.5) ids.push_back(fmt::format("{}", use.device));
  std::string text = ids.front();
  for (size_t k = 1; k < ids.size(); ++k) text += (k + 1 == ids.size() ? "and " : ", ") + ids[k];
  return fmt::format(
      "{} {} {} low utilization. You could try to increase batch size to improve. "
      "Note: Increasing batch size may affect the speed and stability of model "
      "convergence.",
      profile.semantics.is_mlu() ? "MLU" : "GPU", text, text.size() == 1 ? "has" : "have");
}

void advise_utilization(const Profile& profile, const StepFigures& figures,
                        std::vector<Advice>& list) {
  std::vector<std::string> idle;
  double lowest = 1;
  for (const DeviceUse& use : figures.devices.devices)
    if (use.utilization < 0.5) {
      idle.push_back(fmt::format("{} ({:.1f}%)", use.device, use.utilization * 100));
      lowest = std::min(lowest, use.utilization);
    }
  if (idle.empty()) return;
  if (profile.semantics.original) {
    add(list, 5, lowest * 100, plugin_utilization_text(profile, figures));
    return;
  }
  add(list, 5, lowest * 100,
      fmt::format("{} {} busy less than half of the steps' time. A larger batch gives the device "
                  "more work per step; "
                  "it can change speed and stability of convergence.",
                  profile.semantics.is_mlu() ? "MLU" : "GPU", fmt::join(idle, ", ")));
}

void advise_tensor_cores(const Profile& profile, const StepFigures& figures,
                         std::vector<Advice>& list) {
  if (profile.trace.device_properties.empty() ||
      profile.trace.device_properties[0].compute_major < 7)
    return;
  if (profile.kernels.tc_total > 0 || figures.devices.eligible_share <= 0) return;
  const double share = figures.devices.eligible_share * 100;
  const std::string url = "https://pytorch.org/docs/stable/amp.html";
  add(list, 6, share,
      profile.semantics.original
          ? fmt::format("Kernels with {:.0f}% time are launched by Tensor Cores eligible "
                        "operators. You could enable {} to speedup by using FP16.",
                        share, link(url, "Automatic Mixed Precision"))
          : fmt::format("No kernel used Tensor Cores, yet {:.0f}% of the kernel time belongs to "
                        "Tensor Cores eligible operators. {} would put them to use.",
                        share, link(url, "Mixed precision")));
}

void advise_memory(const Profile& profile, std::vector<Advice>& list) {
  if (!profile.has_memory || profile.trace.device_properties.empty()) return;
  std::map<std::string, int64_t> peaks;
  for (size_t record = 0; record < profile.trace.memory.size(); ++record) {
    const uint16_t device = profile.memory.device_of_record[record];
    const int64_t allocated = profile.trace.memory.total_allocated[record];
    if (device == kNoDevice || allocated == kNoId) continue;
    int64_t& peak = peaks[profile.memory.devices[device]];
    peak = std::max(peak, allocated);
  }
  for (const auto& [name, peak] : peaks) {
    if (name == "CPU" || name.size() < 4) continue;
    const auto id = static_cast<size_t>(std::atoi(name.c_str() + 3));
    if (id >= profile.trace.device_properties.size()) continue;
    const int64_t capacity = profile.trace.device_properties[id].memory_bytes;
    if (capacity <= 0 || static_cast<double>(peak) <= 0.9 * static_cast<double>(capacity)) continue;
    add(list, 7, 100.0 * static_cast<double>(peak) / static_cast<double>(capacity),
        fmt::format("{} held {:.1f} GB at its peak, {:.0f}% of its memory. {} or {} lower that.",
                    name, static_cast<double>(peak) / (1 << 30),
                    100.0 * static_cast<double>(peak) / static_cast<double>(capacity),
                    link("https://pytorch.org/docs/stable/checkpoint.html", "Checkpointing"),
                    link("https://pytorch.org/docs/stable/amp.html", "mixed precision")));
    return;
  }
}

}  // namespace

std::vector<Advice> advise(const Profile& profile, const StepFigures& figures) {
  std::vector<Advice> list;
  advise_data_loading(profile, figures, list);
  advise_distribution(profile, figures, list);
  advise_communication(profile, figures, list);
  advise_utilization(profile, figures, list);
  advise_tensor_cores(profile, figures, list);
  advise_memory(profile, list);
  return list;
}

std::string advice_html(const std::vector<Advice>& advice) {
  if (advice.empty()) return "<ul><li>N/A</li></ul>";
  std::string html = "<ul>";
  for (const Advice& entry : advice) html += "<li>" + entry.html + "</li>";
  return html + "</ul>";
}

}  // namespace camshaft::trace
