// SPDX-License-Identifier: Apache-2.0
// The two threads of a reader are joined by a short queue of batches, so memory stays bounded by a
// few of them.
#include "trace/reader.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include <simdjson.h>

#include "trace/byte_source.h"
#include "trace/event_parser.h"
#include "trace/event_splitter.h"
#include "trace/event_values.h"
#include "trace/json_text.h"

namespace camshaft::trace {
namespace {

constexpr size_t kChunkBytes = size_t{2} << 20;
constexpr size_t kQueueBatches = 4;

// Batches on their way to the parser; empty ones come back to be filled again.
class BatchQueue {
 public:
  void push(std::string_view events) {
    std::string batch = spare();
    batch.reserve(events.size() + 2 + EventParser::padding());
    batch.assign(1, '[');
    batch.append(events);
    batch.push_back(']');
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return full_.size() < kQueueBatches; });
    full_.push_back(std::move(batch));
    changed_.notify_all();
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  bool pop(std::string& batch) {
    std::unique_lock lock(mutex_);
    if (batch.capacity() > 64) empty_.push_back(std::move(batch));
    changed_.wait(lock, [&] { return !full_.empty() || closed_; });
    if (full_.empty()) return false;
    batch = std::move(full_.front());
    full_.pop_front();
    changed_.notify_all();
    return true;
  }

 private:
  std::string spare() {
    const std::lock_guard lock(mutex_);
    if (empty_.empty()) return {};
    std::string batch = std::move(empty_.back());
    empty_.pop_back();
    return batch;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> full_;
  std::vector<std::string> empty_;
  bool closed_ = false;
};

using Metadata = std::map<std::string, std::string, std::less<>>;

std::string_view find_text(const Metadata& metadata, std::string_view key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? std::string_view() : std::string_view(found->second);
}

std::string string_value(std::string_view json) {
  if (json.size() < 2 || json.front() != '"') return {};
  return unescape(json.substr(1, json.size() - 2));
}

int64_t integer_field(const simdjson::dom::element& object, const char* name, int64_t fallback) {
  int64_t value = 0;
  if (object[name].get(value) == simdjson::SUCCESS) return value;
  double real = 0;
  return object[name].get(real) == simdjson::SUCCESS && real > -9e18 && real < 9e18
             ? static_cast<int64_t>(real)
             : fallback;
}

DeviceProperties device_of(const simdjson::dom::element& entry, size_t position) {
  DeviceProperties device;
  device.id = integer_field(entry, "id", static_cast<int64_t>(position));
  std::string_view name;
  if (entry["name"].get(name) == simdjson::SUCCESS) device.name = name;
  device.memory_bytes = device.memory_raw = integer_field(entry, "totalGlobalMem", 0);
  if (const int64_t mib = integer_field(entry, "totalMem(MiB)", 0);
      device.memory_bytes == 0 && mib > 0) {
    device.memory_raw = mib;
    device.memory_bytes = std::min(mib, int64_t{1} << 40) << 20;
  }
  device.compute_major =
      static_cast<int>(integer_field(entry, "computeMajor", integer_field(entry, "major", -1)));
  device.compute_minor =
      static_cast<int>(integer_field(entry, "computeMinor", integer_field(entry, "minor", -1)));
  device.sm_count = static_cast<int>(
      integer_field(entry, "numSms", integer_field(entry, "multiProcessorCount", 0)));
  return device;
}

void apply_metadata(const Metadata& metadata, Trace& trace) {
  simdjson::dom::parser parser;
  for (const char* key : {"deviceProperties", "computeProperties"}) {
    simdjson::dom::array devices;
    const std::string text(find_text(metadata, key));
    if (text.empty() || parser.parse(text).get(devices) != simdjson::SUCCESS) continue;
    if (!trace.device_properties.empty()) continue;
    for (const simdjson::dom::element entry : devices)
      if (entry.is_object())
        trace.device_properties.push_back(device_of(entry, trace.device_properties.size()));
  }
  simdjson::dom::element distributed;
  const std::string text(find_text(metadata, "distributedInfo"));
  if (!text.empty() && parser.parse(text).get(distributed) == simdjson::SUCCESS &&
      distributed.is_object()) {
    std::string_view backend;
    if (distributed["backend"].get(backend) == simdjson::SUCCESS)
      trace.distributed_backend = backend;
    trace.rank = integer_field(distributed, "rank", -1);
    trace.world_size = integer_field(distributed, "world_size", 0);
  }
  trace.framework = string_value(find_text(metadata, "Framework"));
  bool integral = true;
  int64_t scaled = 0;
  const std::string_view base = find_text(metadata, "baseTimeNanoseconds");
  if (base.size() > 3 && parse_nanoseconds(base.substr(0, base.size() - 3), scaled, integral))
    trace.base_time_ns = scaled;
}

void summarize(Trace& trace, const EventSplitter& splitter, bool cut_short) {
  ReadReport& report = trace.report;
  report.truncated = cut_short || !splitter.complete();
  std::string& note = report.note;
  const auto add = [&](std::string text) { note += (note.empty() ? "" : "; ") + text; };
  if (report.truncated)
    add(fmt::format("the file ends early: {} events up to there were read", report.events));
  if (report.repaired_events > 0)
    add(fmt::format("{} damaged events were repaired", report.repaired_events));
  if (report.skipped_events + splitter.resyncs() > 0)
    add(fmt::format("{} events could not be read", report.skipped_events + splitter.resyncs()));
  if (report.incomplete_events > 0)
    add(fmt::format("{} events lack a time, a duration or a name", report.incomplete_events));
}

class Reader {
 public:
  Reader(ByteSource& source, const ReadOptions& options)
      : source_(source), options_(options), parser_(trace_) {}

  Result<Trace> run() {
    std::thread parsing([&] {
      std::string batch;
      while (queue_.pop(batch)) parser_.parse(batch);
    });
    Status status = pump();
    queue_.close();
    parsing.join();
    if (!status.ok()) return status;
    if (!splitter_.found_events())
      return make_error(ErrorCode::kCorrupt,
                        "no trace: it has no \"traceEvents\" array and is no array itself");
    trace_.report.json_bytes = json_bytes_;
    apply_metadata(splitter_.metadata(), trace_);
    summarize(trace_, splitter_, source_.cut_short());
    sort_by_time(trace_);
    return std::move(trace_);
  }

 private:
  Status pump() {
    for (;;) {
      if (options_.cancel != nullptr && options_.cancel->load())
        return make_error(ErrorCode::kCancelled, "cancelled");
      auto got = source_.read(splitter_.reserve(kChunkBytes), kChunkBytes);
      if (!got.ok()) return got.status();
      if (*got == 0) return ok_status();
      json_bytes_ += *got;
      splitter_.commit(*got);
      if (options_.progress) options_.progress({source_.consumed(), source_.file_bytes()});
    }
  }

  ByteSource& source_;
  const ReadOptions& options_;
  Trace trace_;
  EventParser parser_;
  BatchQueue queue_;
  EventSplitter splitter_{[this](std::string_view events) { queue_.push(events); }};
  uint64_t json_bytes_ = 0;
};

}  // namespace

Result<Trace> read_trace(ByteSource& source, const ReadOptions& options) {
  return Reader(source, options).run();
}

Result<Trace> read_trace(const std::string& path, const ReadOptions& options) {
  CAMSHAFT_ASSIGN(const auto source, open_byte_source(path));
  auto trace = read_trace(*source, options);
  if (!trace.ok()) return trace.status().with_context(path);
  return trace;
}

}  // namespace camshaft::trace
