// SPDX-License-Identifier: Apache-2.0
// A flow leads from the start of a forward operator to a moment inside the evaluate_function that
// undoes it.
#include "trace/backward.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace camshaft::trace {
namespace {

constexpr std::string_view kEngine = "autograd::engine::evaluate_function:";
constexpr std::string_view kAccumulate =
    "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad";

class BackwardBuilder {
 public:
  BackwardBuilder(const Trace& trace, const Clock& clock, const Semantics& semantics,
                  const CallForest& forest)
      : trace_(trace), clock_(clock), loses_(semantics.loses()), forest_(forest) {}

  BackwardModules build() {
    if (trace_.flows.empty() || !has_modules()) return {};
    out_.taken.assign(forest_.nodes.size(), false);
    out_.lost.assign(forest_.nodes.size(), false);
    collect_groups();
    map_flows();
    const uint32_t main = main_thread();
    for (const ThreadTree& thread : forest_.threads) make_nodes(thread.root);
    std::stable_sort(roots_.begin(), roots_.end(), [&](uint32_t a, uint32_t b) {
      return out_.nodes[a].start < out_.nodes[b].start;
    });
    for (const uint32_t root : roots_) place(root, main);
    mark();
    return std::move(out_);
  }

 private:
  struct Group {
    std::vector<uint32_t> nodes;
    bool used = false;
  };

  bool has_modules() const {
    return std::any_of(forest_.nodes.begin(), forest_.nodes.end(),
                       [](const Node& node) { return node.kind == NodeKind::kModule; });
  }
  bool is_engine(uint32_t node) const {
    return forest_.nodes[node].event != kNoRow &&
           trace_.name_of(forest_.nodes[node].event).substr(0, kEngine.size()) == kEngine;
  }

  void collect_groups() {
    for (uint32_t k = 0; k < forest_.threads.size(); ++k) {
      bool open = false;
      forest_.for_each_child(forest_.threads[k].root, [&](uint32_t node) {
        if (!is_engine(node)) return;
        backward_thread_ = k;
        if (!open || trace_.name_of(forest_.nodes[node].event) != kAccumulate)
          groups_.emplace_back();
        open = true;
        groups_.back().nodes.push_back(node);
      });
    }
    std::stable_sort(groups_.begin(), groups_.end(), [&](const Group& a, const Group& b) {
      return forest_.nodes[a.nodes.front()].start < forest_.nodes[b.nodes.front()].start;
    });
  }

  void map_flows() {
    std::unordered_map<int64_t, int64_t> forward_start, backward_at;
    for (const FlowEvent& flow : trace_.flows)
      (flow.is_start ? forward_start : backward_at)[flow.id] = flow.time_ns;
    for (const auto& [id, from_ns] : forward_start) {
      const auto to = backward_at.find(id);
      if (to == backward_at.end()) continue;
      const Ticks at = clock_.start(to->second);
      auto group =
          std::partition_point(groups_.begin(), groups_.end(), [&](const Group& candidate) {
            return forest_.nodes[candidate.nodes.front()].start <= at;
          });
      if (group == groups_.begin()) continue;
      --group;
      if (at < forest_.nodes[group->nodes.front()].end)
        group_of_forward_[clock_.start(from_ns)] = group - groups_.begin();
    }
  }

  // The thread with steps (the original: the last such), else the one that spans most and does not
  // run backward.
  uint32_t main_thread() const {
    uint32_t found = kNoRow;
    for (uint32_t k = 0; k < forest_.threads.size(); ++k)
      if (forest_.threads[k].has_step && (found == kNoRow || loses_)) found = k;
    if (found != kNoRow) return found;
    Ticks longest = -1;
    for (uint32_t k = 0; k < forest_.threads.size(); ++k) {
      const Node& root = forest_.nodes[forest_.threads[k].root];
      if (k == backward_thread_ || root.end - root.start <= longest) continue;
      longest = root.end - root.start;
      found = k;
    }
    return found;
  }

  // Backward nodes of the modules below `parent`; those without any backward work vanish.
  void make_nodes(uint32_t parent) {
    forest_.for_each_child(parent, [&](uint32_t child) {
      if (is_engine(child) && forest_.nodes[child].parent == parent &&
          forest_.nodes[parent].kind == NodeKind::kRoot)
        return;
      if (forest_.nodes[child].kind != NodeKind::kModule) return make_nodes(child);
      const uint32_t made = make_module(child);
      if (made != kNoRow) roots_.push_back(made);
    });
  }

  uint32_t make_module(uint32_t module) {
    BackwardNode node;
    node.name = std::string(trace_.name_of(forest_.nodes[module].event)) + ".backward";
    bool any = false;
    const auto cover = [&](Ticks start, Ticks end) {
      node.start = any ? std::min(node.start, start) : start;
      node.end = any ? std::max(node.end, end) : end;
      any = true;
    };
    forest_.for_each_child(module, [&](uint32_t child) {
      if (forest_.nodes[child].kind == NodeKind::kModule) {
        const uint32_t made = make_module(child);
        if (made == kNoRow) return;
        node.children.push_back(made);
        cover(out_.nodes[made].start, out_.nodes[made].end);
        return;
      }
      auto forward = group_of_forward_.lower_bound(forest_.nodes[child].start);
      for (; forward != group_of_forward_.end() && forward->first < forest_.nodes[child].end;
           ++forward) {
        Group& group = groups_[forward->second];
        if (group.used) continue;
        group.used = true;
        for (const uint32_t engine : group.nodes) {
          node.engine_nodes.push_back(engine);
          cover(forest_.nodes[engine].start, forest_.nodes[engine].end);
        }
      }
    });
    if (!any) return kNoRow;
    std::sort(node.children.begin(), node.children.end(),
              [&](uint32_t a, uint32_t b) { return out_.nodes[a].start < out_.nodes[b].start; });
    std::sort(node.engine_nodes.begin(), node.engine_nodes.end(), [&](uint32_t a, uint32_t b) {
      return forest_.nodes[a].start < forest_.nodes[b].start;
    });
    out_.nodes.push_back(std::move(node));
    return static_cast<uint32_t>(out_.nodes.size() - 1);
  }

  void place(uint32_t root, uint32_t main) {
    if (main == kNoRow) return;
    const Ticks start = out_.nodes[root].start, end = out_.nodes[root].end;
    uint32_t parent = forest_.threads[main].root;
    for (;;) {
      uint32_t inside = kNoRow, before = kNoRow;
      bool follows_one = false, overlaps = false;
      forest_.for_each_child(parent, [&](uint32_t child) {
        if (is_engine(child) && forest_.nodes[parent].kind == NodeKind::kRoot)
          return;  // moved away itself
        const Node& node = forest_.nodes[child];
        if (node.start <= start && end <= node.end)
          inside = child;
        else if (node.end <= start)
          follows_one = true;
        else if (end <= node.start)
          before = before == kNoRow ? child : before;
        else
          overlaps = true;
      });
      if (inside != kNoRow) {
        parent = inside;
        continue;
      }
      // The original finds room only between two neighbours.
      if (loses_ && (!follows_one || before == kNoRow || overlaps)) return;
      out_.places.push_back({root, parent, before});
      return;
    }
  }

  void keep(uint32_t node) {
    for (const uint32_t engine : out_.nodes[node].engine_nodes) out_.lost[engine] = false;
    for (const uint32_t child : out_.nodes[node].children) keep(child);
  }

  void mark() {
    for (const Group& group : groups_)
      for (const uint32_t node : group.nodes) {
        if (group.used || loses_) out_.taken[node] = true;
        out_.lost[node] = loses_;
      }
    for (const BackwardPlace& place : out_.places) keep(place.node);
    for (uint32_t node = 0; node < forest_.nodes.size(); ++node) {  // what hangs below goes along
      const uint32_t parent = forest_.nodes[node].parent;
      if (parent == kNoRow) continue;
      if (out_.taken[parent]) out_.taken[node] = true;
      if (out_.lost[parent]) out_.lost[node] = true;
    }
  }

  const Trace& trace_;
  const Clock& clock_;
  const bool loses_;
  const CallForest& forest_;
  BackwardModules out_;
  std::vector<Group> groups_;
  std::map<Ticks, size_t> group_of_forward_;  // by when a forward operator inside began
  std::vector<uint32_t> roots_;
  uint32_t backward_thread_ = kNoRow;
};

}  // namespace

BackwardModules find_backward_modules(const Trace& trace, const Clock& clock,
                                      const Semantics& semantics, const CallForest& forest) {
  return BackwardBuilder(trace, clock, semantics, forest).build();
}

}  // namespace camshaft::trace
