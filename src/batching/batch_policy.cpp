// SPDX-License-Identifier: Apache-2.0
#include "batching/batch_policy.h"

#include <algorithm>

#include <fmt/format.h>

namespace camshaft::batching {
namespace {

constexpr double kGoalShare = 0.9;   // the rest is for the network and for what disturbs
constexpr double kAlike = 0.9;       // rates this close count as equal: the larger batch is taken
constexpr double kPatienceGaps = 2;  // usual gaps without an arrival after which none is waited for

double rate(const BatchTimes& times, int64_t rows) {
  const double us = times.of(times.size_for(rows));
  return us > 0 ? static_cast<double>(rows) / us : static_cast<double>(rows);
}

// How many of the requests give the most rows per time; of alike ones the larger number.
size_t best_count(const BatchTimes& times, std::span<const int64_t> rows_up_to) {
  double best = 0;
  for (const int64_t rows : rows_up_to) best = std::max(best, rate(times, rows));
  for (size_t k = rows_up_to.size(); k > 1; --k)
    if (rate(times, rows_up_to[k - 1]) >= kAlike * best) return k;
  return 1;
}

std::string ms(double us) {
  return fmt::format("{:.3g} ms", us / 1e3);
}

// How long waiting for one more row pays and hurts nobody; 0: not at all, and `why` says so.
double patience(const BatchTimes& times, const LatencyBounds& bounds, const WaitingRows& waiting,
                int64_t rows, std::string& why) {
  if (bounds.goal_us <= 0 && bounds.max_delay_us <= 0) {
    why = "neither a latency goal nor a delay is given, so a free instance does not wait";
    return 0;
  }
  if (waiting.rows_per_us <= 0) {
    why = "it is not known when another will come";
    return 0;
  }
  const double gap = 1 / waiting.rows_per_us;
  const double together = times.of(times.size_for(rows + 1));
  const double gain = times.of(times.size_for(rows)) + times.of(1) - together;
  if (gain <= gap) {
    why = fmt::format("one more saves {} of computing and comes in {} at the present rate",
                      ms(std::max(gain, 0.0)), ms(gap));
    return 0;
  }
  double slack = 1e18;
  if (bounds.goal_us > 0) slack = kGoalShare * bounds.goal_us - waiting.oldest_us - together;
  if (bounds.max_delay_us > 0) slack = std::min(slack, bounds.max_delay_us - waiting.oldest_us);
  if (slack < gap) {
    why = fmt::format("the first has waited {}: the next, due in {}, would come too late for it",
                      ms(waiting.oldest_us), ms(gap));
    return 0;
  }
  const double left = kPatienceGaps * gap - waiting.newest_us;
  if (left <= 0) {
    why = fmt::format("none came for {}, twice the usual gap", ms(waiting.newest_us));
    return 0;
  }
  why = fmt::format("one more saves {} of computing and is due in {}", ms(gain), ms(gap));
  return std::min(left, slack);
}

}  // namespace

int64_t batch_limit(const BatchTimes& times, const LatencyBounds& bounds) {
  if (bounds.goal_us <= 0) return times.largest();
  int64_t limit = 1;
  for (const int64_t size : times.sizes())
    if (2 * times.of(size) <= kGoalShare * bounds.goal_us) limit = size;
  return limit;
}

BatchChoice choose_batch(const BatchTimes& times, const LatencyBounds& bounds, int64_t limit,
                         const WaitingRows& waiting) {
  const size_t all = waiting.rows_up_to.size();
  const int64_t all_rows = waiting.rows_up_to.back();
  BatchChoice choice;
  if (waiting.is_all && all_rows < limit) {
    choice.wait_us = patience(times, bounds, waiting, all_rows, choice.why);
    if (choice.wait_us > 0) return choice;
    choice.why = "everything that waited; " + choice.why;
  } else if (all_rows >= limit) {
    choice.why = "the largest batch";
  } else {
    choice.why = "what waits behind has other shapes or does not fit";
  }
  choice.requests = best_count(times, waiting.rows_up_to);
  choice.rows = waiting.rows_up_to[choice.requests - 1];
  choice.size = std::max(times.size_for(choice.rows), choice.rows);
  if (choice.requests < all)
    choice.why = fmt::format("{} of {} rows: they take {} together, {:.3g} rows/s, all {:.3g}",
                             choice.rows, all_rows, ms(times.of(choice.size)),
                             rate(times, choice.rows) * 1e6, rate(times, all_rows) * 1e6);
  if (choice.size > choice.rows) choice.why += fmt::format("; run as {}", choice.size);
  return choice;
}

}  // namespace camshaft::batching
