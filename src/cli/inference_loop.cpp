// SPDX-License-Identifier: Apache-2.0
#include "cli/inference_loop.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

namespace camshaft::cli {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<bool> interrupt_seen{false};

double ms_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

void sleep_ms(double ms) {
  if (ms > 0) std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms));
}

// What the streams share.
struct Shared {
  const LoopOptions& options;
  Clock::time_point start = Clock::now();
  std::atomic<int64_t> timed{0};
  std::atomic<bool> stop{false};

  bool finished(double now_ms) const {
    if (stop || interrupted()) return true;
    if (options.duration_s < 0) return false;
    return timed >= options.iterations && now_ms - options.warm_up_ms >= options.duration_s * 1e3;
  }
};

struct Stream {
  std::vector<QueryTimes> timed;
  int64_t warm_up_queries = 0;
  double warm_up_ms = 0;
  Status status;
};

// The query's inputs are already where the kernels read them and outputs stay where they are
// written: both transfers take no time on a CPU, and submitting is what happens before the first
// layer starts.
Status run_query(Context& context, const Shared& shared, QueryTimes& times) {
  times.start_enqueue = ms_between(shared.start, Clock::now());
  sleep_ms(shared.options.sleep_ms);
  const Clock::time_point launched = Clock::now();
  times.start_h2d = times.end_h2d = times.start_compute = ms_between(shared.start, launched);
  times.end_enqueue = shared.options.sleep_ms > 0 ? times.start_enqueue : times.start_compute;
  CAMSHAFT_TRY(context.run());
  times.end_compute = times.start_d2h = times.end_d2h = ms_between(shared.start, Clock::now());
  return ok_status();
}

void run_stream(Context& context, Shared& shared, Stream& stream, bool reports) {
  double now_ms = 0;
  do {
    QueryTimes times;
    stream.status = run_query(context, shared, times);
    if (!stream.status.ok()) {
      shared.stop = true;
      return;
    }
    now_ms = times.end_compute;
    if (times.start_compute >= shared.options.warm_up_ms) {
      stream.timed.push_back(times);
      ++shared.timed;
    } else {
      ++stream.warm_up_queries;
      stream.warm_up_ms = now_ms;
    }
    if (reports && shared.options.progress) {
      shared.options.progress(now_ms / 1e3,
                              shared.options.duration_s + shared.options.warm_up_ms / 1e3);
    }
    if (shared.options.stop && shared.options.stop()) shared.stop = true;
    sleep_ms(shared.options.idle_ms);
  } while (!shared.finished(now_ms));
}

LoopResult merge(const std::vector<Stream>& streams) {
  LoopResult result;
  double first = 0;
  double last = 0;
  for (const Stream& stream : streams) {
    result.warm_up_queries += stream.warm_up_queries;
    result.warm_up_ms = std::max(result.warm_up_ms, stream.warm_up_ms);
    result.queries.insert(result.queries.end(), stream.timed.begin(), stream.timed.end());
  }
  std::sort(
      result.queries.begin(), result.queries.end(),
      [](const QueryTimes& a, const QueryTimes& b) { return a.start_enqueue < b.start_enqueue; });
  if (!result.queries.empty()) first = result.queries.front().start_enqueue;
  for (const QueryTimes& query : result.queries) last = std::max(last, query.end_d2h);
  result.wall_seconds = (last - first) / 1e3;
  return result;
}

}  // namespace

void install_interrupt_handler() {
  std::signal(SIGINT, [](int) {
    interrupt_seen = true;
    std::signal(SIGINT, SIG_DFL);
  });
}

bool interrupted() {
  return interrupt_seen;
}

Result<LoopResult> run_loop(std::span<Context> contexts, const LoopOptions& options) {
  Shared shared{options};
  std::vector<Stream> streams(contexts.size());
  std::vector<std::thread> threads;
  for (size_t k = 1; k < contexts.size(); ++k) {
    threads.emplace_back([&, k] { run_stream(contexts[k], shared, streams[k], false); });
  }
  run_stream(contexts[0], shared, streams[0], true);
  for (std::thread& thread : threads) thread.join();
  for (const Stream& stream : streams) CAMSHAFT_TRY(stream.status);
  return merge(streams);
}

}  // namespace camshaft::cli
