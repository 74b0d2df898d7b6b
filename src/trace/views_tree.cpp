// SPDX-License-Identifier: Apache-2.0
// Modules, the call tree of the first thread, and the counters of /trace.
#include <charconv>

#include <fmt/format.h>

#include "trace/tree_view.h"
#include "trace/views.h"

namespace camshaft::trace {
namespace {

void write(JsonWriter& json, const Clock& clock, const ModuleNode& node) {
  json.begin_object()
      .text("name", node.name)
      .integer("id", node.id)
      .integer("occurences", node.occurrences);
  json.integer("operators", node.operators);
  write(json.key("host_duration"), clock.length(node.host_total));
  write(json.key("self_host_duration"), clock.length(node.host_self));
  write(json.key("device_duration"), clock.length(node.device_total));
  write(json.key("self_device_duration"), clock.length(node.device_self));
  json.real("avg_duration", clock.to_us(node.average)).key("children").begin_array();
  for (const ModuleNode& child : node.children) write(json, clock, child);
  json.end_array().end_object();
}

std::string counter(const Profile& profile, const DeviceUse& use, std::string_view metric,
                    Ticks time, const Value& value) {
  const std::string word = profile.semantics.is_mlu() ? "MLU" : "GPU";
  const bool is_utilization = metric == "Utilization";
  JsonWriter json;
  json.begin_object().text("ph", "C").text("name",
                                           fmt::format("{} {} {}", word, use.device, metric));
  json.integer("pid", use.device);
  write(json.key("ts"), profile.clock.point(time));
  json.key("args").begin_object();
  write(json.key(is_utilization ? word + " Utilization" : std::string(metric)), value);
  json.end_object().end_object();
  return json.take();
}

}  // namespace

std::string modules_json(const Profile& profile) {
  struct Key {
    const char *name, *type, *key;
  };
  constexpr Key kColumns[] = {{"Module Name", "string", "name"},
                              {"Occurences", "number", "occurences"},
                              {"Operators", "number", "operators"},
                              {"Host Total Time", "number", "host_duration"},
                              {"Host Self Time", "number", "self_host_duration"},
                              {"Device Total Time", "number", "device_duration"},
                              {"Device Self Time", "number", "self_device_duration"}};
  JsonWriter json;
  json.begin_object().key("columns").begin_array();
  for (const Key& column : kColumns)
    json.begin_object()
        .text("name", column.name)
        .text("type", column.type)
        .text("key", column.key)
        .end_object();
  json.end_array().key("data").begin_array();
  for (const ModuleNode& node : profile.modules) write(json, profile.clock, node);
  json.end_array().end_object();
  return json.take();
}

namespace {

const char* type_name(const TreeNode& node) {
  switch (node.kind) {
    case TreeKind::kStep:
      return "ProfilerStep";
    case TreeKind::kModule:
      return "Module";
    case TreeKind::kRoot:
    case TreeKind::kPythonOp:
      return "Python";
    case TreeKind::kBackward:
      return "backward";
    default:
      return node.is_annotation ? "user_annotation" : "Operator";
  }
}

}  // namespace

std::string tree_json(const Profile& profile) {
  const TreeView view = build_tree_view(profile);
  JsonWriter json;
  // Depth-first without recursion: the tree may be as deep as a Python stack.
  std::vector<std::pair<uint32_t, size_t>> open;
  const auto enter = [&](uint32_t k) {
    const TreeNode& node = view.nodes[k];
    json.begin_object().text("name", node.name);
    write(json.key("start_time"), profile.clock.point(node.start));
    write(json.key("end_time"), profile.clock.point(node.end));
    json.text("type", type_name(node));
    write(json.key("tid"), node.track < profile.trace.tracks.size()
                               ? thread_id(profile.trace, node.track)
                               : Value());
    json.key("children").begin_array();
    open.emplace_back(k, 0);
  };
  enter(0);
  while (!open.empty()) {
    auto& [k, next] = open.back();
    if (next < view.nodes[k].children.size()) {
      enter(view.nodes[k].children[next++]);
      continue;
    }
    json.end_array().end_object();
    open.pop_back();
  }
  return json.take();
}

std::vector<std::string> counter_events(const Profile& profile) {
  std::vector<std::string> events;
  const DeviceUses& uses = profile.devices;
  const auto baseline = [&](const DeviceUse& use, std::string_view metric) {
    events.push_back(counter(profile, use, metric, uses.first_bucket, int64_t{1}));
    events.push_back(counter(profile, use, metric, uses.first_bucket, int64_t{0}));
  };
  for (const DeviceUse& use : uses.devices) {
    baseline(use, "Utilization");
    for (size_t k = 0; k < use.utilization_buckets.size(); ++k)
      events.push_back(counter(profile, use, "Utilization",
                               uses.first_bucket + static_cast<double>(k) * uses.bucket_width,
                               use.utilization_buckets[k]));
    events.push_back(counter(profile, use, "Utilization", uses.last_end, int64_t{0}));
  }
  if (profile.semantics.is_mlu()) return events;
  for (const DeviceUse& use : uses.devices) {
    if (use.efficiency.empty()) continue;
    baseline(use, "Est. SM Efficiency");
    for (const CounterPoint& stretch : use.efficiency) {
      events.push_back(counter(profile, use, "Est. SM Efficiency", stretch.start, stretch.value));
      events.push_back(counter(profile, use, "Est. SM Efficiency", stretch.end, int64_t{0}));
    }
  }
  return events;
}

}  // namespace camshaft::trace
