// SPDX-License-Identifier: Apache-2.0
#include "trace/communication.h"

#include <algorithm>
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

Collectives find_collectives(const Trace& trace, const Clock& clock, const Semantics& semantics) {
  Collectives found;
  std::unordered_map<int64_t, size_t> by_id;
  const EventColumns& events = trace.events;
  for (uint32_t event = 0; event < events.size(); ++event) {
    const EventKind kind = events.kind[event];
    const bool is_host = kind == EventKind::kOperator || kind == EventKind::kAnnotation ||
                         (kind == EventKind::kGpuAnnotation && semantics.original);
    if (!is_host) continue;
    const std::string_view library = collective_library(trace.name_of(event), semantics.dialect);
    if (library.empty()) continue;
    if (!found.library.empty() && found.library != library) found.several_libraries = true;
    found.library = library;
    CollectiveOp op;
    op.event = event;
    op.name = events.name[event];
    op.start = clock.start(events.start_ns[event]);
    op.end = op.start + clock.duration(events.duration_ns[event]);
    op.bytes = input_bytes(trace, event, semantics);
    op.ranges.push_back({op.start, op.end});
    const int64_t id = external_id_of(trace, event);
    const auto [place, is_new] = by_id.try_emplace(id, found.ops.size());
    if (is_new)
      found.ops.push_back(std::move(op));
    else
      found.ops[place->second] = std::move(op);
    found.external_ids.insert(id);
  }
  found.device_is_communication.assign(events.size(), false);
  for (uint32_t event = 0; event < events.size(); ++event) {
    if (!carries_communication(trace, event, semantics, found)) continue;
    found.device_is_communication[event] = true;
    const auto owner = by_id.find(trace.device[events.detail[event]].external_id);
    if (owner == by_id.end() ||
        trace.strings[found.ops[owner->second].name].substr(0, 5) == "gloo:")
      continue;
    const Ticks start = clock.start(events.start_ns[event]);
    found.ops[owner->second].ranges.push_back(
        {start, start + clock.duration(events.duration_ns[event])});
  }
  std::stable_sort(found.ops.begin(), found.ops.end(),
                   [](const CollectiveOp& a, const CollectiveOp& b) {
                     return a.start != b.start ? a.start < b.start : a.end > b.end;
                   });
  return found;
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
