// SPDX-License-Identifier: Apache-2.0
#include "server/page_api.h"

#include <algorithm>

#include <fmt/format.h>

#include "server/page_query.h"
#include "trace/views.h"

namespace camshaft::server {
namespace {

using trace::JsonWriter;
using trace::Profile;

constexpr size_t kMaxBlocks = 14000;  // of a timeline window: about a megabyte
constexpr int64_t kMaxSteps = 2000;

void write_steps(JsonWriter& writer, const Profile& profile) {
  std::vector<trace::Part> parts;
  for (int k = 0; k < trace::kPartCount; ++k) parts.push_back(static_cast<trace::Part>(k));
  writer.key("parts").begin_array();
  for (const trace::Part part : parts) writer.text(trace::part_name(part));
  writer.end_array().key("average").begin_array();
  for (const trace::Part part : parts)
    writer.real(profile.breakdown.average.empty()
                    ? 0
                    : profile.clock.to_us(profile.breakdown.average[static_cast<int>(part)]));
  writer.end_array().real("average_step", profile.clock.to_us(profile.breakdown.average_step));
  writer.text("steps_from", profile.steps.from_profiler     ? "ProfilerStep"
                            : profile.steps.from_annotation ? profile.steps.annotation
                                                            : "");
  writer.text("steps_note", profile.steps.note);
  writer.integer("step_count", static_cast<int64_t>(profile.steps.list.size()))
      .key("steps")
      .begin_array();
  for (size_t k = 0; k < std::min<size_t>(profile.steps.list.size(), kMaxSteps); ++k) {
    writer.begin_array().text(profile.steps.list[k].name);
    for (const double time : profile.breakdown.steps[k]) writer.real(profile.clock.to_us(time));
    writer.end_array();
  }
  writer.end_array();
}

void write_devices(JsonWriter& writer, const Profile& profile, const trace::Insights& insights) {
  writer.key("devices").begin_array();
  for (const trace::DeviceUse& use : profile.devices.devices) {
    writer.begin_object().integer("id", use.device);
    if (use.device < static_cast<int64_t>(profile.trace.device_properties.size())) {
      const trace::DeviceProperties& device = profile.trace.device_properties[use.device];
      writer.text("name", device.name).integer("memory_bytes", device.memory_bytes);
      if (device.compute_major >= 0)
        writer.text("compute", fmt::format("{}.{}", device.compute_major, device.compute_minor));
    }
    writer.real("utilization", use.utilization);
    if (use.sm_efficiency) writer.real("sm_efficiency", *use.sm_efficiency);
    if (use.occupancy) writer.real("occupancy", *use.occupancy / 100);
    writer.real("tensor_cores", use.matrix_share)
        .real("tensor_cores_unknown", use.matrix_unknown_share);
    for (const trace::IdleSplit& idle : insights.idle) {
      if (idle.device != use.device) continue;
      writer.key("idle").begin_object().real("span", idle.span_us).real("busy", idle.busy_us);
      writer.real("host_wait", idle.host_wait_us)
          .real("kernel_wait", idle.kernel_wait_us)
          .real("other", idle.other_us);
      writer.end_object();
    }
    writer.end_object();
  }
  writer.end_array();
}

Answer overview(const Query&, const Run& run, const ProfileEntry& entry) {
  const Profile& profile = *entry.profile();
  const trace::Insights& insights = entry.insights();
  JsonWriter writer;
  writer.begin_object();
  write_steps(writer, profile);
  write_devices(writer, profile, insights);
  writer.key("findings").begin_array();
  for (const trace::Finding& finding : run.findings(entry))
    writer.begin_object()
        .text("id", finding.id)
        .text("text", finding.text)
        .real("value", finding.value)
        .end_object();
  writer.end_array().key("facts").begin_object();
  for (const auto& [name, value] : trace::metrics(profile, insights)) writer.real(name, value);
  writer.end_object().text("note", profile.trace.report.note).text("file", entry.file().path);
  writer.integer("rank", profile.trace.rank)
      .integer("world_size", profile.trace.world_size)
      .end_object();
  return page_json(writer);
}

Answer insights(const Query&, const Run&, const ProfileEntry& entry) {
  const trace::Insights& found = entry.insights();
  JsonWriter writer;
  writer.begin_object().key("causes").begin_array();
  for (const trace::IdleCause& cause : found.causes)
    writer.begin_object()
        .text("op", shortened(cause.op))
        .real("idle", cause.idle_us)
        .integer("gaps", cause.gaps)
        .end_object();
  writer.end_array().key("collectives").begin_array();
  for (size_t k = 0; k < std::min<size_t>(found.collectives.size(), 500); ++k) {
    const trace::CollectiveUse& use = found.collectives[k];
    writer.begin_object()
        .text("name", shortened(use.name))
        .text("group", shortened(use.group))
        .integer("calls", use.calls);
    writer.integer("group_size", use.group_size)
        .real("total", use.total_us)
        .real("exposed", use.exposed_us);
    writer.integer("bytes", use.bytes).end_object();
  }
  writer.end_array().key("memory").begin_array();
  for (const trace::MemoryUse& use : found.memory) {
    writer.begin_object()
        .text("device", use.device)
        .integer("peak", use.peak)
        .integer("reserved", use.peak_reserved);
    writer.integer("capacity", use.capacity).key("at_peak").begin_array();
    for (const auto& [purpose, bytes] : use.at_peak)
      writer.begin_array().text(purpose).integer(bytes).end_array();
    writer.end_array().end_object();
  }
  writer.end_array().real("critical_span", found.critical.span_us).key("critical").begin_array();
  for (size_t k = 0; k < std::min<size_t>(found.critical.parts.size(), 50); ++k) {
    const trace::CriticalPart& part = found.critical.parts[k];
    writer.begin_object()
        .text("kind", trace::critical_kind_name(part.kind))
        .text("name", shortened(part.name))
        .real("total", part.total_us)
        .integer("count", part.count)
        .end_object();
  }
  const trace::LaunchStats& launches = found.launches;
  writer.end_array().key("launches").begin_object();
  writer.integer("launches", launches.launches)
      .real("call", launches.call_us)
      .real("delay_mean", launches.delay_mean_us);
  writer.real("delay_median", launches.delay_median_us).real("delay_p95", launches.delay_p95_us);
  writer.real("delay_max", launches.delay_max_us).integer("kernels", launches.kernels);
  writer.integer("short_kernels", launches.short_kernels)
      .integer("single_kernels", launches.single_kernels)
      .integer("launch_bound", launches.launch_bound_kernels);
  writer.integer("graph_launches", launches.graph_launches)
      .integer("graph_kernels", launches.graph_kernels);
  writer.end_object().end_object();
  return page_json(writer);
}

std::string track_title(const trace::Trace& from, uint32_t track) {
  const trace::Track& at = from.tracks[track];
  const auto label = std::find_if(
      from.labels.begin(), from.labels.end(),
      [&](const trace::ThreadLabel& known) { return known.pid == at.pid && known.tid == at.tid; });
  const bool is_named = label != from.labels.end() && label->label != 0;
  return fmt::format("{} / {}", from.strings[at.pid],
                     shortened(from.strings[is_named ? label->label : at.tid]));
}

Answer timeline(const Query& query, const Run&, const ProfileEntry& entry) {
  const trace::Trace& from = entry.profile()->trace;
  const trace::Timeline& lines = entry.timeline();
  // Times are nanoseconds after the first event: exact in a client's doubles.
  const int64_t length = std::max<int64_t>(1, lines.last_ns - lines.first_ns);
  const int64_t start = query.integer("start", 0, 0, length);
  const int64_t end = std::max(start + 1, query.integer("end", length, 0, length + 1));
  const auto window =
      trace::timeline_window(from, lines, lines.first_ns + start, lines.first_ns + end,
                             query.integer("pixels", 1200, 10, 4000),
                             static_cast<size_t>(query.integer("lane", 0, 0, 1 << 20)),
                             static_cast<size_t>(query.integer("lanes", 200, 1, 1000)), kMaxBlocks);
  JsonWriter writer;
  writer.begin_object()
      .integer("length", length)
      .integer("lanes", static_cast<int64_t>(lines.lanes.size()));
  writer.integer("pixel", window.pixel_ns).key("rows").begin_array();
  std::vector<trace::StringId> names;
  std::vector<uint32_t> index(from.strings.size(), ~0u);
  for (const auto& row : window.rows) {
    const trace::Lane& lane = lines.lanes[row.lane];
    writer.begin_object()
        .integer("lane", row.lane)
        .text("track", shortened(track_title(from, lane.track)));
    writer.integer("depth", lane.depth).key("blocks").begin_array();
    for (const trace::TimelineBlock& block : row.blocks) {
      const trace::StringId name = from.events.name[block.event];
      if (index[name] == ~0u) {
        index[name] = static_cast<uint32_t>(names.size());
        names.push_back(name);
      }
      writer.begin_array()
          .integer(block.start_ns - lines.first_ns)
          .integer(block.end_ns - block.start_ns);
      writer.integer(index[name])
          .integer(static_cast<int64_t>(from.events.kind[block.event]))
          .integer(block.count);
      writer.end_array();
    }
    writer.end_array().end_object();
  }
  writer.end_array().key("names").begin_array();
  for (const trace::StringId name : names)
    writer.text(shortened(from.strings[name]).substr(0, 120));
  writer.end_array().end_object();
  return page_json(writer);
}

// The same figures of every worker of a span, side by side, with how far the slowest is behind.
Answer ranks(const Query& query, const Run& run) {
  const std::string span = query.text("span");
  JsonWriter writer;
  writer.begin_object().key("workers").begin_array();
  for (const auto& [key, entry] : run.entries) {
    if (key.second != span) continue;
    writer.begin_object().text("worker", key.first).integer("rank", entry->profile()->trace.rank);
    writer.key("facts").begin_object();
    for (const auto& [name, value] : trace::metrics(*entry->profile(), entry->insights()))
      writer.real(name, value);
    writer.end_object().end_object();
  }
  const trace::CrossRank& matched = *run.ranks(span);
  writer.end_array().integer("collectives", matched.collectives).key("ranks").begin_array();
  for (const trace::RankUse& use : matched.ranks) {
    writer.begin_object().text("worker", use.worker).integer("matched", use.matched);
    writer.integer("unmatched", use.unmatched).integer("came_last", use.came_last);
    writer.real("wait", use.wait_us).real("transfer", use.transfer_us);
    writer.real("wait_percent", use.wait_percent).real("transfer_percent", use.transfer_percent);
    writer.text("waits_for", use.waits_for < 0 ? "" : matched.ranks[use.waits_for].title());
    writer.text("busy_with", trace::part_name(use.busy_with));
    writer.real("busy_percent", use.busy_percent)
        .real("busy_excess", use.busy_excess_percent)
        .end_object();
  }
  writer.end_array().end_object();
  return page_json(writer);
}

Answer state(const RunStore& store) {
  const LoadState now = store.state();
  JsonWriter writer;
  writer.begin_object()
      .boolean("loading", now.loading())
      .integer("files", static_cast<int64_t>(now.files));
  writer.integer("done", static_cast<int64_t>(now.done))
      .integer("failed", static_cast<int64_t>(now.failed));
  writer.integer("bytes", static_cast<int64_t>(now.bytes))
      .integer("bytes_done", static_cast<int64_t>(now.bytes_done));
  writer.key("messages").begin_array();
  for (size_t k = 0; k < std::min<size_t>(now.messages.size(), 100); ++k)
    writer.text(now.messages[k]);
  writer.end_array().key("runs").begin_array();
  for (const std::string& name : store.run_names()) {
    const auto run = store.run(name);
    if (run == nullptr) continue;
    writer.begin_object().text("name", name).key("profiles").begin_array();
    for (const auto& [key, entry] : run->entries) {
      writer.begin_object()
          .text("worker", key.first)
          .text("span", key.second)
          .key("views")
          .begin_array();
      for (const std::string& view : trace::view_names(*entry->profile())) writer.text(view);
      writer.end_array().end_object();
    }
    writer.end_array().end_object();
  }
  writer.end_array().end_object();
  return page_json(writer);
}

struct PageRoute {
  const char* path;
  Answer (*of_entry)(const Query&, const Run&, const ProfileEntry&);
  Answer (*of_run)(const Query&, const Run&);
};

constexpr PageRoute kRoutes[] = {
    {"/overview", overview, nullptr},    {"/operators", page_operators, nullptr},
    {"/kernels", page_kernels, nullptr}, {"/insights", insights, nullptr},
    {"/memory", page_memory, nullptr},   {"/timeline", timeline, nullptr},
    {"/ranks", nullptr, ranks},
};

}  // namespace

Answer page_answer(const RunStore& store, const std::string& path, const Parameters& parameters) {
  if (path == "/state") return state(store);
  const auto* route = std::find_if(std::begin(kRoutes), std::end(kRoutes),
                                   [&](const PageRoute& known) { return path == known.path; });
  if (route == std::end(kRoutes)) return failure(404, "no such route: " + path);
  const Query query{parameters};
  const auto run = store.run(query.text("run"));
  if (run == nullptr) return failure(404, "no such run: " + query.text("run"));
  if (route->of_run != nullptr) return route->of_run(query, *run);
  const auto entry = run->entries.find({query.text("worker"), query.text("span")});
  if (entry == run->entries.end()) return failure(404, "no profile of this worker and span");
  return route->of_entry(query, *run, *entry->second);
}

}  // namespace camshaft::server
