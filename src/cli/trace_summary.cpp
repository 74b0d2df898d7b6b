// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "cli/terminal.h"
#include "cli/trace_names.h"
#include "cli/trace_views.h"

namespace camshaft::cli {

using trace::JsonWriter;
using trace::Profile;

namespace {

constexpr size_t kTextColumns = 100;  // where no terminal says how wide it is

std::string microseconds(double us) {
  return human_seconds(us / 1e6);
}

void print_parts(const Profile& profile) {
  Table parts({{"  where a step goes"}, {"time", Align::kRight}, {"percent", Align::kRight}});
  for (int k = 0; k < trace::kPartCount && !profile.breakdown.average.empty(); ++k) {
    const double time = profile.clock.to_us(profile.breakdown.average[k]);
    const double whole = profile.clock.to_us(profile.breakdown.average_step);
    if (time > 0)
      parts.add({fmt::format("  {}", trace::part_name(static_cast<trace::Part>(k))),
                 microseconds(time), fmt::format("{:.1f}", whole > 0 ? 100 * time / whole : 0)});
  }
  if (!parts.empty()) fmt::print("\n{}", parts.text());
}

// Where names do not tell of a part of the time, that part stands beside it.
std::string matrix_text(const trace::DeviceUse& use) {
  const std::string known = fmt::format("{:.1f}", 100 * use.matrix_share);
  return use.matrix_unknown_share < 0.001
             ? known
             : fmt::format("{} ({:.1f} unknown)", known, 100 * use.matrix_unknown_share);
}

void print_devices(const Profile& profile, const trace::Insights& insights) {
  if (profile.devices.devices.empty()) return;
  Table devices({{"  device"},
                 {"busy %", Align::kRight},
                 {"SM eff. %", Align::kRight},
                 {"occupancy %", Align::kRight},
                 {"Tensor Cores %", Align::kRight},
                 {"waits for host", Align::kRight},
                 {"between kernels", Align::kRight}});
  const auto share = [](const std::optional<double>& value, double scale) {
    return value ? fmt::format("{:.1f}", *value * scale) : std::string("–");
  };
  for (const trace::DeviceUse& use : profile.devices.devices) {
    const auto idle =
        std::find_if(insights.idle.begin(), insights.idle.end(),
                     [&](const trace::IdleSplit& split) { return split.device == use.device; });
    const bool known = idle != insights.idle.end();
    devices.add({fmt::format("  {}", use.device), fmt::format("{:.1f}", use.utilization * 100),
                 share(use.sm_efficiency, 100), share(use.occupancy, 1), matrix_text(use),
                 known ? microseconds(idle->host_wait_us) : "–",
                 known ? microseconds(idle->kernel_wait_us) : "–"});
  }
  fmt::print("\n{}", devices.text());
}

void print_causes(const trace::Insights& insights) {
  if (insights.causes.empty() || !(insights.causes[0].idle_us > 0)) return;
  Table causes({{"  the device waited before"}, {"idle", Align::kRight}, {"times", Align::kRight}});
  for (size_t k = 0; k < std::min<size_t>(5, insights.causes.size()); ++k)
    causes.add({"  " + insights.causes[k].op, microseconds(insights.causes[k].idle_us),
                fmt::format("{}", insights.causes[k].gaps)});
  fmt::print("\n{}", causes.text());
}

void print_critical_path(const trace::CriticalPath& found) {
  if (found.parts.empty()) return;
  Table path({{"  the steps hung on", Align::kLeft, 80},
              {"kind"},
              {"time", Align::kRight},
              {"percent", Align::kRight}});
  std::vector<std::string> names;
  for (const trace::CriticalPart& part : found.parts) names.push_back(part.name);
  names.resize(std::min<size_t>(5, names.size()));
  names = short_kernel_names(names, 78);
  for (size_t k = 0; k < names.size(); ++k) {
    const trace::CriticalPart& part = found.parts[k];
    path.add({"  " + names[k], trace::critical_kind_name(part.kind), microseconds(part.total_us),
              fmt::format("{:.1f}", 100 * part.total_us / found.span_us)});
  }
  fmt::print("\n{}", path.text());
}

void print_collectives(const trace::Insights& insights) {
  if (insights.collectives.empty()) return;
  Table collectives({{"  collective"},
                     {"group"},
                     {"calls", Align::kRight},
                     {"time", Align::kRight},
                     {"exposed", Align::kRight}});
  std::vector<std::string> names;
  for (const trace::CollectiveUse& use : insights.collectives) names.push_back(use.name);
  names.resize(std::min<size_t>(10, names.size()));
  names = short_kernel_names(names, 60);
  for (size_t k = 0; k < names.size(); ++k) {
    const trace::CollectiveUse& use = insights.collectives[k];
    collectives.add({"  " + names[k], use.group, fmt::format("{}", use.calls),
                     microseconds(use.total_us), microseconds(use.exposed_us)});
  }
  fmt::print("\n{}", collectives.text());
}

}  // namespace

void write_summary(JsonWriter& json, const Loaded& loaded) {
  json.begin_object().text("file", loaded.name).key("figures").begin_object();
  for (const auto& [name, value] : trace::metrics(*loaded.profile, loaded.insights))
    json.real(name, value);
  json.end_object().key("findings").begin_array();
  for (const trace::Finding& finding : loaded.insights.findings)
    json.begin_object()
        .text("id", finding.id)
        .real("value", finding.value)
        .text("text", finding.text)
        .end_object();
  json.end_array().text("note", loaded.profile->trace.report.note).end_object();
}

void print_summary(const Loaded& loaded) {
  const Profile& profile = *loaded.profile;
  const trace::Insights& insights = loaded.insights;
  fmt::print("{}\n", styled(loaded.name, Style::kBold));
  fmt::print("  {} events, {} step{}{}, average step {}\n",
             human_count(static_cast<double>(profile.trace.events.size())),
             profile.steps.list.size(), profile.steps.list.size() == 1 ? "" : "s",
             profile.steps.from_annotation
                 ? fmt::format(" of annotation '{}'", profile.steps.annotation)
             : profile.steps.note.empty() ? std::string()
                                          : fmt::format(" ({})", profile.steps.note),
             microseconds(profile.clock.to_us(profile.breakdown.average_step)));
  print_parts(profile);
  print_devices(profile, insights);
  print_causes(insights);
  if (profile.has_device_work) print_critical_path(insights.critical);
  print_collectives(insights);
  for (const trace::MemoryUse& use : insights.memory) {
    fmt::print("\n  {} peak {}{}", use.device, human_bytes(static_cast<double>(use.peak)),
               use.capacity > 0
                   ? fmt::format(" of {}", human_bytes(static_cast<double>(use.capacity)))
                   : "");
    for (size_t k = 0; k < use.at_peak.size() && use.peak > 1 << 20; ++k)
      fmt::print("{}{} {}", k == 0 ? ": " : ", ", use.at_peak[k].first,
                 human_bytes(static_cast<double>(use.at_peak[k].second)));
  }
  fmt::print("{}", insights.memory.empty() ? "" : "\n");
  const auto columns = static_cast<size_t>(std::max(0, terminal_columns()));
  for (const trace::Finding& finding : insights.findings)
    fmt::print("\n  {} {}", styled("•", Style::kYellow),
               wrapped(finding.text, columns > 0 ? columns : kTextColumns, 4));
  fmt::print("{}\n", insights.findings.empty() ? "" : "\n");
}

}  // namespace camshaft::cli
