// SPDX-License-Identifier: Apache-2.0
// Key nodes are the anchors: each left one meets the next right one of its kind and name; what lies
// between two anchors is compared as a whole.
#include "trace/diff.h"

#include <algorithm>
#include <charconv>
#include <future>
#include <map>
#include <unordered_map>

#include <fmt/format.h>

#include "trace/tree_view.h"

namespace camshaft::trace {
namespace {

constexpr int kMaxDivisions = 200;

using NodeList = std::vector<uint32_t>;

bool is_key(TreeKind kind) {
  return kind == TreeKind::kBackward || kind == TreeKind::kDataLoader ||
         kind == TreeKind::kModule || kind == TreeKind::kOptimizer || kind == TreeKind::kStep;
}

struct Side {
  explicit Side(const Profile& from)
      : profile(from),
        view(tree_view(from)),
        has_kernels(from.semantics.dialect == Dialect::kMluLate) {
    if (!has_kernels) return;  // only that dialect lists them
    for (const uint32_t device : from.launches.devices)
      if (from.trace.events.kind[device] == EventKind::kKernel &&
          from.launches.node_of_device(device) != kNoRow)
        kernels[from.launches.node_of_device(device)].push_back(from.trace.name_of(device));
  }

  const TreeNode& node(uint32_t k) const { return view.nodes[k]; }

  const Profile& profile;
  const TreeView& view;
  bool has_kernels;
  std::unordered_map<uint32_t, std::vector<std::string_view>> kernels;  // names by forest node
};

// Operators by name in order of first appearance, found by the number of their name.
class OperatorSums {
 public:
  explicit OperatorSums(const Side& side)
      : side_(side), slots_(side.profile.trace.strings.size(), kNoRow) {}

  void reset() { current_ = nullptr; }
  // Adds the operators in and below `root`, children before parents.
  void add_tree(uint32_t root, DiffSide& out) {
    begin(out);
    open_.assign(1, {root, 0});
    while (!open_.empty()) {
      const auto [node, done] = open_.back();
      const std::span<const uint32_t> children = side_.view.children(node);
      if (done < children.size()) {
        ++open_.back().second;
        open_.emplace_back(children[done], 0);
      } else {
        add(node, out);
        open_.pop_back();
      }
    }
  }
  void add_one(uint32_t node, DiffSide& out) {
    begin(out);
    add(node, out);
  }
  void merge(const DiffSide& from, DiffSide& out) {
    begin(out);
    for (const OperatorDelta& op : from.operators) {
      OperatorDelta& sum = slot(op.name_id, op.name, out);
      sum.calls += op.calls;
      sum.host_total += op.host_total;
      sum.device_total += op.device_total;
      sum.host_self += op.host_self;
      sum.device_self += op.device_self;
      for (const auto& [kernel, count] : op.kernels) add_kernel(kernel, count, sum);
    }
  }

 private:
  // The slots hold for one DiffSide at a time, until reset(): another one puts its own in.
  void begin(const DiffSide& out) {
    if (&out == current_) return;
    for (const uint32_t name : used_) slots_[name] = kNoRow;
    used_.clear();
    current_ = &out;
    for (uint32_t k = 0; k < out.operators.size(); ++k) {
      slots_[out.operators[k].name_id] = k;
      used_.push_back(out.operators[k].name_id);
    }
  }
  OperatorDelta& slot(StringId id, std::string_view name, DiffSide& out) {
    if (slots_[id] == kNoRow) {
      slots_[id] = static_cast<uint32_t>(out.operators.size());
      used_.push_back(id);
      OperatorDelta& fresh = out.operators.emplace_back();
      fresh.name = name;
      fresh.name_id = id;
    }
    return out.operators[slots_[id]];
  }
  void add(uint32_t k, DiffSide& out) {
    const TreeNode& from = side_.node(k);
    if (from.op == kNoRow) return;
    OperatorDelta& sum = slot(from.op, from.name, out);
    const NodeTimes& times = side_.profile.times[from.node];
    ++sum.calls;
    sum.host_total += times.host_total;
    sum.device_total += times.device_total;
    sum.host_self += times.host_self;
    sum.device_self += times.device_self;
    if (!side_.has_kernels) return;
    if (const auto found = side_.kernels.find(from.node); found != side_.kernels.end())
      for (const std::string_view kernel : found->second) add_kernel(kernel, 1, sum);
  }
  static void add_kernel(std::string_view kernel, int64_t count, OperatorDelta& sum) {
    sum.kernel_calls += count;
    auto known = std::find_if(sum.kernels.begin(), sum.kernels.end(),
                              [&](const auto& entry) { return entry.first == kernel; });
    if (known == sum.kernels.end()) known = sum.kernels.insert(known, {kernel, 0});
    known->second += count;
  }

  const Side& side_;
  std::vector<uint32_t> slots_;
  NodeList used_;
  std::vector<std::pair<uint32_t, uint32_t>> open_;  // node, how many of its children are done
  const DiffSide* current_ = nullptr;
};

void write_kernels(JsonWriter& json, const OperatorDelta& op) {
  std::string names, calls;
  for (const auto& [name, count] : op.kernels) {
    if (!names.empty()) names += ", ", calls += ", ";
    names += name;
    calls += std::to_string(count);
  }
  json.integer("kernel_calls", op.kernel_calls)
      .text("kernel_name_list_str", names)
      .text("kernel_calls_list_str", calls);
}

std::string side_json(const Profile& profile, const DiffSide& side) {
  const Clock& clock = profile.clock;
  JsonWriter json;
  json.begin_object().text("name", side.name);
  write(json.key("duration"), clock.sum(side.host));
  write(json.key("device_duration"), clock.sum(side.device));
  write(json.key("total_duration"), clock.sum(side.total));
  json.key("aggs").begin_array();
  for (const OperatorDelta& op : side.operators) {
    json.begin_object().text("name", op.name).integer("calls", op.calls);
    if (profile.semantics.dialect == Dialect::kMluLate) write_kernels(json, op);
    write(json.key("host_duration"), clock.length(op.host_total));
    write(json.key("device_duration"), clock.sum(op.device_total));
    write(json.key("self_host_duration"), clock.length(op.host_self));
    write(json.key("self_device_duration"), clock.sum(op.device_self));
    json.end_object();
  }
  json.end_array().end_object();
  return json.take();
}

// Two lists of nodes, or two anchors with what lies below them, and how they divide further.
struct Pairing {
  NodeList lists[2];
  uint32_t anchors[2] = {kNoRow, kNoRow};
  std::vector<Pairing> children;
};

// First the trees are aligned, then each side sums its operators, and writes them, on a thread of
// its own.
class Comparison {
 public:
  Comparison(const Profile& left, const Profile& right) : sides_{Side(left), Side(right)} {}

  DiffNode run() {
    Pairing all;
    auto right_list = std::async(std::launch::async, [&] { return top_level(sides_[1]); });
    all.lists[0] = top_level(sides_[0]);
    all.lists[1] = right_list.get();
    divide(all, 0);
    DiffNode root;
    shape(all, root);
    auto right = std::async(std::launch::async, [&] { fill<1>(all, root); });
    fill<0>(all, root);
    right.get();
    return root;
  }

 private:
  static NodeList top_level(const Side& side) {
    NodeList list;
    bool has_steps = false;
    const std::span<const uint32_t> top = side.view.children(0);
    for (const uint32_t child : top) {
      if (side.node(child).kind != TreeKind::kStep) continue;
      has_steps = true;
      const std::span<const uint32_t> inner = side.view.children(child);
      list.insert(list.end(), inner.begin(), inner.end());
    }
    return has_steps ? list : NodeList(top.begin(), top.end());
  }

  // Name and times of the listed nodes; their operators come later.
  static DiffSide describe(const Side& side, const NodeList& list) {
    DiffSide out;
    out.name = list.empty()       ? "Blank"
               : list.size() == 1 ? side.node(list[0]).name
                                  : "CompositeNodes";
    for (const uint32_t k : list) {
      const TreeNode& node = side.node(k);
      const Ticks host = node.end - node.start, device = node.device_total;
      out.host += host;
      out.device += device;
      out.total += device > 0 ? device : host;
    }
    return out;
  }

  void add_stretch(Pairing& pair, size_t left_from, size_t left_to, size_t right_from,
                   size_t right_to, int depth) {
    if (left_from == left_to && right_from == right_to) return;
    Pairing& stretch = pair.children.emplace_back();
    const auto left = pair.lists[0].begin(), right = pair.lists[1].begin();
    stretch.lists[0].assign(left + left_from, left + left_to);
    stretch.lists[1].assign(right + right_from, right + right_to);
    divide(stretch, depth + 1);
  }

  void add_anchors(Pairing& pair, uint32_t left, uint32_t right, int depth) {
    Pairing& anchors = pair.children.emplace_back();
    anchors.anchors[0] = left;
    anchors.anchors[1] = right;
    for (int side = 0; side < 2; ++side) {
      const std::span<const uint32_t> below = sides_[side].view.children(anchors.anchors[side]);
      anchors.lists[side].assign(below.begin(), below.end());
    }
    divide(anchors, depth + 1);
  }

  void divide(Pairing& pair, int depth) {
    if (depth >= kMaxDivisions) return;
    const NodeList &left = pair.lists[0], &right = pair.lists[1];
    // Where each kind and name of a key node stands on the right: a left one without a partner
    // costs one look-up.
    std::map<std::pair<TreeKind, std::string_view>, std::vector<size_t>> places;
    for (size_t k = 0; k < right.size(); ++k) {
      const TreeNode& node = sides_[1].node(right[k]);
      if (is_key(node.kind)) places[{node.kind, node.name}].push_back(k);
    }
    if (places.empty()) return;
    size_t left_done = 0, right_done = 0;
    for (size_t k = 0; k < left.size(); ++k) {
      const TreeNode& node = sides_[0].node(left[k]);
      if (!is_key(node.kind)) continue;
      const auto found = places.find({node.kind, node.name});
      if (found == places.end()) continue;
      const auto next = std::lower_bound(found->second.begin(), found->second.end(), right_done);
      if (next == found->second.end()) continue;
      add_stretch(pair, left_done, k, right_done, *next, depth);
      add_anchors(pair, left[k], right[*next], depth);
      left_done = k + 1;
      right_done = *next + 1;
    }
    if (right_done > 0) add_stretch(pair, left_done, left.size(), right_done, right.size(), depth);
  }

  static void shape(const Pairing& pair, DiffNode& out) {
    out.children.resize(pair.children.size());
    for (size_t k = 0; k < out.children.size(); ++k) shape(pair.children[k], out.children[k]);
  }

  template <int kSide>
  void fill(const Pairing& all, DiffNode& root) {
    OperatorSums sums(sides_[kSide]);
    fill<kSide>(all, sums, root);
  }

  // Children partition their parent's lists, so operators are summed from below: every node of the
  // trees is visited once.
  template <int kSide>
  void fill(const Pairing& pair, OperatorSums& sums, DiffNode& out) {
    constexpr DiffSide DiffNode::*kWhich = kSide == 0 ? &DiffNode::left : &DiffNode::right;
    for (size_t k = 0; k < out.children.size(); ++k)
      fill<kSide>(pair.children[k], sums, out.children[k]);
    const uint32_t anchor = pair.anchors[kSide];
    DiffSide& side = out.*kWhich;
    side = describe(sides_[kSide], anchor == kNoRow ? pair.lists[kSide] : NodeList{anchor});
    sums.reset();
    if (out.children.empty())
      for (const uint32_t node : pair.lists[kSide]) sums.add_tree(node, side);
    for (const DiffNode& child : out.children) sums.merge(child.*kWhich, side);
    if (anchor != kNoRow) sums.add_one(anchor, side);
    side.json = side_json(sides_[kSide].profile, side);
  }

  const Side sides_[2];
};

void write_sides(JsonWriter& json, const DiffNode& node) {
  json.begin_object().key("left").raw(node.left.json).key("right").raw(node.right.json);
}

void add_sizes(const DiffNode& node, size_t depth, std::vector<size_t>& of_depth) {
  if (of_depth.size() <= depth) of_depth.push_back(0);
  of_depth[depth] += node.left.json.size() + node.right.json.size();
  for (const DiffNode& child : node.children) add_sizes(child, depth + 1, of_depth);
}

// How many levels below the root fit; one is always given.
size_t fitting_depth(const DiffNode& root, size_t limit_bytes) {
  std::vector<size_t> of_depth;
  add_sizes(root, 0, of_depth);
  size_t sum = 0, depth = 0;
  for (; depth < of_depth.size(); ++depth) {
    sum += of_depth[depth];
    if (sum > limit_bytes && depth > 1) break;
  }
  return depth - 1;
}

size_t count_below(const DiffNode& node) {
  size_t count = node.children.size();
  for (const DiffNode& child : node.children) count += count_below(child);
  return count;
}

void write_tree(JsonWriter& json, const DiffNode& node, size_t depth, const std::string& path) {
  write_sides(json, node);
  json.key("children").begin_array();
  for (size_t k = 0; depth > 0 && k < node.children.size(); ++k)
    write_tree(json, node.children[k], depth - 1, fmt::format("{}-{}", path, k));
  json.end_array();
  if (depth == 0 && !node.children.empty())
    json.integer("omitted", static_cast<int64_t>(count_below(node))).text("path", path);
  json.end_object();
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

std::string diff_json(const DiffNode& root, size_t limit_bytes) {
  JsonWriter json;
  write_tree(json, root, limit_bytes > 0 ? fitting_depth(root, limit_bytes) : ~size_t{0}, "0");
  return json.take();
}

std::string diff_node_json(const DiffNode& root, const std::string& path) {
  const DiffNode* node = find_node(root, path);
  if (node == nullptr) return "";
  JsonWriter json;
  write_sides(json, *node);
  json.text("path", path).key("children").begin_array();
  for (size_t k = 0; k < node->children.size(); ++k) {
    write_sides(json, node->children[k]);
    json.text("path", fmt::format("{}-{}", path, k)).end_object();
  }
  json.end_array().end_object();
  return json.take();
}

}  // namespace camshaft::trace
