// SPDX-License-Identifier: Apache-2.0
#include "tuner/regions.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/disjoint_sets.h"

#include "ir/append_rows.h"
#include "ir/kind_traits.h"
#include "ir/rotation.h"

namespace camshaft::tuner {
namespace {

using engine::kNoStep;
using engine::kNoTensor;
using engine::Plan;
using engine::PlanStep;
using engine::Region;
using engine::RegionBorder;
using ir::LayerKind;

enum class Part : uint8_t {
  kCore,   // makes a run a transformer block
  kLink,   // belongs to a run where it lies between others
  kOther,  // ends it
};

struct Role {
  Part part = Part::kLink;
  const char* what = "";  // kCore, kLink: counted as; kOther: why it ends a run
};

bool is_constant(const Plan& plan, const PlanStep& step, size_t input) {
  return input < step.inputs.size() && step.inputs[input] != kNoTensor &&
         plan.tensors[step.inputs[input]].role == engine::TensorRole::kConstant;
}

Role role_of(ir::Deed deed) {
  using enum ir::Deed;
  switch (deed) {
    case kAttends:
      return {Part::kCore, "attention"};
    case kMultiplies:
      return {Part::kCore, "product"};
    case kMixes:
      return {Part::kCore, "mixture of experts"};
    case kNormalizes:
      return {Part::kCore, "normalization"};
    case kLooksUp:
      return {Part::kCore, "embedding"};
    case kMaps:
      return {Part::kLink, "pointwise layer"};
    case kReduces:
      return {Part::kLink, "reduction"};
    case kRearranges:
      return {Part::kLink, "movement"};
    case kSlides:
      return {Part::kOther, "works on images"};
    case kSearches:
      return {Part::kOther, "searches"};
    case kRepeats:
      return {Part::kOther, "a recurrence: runs step by step"};
    case kBranches:
      return {Part::kOther, "holds a graph of its own"};
    case kUnnamed:
      return {Part::kOther, "an operator without a kind of its own"};
  }
  return {Part::kOther, ""};
}

Role role_of(const Plan& plan, const PlanStep& step) {
  if (step.dynamic_output) return {Part::kOther, "only running tells how much it makes"};
  ir::Deed deed = ir::traits_of(step.layer.kind).deed;
  const bool appends =
      deed == ir::Deed::kUnnamed && step.layer.as<ir::GenericAttrs>().op_type == ir::kAppendRows;
  if (deed == ir::Deed::kUnnamed && ir::rotated_half(step.layer) > 0) deed = ir::Deed::kMaps;
  const bool looks_up_results = deed == ir::Deed::kLooksUp && !is_constant(plan, step, 0);
  if (appends || looks_up_results) deed = ir::Deed::kRearranges;
  return role_of(deed);
}

// Who makes and who reads what.
struct Links {
  std::vector<int> maker;                              // per tensor
  std::vector<std::vector<int>> producers, consumers;  // per step, without repeats

  explicit Links(const Plan& plan)
      : maker(plan.tensors.size(), kNoStep),
        producers(plan.steps.size()),
        consumers(plan.steps.size()) {
    const int count = static_cast<int>(plan.steps.size());
    for (int s = 0; s < count; ++s)
      for (const int output : plan.steps[s].outputs)
        if (output != kNoTensor) maker[output] = s;
    for (int s = 0; s < count; ++s)
      for (const int input : plan.steps[s].inputs) {
        const int p = input == kNoTensor ? kNoStep : maker_of(plan, input);
        if (p == kNoStep || contains(producers[s], p)) continue;
        producers[s].push_back(p);
        consumers[p].push_back(s);
      }
  }

  // A view that no step makes is there when its parent is.
  int maker_of(const Plan& plan, int tensor) const {
    while (maker[tensor] == kNoStep && plan.tensors[tensor].parent != kNoTensor)
      tensor = plan.tensors[tensor].parent;
    return maker[tensor];
  }

  static bool contains(const std::vector<int>& list, int item) {
    return std::find(list.begin(), list.end(), item) != list.end();
  }
};

class RegionFinder {
 public:
  explicit RegionFinder(const Plan& plan)
      : plan_(plan),
        count_(static_cast<int>(plan.steps.size())),
        links_(plan),
        level_(plan.steps.size()),
        keeps_with_(plan.steps.size(), kNoStep),
        region_of_(plan.steps.size(), -1) {
    for (const PlanStep& step : plan.steps) roles_.push_back(role_of(plan, step));
  }

  std::vector<Region> find() {
    set_levels();
    while (trim_ends()) continue;
    std::vector<Region> regions;
    for (std::vector<int>& steps : components()) {
      if (!is_block(steps)) continue;
      for (const int s : steps) region_of_[s] = static_cast<int>(regions.size());
      regions.push_back({name_of(steps), std::move(steps), "", {}, {}});
    }
    for (Region& region : regions) {
      region.reason = reason_of(region);
      add_borders(region);
    }
    return regions;
  }

 private:
  bool fits(int s) const { return roles_[s].part != Part::kOther; }
  // Fits, and is not left with a neighbour of another kind.
  bool is_member(int s) const { return fits(s) && keeps_with_[s] == kNoStep; }
  bool are_together(int a, int b) const {
    return is_member(a) && is_member(b) && level_[a] == level_[b];
  }

  // A level grows by one wherever a path goes from steps that fit to one that does not, or back: a
  // path that leaves steps of one level never comes back to it. As late as consumers allow, so that
  // a mask made early is of the level of the attention that reads it.
  void set_levels() {
    for (int s = 0; s < count_; ++s)
      for (const int p : links_.producers[s])
        level_[s] = std::max(level_[s], level_[p] + (fits(p) != fits(s)));
    for (int s = count_ - 1; s >= 0; --s) {
      if (links_.consumers[s].empty()) continue;
      int latest = count_;
      for (const int c : links_.consumers[s])
        latest = std::min(latest, level_[c] - (fits(c) != fits(s)));
      level_[s] = latest;
    }
  }

  // The neighbour of another kind that `s` lies at the end of its run with; kNoStep: none.
  int neighbour_beyond(int s, const std::vector<int>& neighbours) const {
    int beyond = kNoStep;
    for (const int n : neighbours) {
      if (are_together(s, n)) return kNoStep;
      if (!fits(n)) beyond = n;
      if (fits(n) && keeps_with_[n] != kNoStep) beyond = keeps_with_[n];
    }
    return beyond;
  }

  bool trim_ends() {
    bool any = false;
    for (int s = 0; s < count_; ++s) {
      if (roles_[s].part != Part::kLink || !is_member(s)) continue;
      int beyond = neighbour_beyond(s, links_.producers[s]);
      if (beyond == kNoStep) beyond = neighbour_beyond(s, links_.consumers[s]);
      keeps_with_[s] = beyond;
      any |= beyond != kNoStep;
    }
    return any;
  }

  std::vector<std::vector<int>> components() const {
    DisjointSets sets(plan_.steps.size());
    for (int s = 0; s < count_; ++s)
      for (const int p : links_.producers[s])
        if (are_together(s, p)) sets.join(static_cast<size_t>(s), static_cast<size_t>(p));
    std::vector<std::vector<int>> steps(count_);
    for (int s = 0; s < count_; ++s)
      if (is_member(s)) steps[sets.root_of(static_cast<size_t>(s))].push_back(s);
    std::erase_if(steps, [](const auto& list) { return list.empty(); });
    return steps;
  }

  bool is_block(const std::vector<int>& steps) const {
    int core = 0;
    bool attends = false;
    for (const int s : steps) {
      core += roles_[s].part == Part::kCore;
      attends |= plan_.steps[s].layer.kind == LayerKind::kAttention;
    }
    return attends && core > 1;
  }

  std::string name_of(const std::vector<int>& steps) const {
    const auto has_nodes = [&](int s) { return !plan_.steps[s].layer.onnx_nodes.empty(); };
    const auto first = std::find_if(steps.begin(), steps.end(), has_nodes);
    const auto last = std::find_if(steps.rbegin(), steps.rend(), has_nodes);
    if (first == steps.end())
      return fmt::format("{{ForeignNode[{}...{}]}}", plan_.steps[steps.front()].layer.name,
                         plan_.steps[steps.back()].layer.name);
    return fmt::format("{{ForeignNode[{}...{}]}}", plan_.steps[*first].layer.onnx_nodes.front(),
                       plan_.steps[*last].layer.onnx_nodes.back());
  }

  std::string reason_of(const Region& region) const {
    std::vector<std::pair<std::string, int>> counts;
    for (const int s : region.steps) {
      const std::string what = plan_.steps[s].is_view ? "view" : roles_[s].what;
      const auto row = std::find_if(counts.begin(), counts.end(),
                                    [&](const auto& entry) { return entry.first == what; });
      if (row == counts.end())
        counts.emplace_back(what, 1);
      else
        ++row->second;
    }
    std::stable_sort(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
      return (a.first == "attention") > (b.first == "attention");
    });
    std::string list;
    for (const auto& [what, count] : counts)
      list += fmt::format("{}{} {}{}", list.empty() ? "" : ", ", count, what,
                          count == 1 || what == "attention" || what == "movement" ? "" : "s");
    return "attention, and what feeds it or reads from it with no layer of another kind between: " +
           list;
  }

  std::string why_outside(int s) const {
    const PlanStep& step = plan_.steps[s];
    if (!fits(s)) return fmt::format("{}: {}", ir::kind_name(step.layer.kind), roles_[s].what);
    if (keeps_with_[s] != kNoStep)
      return "stays with " + plan_.steps[keeps_with_[s]].layer.name + " (" +
             roles_[keeps_with_[s]].what + ")";
    if (region_of_[s] >= 0) return fmt::format("part of region {}", region_of_[s]);
    return "a path from one to the other goes through a layer of another kind: as one they would "
           "wait for themselves";
  }

  void add_borders(Region& region) const {
    const auto inside = [&](int s) {
      return s != kNoStep && region_of_[s] == region_of_[region.steps.front()];
    };
    const auto add = [](std::vector<RegionBorder>& list, int tensor, int step, std::string why) {
      for (const RegionBorder& border : list)
        if (border.tensor == tensor && border.step == step) return;
      list.push_back({tensor, step, std::move(why)});
    };
    for (const int s : region.steps)
      for (const int input : plan_.steps[s].inputs) {
        if (input == kNoTensor || plan_.tensors[input].role == engine::TensorRole::kConstant)
          continue;
        const int maker = links_.maker_of(plan_, input);
        if (inside(maker)) continue;
        add(region.before, input, maker,
            maker == kNoStep ? "an input of the network" : why_outside(maker));
      }
    for (int s = 0; s < count_; ++s)
      for (const int input : plan_.steps[s].inputs)
        if (!inside(s) && input != kNoTensor && inside(links_.maker_of(plan_, input)))
          add(region.after, input, s, why_outside(s));
    for (const int output : plan_.outputs)
      if (inside(links_.maker_of(plan_, output)))
        add(region.after, output, kNoStep, "an output of the network");
  }

  const Plan& plan_;
  const int count_;
  Links links_;
  std::vector<Role> roles_;
  std::vector<int> level_;
  std::vector<int> keeps_with_;  // the step of another kind a link at an end stays with
  std::vector<int> region_of_;   // -1: none
};

}  // namespace

std::vector<Region> find_regions(const Plan& plan) {
  return RegionFinder(plan).find();
}

}  // namespace camshaft::tuner
