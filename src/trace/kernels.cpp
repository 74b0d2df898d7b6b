// SPDX-License-Identifier: Apache-2.0
#include "trace/kernels.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <unordered_map>

#include <fmt/format.h>

namespace camshaft::trace {
namespace {

struct PropertyKey {
  StringId name, op, grid, block;
  int64_t registers, shared_memory;
  StringId kernel_type, dim, task_topology, task_topology_node;
  bool op_is_root, has_launch;
  uint32_t site;  // of calls outside operators
  bool operator==(const PropertyKey&) const = default;
};
struct PropertyKeyHash {
  size_t operator()(const PropertyKey& key) const {
    uint64_t hash = 0;
    for (const uint64_t part :
         {uint64_t{key.name}, uint64_t{key.op}, uint64_t{key.grid}, uint64_t{key.block},
          static_cast<uint64_t>(key.registers), static_cast<uint64_t>(key.shared_memory),
          uint64_t{key.kernel_type}, uint64_t{key.dim}, uint64_t{key.task_topology},
          uint64_t{key.task_topology_node}, uint64_t{key.op_is_root} * 2 + key.has_launch,
          uint64_t{key.site}})
      hash = (hash ^ part) * 0x9e3779b97f4a7c15ull, hash ^= hash >> 29;
    return hash;
  }
};

// Sum in the order numpy takes: eight running sums per block of 128, blocks in halves. Means that
// lie on a rounding border ("0.025") come out as the original's only that way.
double pairwise_sum(const double* values, size_t count) {
  if (count < 8) return std::accumulate(values, values + count, 0.0);
  if (count > 128) {
    const size_t half = count / 2 - count / 2 % 8;
    return pairwise_sum(values, half) + pairwise_sum(values + half, count - half);
  }
  double sums[8];
  std::copy(values, values + 8, sums);
  size_t k = 8;
  for (; k + 8 <= count; k += 8)
    for (size_t lane = 0; lane < 8; ++lane) sums[lane] += values[k + lane];
  double sum =
      ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  for (; k < count; ++k) sum += values[k];
  return sum;
}

// The lengths (in microseconds) and metrics of every kernel, group after group.
class WeightedMeans {
 public:
  explicit WeightedMeans(const Clock& clock) : clock_(clock) {}

  void add(size_t group, Ticks length, const DeviceDetail& detail) {
    entries_.push_back({static_cast<uint32_t>(group), clock_.to_us(length),
                        std::max(0.0, detail.blocks_per_sm), std::max(0.0, detail.occupancy)});
  }
  // `in_order`: plain sums, as where the original adds up one by one.
  void finish(std::vector<KernelGroup>& groups, bool in_order) {
    std::stable_sort(entries_.begin(), entries_.end(),
                     [](const Entry& a, const Entry& b) { return a.group < b.group; });
    std::vector<double> weights, blocks, occupancies;
    for (size_t from = 0; from < entries_.size();) {
      weights.clear(), blocks.clear(), occupancies.clear();
      size_t to = from;
      for (; to < entries_.size() && entries_[to].group == entries_[from].group; ++to) {
        weights.push_back(entries_[to].length);
        blocks.push_back(entries_[to].blocks * entries_[to].length);
        occupancies.push_back(entries_[to].occupancy * entries_[to].length);
      }
      const auto sum = [&](const std::vector<double>& values) {
        return in_order ? std::accumulate(values.begin(), values.end(), 0.0)
                        : pairwise_sum(values.data(), values.size());
      };
      const double weight = sum(weights);
      if (weight > 0) {
        groups[entries_[from].group].mean_blocks = sum(blocks) / weight;
        groups[entries_[from].group].mean_occupancy = sum(occupancies) / weight;
      }
      from = to;
    }
  }

 private:
  struct Entry {
    uint32_t group;
    double length, blocks, occupancy;
  };
  const Clock& clock_;
  std::vector<Entry> entries_;
};

void add_kernel(KernelGroup& group, Ticks length) {
  group.longest = group.calls == 0 ? length : std::max(group.longest, length);
  group.shortest = group.calls == 0 ? length : std::min(group.shortest, length);
  ++group.calls;
  group.total += length;
}

void sort_by_total(std::vector<KernelGroup>& groups) {
  std::stable_sort(groups.begin(), groups.end(),
                   [](const KernelGroup& a, const KernelGroup& b) { return a.total > b.total; });
}

std::vector<KernelGroup> by_name(const Trace& trace, const Clock& clock, const Semantics& semantics,
                                 const Launches& launches) {
  std::vector<KernelGroup> groups;
  std::vector<uint32_t> group_of(trace.strings.size(), kNoRow);
  WeightedMeans means(clock);
  std::vector<Ticks> lost;  // by group, of its sum: pandas adds up with compensation
  for (const uint32_t device : launches.devices) {
    if (trace.events.kind[device] != EventKind::kKernel) continue;
    uint32_t& index = group_of[trace.events.name[device]];
    if (index == kNoRow) {
      index = static_cast<uint32_t>(groups.size());
      KernelGroup group;
      group.name = trace.events.name[device];
      group.uses_tensor_cores = uses_tensor_cores(trace.name_of(device), semantics);
      groups.push_back(group);
      lost.push_back(0);
    }
    const Ticks length = clock.duration(trace.events.duration_ns[device]);
    const Ticks before = groups[index].total, part = length - lost[index];
    add_kernel(groups[index], length);
    groups[index].total = before + part;
    lost[index] = groups[index].total - before - part;
    means.add(index, length, trace.device[trace.events.detail[device]]);
  }
  means.finish(groups, false);
  std::sort(groups.begin(), groups.end(), [&](const KernelGroup& a, const KernelGroup& b) {
    return trace.strings[a.name] < trace.strings[b.name];
  });
  sort_by_total(groups);
  return groups;
}

class PropertyGrouping {
 public:
  PropertyGrouping(const Trace& trace, const Clock& clock, const Semantics& semantics,
                   const CallForest& forest, const Launches& launches)
      : trace_(trace), clock_(clock), semantics_(semantics), forest_(forest), launches_(launches) {}

  void add(uint32_t device, uint32_t node, bool has_launch = true) {
    const DeviceDetail& detail = trace_.device[trace_.events.detail[device]];
    const bool is_root = node == kNoRow || forest_.nodes[node].kind == NodeKind::kRoot;
    const StringId op = is_root ? 0 : trace_.events.name[forest_.nodes[node].event];
    PropertyKey key{trace_.events.name[device], op, 0, 0, 0, 0, 0, 0, 0, 0, is_root, has_launch, 0};
    if (node == kNoRow && has_launch && !semantics_.loses()) key.site = site_id(device);
    if (semantics_.is_mlu()) {
      key.kernel_type = detail.kernel_type;
      key.dim = detail.dim;
      if (semantics_.dialect == Dialect::kMluLate) {
        key.task_topology = detail.task_topology;
        key.task_topology_node = detail.task_topology_node;
      }
    } else {
      key.grid = detail.grid;
      key.block = detail.block;
      key.registers = detail.registers;
      key.shared_memory = detail.shared_memory;
    }
    const auto [place, is_new] = index_.try_emplace(key, static_cast<uint32_t>(groups.size()));
    if (is_new) groups.push_back(new_group(key, device));
    const Ticks length = event_length(trace_, clock_, device);
    add_kernel(groups[place->second], length);
    means_.add(place->second, length, detail);
  }

  std::vector<KernelGroup> take() {
    means_.finish(groups, true);
    return std::move(groups);
  }

  std::vector<KernelGroup> groups;

 private:
  KernelGroup new_group(const PropertyKey& key, uint32_t device) const {
    KernelGroup group;
    group.name = key.name;
    group.op = key.op;
    group.op_is_root = key.op_is_root;
    group.has_launch = key.has_launch;
    group.site = sites_[key.site];
    group.grid = key.grid;
    group.block = key.block;
    group.registers = key.registers;
    group.shared_memory = key.shared_memory;
    group.kernel_type = key.kernel_type;
    group.dim = key.dim;
    group.task_topology = key.task_topology;
    group.task_topology_node = key.task_topology_node;
    group.uses_tensor_cores = uses_tensor_cores(trace_.name_of(device), semantics_);
    group.op_tc_eligible =
        !key.op_is_root && is_tensor_core_eligible(trace_.strings[key.op], semantics_);
    return group;
  }

  // Where a kernel outside operators was launched, as a number.
  uint32_t site_id(uint32_t device) {
    const uint32_t call = launches_.runtime_of_device[device];
    std::string site = launch_site(trace_, launches_, call);
    if (const auto captured = launches_.captured.find(device); captured != launches_.captured.end())
      site +=
          fmt::format(", captured in {}", trace_.name_of(forest_.nodes[captured->second].event));
    const auto [place, is_new] =
        site_ids_.try_emplace(std::move(site), static_cast<uint32_t>(sites_.size()));
    if (is_new) sites_.push_back(place->first);
    return place->second;
  }

  const Trace& trace_;
  const Clock& clock_;
  const Semantics& semantics_;
  const CallForest& forest_;
  const Launches& launches_;
  std::vector<std::string> sites_{""};
  std::unordered_map<std::string, uint32_t> site_ids_;
  WeightedMeans means_{clock_};
  std::unordered_map<PropertyKey, uint32_t, PropertyKeyHash> index_;
};

std::vector<KernelGroup> by_properties(const Trace& trace, const Clock& clock,
                                       const Semantics& semantics, const CallForest& forest,
                                       const Launches& launches, const std::vector<bool>& lost) {
  // Kernels per node, so that groups appear in the order of the forest.
  std::vector<std::pair<uint32_t, uint32_t>> owned;  // (post-order rank, device event)
  std::vector<uint32_t> rank(forest.nodes.size());
  uint32_t next = 0;
  forest.for_each_post_order([&](uint32_t node) { rank[node] = next++; });
  PropertyGrouping grouping(trace, clock, semantics, forest, launches);
  std::vector<uint32_t> orphans;
  for (const uint32_t device : launches.devices) {
    if (trace.events.kind[device] != EventKind::kKernel) continue;
    const uint32_t node = launches.node_of_device(device);
    if (node != kNoRow && !lost.empty() && lost[node]) continue;
    if (node != kNoRow)
      owned.emplace_back(rank[node], device);
    else if (launches.runtime_of_device[device] == kNoRow || !semantics.loses())
      orphans.push_back(device);
  }
  std::vector<uint32_t> node_of_rank(forest.nodes.size());
  for (uint32_t node = 0; node < rank.size(); ++node) node_of_rank[rank[node]] = node;
  std::stable_sort(owned.begin(), owned.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [at, device] : owned) grouping.add(device, node_of_rank[at]);
  // The original hangs kernels without any launch on every thread with a step; they count once
  // here.
  int64_t copies = semantics.loses() ? 0 : 1;
  if (semantics.loses())
    for (const ThreadTree& thread : forest.threads) copies += thread.has_step ? 1 : 0;
  for (; copies > 0; --copies)
    for (const uint32_t device : orphans)
      grouping.add(device, kNoRow, launches.runtime_of_device[device] != kNoRow);
  std::vector<KernelGroup> groups = grouping.take();
  sort_by_total(groups);
  return groups;
}

}  // namespace

std::string operator_label(const Trace& trace, const KernelGroup& group) {
  if (!group.op_is_root) return std::string(trace.strings[group.op]);
  if (!group.has_launch) return "<launch not recorded>";
  return group.site.empty() ? std::string(kUnattributed) : fmt::format("<{}>", group.site);
}

KernelTables group_kernels(const Trace& trace, const Clock& clock, const Semantics& semantics,
                           const CallForest& forest, const Launches& launches,
                           const std::vector<bool>& lost) {
  KernelTables tables;
  tables.by_name = by_name(trace, clock, semantics, launches);
  tables.by_properties = by_properties(trace, clock, semantics, forest, launches, lost);
  for (const uint32_t device : launches.devices) {
    if (trace.events.kind[device] != EventKind::kKernel) continue;
    const DeviceDetail& detail = trace.device[trace.events.detail[device]];
    tables.has_blocks = tables.has_blocks || detail.blocks_per_sm >= 0;
    tables.has_occupancy = tables.has_occupancy || detail.occupancy >= 0;
    if (launches.node_of_device(device) != kNoRow) continue;
    ++tables.unattributed_calls;
    tables.unattributed_total += event_length(trace, clock, device);
    if (launches.runtime_of_device[device] != kNoRow) continue;
    ++tables.unrecorded_calls;
    tables.unrecorded_total += event_length(trace, clock, device);
  }
  std::vector<Ticks> totals, on_tensor_cores;
  for (const KernelGroup& group : tables.by_name) {
    totals.push_back(group.total);
    if (group.uses_tensor_cores) on_tensor_cores.push_back(group.total);
  }
  tables.total = pairwise_sum(totals.data(), totals.size());
  tables.tc_total = pairwise_sum(on_tensor_cores.data(), on_tensor_cores.size());
  return tables;
}

}  // namespace camshaft::trace
