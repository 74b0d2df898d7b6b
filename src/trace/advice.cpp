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

// An operator or annotation of that name; the original takes a mirror on the device for one, too.
bool is_seen(const Profile& profile, std::string_view name) {
  const StringId id = profile.trace.strings.find(name);
  if (id >= profile.trace.strings.size()) return false;
  for (size_t event = 0; event < profile.trace.events.size(); ++event) {
    const EventKind kind = profile.trace.events.kind[event];
    if (profile.trace.events.name[event] == id &&
        (kind == EventKind::kOperator || kind == EventKind::kAnnotation ||
         kind == EventKind::kPythonOp || kind == EventKind::kModule ||
         (kind == EventKind::kGpuAnnotation && profile.semantics.original)))
      return true;
  }
  return false;
}

void add(std::vector<Advice>& list, int rule, double figure, std::string html) {
  std::string text = without_tags(html);
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
  const std::string waits = fmt::format(
      "The steps wait for input during {:.1f}% of their time (DataLoader). ", part * 100);
  const bool in_process =
      is_seen(profile, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
  add(list, 1, part * 100,
      waits + (in_process
                   ? fmt::format("{} (num_workers) move that work off the training thread.",
                                 link(url, "Loader processes"))
                   : fmt::format("{} (num_workers), prefetching or faster storage make it shorter.",
                                 link(url, "More loader processes"))));
}

std::string data_parallel_text(size_t devices) {
  return fmt::format(
      "{} devices are driven by DataParallel from one process. {} scales better, also on one "
      "machine.",
      devices, link("https://pytorch.org/docs/stable/notes/ddp.html", "DistributedDataParallel"));
}

// Several devices and no group of processes: their collectives have nobody else to wait for.
bool is_one_process(const Profile& profile, const StepFigures& figures) {
  return figures.devices.devices.size() > 1 && profile.trace.world_size <= 1 &&
         profile.trace.rank < 0 && !is_seen(profile, "DistributedDataParallel.forward");
}

// What the work of DataParallel is called where its forward pass is not marked.
bool scatters_and_gathers(const Profile& profile) {
  return is_seen(profile, "Scatter") && is_seen(profile, "Gather");
}

void advise_distribution(const Profile& profile, const StepFigures& figures,
                         std::vector<Advice>& list) {
  const bool original = profile.semantics.original;
  const size_t devices = figures.devices.devices.size();
  if (devices > 1 && is_seen(profile, "DataParallel.forward"))
    add(list, 2, static_cast<double>(devices),
        original ? fmt::format(
                       "It is recommended to {} to do multi-GPU training.",
                       link("https://pytorch.org/docs/stable/notes/cuda.html#cuda-nn-ddp-instead",
                            "use DistributedDataParallel instead of DataParallel"))
                 : data_parallel_text(devices));
  const std::string best = profile.semantics.is_mlu() ? "cncl" : "nccl";
  if (!is_seen(profile, "DistributedDataParallel.forward") || profile.collectives.library == best)
    return;
  for (const DeviceProperties& device : profile.trace.device_properties) {
    if (device.compute_major * 10 + std::max(device.compute_minor, 0) < 35) continue;
    if (original) {
      add(list, 3, static_cast<double>(device.id),
          fmt::format("{} backend is currently the fastest and highly recommended backend when "
                      "using DDP for training.",
                      best == "nccl" ? "Nccl" : "Cncl"));
      return;
    }
    add(list, 3, static_cast<double>(device.id),
        fmt::format("DistributedDataParallel runs without {0}, though device {1} supports it. {2} "
                    "as its backend is "
                    "faster than {3} for device tensors.",
                    best == "nccl" ? "NCCL" : "CNCL", device.id,
                    link("https://pytorch.org/docs/stable/distributed.html#backends", best),
                    profile.collectives.library.empty() ? "others" : profile.collectives.library));
    return;
  }
}

std::string communication_text(const Profile& profile, const StepFigures& figures, double percent) {
  if (is_one_process(profile, figures))
    return fmt::format(
        "Communication between the devices of this one process takes {:.1f}% of the "
        "step. {}",
        percent, lower_transfers(profile));
  return fmt::format(
      "Communication takes {:.1f}% of the step, waiting for other ranks included: "
      "the traces of all ranks together tell which. {} Waiting has its cause on "
      "another rank.",
      percent, lower_transfers(profile));
}

void advise_communication(const Profile& profile, const StepFigures& figures,
                          std::vector<Advice>& list) {
  const double part = share(figures.breakdown, Part::kCommunication);
  if (part <= 0.1) return;
  if (!profile.semantics.original) {
    add(list, 4, part * 100, communication_text(profile, figures, part * 100));
    return;
  }
  const char* url = "https://pytorch.org/docs/stable/ddp_comm_hooks.html";
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
  const bool lacks_input = share(figures.breakdown, Part::kDataLoader) > 0.5 * (1 - lowest);
  add(list, 5, lowest * 100,
      fmt::format("{} {} busy less than half of the steps' time. {}",
                  profile.semantics.is_mlu() ? "MLU" : "GPU", fmt::join(idle, ", "),
                  lacks_input ? "What is missing is input."
                              : "A larger batch gives the device more work per step; it can change "
                                "speed and stability of convergence."));
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
          : fmt::format(
                "No kernel is known to have used Tensor Cores, yet {:.0f}% of the kernel "
                "time belongs to Tensor Cores eligible operators. {} would put them to use.",
                share, link(url, "Mixed precision")));
}

struct MemoryPeak {
  int64_t device = -1;  // -1: the host
  std::string name;
  int64_t bytes = 0;
};

std::vector<MemoryPeak> memory_peaks(const Profile& profile) {
  std::vector<MemoryPeak> peaks;
  for (const std::string& name : profile.memory.devices) {
    const size_t digits = name.find_first_of("0123456789");
    peaks.push_back({digits == name.npos ? -1 : std::atoi(name.c_str() + digits), name, 0});
  }
  for (size_t record = 0; record < profile.trace.memory.size(); ++record) {
    const uint16_t device = profile.memory.device_of_record[record];
    const int64_t allocated = profile.trace.memory.total_allocated[record];
    if (device != kNoDevice && allocated != kNoId)
      peaks[device].bytes = std::max(peaks[device].bytes, allocated);
  }
  return peaks;
}

void advise_memory(const Profile& profile, std::vector<Advice>& list) {
  const auto& properties = profile.trace.device_properties;
  if (!profile.has_memory || properties.empty()) return;
  const bool original = profile.semantics.original;
  const std::string checkpoint = "https://pytorch.org/docs/stable/checkpoint.html",
                    mixed = "https://pytorch.org/docs/stable/amp.html";
  for (const MemoryPeak& peak : memory_peaks(profile)) {
    // The original holds the host's peak against its last device.
    const int64_t id =
        peak.device < 0 && original ? static_cast<int64_t>(properties.size()) - 1 : peak.device;
    if (id < 0 || id >= static_cast<int64_t>(properties.size())) continue;
    const auto held = static_cast<double>(peak.bytes),
               capacity = static_cast<double>(properties[id].memory_bytes);
    if (capacity <= 0 || held <= 0.9 * capacity) continue;
    constexpr double kGigabyte = 1 << 30;
    add(list, 7, 100 * held / capacity,
        original
            ? fmt::format("Device memory usage is at the limit of device memory capacity ({:.1f}% "
                          "of {:.1f}GB on {}{}). To get better value of your {} or to use larger "
                          "batch size for training, please refer to {} or {}.",
                          100 * held / capacity, capacity / kGigabyte,
                          profile.semantics.is_mlu() ? "MLU" : "GPU", peak.device,
                          profile.semantics.is_mlu() ? "MLU" : "GPU",
                          link(checkpoint, "Gradient Checkpoint"),
                          link(mixed, "Automatic Mixed Precision"))
            : fmt::format("{} held {:.1f} GB at its peak, {:.0f}% of its memory. {} or {} lower "
                          "that.",
                          peak.name, held / kGigabyte, 100 * held / capacity,
                          link(checkpoint, "Checkpointing"), link(mixed, "mixed precision")));
    return;
  }
}

}  // namespace

std::string without_tags(const std::string& html) {
  std::string text;
  for (size_t k = 0; k < html.size(); ++k) {
    if (html[k] == '<')
      k = std::min(html.find('>', k), html.size() - 1);
    else
      text += html[k];
  }
  return text;
}

std::string lower_transfers(const Profile& profile) {
  if (is_one_process(profile, profile) &&
      (scatters_and_gathers(profile) || is_seen(profile, "DataParallel.forward")))
    return "DataParallel copies the model to every device and gathers its gradients in every step.";
  std::map<std::string, Ticks> by_verb;
  for (const CollectiveOp& op : profile.collectives.ops)
    for (const Range& range : op.ranges) by_verb[op.verb] += range.end - range.start;
  const auto most =
      std::max_element(by_verb.begin(), by_verb.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == by_verb.end() || most->first.find("reduce") != std::string::npos)
    return fmt::format(
        "{}, gradient accumulation or a larger batch lower transfers.",
        link("https://pytorch.org/docs/stable/ddp_comm_hooks.html", "Gradient compression"));
  return fmt::format(
      "Most of it is {}: smaller messages lower transfers, more overlap with "
      "computation hides them.",
      most->first);
}

std::vector<Advice> advise_more(const Profile& profile) {
  std::vector<Advice> list;
  if (is_one_process(profile, profile) && scatters_and_gathers(profile) &&
      !is_seen(profile, "DataParallel.forward"))
    add(list, 2, static_cast<double>(profile.devices.devices.size()),
        data_parallel_text(profile.devices.devices.size()));
  return list;
}

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
