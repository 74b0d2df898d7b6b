// SPDX-License-Identifier: Apache-2.0
// Time order by a radix sort: traces are nearly sorted runs per thread, and 64-bit keys leave few
// passes.
#include "trace/trace.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace camshaft::trace {
namespace {

// Stable order of `keys`, 11 bits a pass.
std::vector<uint32_t> sorted_order(const std::vector<int64_t>& keys) {
  std::vector<uint32_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0u);
  if (std::is_sorted(keys.begin(), keys.end())) return order;
  const auto [least, most] = std::minmax_element(keys.begin(), keys.end());
  const uint64_t base = static_cast<uint64_t>(*least), range = static_cast<uint64_t>(*most) - base;
  std::vector<uint32_t> next(keys.size());
  for (int shift = 0; shift < 64 && range >> shift != 0; shift += 11) {
    std::array<uint32_t, 2049> counts{};
    for (const int64_t key : keys)
      ++counts[((static_cast<uint64_t>(key) - base) >> shift & 2047) + 1];
    std::partial_sum(counts.begin(), counts.end(), counts.begin());
    for (const uint32_t row : order)
      next[counts[(static_cast<uint64_t>(keys[row]) - base) >> shift & 2047]++] = row;
    order.swap(next);
  }
  return order;
}

template <class T>
void apply_order(const std::vector<uint32_t>& order, std::vector<T>& column) {
  std::vector<T> sorted(column.size());
  for (size_t k = 0; k < order.size(); ++k) sorted[k] = column[order[k]];
  column.swap(sorted);
}

}  // namespace

const char* event_kind_name(EventKind kind) {
  constexpr const char* kNames[kEventKindCount] = {
      "Operator", "Annotation", "GpuAnnotation", "Python", "PythonFunction", "Module", "Runtime",
      "Driver",   "Kernel",     "Memcpy",        "Memset", "Span",           "Other"};
  return kNames[static_cast<int>(kind)];
}

void sort_by_time(Trace& trace) {
  EventColumns& events = trace.events;
  if (!std::is_sorted(events.start_ns.begin(), events.start_ns.end())) {
    const std::vector<uint32_t> order = sorted_order(events.start_ns);
    apply_order(order, events.start_ns);
    apply_order(order, events.duration_ns);
    apply_order(order, events.name);
    apply_order(order, events.track);
    apply_order(order, events.detail);
    apply_order(order, events.kind);
  }
  MemoryColumns& memory = trace.memory;
  if (std::is_sorted(memory.time_ns.begin(), memory.time_ns.end())) return;
  const std::vector<uint32_t> order = sorted_order(memory.time_ns);
  apply_order(order, memory.time_ns);
  apply_order(order, memory.bytes);
  apply_order(order, memory.address);
  apply_order(order, memory.total_allocated);
  apply_order(order, memory.total_reserved);
  apply_order(order, memory.track);
  apply_order(order, memory.device_type);
  apply_order(order, memory.device_id);
}

template <class T>
size_t bytes_of(const std::vector<T>& column) {
  return column.capacity() * sizeof(T);
}

size_t Trace::bytes() const {
  return strings.bytes() + bytes_of(tracks) + bytes_of(events.start_ns) +
         bytes_of(events.duration_ns) + bytes_of(events.name) + bytes_of(events.track) +
         bytes_of(events.detail) + bytes_of(events.kind) + bytes_of(host) + bytes_of(python) +
         bytes_of(runtime) + bytes_of(device) + bytes_of(collectives) +
         bytes_of(memory.time_ns) * 5 + bytes_of(memory.track) * 2 + bytes_of(flows);
}

}  // namespace camshaft::trace
