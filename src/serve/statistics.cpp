// SPDX-License-Identifier: Apache-2.0
#include "serve/statistics.h"

#include <algorithm>

namespace camshaft::serve {
namespace {

constexpr size_t kBatchesKept = 512;

int64_t unix_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void set(inference::StatisticDuration* out, const Duration& duration) {
  out->set_count(duration.count);
  out->set_ns(duration.ns);
}

}  // namespace

void Window::add(uint64_t ns) {
  if (values_.size() < kSize) {
    values_.push_back(ns);
    return;
  }
  values_[next_] = ns;
  next_ = (next_ + 1) % kSize;
}

std::vector<uint64_t> Window::sorted() const {
  std::vector<uint64_t> values = values_;
  std::sort(values.begin(), values.end());
  return values;
}

void Statistics::batch(BatchRecord record, const BatchTime& time,
                       const std::vector<Served>& served) {
  const std::lock_guard lock(mutex_);
  record.id = next_id_++;
  record.started_ms = unix_ms() - static_cast<int64_t>(record.took_us / 1e3);
  Counters& c = counters_;
  c.executions += 1;
  c.last_inference_ms = static_cast<uint64_t>(unix_ms());
  std::array<Duration, 3>& size = c.by_size[record.rows];
  size[0].add(time.input_ns);
  size[1].add(time.infer_ns);
  size[2].add(time.output_ns);
  // A request's share of a run is all of it, as Triton counts.
  const uint64_t count = served.size();
  c.input.add(time.input_ns * count, count);
  c.infer.add(time.infer_ns * count, count);
  c.output.add(time.output_ns * count, count);
  c.inferences += static_cast<uint64_t>(record.rows);
  for (const Served& one : served) {
    c.success.add(one.total_ns);
    c.queue.add(one.queue_ns);
    c.request_window.add(one.total_ns);
    c.queue_window.add(one.queue_ns);
  }
  batches_.push_back(std::move(record));
  if (batches_.size() > kBatchesKept) batches_.pop_front();
}

void Statistics::failed(FailureReason reason, uint64_t ns) {
  const std::lock_guard lock(mutex_);
  counters_.fail.add(ns);
  ++counters_.failures[static_cast<size_t>(reason)];
}

Counters Statistics::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

std::vector<BatchRecord> Statistics::latest(size_t count) const {
  const std::lock_guard lock(mutex_);
  count = std::min(count, batches_.size());
  return {batches_.rbegin(), batches_.rbegin() + static_cast<ptrdiff_t>(count)};
}

void Statistics::fill(inference::ModelStatistics& statistics) const {
  const Counters c = counters();
  statistics.set_last_inference(c.last_inference_ms);
  statistics.set_inference_count(c.inferences);
  statistics.set_execution_count(c.executions);
  inference::InferStatistics& all = *statistics.mutable_inference_stats();
  set(all.mutable_success(), c.success);
  set(all.mutable_fail(), c.fail);
  set(all.mutable_queue(), c.queue);
  set(all.mutable_compute_input(), c.input);
  set(all.mutable_compute_infer(), c.infer);
  set(all.mutable_compute_output(), c.output);
  set(all.mutable_cache_hit(), {});
  set(all.mutable_cache_miss(), {});
  for (const auto& [size, times] : c.by_size) {
    inference::InferBatchStatistics& batch = *statistics.add_batch_stats();
    batch.set_batch_size(static_cast<uint64_t>(size));
    set(batch.mutable_compute_input(), times[0]);
    set(batch.mutable_compute_infer(), times[1]);
    set(batch.mutable_compute_output(), times[2]);
  }
}

}  // namespace camshaft::serve
