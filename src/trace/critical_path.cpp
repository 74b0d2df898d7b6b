// SPDX-License-Identifier: Apache-2.0
#include "trace/critical_path.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace camshaft::trace {
namespace {

using Kind = CriticalPart::Kind;
constexpr size_t kMaxParts = 200;

bool waits_for_device(std::string_view call) {
  return call.find("Synchronize") != call.npos || call == "cudaMemcpy" || call == "hipMemcpy";
}

class Walk {
 public:
  explicit Walk(const Profile& profile) : p_(profile), trace_(profile.trace) {}

  CriticalPath run() {
    const Range span = p_.steps.span();
    path_.span_us = p_.clock.to_us(std::max(0.0, span.end - span.start));
    if (span.end <= span.start) return std::move(path_);
    first_ = span.start;
    collect();
    walk_back(span.end);
    share_host_time();
    finish();
    return std::move(path_);
  }

 private:
  struct Run {
    Ticks start, end;
    uint32_t event;
  };

  Run run_of(uint32_t event) const {
    const Ticks start = p_.clock.start(trace_.events.start_ns[event]);
    return {start, start + event_length(trace_, p_.clock, event), event};
  }

  void collect() {
    for (const uint32_t device : p_.launches.devices) by_end_.push_back(run_of(device));
    std::stable_sort(by_end_.begin(), by_end_.end(),
                     [](const Run& a, const Run& b) { return a.end < b.end; });
    for (const uint32_t call : p_.launches.runtimes)
      if (waits_for_device(trace_.name_of(call)))
        waits_[trace_.events.track[call]].push_back(run_of(call));
    for (auto& [track, list] : waits_)
      std::stable_sort(list.begin(), list.end(),
                       [](const Run& a, const Run& b) { return a.end < b.end; });
  }

  // How many of the device's runs have ended by `time`, of the first `limit`.
  size_t ended_by(Ticks time, size_t limit) const {
    const auto last = by_end_.begin() + static_cast<int64_t>(limit);
    return std::upper_bound(by_end_.begin(), last, time,
                            [](Ticks at, const Run& run) { return at < run.end; }) -
           by_end_.begin();
  }

  void charge(Kind kind, std::string_view name, Ticks from, Ticks to) {
    const double us = p_.clock.to_us(to - std::max(from, first_));
    if (us < 0) return;
    CriticalPart& part = sums_[{kind, name}];
    part.total_us += us;
    ++part.count;
  }

  uint32_t main_track() const {
    for (const ThreadTree& thread : p_.forest.threads)
      if (thread.has_step) return thread.track;
    return p_.forest.threads.empty() ? 0 : p_.forest.threads.front().track;
  }

  void walk_back(Ticks time) {
    size_t done = ended_by(time, by_end_.size());
    uint32_t track = main_track();
    bool on_device = done > 0 && by_end_[done - 1].end >= time;
    while (time > first_)
      on_device = on_device ? device(time, done, track) : host(time, done, track);
  }

  // Along by_end_[done - 1]; true when the walk stays on the device.
  bool device(Ticks& time, size_t& done, uint32_t& track) {
    const Run& run = by_end_[--done];
    charge(Kind::kKernel, trace_.name_of(run.event), run.start, std::min(run.end, time));
    time = std::min(time, run.start);
    const uint32_t call = p_.launches.runtime_of_device[run.event];
    const size_t before = ended_by(time, done);
    const Ticks launched = call == kNoRow ? first_ : p_.clock.start(trace_.events.start_ns[call]);
    if (before > 0 && by_end_[before - 1].end > launched) {
      charge(Kind::kQueue, "between two kernels", by_end_[before - 1].end, time);
      time = by_end_[before - 1].end;
      done = before;
      return true;
    }
    if (call == kNoRow) {
      charge(Kind::kQueue, "before work that nothing launched", first_, time);
      time = first_;
      return false;
    }
    const Ticks from = std::min(launched, time);
    charge(Kind::kLaunch, trace_.name_of(call), from, time);
    time = from;
    track = trace_.events.track[call];
    return false;
  }

  // Back along a thread to the last wait that the device ended.
  bool host(Ticks& time, size_t& done, uint32_t track) {
    std::vector<Run>& waits = waits_[track];
    while (!waits.empty() && time > first_) {
      const Run wait = waits.back();
      if (wait.end > time) {
        waits.pop_back();
        continue;
      }
      waits.pop_back();
      const size_t ended = ended_by(wait.end, done);
      if (ended == 0 || by_end_[ended - 1].end <= wait.start) continue;  // it waited for nothing
      add_host(track, by_end_[ended - 1].end, time);
      time = by_end_[ended - 1].end;
      done = ended;
      return true;
    }
    add_host(track, first_, time);
    time = first_;
    return false;
  }

  void add_host(uint32_t track, Ticks from, Ticks to) {
    from = std::max(from, first_);
    if (to > from) host_[track].push_back({from, to});
  }

  // Host time goes to the innermost operator of its thread; the rest is code outside operators.
  void share_host_time() {
    for (auto& [track, list] : host_) {
      const Ranges ranges = merged(std::move(list));
      Ticks outside = 0;
      for (const Range& range : ranges) outside += range.end - range.start;
      const uint32_t thread =
          track < p_.forest.thread_of_track.size() ? p_.forest.thread_of_track[track] : kNoRow;
      if (thread != kNoRow) {
        const uint32_t root = p_.forest.threads[thread].root;
        std::vector<Ticks> self(p_.forest.nodes[root].subtree_end - root, 0);
        for (uint32_t node = root + 1; node < p_.forest.nodes[root].subtree_end; ++node) {
          const Node& at = p_.forest.nodes[node];
          const Ticks within = total_within(ranges, {at.start, at.end});
          self[node - root] += within;
          self[at.parent - root] -= within;
        }
        for (uint32_t node = root + 1; node < p_.forest.nodes[root].subtree_end; ++node) {
          const Node& at = p_.forest.nodes[node];
          if (self[node - root] <= 0 || at.kind == NodeKind::kStep) continue;
          outside -= self[node - root];
          charge(Kind::kHost, trace_.name_of(at.event), first_, first_ + self[node - root]);
        }
      }
      if (outside > 0) charge(Kind::kHost, "host code outside operators", first_, first_ + outside);
    }
  }

  void finish() {
    for (auto& [key, part] : sums_) {
      part.kind = key.first;
      part.name = key.second;
      (part.kind == Kind::kKernel   ? path_.kernel_us
       : part.kind == Kind::kLaunch ? path_.launch_us
       : part.kind == Kind::kQueue  ? path_.queue_us
                                    : path_.host_us) += part.total_us;
      path_.parts.push_back(std::move(part));
    }
    std::stable_sort(
        path_.parts.begin(), path_.parts.end(),
        [](const CriticalPart& a, const CriticalPart& b) { return a.total_us > b.total_us; });
    if (path_.parts.size() > kMaxParts) path_.parts.resize(kMaxParts);
  }

  const Profile& p_;
  const Trace& trace_;
  CriticalPath path_;
  Ticks first_ = 0;
  std::vector<Run> by_end_;
  std::unordered_map<uint32_t, std::vector<Run>> waits_;  // by track, in order of their end
  std::map<uint32_t, std::vector<Range>> host_;           // by track
  std::map<std::pair<Kind, std::string_view>, CriticalPart> sums_;
};

}  // namespace

const char* critical_kind_name(Kind kind) {
  constexpr const char* kNames[] = {"kernel", "launch", "queue", "host"};
  return kNames[static_cast<int>(kind)];
}

CriticalPath find_critical_path(const Profile& profile) {
  return Walk(profile).run();
}

}  // namespace camshaft::trace
