// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/pool_recorder.h"
#include "base/pool_rehearsal.h"
#include "base/topology.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

namespace camshaft {
namespace {

void cpu_relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

using Clock = std::chrono::steady_clock;

int64_t now_ns() {
  return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
}

// A job is divided into at most this many chunks per worker: what a share can be cut into when its
// owner does not come.
constexpr int64_t kChunksPerShare = 8;

int64_t chunks_of(int64_t count, int threads) {
  return std::min(count, threads * kChunksPerShare);
}

int64_t first_chunk(int64_t chunks, int threads, int worker) {
  return chunks * worker / threads;
}

int64_t chunk_start(int64_t count, int64_t chunks, int64_t chunk) {
  return chunk * (count / chunks) + chunk * (count % chunks) / chunks;
}

// The first unit of a worker's share.
int64_t share_start(int64_t count, int threads, int worker) {
  const int64_t chunks = chunks_of(count, threads);
  return chunk_start(count, chunks, first_chunk(chunks, threads, worker));
}

double us_since(int64_t began_ns) {
  return static_cast<double>(now_ns() - began_ns) * 1e-3;
}

template <class Call>
PoolRehearsal::Job rehearse(int64_t count, int threads, const Call& call) {
  PoolRehearsal::Job job{count, std::vector<double>(static_cast<size_t>(threads))};
  for (int worker = 0; worker < threads; ++worker) {
    const int64_t first = share_start(count, threads, worker),
                  last = share_start(count, threads, worker + 1), began = now_ns();
    if (first < last) call(worker, first, last);
    job.share_us[static_cast<size_t>(worker)] = us_since(began);
  }
  return job;
}

// Each task goes to the worker that is free first.
PoolRehearsal::Job rehearse_tasks(int64_t count, int threads, void (*call)(const void*, int64_t),
                                  const void* context) {
  PoolRehearsal::Job job{count, std::vector<double>(static_cast<size_t>(threads))};
  for (int64_t k = 0; k < count; ++k) {
    const int64_t began = now_ns();
    call(context, k);
    *std::min_element(job.share_us.begin(), job.share_us.end()) += us_since(began);
  }
  return job;
}

constexpr std::chrono::microseconds kInRun{1000};

// After so many jobs that no worker had a part in, something is done about it.
constexpr int kJobsAlone = 8;

// The processors that pools of this process keep their threads on: contexts that run side by side
// are not to meet.
class Kept {
 public:
  static Kept& of_all_pools() {
    static Kept kept;
    return kept;
  }
  std::vector<int> processors() {
    const std::lock_guard lock(mutex_);
    return processors_;
  }
  void add(const std::vector<int>& more) {
    const std::lock_guard lock(mutex_);
    processors_.insert(processors_.end(), more.begin(), more.end());
  }
  void remove(const std::vector<int>& gone) {
    const std::lock_guard lock(mutex_);
    for (int processor : gone)
      if (const auto at = std::find(processors_.begin(), processors_.end(), processor);
          at != processors_.end())
        processors_.erase(at);
  }

 private:
  std::mutex mutex_;
  std::vector<int> processors_;
};

}  // namespace

// The job may be read by whoever has taken a chunk of it: until that is done it stays. While it
// runs nobody writes to its line.
struct ThreadPool::State {
  // The chunks of one worker's share that nobody has taken yet, and how many workers take part in
  // the job they are of. A successful compare-exchange owns what it took off, whichever job it then
  // belongs to.
  struct alignas(64) Share {
    static constexpr int kChunkBits = 24;
    static constexpr uint64_t kChunkMask = (uint64_t{1} << kChunkBits) - 1;
    std::atomic<uint64_t> chunks{0};

    static uint64_t pack(int64_t first, int64_t end, int team) {
      return static_cast<uint64_t>(team) << 2 * kChunkBits |
             static_cast<uint64_t>(end) << kChunkBits | static_cast<uint64_t>(first);
    }

    // The owner takes all that is left (one call per job when nobody is late), others half of it.
    bool take(int worker, bool all, int64_t& first, int64_t& end) {
      uint64_t seen = chunks.load(std::memory_order_acquire);
      for (;;) {
        const auto begin = static_cast<int64_t>(seen & kChunkMask),
                   stop = static_cast<int64_t>(seen >> kChunkBits & kChunkMask);
        const auto team = static_cast<int>(seen >> 2 * kChunkBits);
        if (begin >= stop || worker >= team) return false;
        const int64_t next = all ? stop : begin + (stop - begin + 1) / 2;
        if (!chunks.compare_exchange_weak(seen, pack(next, stop, team), std::memory_order_acq_rel,
                                          std::memory_order_acquire))
          continue;
        first = begin;
        end = next;
        return true;
      }
    }
  };

  // Workers [first, end). `ticket` counts jobs: they look for work when it changes. `left` counts
  // the chunks of their shares that are not done, whoever does them. Each on a line of its own,
  // which nobody outside the L3 cache waits on.
  struct Group {
    alignas(64) std::atomic<uint32_t> ticket{0};
    alignas(64) std::atomic<int64_t> left{0};
    int first = 0, end = 0;
  };

  static std::vector<Group> groups_of(const PoolLayout& layout) {
    std::vector<Group> groups(static_cast<size_t>(layout.group.back()) + 1);
    for (size_t worker = 0; worker < layout.group.size(); ++worker) {
      Group& group = groups[static_cast<size_t>(layout.group[worker])];
      if (group.end == 0) group.first = static_cast<int>(worker);
      group.end = static_cast<int>(worker) + 1;
    }
    return groups;
  }

  explicit State(const PoolLayout& layout)
      : group_of(layout.group), groups(groups_of(layout)), shares(layout.group.size()) {}
  alignas(64) Job job;
  int64_t num_chunks = 0;
  std::vector<int> group_of;  // every worker's
  std::vector<Group> groups;
  std::vector<Share> shares;
  std::chrono::microseconds spin_time{50};
  alignas(64) std::atomic<int> runs{0};  // in progress
  std::atomic<bool> stopping{false};
  alignas(64) std::atomic<bool> helped{false};  // others than the caller had a part in a job
  std::atomic<bool> failed{false};
  std::exception_ptr failure;  // the first one of a job, whose `left` publishes it
  alignas(64) int jobs_alone = 0;
  std::vector<int> kept;  // processors the workers stay on
  std::vector<std::thread> workers;
  std::vector<std::unique_ptr<ThreadPool>> teams;
  PoolRehearsal* rehearsal = nullptr;

  Group& group(int worker) {
    return groups[static_cast<size_t>(group_of[static_cast<size_t>(worker)])];
  }
  // All groups' lines are written before the first of them is asked to wake: that may be a call of
  // the kernel for each that sleeps.
  void wake(int team) {
    for (Group& group : groups)
      if (group.first < team) group.ticket.fetch_add(1, std::memory_order_release);
    for (Group& group : groups)
      if (group.first < team) group.ticket.notify_all();
  }
  void stop() {
    stopping.store(true, std::memory_order_relaxed);
    wake(static_cast<int>(shares.size()));
    for (std::thread& worker : workers) worker.join();
  }
  void keep_failure() {
    if (!failed.exchange(true, std::memory_order_relaxed)) failure = std::current_exception();
  }
};

ThreadPool::ThreadPool(int threads, int spin_us) : threads_(std::max(threads, 1)) {
  if (threads_ == 1) return;
  const Affinity affinity = default_affinity();
  std::vector<int> busy;
  if (affinity != Affinity::kNone) busy = Kept::of_all_pools().processors();
  start(spin_us, make_layout(machine_topology(), threads_, affinity, busy));
}

ThreadPool::ThreadPool(int spin_us, const PoolLayout& layout)
    : threads_(std::max(static_cast<int>(layout.group.size()), 1)) {
  if (threads_ > 1) start(spin_us, layout);
}

ThreadPool::ThreadPool(State* state, int threads) : state_(state), threads_(threads) {}

void ThreadPool::start(int spin_us, const PoolLayout& layout) {
  own_ = std::make_unique<State>(layout);
  state_ = own_.get();
  state_->rehearsal = PoolRehearsal::current();
  if (state_->rehearsal != nullptr) return;
  state_->spin_time = std::chrono::microseconds(spin_us);
  try {
    state_->workers.reserve(static_cast<size_t>(threads_) - 1);
    for (int worker = 1; worker < threads_; ++worker)
      state_->workers.emplace_back([this, worker] { work_loop(worker); });
  } catch (...) {
    state_->stop();  // those that began: threads are joined before State goes
    throw;
  }
  place_workers(layout);
}

void ThreadPool::place_workers(const PoolLayout& layout) {
#if defined(__linux__)
  for (size_t worker = 1; worker < layout.processor.size(); ++worker) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(layout.processor[worker], &one);
    // A processor that is gone leaves the thread free.
    pthread_setaffinity_np(state_->workers[worker - 1].native_handle(), sizeof one, &one);
  }
#endif
  state_->kept = layout.processor;
  Kept::of_all_pools().add(state_->kept);
  if (state_->kept.empty()) move_workers();
}

// A thread may be put on the processor of the one that made or woke it, and wait there for
// milliseconds while that one is busy and others idle (seen on virtual machines).
void ThreadPool::move_workers() {
#if defined(__linux__)
  const int here = sched_getcpu();
  for (std::thread& worker : state_->workers) {
    cpu_set_t allowed;
    if (here < 0 || pthread_getaffinity_np(worker.native_handle(), sizeof allowed, &allowed) != 0 ||
        !CPU_ISSET(here, &allowed) || CPU_COUNT(&allowed) < 2)
      continue;
    cpu_set_t others = allowed;
    CPU_CLR(here, &others);
    if (pthread_setaffinity_np(worker.native_handle(), sizeof others, &others) == 0)
      pthread_setaffinity_np(worker.native_handle(), sizeof allowed, &allowed);
  }
#endif
}

ThreadPool::~ThreadPool() {
  if (!own_) return;
  own_->stop();
  Kept::of_all_pools().remove(own_->kept);
}

ThreadPool& ThreadPool::serial() {
  static ThreadPool pool(1);
  return pool;
}

ThreadPool& ThreadPool::team(int threads) {
  if (threads >= threads_) return *this;
  if (threads <= 1) return serial();
  for (const auto& team : state_->teams)
    if (team->threads() == threads) return *team;
  state_->teams.emplace_back(new ThreadPool(state_, threads));
  return *state_->teams.back();
}

void ThreadPool::work_loop(int worker) {
  State& s = *state_;
  std::atomic<uint32_t>& ticket = s.group(worker).ticket;
  uint32_t seen = 0;
  for (;;) {
    const Clock::time_point spin_end = Clock::now() + s.spin_time;
    uint32_t now = ticket.load(std::memory_order_acquire);
    for (int round = 0; now == seen; ++round) {
      cpu_relax();
      if ((round & 63) == 63) {
        const Clock::time_point time = Clock::now();
        const bool may_wait = s.runs.load(std::memory_order_relaxed) > 0 && s.spin_time.count() > 0;
        if (time > spin_end + (may_wait ? kInRun : std::chrono::microseconds(0)))
          ticket.wait(seen, std::memory_order_acquire);
      }
      now = ticket.load(std::memory_order_acquire);
    }
    seen = now;
    if (s.stopping.load(std::memory_order_relaxed)) return;
    work(worker);
  }
}

// The own share, then what is left of the group's, then of all others'.
void ThreadPool::work(int worker) {
  const State::Group& group = state_->group(worker);
  const int size = group.end - group.first;
  for (int k = 0; k < size; ++k)
    take_chunks(worker, group.first + (worker - group.first + k) % size);
  const int all = static_cast<int>(state_->shares.size());
  for (int k = 0; k < all - size; ++k) take_chunks(worker, (group.end + k) % all);
}

void ThreadPool::take_chunks(int worker, int owner) {
  State& s = *state_;
  State::Share& share = s.shares[static_cast<size_t>(owner)];
  int64_t first, end;
  while (share.take(worker, owner == worker, first, end)) {
    const Job& job = s.job;
    PoolRecorder* recorder = PoolRecorder::current();
    const int64_t began = recorder != nullptr ? now_ns() : 0;
    try {
      job.call(job.body, worker, chunk_start(job.count, s.num_chunks, first),
               chunk_start(job.count, s.num_chunks, end));
    } catch (...) {
      s.keep_failure();  // the job goes on without these chunks; run() throws it
    }
    if (recorder != nullptr) recorder->add({worker, began, now_ns()});
    // The line is written once a job, not by everyone.
    if (worker != 0 && !s.helped.load(std::memory_order_relaxed))
      s.helped.store(true, std::memory_order_relaxed);
    s.group(owner).left.fetch_sub(end - first, std::memory_order_release);
  }
}

void ThreadPool::run(const Job& job) {
  State& s = *state_;
  if (s.rehearsal != nullptr) {
    s.rehearsal->jobs.push_back(rehearse(
        job.count, threads_,
        [&](int worker, int64_t first, int64_t last) { job.call(job.body, worker, first, last); }));
    return;
  }
  s.job = job;
  s.num_chunks = chunks_of(job.count, threads_);
  const auto share_of = [&](int worker) {
    return first_chunk(s.num_chunks, threads_, std::min(worker, threads_));
  };
  for (State::Group& group : s.groups)
    group.left.store(share_of(group.end) - share_of(group.first), std::memory_order_relaxed);
  for (int worker = 0; worker < threads_; ++worker)
    s.shares[static_cast<size_t>(worker)].chunks.store(
        State::Share::pack(share_of(worker), share_of(worker + 1), threads_),
        std::memory_order_release);
  s.wake(threads_);
  work(0);
  // A worker that lost its processor to another program gets it sooner when the caller does not
  // burn a time slice.
  int round = 1;
  for (const State::Group& group : s.groups)
    for (; group.left.load(std::memory_order_acquire) != 0; ++round) {
      cpu_relax();
      if ((round & 1023) == 0) std::this_thread::yield();
    }
  if (s.failed.load(std::memory_order_relaxed)) {
    s.failed.store(false, std::memory_order_relaxed);
    std::rethrow_exception(std::exchange(s.failure, nullptr));
  }
  s.jobs_alone = s.helped.load(std::memory_order_relaxed) ? 0 : s.jobs_alone + 1;
  if (s.jobs_alone == 0) s.helped.store(false, std::memory_order_relaxed);
  if (s.jobs_alone < kJobsAlone || !s.kept.empty()) return;
  move_workers();
  s.jobs_alone = -100 * kJobsAlone;  // not again soon: the other processors may be busy, too
}

void ThreadPool::count_run(int more) {
  if (threads_ > 1) state_->runs.fetch_add(more, std::memory_order_relaxed);
}

void ThreadPool::rouse() {
  if (threads_ == 1 || state_->rehearsal != nullptr) return;
  std::vector<std::atomic<bool>> awake(static_cast<size_t>(threads_));
  const auto all_awake = [&awake] {
    return std::all_of(awake.begin(), awake.end(),
                       [](const auto& one) { return one.load(std::memory_order_relaxed); });
  };
  const int64_t begun = now_ns();
  while (!all_awake() && us_since(begun) < 1000)
    parallel_ranges(threads_, [&](int worker, int64_t, int64_t) {
      awake[static_cast<size_t>(worker)].store(true, std::memory_order_relaxed);
      // Who has not come yet finds its share there for a while.
      for (const int64_t since = now_ns(); worker == 0 && !all_awake() && us_since(since) < 100;)
        cpu_relax();
    });
}

void ThreadPool::parallel_dynamic(int64_t count, void (*call)(const void*, int64_t),
                                  const void* context) {
  if (threads_ == 1 || count <= 1) {
    for (int64_t k = 0; k < count; ++k) call(context, k);
    return;
  }
  if (PoolRehearsal* rehearsal = state_->rehearsal) {
    rehearsal->jobs.push_back(rehearse_tasks(count, threads_, call, context));
    return;
  }
  std::atomic<int64_t> next{0};
  parallel_ranges(threads_, [&](int, int64_t, int64_t) {
    for (int64_t k = next.fetch_add(1); k < count; k = next.fetch_add(1)) call(context, k);
  });
}

}  // namespace camshaft
