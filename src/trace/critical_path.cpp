// SPDX-License-Identifier: Apache-2.0
#include "trace/critical_path.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace camshaft::trace {
namespace {

using Kind = CriticalPart::Kind;
constexpr size_t kMaxParts = 200;
constexpr int64_t kMaxDevices = 64;  // those beyond share a list

struct Run {
  Ticks start, end;
  uint32_t event;
};

// A device's work in order of its end; what lies behind `left` has been passed.
struct Device {
  std::vector<Run> runs;
  size_t left = 0;

  size_t ended_by(Ticks time) const {
    const auto last = runs.begin() + static_cast<int64_t>(left);
    return std::upper_bound(runs.begin(), last, time,
                            [](Ticks at, const Run& run) { return at < run.end; }) -
           runs.begin();
  }
};

// A host thread: when it was at work, and its calls that wait for the device. Python frames and
// annotations are no work: they are open while the thread waits for another one, too.
struct Thread {
  Ranges work;
  std::vector<Run> waits;  // in order of their end
  uint32_t tree = kNoRow;  // index of its tree in the forest
};

// When any of several threads was at work.
class Work {
 public:
  void add(const Ranges& ranges, uint32_t thread) {
    for (const Range& range : ranges) spans_.push_back({range, thread, 0});
  }
  void sort() {
    std::sort(spans_.begin(), spans_.end(), [](const Span& a, const Span& b) {
      return a.at.end != b.at.end ? a.at.end < b.at.end : a.at.start > b.at.start;
    });
    for (size_t k = spans_.size(); k-- > 0;)
      spans_[k].earliest =
          k + 1 == spans_.size() || spans_[k].at.start < spans_[spans_[k + 1].earliest].at.start
              ? k
              : spans_[k + 1].earliest;
  }
  // Whoever was at work until `time`, or until the latest moment before it.
  bool before(Ticks time, Range& at, uint32_t& thread) const {
    const auto open = std::lower_bound(spans_.begin(), spans_.end(), time,
                                       [](const Span& a, Ticks t) { return a.at.end < t; });
    const Span* found = nullptr;
    if (open != spans_.end() && spans_[open->earliest].at.start < time)
      found = &spans_[open->earliest];
    else if (open != spans_.begin())
      found = &*std::prev(open);
    if (found == nullptr) return false;
    at = found->at;
    thread = found->thread;
    return true;
  }

 private:
  struct Span {
    Range at;
    uint32_t thread;
    size_t earliest;  // of this one and those that end later, the one that began first
  };
  std::vector<Span> spans_;
};

// How much of a stretch of time some ranges cover.
class Covered {
 public:
  explicit Covered(const Ranges& ranges) : ranges_(ranges) {
    for (const Range& range : ranges_) {
      before_.push_back(total_);
      total_ += range.end - range.start;
    }
  }
  Ticks total() const { return total_; }
  Ticks within(Ticks from, Ticks to) const { return until(to) - until(from); }

 private:
  Ticks until(Ticks time) const {
    const auto next = std::partition_point(ranges_.begin(), ranges_.end(),
                                           [&](const Range& range) { return range.start < time; });
    if (next == ranges_.begin()) return 0;
    const size_t last = next - ranges_.begin() - 1;
    return before_[last] + std::min(time, ranges_[last].end) - ranges_[last].start;
  }

  const Ranges& ranges_;
  std::vector<Ticks> before_;
  Ticks total_ = 0;
};

class Walk {
 public:
  explicit Walk(const Profile& profile) : p_(profile), trace_(profile.trace) {}

  CriticalPath run() {
    const Range span = p_.steps.span();
    path_.span_us = p_.clock.to_us(std::max(0.0, span.end - span.start));
    if (span.end <= span.start) return std::move(path_);
    first_ = span.start;
    collect_devices();
    collect_threads();
    walk_back(span.end);
    share_host_time();
    finish();
    return std::move(path_);
  }

 private:
  Run run_of(uint32_t event) const {
    const Ticks start = p_.clock.start(trace_.events.start_ns[event]);
    return {start, start + event_length(trace_, p_.clock, event), event};
  }
  static bool ends_first(const Run& a, const Run& b) { return a.end < b.end; }

  size_t device_of(uint32_t event) const {
    const int64_t id = trace_.device[trace_.events.detail[event]].device;
    return static_cast<size_t>(std::clamp<int64_t>(id, -1, kMaxDevices - 1) + 1);
  }

  void collect_devices() {
    devices_.resize(kMaxDevices + 1);
    for (const uint32_t event : p_.launches.devices)
      devices_[device_of(event)].runs.push_back(run_of(event));
    std::erase_if(devices_, [](const Device& device) { return device.runs.empty(); });
    for (Device& device : devices_) {
      std::stable_sort(device.runs.begin(), device.runs.end(), ends_first);
      device.left = device.runs.size();
    }
    for (const uint32_t event : p_.launches.devices) {
      const uint32_t call = p_.launches.runtime_of_device[event];
      if (call != kNoRow && trace_.events.kind[event] == EventKind::kMemcpy)
        copy_end_[call] = run_of(event).end;
    }
  }

  // Copies to and from memory that is not pinned return when they are done.
  bool waits_for_device(const Run& call) const {
    const std::string_view name = trace_.name_of(call.event);
    if (name.find("Synchronize") != name.npos || name == "cudaMemcpy" || name == "hipMemcpy")
      return true;
    const auto copy = copy_end_.find(call.event);
    return copy != copy_end_.end() && copy->second <= call.end;
  }

  // Where the file names threads of calls otherwise than those of operators, a call is its
  // operator's.
  uint32_t thread_of(uint32_t call) {
    const uint32_t node = p_.launches.node_of_runtime[call];
    const uint32_t event = node == kNoRow ? kNoRow : p_.forest.nodes[node].event;
    const Track& track = trace_.tracks[trace_.events.track[event == kNoRow ? call : event]];
    return thread_at(track);
  }
  uint32_t thread_at(const Track& track) {
    const auto [at, is_new] =
        thread_of_id_.try_emplace({track.pid, track.tid}, static_cast<uint32_t>(threads_.size()));
    if (is_new) threads_.emplace_back();
    return at->second;
  }

  void collect_threads() {
    for (uint32_t tree = 0; tree < p_.forest.threads.size(); ++tree) {
      const ThreadTree& from = p_.forest.threads[tree];
      const uint32_t thread = thread_at(trace_.tracks[from.track]);
      threads_[thread].tree = tree;
      if (main_ == kNoRow || (from.has_step && !main_has_step_)) main_ = thread;
      main_has_step_ = main_has_step_ || from.has_step;
      collect_operators(from.root, threads_[thread].work);
    }
    std::vector<bool> launches_work(threads_.size(), false);
    for (const uint32_t call : p_.launches.runtimes) {
      const uint32_t thread = thread_of(call);
      const Run run = run_of(call);
      threads_[thread].work.push_back({run.start, run.end});
      if (waits_for_device(run)) threads_[thread].waits.push_back(run);
      launches_work.resize(threads_.size(), false);
      launches_work[thread] = true;
    }
    if (main_ == kNoRow) main_ = thread_at({});
    launches_work.resize(threads_.size(), false);
    for (uint32_t thread = 0; thread < threads_.size(); ++thread) {
      threads_[thread].work = merged(std::move(threads_[thread].work));
      std::stable_sort(threads_[thread].waits.begin(), threads_[thread].waits.end(), ends_first);
      if (launches_work[thread] || thread == main_) work_.add(threads_[thread].work, thread);
    }
    work_.sort();
  }

  void collect_operators(uint32_t root, Ranges& work) const {
    const CallForest& forest = p_.forest;
    for (uint32_t node = root + 1; node < forest.nodes[root].subtree_end;) {
      const Node& at = forest.nodes[node];
      const bool only_surrounds =
          at.kind == NodeKind::kStep || at.kind == NodeKind::kModule ||
          (at.kind == NodeKind::kOperator && !is_table_operator(trace_, at));
      if (!only_surrounds) work.push_back({at.start, at.end});
      node = only_surrounds ? node + 1 : at.subtree_end;
    }
  }

  void charge(Kind kind, std::string_view name, Ticks from, Ticks to) {
    const double us = p_.clock.to_us(to - std::max(from, first_));
    if (us < 0) return;
    CriticalPart& part = sums_[{kind, name}];
    part.total_us += us;
    ++part.count;
  }

  void walk_back(Ticks time) {
    thread_ = main_;
    time_ = time;
    on_ = last_ended(time);
    if (on_ != nullptr && on_->runs[on_->ended_by(time) - 1].end < time) on_ = nullptr;
    while (time_ > first_) {
      if (on_ != nullptr)
        walk_device();
      else
        walk_host();
    }
  }

  // The device whose work was the last to end by `time`.
  Device* last_ended(Ticks time) {
    Device* found = nullptr;
    Ticks latest = 0;
    for (Device& device : devices_) {
      const size_t ended = device.ended_by(time);
      if (ended == 0 || (found != nullptr && device.runs[ended - 1].end <= latest)) continue;
      found = &device;
      latest = device.runs[ended - 1].end;
    }
    return found;
  }

  // Along the work of `on_` that ended last, to what it waited for: the work before it, or its
  // launch.
  void walk_device() {
    Device& device = *on_;
    device.left = device.ended_by(time_);
    const Run run = device.runs[--device.left];
    charge(Kind::kKernel, trace_.name_of(run.event), run.start, std::min(run.end, time_));
    time_ = std::min(time_, run.start);
    const uint32_t call = p_.launches.runtime_of_device[run.event];
    const size_t before = device.ended_by(time_);
    const Ticks launched = call == kNoRow ? first_ : p_.clock.start(trace_.events.start_ns[call]);
    if (before > 0 && device.runs[before - 1].end > launched) {
      charge(Kind::kQueue, "between two kernels", device.runs[before - 1].end, time_);
      time_ = device.runs[before - 1].end;
      return;
    }
    on_ = nullptr;
    if (call == kNoRow) {
      charge(Kind::kQueue, "before work that nothing launched", first_, time_);
      time_ = first_;
      return;
    }
    const Ticks from = std::min(launched, time_);
    charge(Kind::kLaunch, trace_.name_of(call), from, time_);
    time_ = from;
    thread_ = thread_of(call);
  }

  // Back along a thread's work to a wait that the device ended; where it did nothing, to the thread
  // that was the last at work.
  void walk_host() {
    Thread& thread = threads_[thread_];
    while (!thread.waits.empty() && thread.waits.back().end > time_) thread.waits.pop_back();
    const auto next = std::lower_bound(thread.work.begin(), thread.work.end(), time_,
                                       [](const Range& range, Ticks t) { return range.start < t; });
    const bool at_work = next != thread.work.begin() && std::prev(next)->end >= time_;
    if (!at_work) {
      Range at;
      uint32_t other = thread_;
      const bool any = work_.before(time_, at, other);
      const Ticks until = any ? std::min(at.end, time_) : first_;
      add_host(thread_, until, time_);
      time_ = until;
      thread_ = other;
      return;
    }
    const Ticks from = std::prev(next)->start;
    while (!thread.waits.empty() && thread.waits.back().end > from) {
      const Run wait = thread.waits.back();
      thread.waits.pop_back();
      Device* const device = last_ended(wait.end);
      if (device == nullptr) continue;
      const Ticks ended = device->runs[device->ended_by(wait.end) - 1].end;
      if (ended <= wait.start) continue;  // it waited for nothing
      add_host(thread_, ended, time_);
      time_ = ended;
      on_ = device;
      return;
    }
    add_host(thread_, from, time_);
    time_ = from;
  }

  void add_host(uint32_t thread, Ticks from, Ticks to) {
    from = std::max(from, first_);
    if (to > from) host_[thread].push_back({from, to});
  }

  // Host time goes to the innermost operator of its thread; the rest is code outside operators.
  void share_host_time() {
    for (auto& [thread, list] : host_) {
      const Ranges ranges = merged(std::move(list));
      const Covered covered(ranges);
      Ticks outside = covered.total();
      if (const uint32_t tree = threads_[thread].tree; tree != kNoRow) {
        const uint32_t root = p_.forest.threads[tree].root;
        std::vector<Ticks> self(p_.forest.nodes[root].subtree_end - root, 0);
        // What a loader runs is the loader's.
        for (uint32_t node = root + 1; node < p_.forest.nodes[root].subtree_end;) {
          const Node& at = p_.forest.nodes[node];
          const Ticks within = covered.within(at.start, std::max(at.start, at.end));
          self[node - root] += within;
          self[at.parent - root] -= within;
          node = at.kind == NodeKind::kDataLoader ? at.subtree_end : node + 1;
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
  std::vector<Device> devices_;
  std::unordered_map<uint32_t, Ticks> copy_end_;  // of a call, when the copy it began had ended
  std::vector<Thread> threads_;
  std::map<std::pair<StringId, StringId>, uint32_t> thread_of_id_;
  Work work_;  // of the threads that launch something
  uint32_t main_ = kNoRow;
  bool main_has_step_ = false;

  Ticks first_ = 0, time_ = 0;       // the walk is at `time_`
  Device* on_ = nullptr;             // on this device, else
  uint32_t thread_ = 0;              // on this thread
  std::map<uint32_t, Ranges> host_;  // by thread: what the walk passed of it
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
