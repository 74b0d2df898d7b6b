// SPDX-License-Identifier: Apache-2.0
// Key nodes are the anchors: each left one meets the next right one of its kind and name; what lies
// between two anchors is compared as a whole.
#include "trace/diff.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include <fmt/format.h>

#include "trace/tree_view.h"

namespace camshaft::trace {
namespace {

constexpr int kMaxDepth = 200;

struct Side {
  explicit Side(const Profile& from) : profile(from), view(build_tree_view(from)) {
    for (const uint32_t device : from.launches.devices)
      if (from.trace.events.kind[device] == EventKind::kKernel &&
          from.launches.node_of_device(device) != kNoRow)
        kernels[from.launches.node_of_device(device)].push_back(from.trace.name_of(device));
  }

  const Profile& profile;
  TreeView view;
  std::unordered_map<uint32_t, std::vector<std::string_view>> kernels;  // names by forest node
};

using NodeList = std::vector<uint32_t>;

bool is_key(TreeKind kind) {
  return kind == TreeKind::kBackward || kind == TreeKind::kDataLoader ||
         kind == TreeKind::kModule || kind == TreeKind::kOptimizer || kind == TreeKind::kStep;
}

// Sums of one side of a pair: host and device time of the listed nodes, and the operators in and
// below them.
class Summary {
 public:
  explicit Summary(const Side& side) : side_(side) {}

  DiffSide of(const NodeList& list) {
    DiffSide out;
    out.name = list.empty()       ? "Blank"
               : list.size() == 1 ? std::string(node(list[0]).name)
                                  : "CompositeNodes";
    for (const uint32_t k : list) {
      const Ticks host = node(k).end - node(k).start, device = device_total(k);
      out.host += host;
      out.device += device;
      out.total += device > 0 ? device : host;
      add_operators(k, out);
    }
    return out;
  }

 private:
  const TreeNode& node(uint32_t k) const { return side_.view.nodes[k]; }

  Ticks device_total(uint32_t k) const {
    if (node(k).node != kNoRow) return side_.profile.times[node(k).node].device_total;
    Ticks sum = 0;
    for (const uint32_t child : node(k).children) sum += device_total(child);
    return sum;
  }

  void add_operators(uint32_t root, DiffSide& out) {
    std::vector<std::pair<uint32_t, size_t>> open{{root, 0}};  // children before parents
    while (!open.empty()) {
      auto& [k, next] = open.back();
      if (next < node(k).children.size()) {
        const uint32_t child = node(k).children[next++];
        open.emplace_back(child, 0);
        continue;
      }
      add_operator(k, out);
      open.pop_back();
    }
  }

  void add_operator(uint32_t k, DiffSide& out) {
    if (node(k).node == kNoRow ||
        !is_table_operator(side_.profile.trace, side_.profile.forest.nodes[node(k).node]))
      return;
    const auto [place, is_new] = index_.try_emplace(node(k).name, out.operators.size());
    if (is_new) out.operators.emplace_back().name = node(k).name;
    OperatorDelta& sum = out.operators[place->second];
    const NodeTimes& times = side_.profile.times[node(k).node];
    ++sum.calls;
    sum.host_total += times.host_total;
    sum.device_total += times.device_total;
    sum.host_self += times.host_self;
    sum.device_self += times.device_self;
    const auto kernels = side_.kernels.find(node(k).node);
    if (kernels == side_.kernels.end()) return;
    for (const std::string_view kernel : kernels->second) {
      ++sum.kernel_calls;
      auto known = std::find_if(sum.kernels.begin(), sum.kernels.end(),
                                [&](const auto& entry) { return entry.first == kernel; });
      if (known == sum.kernels.end()) known = sum.kernels.insert(known, {std::string(kernel), 0});
      ++known->second;
    }
  }

  const Side& side_;
  std::unordered_map<std::string_view, size_t> index_;
};

class Comparison {
 public:
  Comparison(const Profile& left, const Profile& right) : left_(left), right_(right) {}

  DiffNode run() { return compare(top_level(left_), top_level(right_), 0); }

 private:
  static NodeList top_level(const Side& side) {
    NodeList list;
    bool has_steps = false;
    for (const uint32_t child : side.view.nodes[0].children) {
      if (side.view.nodes[child].kind != TreeKind::kStep) continue;
      has_steps = true;
      const NodeList& inner = side.view.nodes[child].children;
      list.insert(list.end(), inner.begin(), inner.end());
    }
    return has_steps ? list : side.view.nodes[0].children;
  }

  DiffNode compare(const NodeList& left, const NodeList& right, int depth) {
    DiffNode pair{Summary(left_).of(left), Summary(right_).of(right), {}};
    if (depth < kMaxDepth) add_children(left, right, depth, pair);
    return pair;
  }

  bool meets(uint32_t left, uint32_t right) const {
    const TreeNode &a = left_.view.nodes[left], &b = right_.view.nodes[right];
    return a.kind == b.kind && a.name == b.name;
  }

  void add_stretch(const NodeList& left, size_t left_from, size_t left_to, const NodeList& right,
                   size_t right_from, size_t right_to, int depth, DiffNode& pair) {
    if (left_from == left_to && right_from == right_to) return;
    pair.children.push_back(compare(NodeList(left.begin() + left_from, left.begin() + left_to),
                                    NodeList(right.begin() + right_from, right.begin() + right_to),
                                    depth + 1));
  }

  void add_children(const NodeList& left, const NodeList& right, int depth, DiffNode& pair) {
    size_t left_done = 0, right_done = 0;
    bool any = false;
    for (size_t k = 0; k < left.size(); ++k) {
      if (!is_key(left_.view.nodes[left[k]].kind)) continue;
      size_t match = right_done;
      while (match < right.size() &&
             !(is_key(right_.view.nodes[right[match]].kind) && meets(left[k], right[match])))
        ++match;
      if (match == right.size()) continue;
      add_stretch(left, left_done, k, right, right_done, match, depth, pair);
      DiffNode anchor{Summary(left_).of({left[k]}), Summary(right_).of({right[match]}), {}};
      if (depth < kMaxDepth)
        add_children(left_.view.nodes[left[k]].children, right_.view.nodes[right[match]].children,
                     depth + 1, anchor);
      pair.children.push_back(std::move(anchor));
      left_done = k + 1;
      right_done = match + 1;
      any = true;
    }
    if (any)
      add_stretch(left, left_done, left.size(), right, right_done, right.size(), depth, pair);
  }

  Side left_, right_;
};

void write_kernels(JsonWriter& json, const OperatorDelta& op) {
  std::string names, calls;
  for (const auto& [name, count] : op.kernels) {
    names += (names.empty() ? "" : ", ") + name;
    calls += (calls.empty() ? "" : ", ") + std::to_string(count);
  }
  json.integer("kernel_calls", op.kernel_calls)
      .text("kernel_name_list_str", names)
      .text("kernel_calls_list_str", calls);
}

void write(JsonWriter& json, const Profile& profile, const DiffSide& side) {
  const Clock& clock = profile.clock;
  json.begin_object().text("name", side.name);
  write(json.key("duration"), clock.length(side.host));
  write(json.key("device_duration"), clock.length(side.device));
  write(json.key("total_duration"), clock.length(side.total));
  json.key("aggs").begin_array();
  for (const OperatorDelta& op : side.operators) {
    json.begin_object().text("name", op.name).integer("calls", op.calls);
    if (profile.semantics.dialect == Dialect::kMluLate) write_kernels(json, op);
    write(json.key("host_duration"), clock.length(op.host_total));
    write(json.key("device_duration"), clock.length(op.device_total));
    write(json.key("self_host_duration"), clock.length(op.host_self));
    write(json.key("self_device_duration"), clock.length(op.device_self));
    json.end_object();
  }
  json.end_array().end_object();
}

void write_sides(JsonWriter& json, const DiffNode& node, const Profile& left,
                 const Profile& right) {
  json.begin_object();
  write(json.key("left"), left, node.left);
  write(json.key("right"), right, node.right);
}

void write_tree(JsonWriter& json, const DiffNode& node, const Profile& left, const Profile& right) {
  write_sides(json, node, left, right);
  json.key("children").begin_array();
  for (const DiffNode& child : node.children) write_tree(json, child, left, right);
  json.end_array().end_object();
}

const DiffNode* find_node(const DiffNode& root, const std::string& path) {
  const DiffNode* node = nullptr;
  size_t from = 0;
  while (from <= path.size()) {
    const size_t dash = std::min(path.find('-', from), path.size());
    size_t index = 0;
    const auto [end, error] = std::from_chars(path.data() + from, path.data() + dash, index);
    if (error != std::errc() || end != path.data() + dash) return nullptr;
    if (node == nullptr) {
      if (index != 0) return nullptr;
      node = &root;
    } else {
      if (index >= node->children.size()) return nullptr;
      node = &node->children[index];
    }
    from = dash + 1;
  }
  return node;
}

}  // namespace

DiffNode diff_profiles(const Profile& left, const Profile& right) {
  return Comparison(left, right).run();
}

std::string diff_json(const DiffNode& root, const Profile& left, const Profile& right) {
  JsonWriter json;
  write_tree(json, root, left, right);
  return json.take();
}

std::string diff_node_json(const DiffNode& root, const Profile& left, const Profile& right,
                           const std::string& path) {
  const DiffNode* node = find_node(root, path);
  if (node == nullptr) return "";
  JsonWriter json;
  write_sides(json, *node, left, right);
  json.text("path", path).key("children").begin_array();
  for (size_t k = 0; k < node->children.size(); ++k) {
    write_sides(json, node->children[k], left, right);
    json.text("path", fmt::format("{}-{}", path, k)).end_object();
  }
  json.end_array().end_object();
  return json.take();
}

}  // namespace camshaft::trace
