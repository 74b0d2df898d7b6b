// SPDX-License-Identifier: Apache-2.0
#include "trace/memory_view.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include <fmt/format.h>

namespace camshaft::trace {
namespace {

constexpr size_t kMaxCurvePoints = 10240;

struct DeviceTypeName {
  int type;
  const char* name;
};
// c10::DeviceType.
constexpr DeviceTypeName kDeviceTypes[] = {
    {1, "GPU"},    {2, "MKLDNN"}, {3, "OpenGL"}, {4, "OpenCL"}, {5, "IDEEP"},
    {6, "GPU"},    {7, "FPGA"},   {8, "MAIA"},   {9, "XLA"},    {10, "Vulkan"},
    {11, "Metal"}, {12, "XPU"},   {13, "MPS"},   {14, "Meta"},  {15, "HPU"},
    {16, "VE"},    {17, "Lazy"},  {18, "IPU"},   {19, "MTIA"},  {20, "Device"},
};

// "" when this way of reading does not know the device.
std::string device_name(int type, int id, const Semantics& semantics) {
  if (type == 0) return "CPU";
  if (type == 20 && semantics.is_mlu()) return fmt::format("MLU{}", id);
  if (semantics.original && type != 1) return "";
  for (const DeviceTypeName& known : kDeviceTypes)
    if (known.type == type) return fmt::format("{}{}", known.name, std::max(id, 0));
  return type < 0 ? "" : fmt::format("Device{}:{}", type, id);
}

// What is allocated and not yet freed, by address.
void follow_live(const MemoryColumns& memory, size_t record,
                 std::unordered_map<uint64_t, size_t>& live) {
  if (memory.bytes[record] > 0)
    live[memory.address[record]] = record;
  else
    live.erase(memory.address[record]);
}

bool is_operator(const Trace& trace, const CallForest& forest, uint32_t node) {
  return node != kNoRow && is_table_operator(trace, forest.nodes[node]);
}

}  // namespace

MemoryIndex index_memory(const Trace& trace, const Clock& clock, const Semantics& semantics,
                         const CallForest& forest) {
  const MemoryColumns& memory = trace.memory;
  MemoryIndex index;
  index.device_of_record.assign(memory.size(), kNoDevice);
  index.node_of_record.assign(memory.size(), kNoRow);
  index.named_by.resize(memory.size());
  index.holds_record.assign(forest.nodes.size(), false);
  std::map<std::pair<int, int>, uint16_t> device_ids;
  std::unordered_map<uint64_t, uint32_t> last_allocation;
  // Records of a thread come in time order: one walk down per thread, remembering the open nodes.
  struct Cursor {
    uint32_t next = 0, end = 0;
    std::vector<uint32_t> open;
  };
  std::vector<Cursor> cursors(forest.threads.size());
  for (size_t k = 0; k < cursors.size(); ++k)
    cursors[k] = {forest.threads[k].root + 1, forest.nodes[forest.threads[k].root].subtree_end, {}};
  for (uint32_t record = 0; record < memory.size(); ++record) {
    const std::pair<int, int> key{memory.device_type[record], memory.device_id[record]};
    auto place = device_ids.find(key);
    if (place == device_ids.end()) {
      const std::string name = device_name(key.first, key.second, semantics);
      auto known = std::find(index.devices.begin(), index.devices.end(), name);
      uint16_t id = kNoDevice;
      if (!name.empty()) {
        id = static_cast<uint16_t>(known - index.devices.begin());
        if (known == index.devices.end()) index.devices.push_back(name);
      }
      place = device_ids.emplace(key, id).first;
    }
    index.device_of_record[record] = place->second;
    const uint32_t thread = forest.thread_of_track[memory.track[record]];
    if (thread != kNoRow) {
      Cursor& cursor = cursors[thread];
      const Ticks time = clock.start(memory.time_ns[record]);
      const std::vector<Node>& nodes = forest.nodes;
      while (cursor.next < cursor.end && nodes[cursor.next].start <= time) {
        while (!cursor.open.empty() && nodes[cursor.open.back()].subtree_end <= cursor.next)
          cursor.open.pop_back();
        cursor.open.push_back(cursor.next++);
      }
      while (!cursor.open.empty() && nodes[cursor.open.back()].end <= time) cursor.open.pop_back();
      if (!cursor.open.empty()) index.node_of_record[record] = cursor.open.back();
      for (uint32_t node = cursor.open.empty() ? forest.threads[thread].root : cursor.open.back();
           node != kNoRow && !index.holds_record[node]; node = nodes[node].parent)
        index.holds_record[node] = true;
    }
    index.named_by[record] = record;
    if (memory.address[record] == 0) continue;
    const uint64_t where = memory.address[record];
    if (memory.bytes[record] > 0)
      last_allocation[where] = record;
    else if (const auto found = last_allocation.find(where); found != last_allocation.end())
      index.named_by[record] = found->second;
  }
  return index;
}

std::vector<std::vector<MemoryStat>> memory_stats(
    const Trace& trace, const Clock& clock, const Semantics& semantics, const CallForest& forest,
    const MemoryIndex& index, const std::vector<bool>& lost, const MemoryWindow& window) {
  const MemoryColumns& memory = trace.memory;
  const size_t devices = index.devices.size();
  std::vector<uint32_t> row_of_name(trace.strings.size(), kNoRow);
  std::vector<std::vector<MemoryStat>> rows(devices);
  std::vector<StringId> names;
  const auto row_of = [&](StringId name) {
    if (row_of_name[name] == kNoRow) {
      row_of_name[name] = static_cast<uint32_t>(names.size());
      names.push_back(name);
      for (auto& table : rows) table.push_back({name});
    }
    return row_of_name[name];
  };
  std::unordered_map<uint64_t, size_t> live;  // address → record
  const auto first =
      std::partition_point(memory.time_ns.begin(), memory.time_ns.end(),
                           [&](int64_t ns) { return clock.start(ns) < window.start; });
  for (auto record = static_cast<size_t>(first - memory.time_ns.begin()); record < memory.size();
       ++record) {
    if (clock.start(memory.time_ns[record]) > window.end) break;
    const uint16_t device = index.device_of_record[record];
    const uint32_t own = index.node_of_record[record];
    if (memory.address[record] != 0) follow_live(memory, record, live);
    if (device == kNoDevice || !is_operator(trace, forest, own) || (!lost.empty() && lost[own]))
      continue;
    const int64_t bytes = memory.bytes[record];
    for (uint32_t node = own; node != kNoRow; node = forest.nodes[node].parent) {
      if (!is_operator(trace, forest, node)) continue;
      MemoryStat& stat = rows[device][row_of(trace.events.name[forest.nodes[node].event])];
      stat.increase += bytes;
      if (node == own) stat.self_increase += bytes;
      if (bytes <= 0) continue;
      stat.allocated += bytes;
      ++stat.allocations;
      if (node != own) continue;
      stat.self_allocated += bytes;
      ++stat.self_allocations;
    }
  }
  for (const auto& [address, record] : live) {
    const uint16_t device = index.device_of_record[record];
    const uint32_t own = index.node_of_record[record];
    if (device == kNoDevice || !is_operator(trace, forest, own) || (!lost.empty() && lost[own]))
      continue;
    for (uint32_t node = own; node != kNoRow; node = forest.nodes[node].parent) {
      if (!is_operator(trace, forest, node)) continue;
      MemoryStat& stat = rows[device][row_of(trace.events.name[forest.nodes[node].event])];
      stat.kept += memory.bytes[record];
      if (node == own) stat.self_kept += memory.bytes[record];
    }
  }
  std::vector<int64_t> calls(names.size(), 0);
  for (uint32_t node = 0; node < forest.nodes.size(); ++node) {
    const Node& at = forest.nodes[node];
    if (at.kind != NodeKind::kOperator || row_of_name[trace.events.name[at.event]] == kNoRow)
      continue;
    if (!lost.empty() && lost[node]) continue;
    if (at.start > window.end || at.end < window.start || !is_table_operator(trace, at)) continue;
    // The original visits only the children of nodes that hold a record.
    if (semantics.original && at.parent != kNoRow && !index.holds_record[at.parent]) continue;
    ++calls[row_of_name[trace.events.name[at.event]]];
  }
  for (auto& table : rows) {
    for (size_t k = 0; k < table.size(); ++k) table[k].calls = calls[k];
    std::erase_if(table, [](const MemoryStat& stat) {
      return stat.increase == 0 && stat.self_increase == 0 && stat.allocations == 0 &&
             stat.self_allocations == 0 && stat.allocated == 0 && stat.self_allocated == 0;
    });
    std::sort(table.begin(), table.end(), [&](const MemoryStat& a, const MemoryStat& b) {
      return trace.strings[a.name] < trace.strings[b.name];
    });
  }
  return rows;
}

namespace {

// "aten::empty" says little: the node above it is named, too. To the plugin steps, loaders and
// optimizers are operators as well.
bool names_empty(const Trace& trace, const CallForest& forest, uint32_t parent,
                 const Semantics& semantics) {
  if (is_operator(trace, forest, parent)) return true;
  return semantics.loses() && parent != kNoRow && forest.nodes[parent].kind != NodeKind::kRoot;
}

std::string owner_name(const Trace& trace, const CallForest& forest, const MemoryIndex& index,
                       const std::vector<bool>& lost, const Semantics& semantics, uint32_t record) {
  const uint32_t node = index.node_of_record[index.named_by[record]];
  if (!is_operator(trace, forest, node) || (!lost.empty() && lost[node])) return "<unknown>";
  const std::string name(trace.name_of(forest.nodes[node].event));
  const uint32_t parent = forest.nodes[node].parent;
  if (name.substr(0, 11) != "aten::empty" || !names_empty(trace, forest, parent, semantics))
    return name;
  return fmt::format("{} ({})", trace.name_of(forest.nodes[parent].event), name);
}

}  // namespace

std::vector<std::vector<Allocation>> memory_events(
    const Trace& trace, const Clock& clock, const Semantics& semantics, const CallForest& forest,
    const MemoryIndex& index, const std::vector<bool>& lost, const MemoryWindow& window) {
  struct Open {
    std::vector<uint32_t> records;  // unmatched allocations at one address
    uint64_t order = 0;             // of the address's entry
  };
  const MemoryColumns& memory = trace.memory;
  std::vector<std::vector<Allocation>> lists(index.devices.size());
  std::unordered_map<uint64_t, Open> open;
  std::vector<uint32_t> lone_releases;
  uint64_t next_order = 0;
  const auto add = [&](uint32_t record, int64_t bytes, std::optional<Ticks> allocated,
                       std::optional<Ticks> released) {
    lists[index.device_of_record[record]].push_back(
        {owner_name(trace, forest, index, lost, semantics, record), bytes, allocated, released});
  };
  for (uint32_t record = 0; record < memory.size(); ++record) {
    if (index.device_of_record[record] == kNoDevice || memory.address[record] == 0) continue;
    const Ticks time = clock.start(memory.time_ns[record]);
    if (time < window.start || time > window.end) continue;
    if (memory.bytes[record] > 0) {
      Open& entry = open[memory.address[record]];
      if (entry.records.empty()) entry.order = next_order++;
      entry.records.push_back(record);
      continue;
    }
    const auto found = open.find(memory.address[record]);
    if (found == open.end() || found->second.records.empty()) {
      lone_releases.push_back(record);
      continue;
    }
    const uint32_t from = found->second.records.back();
    found->second.records.pop_back();
    add(from, memory.bytes[from], clock.start(memory.time_ns[from]), time);
  }
  std::vector<std::pair<uint64_t, uint32_t>> rest;
  for (const auto& [address, entry] : open)
    for (const uint32_t record : entry.records) rest.emplace_back(entry.order, record);
  std::sort(rest.begin(), rest.end());
  for (const auto& [order, record] : rest)
    add(record, memory.bytes[record], clock.start(memory.time_ns[record]), std::nullopt);
  for (const uint32_t record : lone_releases)
    add(record, -memory.bytes[record], std::nullopt, clock.start(memory.time_ns[record]));
  return lists;
}

std::vector<CurvePoint> thinned(std::vector<CurvePoint> points, size_t most) {
  if (points.size() <= most || most < 3) return points;
  const size_t inner = points.size() - 2, bins = most - 2;
  // As numpy.array_split: the first `inner % bins` bins hold one point more.
  const auto bin_start = [&](size_t bin) {
    return 1 + bin * (inner / bins) + std::min(bin, inner % bins);
  };
  std::vector<CurvePoint> kept{points.front()};
  for (size_t bin = 0; bin < bins; ++bin) {
    double mean_time = points.back().time, mean_value = points.back().allocated;
    if (bin + 1 < bins) {
      mean_time = mean_value = 0;
      const size_t from = bin_start(bin + 1), to = bin_start(bin + 2);
      for (size_t k = from; k < to; ++k)
        mean_time += points[k].time, mean_value += points[k].allocated;
      mean_time /= static_cast<double>(to - from);
      mean_value /= static_cast<double>(to - from);
    }
    const CurvePoint& a = kept.back();
    size_t best = bin_start(bin);
    double best_area = -1;
    for (size_t k = best; k < bin_start(bin + 1); ++k) {
      const double area = std::abs((a.time - mean_time) * (points[k].allocated - a.allocated) -
                                   (a.time - points[k].time) * (mean_value - a.allocated));
      if (area > best_area) best_area = area, best = k;
    }
    kept.push_back(points[best]);
  }
  kept.push_back(points.back());
  return kept;
}

std::vector<MemoryCurve> memory_curves(const Trace& trace, const Clock& clock,
                                       const MemoryIndex& index) {
  const MemoryColumns& memory = trace.memory;
  std::vector<MemoryCurve> curves(index.devices.size());
  for (size_t k = 0; k < curves.size(); ++k) curves[k].device = static_cast<uint16_t>(k);
  for (size_t record = 0; record < memory.size(); ++record) {
    const uint16_t device = index.device_of_record[record];
    if (device == kNoDevice || memory.total_allocated[record] == kNoId ||
        memory.total_reserved[record] == kNoId)
      continue;
    MemoryCurve& curve = curves[device];
    const CurvePoint point{clock.start(memory.time_ns[record]),
                           static_cast<double>(memory.total_allocated[record]),
                           static_cast<double>(memory.total_reserved[record])};
    if (!curve.points.empty()) {
      const CurvePoint before = curve.points.back();
      curve.points.push_back({point.time, before.allocated, before.reserved});
    }
    curve.points.push_back(point);
    curve.peak = std::max(curve.peak, memory.total_allocated[record]);
  }
  std::erase_if(curves, [](const MemoryCurve& curve) { return curve.points.empty(); });
  for (MemoryCurve& curve : curves)
    curve.points = thinned(std::move(curve.points), kMaxCurvePoints);
  return curves;
}

}  // namespace camshaft::trace
