// SPDX-License-Identifier: Apache-2.0
// Workers are matched by position: the n-th collective of one meets the n-th of every other.
#include "trace/distributed.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "trace/collective_match.h"

namespace camshaft::trace {
namespace {

constexpr int kRangeKinds = 2;  // as recorded, and without the waiting

struct StepKey {
  std::string name;
  bool in_step = true;
  bool operator==(const StepKey&) const = default;
};

// Keys in order of first appearance with a value per worker.
template <class T>
class ByStep {
 public:
  std::vector<T>& operator[](const StepKey& key) {
    for (auto& [known, values] : entries_)
      if (known == key) return values;
    return entries_.emplace_back(key, std::vector<T>()).second;
  }
  const std::vector<std::pair<StepKey, std::vector<T>>>& entries() const { return entries_; }

 private:
  std::vector<std::pair<StepKey, std::vector<T>>> entries_;
};

struct WorkerValues {
  size_t worker = 0;
  std::vector<Ticks> values;
  uint32_t nothing = 0;  // bit k: value k is of no range at all, a whole zero in every file
};

std::string key_text(const StepKey& key) {
  return key.in_step ? key.name : "null";
}

// {"all": {worker: mean…}, step: {worker: values…}…}; means cut to whole microseconds.
void write_by_step(JsonWriter& json, const std::vector<const Profile*>& workers,
                   const ByStep<WorkerValues>& steps) {
  std::vector<std::vector<double>> sums(workers.size());
  std::vector<size_t> counts(workers.size(), 0);
  for (const auto& [key, list] : steps.entries())
    for (const WorkerValues& entry : list) {
      sums[entry.worker].resize(entry.values.size(), 0);
      for (size_t k = 0; k < entry.values.size(); ++k)
        sums[entry.worker][k] += workers[entry.worker]->clock.to_us(entry.values[k]);
      ++counts[entry.worker];
    }
  json.key("data").begin_object().key("all").begin_object();
  for (size_t worker = 0; worker < workers.size(); ++worker) {
    json.key(workers[worker]->worker).begin_array();
    for (const double sum : sums[worker]) {
      const double mean = sum / static_cast<double>(counts[worker]);
      const bool is_cut = workers[worker]->semantics.dialect != Dialect::kMlu;
      if (is_cut && std::abs(mean) < 9e18)
        json.integer(static_cast<int64_t>(mean));
      else
        json.real(mean);
    }
    json.end_array();
  }
  json.end_object();
  for (const auto& [key, list] : steps.entries()) {
    json.key(key_text(key)).begin_object();
    for (const WorkerValues& entry : list) {
      json.key(workers[entry.worker]->worker).begin_array();
      for (size_t k = 0; k < entry.values.size(); ++k) {
        const Clock& clock = workers[entry.worker]->clock;
        write(json, entry.nothing >> k & 1 ? Value(int64_t{0}) : clock.length(entry.values[k]));
      }
      json.end_array();
    }
    json.end_object();
  }
  json.end_object();
}

void write_title(JsonWriter& json, const char* title, const std::vector<const char*>& legends) {
  json.begin_object().key("metadata").begin_object().text("title", title);
  if (!legends.empty()) {
    json.key("legends").begin_array();
    for (const char* legend : legends) json.text(legend);
    json.end_array().text("units", "us");
  }
  json.end_object();
}

// Which ranges of several workers are one transfer, and how long the last to arrive took for it.
class Transfers {
 public:
  explicit Transfers(const std::vector<const Profile*>& workers) : workers_(workers) {
    by_position_ = workers.front()->semantics.loses();
    if (!by_position_) match_ = match_collective_ops(workers);
  }

  // Of the r-th range of a worker's n-th collective. The plugin takes the n-th of every worker for
  // the same one; where nothing says which belong together, so does the default.
  Ticks shortest(size_t worker, size_t op, size_t range) const {
    const int64_t group = by_position_ ? -1 : match_.group_of[worker][op];
    Ticks least = -1;
    if (group >= 0) {
      for (const CollectiveMember& member : match_.groups[group])
        add(member.worker, member.op, range, least);
    } else if (by_position_ || !matched_any()) {
      for (size_t other = 0; other < workers_.size(); ++other) add(other, op, range, least);
    } else {
      add(worker, op, range, least);
    }
    return least;
  }

 private:
  bool matched_any() const { return !match_.groups.empty() || !same_counts(); }
  bool same_counts() const {
    return std::all_of(workers_.begin(), workers_.end(), [&](const Profile* worker) {
      return worker->collectives.ops.size() == workers_.front()->collectives.ops.size();
    });
  }
  void add(size_t worker, size_t op, size_t range, Ticks& least) const {
    const std::vector<CollectiveOp>& ops = workers_[worker]->collectives.ops;
    if (op >= ops.size() || range >= ops[op].ranges.size()) return;
    const Ticks length = ops[op].ranges[range].end - ops[op].ranges[range].start;
    if (least < 0 || length < least) least = length;
  }

  const std::vector<const Profile*>& workers_;
  bool by_position_ = true;
  CollectiveMatch match_;
};

struct WaitSplit {
  std::vector<Range> whole,
      moving;  // of several collectives: recorded, and after the last worker arrived
  Ticks latency() const { return total(merged(whole)); }
  Ticks transfer() const { return total(merged(moving)); }
};

void add_op(const Transfers& transfers, const CollectiveOp& op, size_t worker, size_t index,
            WaitSplit& split) {
  for (size_t k = 0; k < op.ranges.size(); ++k) {
    split.whole.push_back(op.ranges[k]);
    split.moving.push_back(
        {op.ranges[k].end - transfers.shortest(worker, index, k), op.ranges[k].end});
  }
}

struct NodeAndProcess {
  std::string node, process;
};

NodeAndProcess place_of(const std::string& worker, size_t position) {
  const size_t bar = worker.rfind('_');
  if (bar != std::string::npos && bar + 1 < worker.size() &&
      worker.find_first_not_of("0123456789", bar + 1) == std::string::npos)
    return {worker.substr(0, bar), "Process " + worker.substr(bar + 1)};
  return {worker, fmt::format("Process {}", position)};
}

}  // namespace

bool has_distributed_view(const std::vector<const Profile*>& workers) {
  if (workers.empty()) return false;
  const Collectives& first = workers.front()->collectives;
  for (const Profile* worker : workers) {
    const Collectives& own = worker->collectives;
    // Kernels alone need not be as many on every worker: one may have been recorded longer.
    const bool as_many = own.ops.size() == first.ops.size() || !worker->semantics.loses();
    if (own.ops.empty() || !as_many || own.several_libraries || own.library != first.library)
      return false;
  }
  return true;
}

std::string device_info_json(const std::vector<const Profile*>& workers) {
  const bool known = std::any_of(workers.begin(), workers.end(), [](const Profile* worker) {
    return !worker->trace.device_properties.empty();
  });
  if (!known) return "null";
  std::map<std::string, std::vector<size_t>> by_node;
  for (size_t k = 0; k < workers.size(); ++k)
    by_node[place_of(workers[k]->worker, k).node].push_back(k);
  JsonWriter json;
  write_title(json, "Device Information", {});
  json.key("data").begin_object();
  for (const auto& [node, members] : by_node) {
    json.key(node).begin_object();
    for (const size_t k : members) {
      const Profile& worker = *workers[k];
      const std::string word = worker.semantics.is_mlu() ? "MLU" : "GPU";
      json.key(place_of(worker.worker, k).process).begin_object();
      for (const DeviceUse& use : worker.devices.devices) {
        if (use.device >= static_cast<int64_t>(worker.trace.device_properties.size())) continue;
        const DeviceProperties& device = worker.trace.device_properties[use.device];
        std::string memory;
        append_real(memory, round_places(static_cast<double>(device.memory_bytes) / (1 << 30), 2));
        json.key(fmt::format("{}{}", word, use.device)).begin_object().text("Name", device.name);
        if (device.memory_bytes > 0)
          json.text("Memory", memory + " GB").integer("Memory Raw", device.memory_raw);
        if (device.compute_major >= 0)
          json.text("Compute Capability",
                    fmt::format("{}.{}", device.compute_major, device.compute_minor));
        json.end_object();
      }
      json.end_object();
    }
    json.end_object();
  }
  json.end_object().end_object();
  return json.take();
}

std::string overlap_json(const std::vector<const Profile*>& workers) {
  ByStep<WorkerValues> steps;
  for (size_t worker = 0; worker < workers.size(); ++worker) {
    const Profile& profile = *workers[worker];
    const StepFigures& figures = profile.plugin_figures();
    const auto& parts = figures.breakdown.by_part;
    const Ranges& computing = profile.has_kernels ? parts[static_cast<int>(Part::kKernel)]
                                                  : parts[static_cast<int>(Part::kCpuExec)];
    const Ranges& communicating = parts[static_cast<int>(Part::kCommunication)];
    const Ranges both = intersect(parts[static_cast<int>(Part::kKernel)], communicating);
    const Ranges overlap = profile.has_kernels ? both : intersect(computing, communicating);
    for (const Step& step : figures.steps.list) {
      const Range window{step.start, step.end};
      const Ticks compute = total_within(computing, window),
                  communicate = total_within(communicating, window);
      const Ticks shared = total_within(overlap, window);
      steps[{step.name, true}].push_back(
          {worker,
           {compute - shared, shared, communicate - shared,
            (step.end - step.start) + shared - compute - communicate},
           (compute == 0 ? 1u : 0) | (shared == 0 ? 2u : 0) | (communicate == 0 ? 4u : 0)});
    }
  }
  JsonWriter json;
  write_title(json, "Computation/Communication Overview",
              {"Computation", "Overlapping", "Communication", "Other"});
  write_by_step(json, workers, steps);
  json.end_object();
  return json.take();
}

std::string wait_time_json(const std::vector<const Profile*>& workers) {
  ByStep<WorkerValues> steps;
  const Transfers transfers(workers);
  for (size_t worker = 0; worker < workers.size(); ++worker) {
    ByStep<WaitSplit> splits;
    const std::vector<CollectiveOp>& ops = workers[worker]->collectives.ops;
    for (size_t k = 0; k < ops.size(); ++k) {
      std::vector<WaitSplit>& split = splits[{ops[k].step, ops[k].in_step}];
      if (split.empty()) split.emplace_back();
      add_op(transfers, ops[k], worker, k, split.front());
    }
    for (const auto& [key, split] : splits.entries()) {
      const Ticks transfer = split.front().transfer();
      steps[key].push_back({worker, {transfer, split.front().latency() - transfer}, 0});
    }
  }
  JsonWriter json;
  write_title(json, "Synchronizing/Communication Overview",
              {"Data Transfer Time", "Synchronizing Time"});
  write_by_step(json, workers, steps);
  json.end_object();
  return json.take();
}

std::string collectives_json(const std::vector<const Profile*>& workers) {
  JsonWriter json;
  write_title(json, "Communication Operations Stats", {});
  json.key("data").begin_object();
  const Transfers transfers(workers);
  for (size_t at = 0; at < workers.size(); ++at) {
    const Profile* worker = workers[at];
    struct Sum {
      std::string name;
      int64_t calls = 0, bytes = 0;
      WaitSplit split;
    };
    std::vector<Sum> sums;
    for (size_t k = 0; k < worker->collectives.ops.size(); ++k) {
      const CollectiveOp& op = worker->collectives.ops[k];
      auto sum = std::find_if(sums.begin(), sums.end(),
                              [&](const Sum& known) { return known.name == op.name; });
      if (sum == sums.end()) sum = sums.insert(sums.end(), Sum{op.name, 0, 0, {}});
      ++sum->calls;
      sum->bytes += op.bytes;
      add_op(transfers, op, at, k, sum->split);
    }
    Table table;
    table.columns.push_back({"string", "Name", "", false});
    for (const char* name :
         {"Calls", "Total Size (bytes)", "Avg Size (bytes)", "Total Latency (us)",
          "Avg Latency (us)", "Data Transfer Time (us)", "Avg Data Transfer Time (us)"})
      table.columns.push_back({"number", name, "", false});
    const Clock& clock = worker->clock;
    const auto mean = [&](double sum, int64_t calls) {
      return Value(static_cast<int64_t>(round_whole(sum / static_cast<double>(calls))));
    };
    for (const Sum& sum : sums) {
      const Ticks latency = sum.split.latency(), transfer = sum.split.transfer();
      table.rows.push_back({sum.name, sum.calls, sum.bytes,
                            mean(static_cast<double>(sum.bytes), sum.calls), clock.length(latency),
                            mean(clock.to_us(latency), sum.calls), clock.length(transfer),
                            mean(clock.to_us(transfer), sum.calls)});
    }
    write(json.key(worker->worker), table);
  }
  json.end_object().end_object();
  return json.take();
}

}  // namespace camshaft::trace
