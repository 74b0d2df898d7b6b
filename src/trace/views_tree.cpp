// SPDX-License-Identifier: Apache-2.0
// Modules, the call tree of the first thread, and the counters of /trace.
#include <algorithm>
#include <unordered_map>

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
  write(json.key("device_duration"), clock.sum(node.device_total));
  write(json.key("self_device_duration"), clock.sum(node.device_self));
  json.real("avg_duration", clock.to_us(node.average)).key("children").begin_array();
  for (const ModuleNode& child : node.children) write(json, clock, child);
  json.end_array().end_object();
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

constexpr size_t kPieceBytes = size_t{1} << 20;

const char* type_name(const Profile& profile, const Node& node) {
  const bool is_lightning =
      node.event != kNoRow && profile.trace.events.kind[node.event] == EventKind::kOperator;
  switch (node.kind) {
    case NodeKind::kStep:
      return "ProfilerStep";
    case NodeKind::kModule:
      return is_lightning ? "pl_module" : "Module";
    case NodeKind::kPythonOp:
      return is_lightning ? "pl_profile" : "Python";
    case NodeKind::kRoot:
      return "Python";
    default:
      break;
  }
  const EventKind kind = profile.trace.events.kind[node.event];
  return kind == EventKind::kAnnotation || kind == EventKind::kGpuAnnotation ? "user_annotation"
                                                                             : "Operator";
}

// Straight from the call forest: nothing is copied, so the first bytes leave at once.
class TreeWriter {
 public:
  TreeWriter(const Profile& profile, const TextSink& sink) : profile_(profile), sink_(sink) {
    for (const BackwardPlace& place : profile.backward.places)
      places_[place.parent].push_back(place);
  }

  bool run(const TreeRequest& request) {
    const CallForest& forest = profile_.forest;
    if (forest.threads.empty()) {
      begin("CallTreeRoot", 0, 0, "Python", 0);
      end();
    } else {
      track_ = forest.threads.front().track;
      const uint32_t root =
          request.root < forest.nodes.size() ? request.root : forest.threads.front().root;
      choose_depth(root, request.limit);
      write(root, true, 0);
    }
    return !stopped_ && sink_(json_.take());
  }

 private:
  // The deepest level that still fits the limit; level 1 is always there, as far as it fits.
  void choose_depth(uint32_t root, size_t limit) {
    if (limit == 0) return;
    const CallForest& forest = profile_.forest;
    most_children_ = limit;
    std::vector<size_t> of_depth;
    std::vector<uint32_t> ends;
    for (uint32_t node = root; node < forest.nodes[root].subtree_end; ++node) {
      while (!ends.empty() && ends.back() <= node) ends.pop_back();
      if (of_depth.size() <= ends.size()) of_depth.push_back(0);
      ++of_depth[ends.size()];
      ends.push_back(forest.nodes[node].subtree_end);
    }
    size_t sum = 0;
    for (depth_ = 0; depth_ < of_depth.size(); ++depth_) {
      sum += of_depth[depth_];
      if (sum > limit && depth_ > 1) break;
    }
    --depth_;
  }

  void begin(std::string_view name, Ticks start, Ticks end, const char* type, uint32_t track) {
    json_.begin_object().text("name", name);
    trace::write(json_.key("start_time"), profile_.clock.point(start));
    trace::write(json_.key("end_time"), profile_.clock.point(end));
    json_.text("type", type);
    trace::write(json_.key("tid"),
                 track < profile_.trace.tracks.size() ? thread_id(profile_.trace, track) : Value());
    json_.key("children").begin_array();
  }
  void end(uint32_t node = kNoRow, size_t omitted = 0) {
    json_.end_array();
    if (omitted > 0) json_.integer("omitted", static_cast<int64_t>(omitted)).integer("node", node);
    json_.end_object();
    if (json_.size() >= kPieceBytes) stopped_ = stopped_ || !sink_(json_.take_piece());
  }

  void write(uint32_t index, bool leave_taken, size_t depth) {
    if (stopped_) return;
    const CallForest& forest = profile_.forest;
    const Node& node = forest.nodes[index];
    const bool is_event = node.event != kNoRow;
    begin(is_event ? profile_.trace.name_of(node.event) : "CallTreeRoot", node.start, node.end,
          type_name(profile_, node), is_event ? profile_.trace.events.track[node.event] : track_);
    const auto places = leave_taken ? places_.find(index) : places_.end();
    const auto write_places = [&](uint32_t before) {
      if (places == places_.end()) return;
      for (const BackwardPlace& place : places->second)
        if (place.before == before) write_backward(place.node, depth + 1);
    };
    size_t omitted = 0, children = 0;
    if (depth >= depth_) {
      omitted = node.subtree_end - index - 1;
    } else {
      for (uint32_t child = index + 1; child < node.subtree_end && !stopped_;
           child = forest.nodes[child].subtree_end) {
        if (leave_taken && !profile_.backward.taken.empty() && profile_.backward.taken[child])
          continue;
        if (++children > most_children_) {
          omitted = node.subtree_end - child;
          break;
        }
        write_places(child);
        write(child, leave_taken, depth + 1);
      }
      write_places(kNoRow);
    }
    end(index, omitted);
  }

  uint32_t track_of(const BackwardNode& node) const {
    if (!node.engine_nodes.empty())
      return profile_.trace.events.track[profile_.forest.nodes[node.engine_nodes.front()].event];
    return node.children.empty() ? track_
                                 : track_of(profile_.backward.nodes[node.children.front()]);
  }

  void write_backward(uint32_t k, size_t depth) {
    const BackwardNode& node = profile_.backward.nodes[k];
    begin(node.name, node.start, node.end, "backward", track_of(node));
    struct Child {
      Ticks start;
      uint32_t index;
      bool is_engine;
    };
    std::vector<Child> children;
    for (const uint32_t engine : node.engine_nodes)
      children.push_back({profile_.forest.nodes[engine].start, engine, true});
    for (const uint32_t child : node.children)
      children.push_back({profile_.backward.nodes[child].start, child, false});
    std::stable_sort(children.begin(), children.end(),
                     [](const Child& a, const Child& b) { return a.start < b.start; });
    if (depth < depth_)
      for (const Child& child : children) {
        if (child.is_engine)
          write(child.index, false, depth + 1);
        else
          write_backward(child.index, depth + 1);
      }
    end();
  }

  const Profile& profile_;
  const TextSink& sink_;
  std::unordered_map<uint32_t, std::vector<BackwardPlace>> places_;
  JsonWriter json_;
  uint32_t track_ = 0;
  size_t depth_ = ~size_t{0}, most_children_ = ~size_t{0};
  bool stopped_ = false;
};

}  // namespace

bool write_tree(const Profile& profile, const TreeRequest& request, const TextSink& sink) {
  return TreeWriter(profile, sink).run(request);
}

namespace {

// Every kernel may begin and end a stretch of SM efficiency, so counters leave as they are made.
class CounterWriter {
 public:
  CounterWriter(const Profile& profile, const TextSink& sink) : profile_(profile), sink_(sink) {}

  bool run() {
    const DeviceUses& uses = profile_.devices;
    for (const DeviceUse& use : uses.devices) {
      add_baseline(use, "Utilization");
      for (size_t k = 0; k < use.utilization_buckets.size(); ++k)
        add(use, "Utilization", uses.first_bucket + static_cast<double>(k) * uses.bucket_width,
            use.utilization_buckets[k]);
      add(use, "Utilization", uses.last_end, int64_t{0});
    }
    for (const DeviceUse& use : uses.devices) {
      if (use.efficiency.empty() || profile_.semantics.is_mlu()) continue;
      add_baseline(use, "Est. SM Efficiency");
      for (const CounterPoint& stretch : use.efficiency) {
        add(use, "Est. SM Efficiency", stretch.start, stretch.value);
        add(use, "Est. SM Efficiency", stretch.end, int64_t{0});
      }
    }
    return !stopped_ && sink_(text_);
  }

 private:
  void add_baseline(const DeviceUse& use, std::string_view metric) {
    add(use, metric, profile_.devices.first_bucket, int64_t{1});
    add(use, metric, profile_.devices.first_bucket, int64_t{0});
  }

  void add(const DeviceUse& use, std::string_view metric, Ticks time, const Value& value) {
    if (stopped_) return;
    const std::string word = profile_.semantics.is_mlu() ? "MLU" : "GPU";
    const bool is_utilization = metric == "Utilization";
    JsonWriter json;
    json.begin_object().text("ph", "C").text("name",
                                             fmt::format("{} {} {}", word, use.device, metric));
    json.integer("pid", use.device);
    trace::write(json.key("ts"), profile_.clock.point(time));
    json.key("args").begin_object();
    trace::write(json.key(is_utilization ? word + " Utilization" : std::string(metric)), value);
    json.end_object().end_object();
    if (any_) text_ += ", ";
    any_ = true;
    text_ += json.take();
    if (text_.size() < kPieceBytes) return;
    stopped_ = !sink_(text_);
    text_.clear();
  }

  const Profile& profile_;
  const TextSink& sink_;
  std::string text_;
  bool any_ = false, stopped_ = false;
};

}  // namespace

bool write_counters(const Profile& profile, const TextSink& sink) {
  return CounterWriter(profile, sink).run();
}

}  // namespace camshaft::trace
