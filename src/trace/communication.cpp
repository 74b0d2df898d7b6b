// SPDX-License-Identifier: Apache-2.0
#include "trace/communication.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace camshaft::trace {
namespace {

struct ElementType {
  std::string_view name;
  int64_t bytes;
};

constexpr ElementType kElementTypes[] = {
    {"long int", 8},  {"float", 4},         {"int", 4},
    {"c10::Half", 2}, {"c10::BFloat16", 2}, {"unsigned char", 1},
};
constexpr ElementType kMoreElementTypes[] = {
    {"double", 8}, {"short int", 2}, {"signed char", 1}, {"bool", 1},     {"Long", 8},
    {"Float", 4},  {"Int", 4},       {"Half", 2},        {"BFloat16", 2}, {"Byte", 1},
    {"Char", 1},   {"Double", 8},    {"Bool", 1},        {"Short", 2},
};

int64_t element_bytes(std::string_view type, const Semantics& semantics) {
  for (const ElementType& known : kElementTypes)
    if (known.name == type) return known.bytes;
  return semantics.original ? 0 : element_bytes_of(type);
}

// The types of "['float', 'Int']".
std::vector<std::string_view> quoted_items(std::string_view list) {
  std::vector<std::string_view> items;
  for (size_t k = list.find('\''); k != list.npos; k = list.find('\'', k)) {
    const size_t end = list.find('\'', k + 1);
    if (end == list.npos) break;
    items.push_back(list.substr(k + 1, end - k - 1));
    k = end + 1;
  }
  return items;
}

// Element counts of "[[53120], [], [2, 3]]": the product of each inner list, 1 for an empty one.
std::vector<int64_t> element_counts(std::string_view list) {
  constexpr int64_t kMost = int64_t{1} << 43;  // what sums of a million can bear
  std::vector<int64_t> counts;
  int depth = 0;
  int64_t product = 1, number = 0;
  bool in_number = false;
  for (const char c : list) {
    if (c >= '0' && c <= '9') {
      number = std::min(kMost, number * 10 + (c - '0'));
      in_number = true;
      continue;
    }
    if (in_number) product = number > 0 && product > kMost / number ? kMost : product * number;
    if (in_number) number = 0;
    in_number = false;
    if (c == '[') {
      if (++depth == 2) product = 1;
    } else if (c == ']') {
      if (depth-- == 2) counts.push_back(product);
    }
  }
  return counts;
}

int64_t input_bytes(const Trace& trace, uint32_t event, const Semantics& semantics) {
  const HostDetail& detail = trace.host[trace.events.detail[event]];
  const std::vector<int64_t> counts = element_counts(trace.strings[detail.shapes]);
  const std::vector<std::string_view> types = quoted_items(trace.strings[detail.types]);
  int64_t sum = 0;
  for (size_t k = 0; k < std::min(counts.size(), types.size()); ++k)
    sum += counts[k] * element_bytes(types[k], semantics);
  return sum;
}

bool carries_communication(const Trace& trace, uint32_t event, const Semantics& semantics,
                           const Collectives& found) {
  const EventKind kind = trace.events.kind[event];
  if (kind != EventKind::kKernel && !(kind == EventKind::kMemcpy && semantics.is_mlu()))
    return false;
  const DeviceDetail& detail = trace.device[trace.events.detail[event]];
  if (detail.external_id != kNoId && found.external_ids.count(detail.external_id) > 0) return true;
  if (semantics.original || kind != EventKind::kKernel) return false;
  return detail.collective != kNoRow || is_collective_kernel(trace.name_of(event));
}

}  // namespace

int64_t element_bytes_of(std::string_view type) {
  for (const ElementType& known : kElementTypes)
    if (known.name == type) return known.bytes;
  for (const ElementType& known : kMoreElementTypes)
    if (known.name == type) return known.bytes;
  return type.find("Float8") != type.npos || type.find("float8") != type.npos ? 1 : 0;
}

namespace {

class Finder {
 public:
  Finder(const Trace& trace, const Clock& clock, const Semantics& semantics,
         const CallForest& forest, const Launches& launches)
      : trace_(trace), clock_(clock), semantics_(semantics), forest_(forest), launches_(launches) {}

  Collectives run() {
    for (uint32_t event = 0; event < trace_.events.size(); ++event) add_host_op(event);
    found_.device_is_communication.assign(trace_.events.size(), false);
    for (uint32_t event = 0; event < trace_.events.size(); ++event)
      if (carries_communication(trace_, event, semantics_, found_)) add_kernel(event);
    if (!semantics_.loses()) join_by_order();
    if (!semantics_.loses())
      for (CollectiveOp& op : found_.ops)
        if (op.ranges.size() > 1) op.ranges.erase(op.ranges.begin());
    std::stable_sort(found_.ops.begin(), found_.ops.end(),
                     [](const CollectiveOp& a, const CollectiveOp& b) {
                       return a.start != b.start ? a.start < b.start : a.end > b.end;
                     });
    return std::move(found_);
  }

 private:
  Range range_of(uint32_t event) const {
    const Ticks start = clock_.start(trace_.events.start_ns[event]);
    return {start, start + clock_.duration(trace_.events.duration_ns[event])};
  }

  CollectiveOp op_of(uint32_t event) const {
    CollectiveOp op;
    op.event = event;
    op.name = trace_.name_of(event);
    op.verb = collective_verb(op.name);
    const Range range = range_of(event);
    op.start = range.start;
    op.end = range.end;
    op.ranges.push_back(range);
    return op;
  }

  void add_host_op(uint32_t event) {
    const EventKind kind = trace_.events.kind[event];
    const bool is_host = kind == EventKind::kOperator || kind == EventKind::kAnnotation ||
                         (kind == EventKind::kGpuAnnotation && semantics_.original);
    if (!is_host) return;
    const std::string_view library = collective_library(trace_.name_of(event), semantics_.dialect);
    if (library.empty()) return;
    if (!found_.library.empty() && found_.library != library) found_.several_libraries = true;
    found_.library = library;
    CollectiveOp op = op_of(event);
    op.bytes = input_bytes(trace_, event, semantics_);
    const int64_t id = external_id_of(trace_, event);
    const auto [place, is_new] = by_id_.try_emplace(id, found_.ops.size());
    // The plugin's rule: a repeated id is the same collective.
    if (is_new || !semantics_.loses())
      found_.ops.push_back(std::move(op));
    else
      found_.ops[place->second] = std::move(op);
    by_event_[event] = is_new || !semantics_.loses() ? found_.ops.size() - 1 : place->second;
    found_.external_ids.insert(id);
  }

  // The collective around the call that launched a kernel.
  size_t enclosing_op(uint32_t event) const {
    for (uint32_t node = launches_.node_of_device(event); node != kNoRow;
         node = forest_.nodes[node].parent) {
      const auto op = by_event_.find(forest_.nodes[node].event);
      if (op != by_event_.end()) return op->second;
    }
    return kNone;
  }

  size_t owner_of(uint32_t event) const {
    const int64_t id = trace_.device[trace_.events.detail[event]].external_id;
    const auto by_id = by_id_.find(id);
    if (semantics_.loses()) return by_id == by_id_.end() ? kNone : by_id->second;
    const size_t around = enclosing_op(event);
    if (around != kNone) return around;
    return by_id != by_id_.end() && id != kNoId && id != 0 ? by_id->second : kNone;
  }

  void add_kernel(uint32_t event) {
    found_.device_is_communication[event] = true;
    size_t owner = owner_of(event);
    if (owner == kNone) {
      if (semantics_.loses()) return;
      found_.ops.push_back(op_of(event));
      describe(event, found_.ops.back());
      if (found_.library.empty()) found_.library = "nccl";
      return;
    }
    CollectiveOp& op = found_.ops[owner];
    if (op.name.substr(0, 5) == "gloo:") return;
    op.ranges.push_back(range_of(event));
    if (!semantics_.loses()) describe(event, op);
  }

  // Operations without kernels beside kernels without operations: where they are as many of a
  // kind, the n-th launched the n-th.
  void join_by_order() {
    std::map<std::string, std::pair<std::vector<size_t>, std::vector<size_t>>> kinds;
    for (size_t k = 0; k < found_.ops.size(); ++k) {
      const CollectiveOp& op = found_.ops[k];
      if (is_device_activity(trace_.events.kind[op.event]))
        kinds[op.verb].second.push_back(k);
      else if (op.ranges.size() == 1)
        kinds[op.verb].first.push_back(k);
    }
    std::vector<bool> joined(found_.ops.size(), false);
    for (const auto& [verb, lists] : kinds) {
      const auto& [calls, kernels] = lists;
      if (calls.size() != kernels.size()) continue;
      for (size_t k = 0; k < calls.size(); ++k) {
        CollectiveOp &call = found_.ops[calls[k]], &kernel = found_.ops[kernels[k]];
        call.ranges.push_back(kernel.ranges.front());
        call.group = kernel.group;
        call.group_ranks = kernel.group_ranks;
        call.sequence = kernel.sequence;
        joined[kernels[k]] = true;
      }
    }
    size_t at = 0;
    std::erase_if(found_.ops, [&](const CollectiveOp&) { return joined[at++]; });
  }

  // What newer traces say of a kernel's collective.
  void describe(uint32_t event, CollectiveOp& op) const {
    const uint32_t row = trace_.device[trace_.events.detail[event]].collective;
    const bool is_own = op.event == event;
    if (row == kNoRow) {
      if (is_own && op.verb != op.name) op.name = "nccl:" + op.verb;
      return;
    }
    const CollectiveDetail& detail = trace_.collectives[row];
    op.verb = collective_verb(trace_.strings[detail.name]);
    op.group = detail.group;
    op.group_ranks = detail.ranks;
    op.sequence = detail.sequence;
    if (!is_own) return;
    op.name = "nccl:" + op.verb;
    op.bytes = detail.in_elements * element_bytes_of(trace_.strings[detail.dtype]);
  }

  static constexpr size_t kNone = ~size_t{0};
  const Trace& trace_;
  const Clock& clock_;
  const Semantics& semantics_;
  const CallForest& forest_;
  const Launches& launches_;
  Collectives found_;
  std::unordered_map<int64_t, size_t> by_id_;
  std::unordered_map<uint32_t, size_t> by_event_;
};

struct Verb {
  std::string_view sign;  // in lower case without '_'
  const char* verb;
};
// In this order: "reducescatter" is no "reduce".
constexpr Verb kVerbs[] = {{"reducescatter", "reduce_scatter"},
                           {"allreduce", "all_reduce"},
                           {"allgather", "all_gather"},
                           {"alltoall", "all_to_all"},
                           {"sendrecv", "send_recv"},
                           {"broadcast", "broadcast"},
                           {"barrier", "barrier"},
                           {"reduce", "reduce"},
                           {"send", "send"},
                           {"recv", "recv"}};

}  // namespace

std::string collective_verb(std::string_view name) {
  std::string plain;
  for (const char c : name)
    if (c != '_') plain += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  for (const Verb& known : kVerbs)
    if (plain.find(known.sign) != plain.npos) return known.verb;
  return std::string(name);
}

Collectives find_collectives(const Trace& trace, const Clock& clock, const Semantics& semantics,
                             const CallForest& forest, const Launches& launches) {
  return Finder(trace, clock, semantics, forest, launches).run();
}

void assign_steps(Collectives& collectives, const Steps& steps) {
  const StepFinder finder(steps.list);
  for (CollectiveOp& op : collectives.ops) {
    const int32_t step = finder.find(op.start, op.end);
    op.in_step = step >= 0;
    if (op.in_step) op.step = steps.list[step].name;
  }
}

}  // namespace camshaft::trace
