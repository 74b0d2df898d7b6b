// SPDX-License-Identifier: Apache-2.0
// Serving: requests in, batches out. model_load.cpp makes what this runs.
#include "serve/model.h"

#include <algorithm>

#include <fmt/format.h>

#include "serve/data_types.h"

namespace camshaft::serve {
namespace {

constexpr uint64_t kMostPriority = 1 << 16;

uint64_t ns_between(Clock::time_point from, Clock::time_point to) {
  return static_cast<uint64_t>(std::max<int64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count(), 0));
}

FailureReason reason_of(Failure failure) {
  switch (failure) {
    case Failure::kOverloaded:
    case Failure::kTimeout:
    case Failure::kUnavailable:
      return FailureReason::kRejected;
    case Failure::kCancelled:
      return FailureReason::kCanceled;
    case Failure::kInternal:
      return FailureReason::kBackend;
    default:
      return FailureReason::kOther;
  }
}

Failure failure_of_request(const Status& status) {
  return status.code() == ErrorCode::kInvalidArgument ? Failure::kInvalid
         : status.code() == ErrorCode::kResources     ? Failure::kOverloaded
                                                      : Failure::kInternal;
}

bool fits(const TensorInfo& info, const Dims& dims) {
  if (!info.has_rank) return true;
  if (info.dims.size() != dims.size()) return false;
  for (size_t k = 0; k < dims.size(); ++k)
    if (info.dims[k] != -1 && info.dims[k] != dims[k]) return false;
  return true;
}

}  // namespace

const std::vector<std::string>& Model::labels(const std::string& output) const {
  static const std::vector<std::string> none;
  const auto found = labels_.find(output);
  return found == labels_.end() ? none : found->second;
}

std::optional<Error> Model::check(Request& request) const {
  const auto invalid = [](std::string text) { return Error{Failure::kInvalid, std::move(text)}; };
  const std::vector<TensorInfo>& infos = engine_->inputs();
  if (request.inputs.size() != infos.size())
    return invalid(fmt::format("{} inputs are given, model '{}' has {}", request.inputs.size(),
                               name(), infos.size()));
  std::vector<Tensor> ordered(infos.size());
  std::vector<bool> is_given(infos.size());
  for (Tensor& tensor : request.inputs) {
    const auto at = std::find_if(infos.begin(), infos.end(),
                                 [&](const TensorInfo& info) { return info.name == tensor.name; });
    if (at == infos.end())
      return invalid(fmt::format("model '{}' has no input '{}'", name(), tensor.name));
    const auto k = static_cast<size_t>(at - infos.begin());
    if (is_given[k]) return invalid(fmt::format("input '{}' is given twice", tensor.name));
    is_given[k] = true;
    if (tensor.type != at->type)
      return invalid(fmt::format("input '{}' is {}, the model takes {}", tensor.name,
                                 protocol_name(tensor.type), protocol_name(at->type)));
    if (!fits(*at, tensor.dims))
      return invalid(fmt::format("input '{}' has the shape {}, the model takes {}", tensor.name,
                                 to_string(tensor.dims), to_string(at->dims)));
    const int64_t count = checked_elements(tensor.dims, tensor.type);
    if (count < 0 || byte_size(tensor.type, count) != tensor.bytes.size())
      return invalid(fmt::format(
          "input '{}' has {} bytes, {} of {} takes {}", tensor.name, tensor.bytes.size(),
          to_string(tensor.dims), protocol_name(tensor.type),
          count < 0 ? "more than there can be" : std::to_string(byte_size(tensor.type, count))));
    // Kernels count on it.
    if (tensor.type == DataType::kBool &&
        std::any_of(tensor.bytes.begin(), tensor.bytes.end(),
                    [](std::byte value) { return value > std::byte{1}; }))
      return invalid(fmt::format("input '{}' has booleans that are neither 0 nor 1", tensor.name));
    ordered[k] = std::move(tensor);
  }
  request.rows = 1;
  if (is_batched()) {
    for (const Tensor& tensor : ordered) {
      const int64_t rows = tensor.dims.empty() ? 0 : tensor.dims[0];
      if (rows < 1 || rows > config_.max_batch_size())
        return invalid(fmt::format("input '{}' is a batch of {}; model '{}' takes 1 to {}",
                                   tensor.name, rows, name(), config_.max_batch_size()));
      if (rows != ordered[0].dims[0])
        return invalid(fmt::format("inputs '{}' and '{}' are batches of {} and {}", ordered[0].name,
                                   tensor.name, ordered[0].dims[0], rows));
    }
    if (!ordered.empty()) request.rows = ordered[0].dims[0];
  }
  for (const WantedOutput& wanted : request.wanted)
    if (std::none_of(engine_->outputs().begin(), engine_->outputs().end(),
                     [&](const TensorInfo& info) { return info.name == wanted.name; }))
      return invalid(fmt::format("model '{}' has no output '{}'", name(), wanted.name));
  const inference::ModelDynamicBatching& batching = config_.dynamic_batching();
  const uint64_t levels = std::max<uint64_t>(batching.priority_levels(), 1);
  if (request.priority > kMostPriority ||
      (batching.priority_levels() > 0 && request.priority > levels))
    return invalid(fmt::format("priority {}: the model has {} levels", request.priority, levels));
  request.inputs = std::move(ordered);
  return std::nullopt;
}

void Model::finish(const RequestPtr& request, Answer&& answer) {
  const auto done = std::move(request->done);
  request->done = nullptr;
  if (done) done(std::move(answer));
}

void Model::fail(const RequestPtr& request, Failure failure, const std::string& message) {
  statistics_.failed(reason_of(failure), ns_between(request->arrived, Clock::now()));
  Answer answer;
  answer.error = Error{failure, message};
  finish(request, std::move(answer));
}

void Model::submit(const RequestPtr& request) {
  request->arrived = Clock::now();
  const inference::ModelDynamicBatching& batching = config_.dynamic_batching();
  if (request->priority == 0) request->priority = batching.default_priority_level();
  if (batching.priority_levels() == 0) request->priority = 0;
  const auto own = batching.priority_queue_policy().find(request->priority);
  const inference::ModelQueuePolicy& policy =
      own == batching.priority_queue_policy().end() ? batching.default_queue_policy() : own->second;
  uint64_t timeout = policy.default_timeout_microseconds();
  if (request->timeout_us > 0 && (timeout == 0 || policy.allow_timeout_override()))
    timeout = request->timeout_us;
  const bool may_expire =
      timeout > 0 && policy.timeout_action() == inference::ModelQueuePolicy::REJECT;
  constexpr uint64_t kLongest = uint64_t{3600} * 24 * 1000000;
  request->deadline =
      may_expire ? request->arrived + std::chrono::microseconds(std::min(timeout, kLongest))
                 : Clock::time_point::max();
  bool is_stopping = false, is_queued = false;
  {
    const std::lock_guard lock(mutex_);
    is_stopping = stopping_;
    const size_t bound = policy.max_queue_size() > 0 ? policy.max_queue_size() : queue_size_;
    const bool has_room =
        queue_.size() < queue_size_ &&
        (policy.max_queue_size() == 0 || queue_.size_at(request->priority) < bound);
    is_queued = !is_stopping && has_room;
    if (is_queued) queue_.push(request);
  }
  if (is_queued)
    Wakes::wake(shared_from_this());
  else if (is_stopping)
    fail(request, Failure::kUnavailable, fmt::format("model '{}' is being unloaded", name()));
  else
    fail(request, Failure::kOverloaded,
         fmt::format("the queue of model '{}' is full: {} requests wait", name(), waiting()));
}

void Model::wake() {
  changed_.notify_all();
}

size_t Model::waiting() const {
  const std::lock_guard lock(mutex_);
  return queue_.size();
}

bool Model::next_batch(Batch& batch) {
  std::vector<RequestPtr> expired;
  bool has_one = false;
  {
    std::unique_lock lock(mutex_);
    Clock::time_point idle_since = Clock::time_point::max();
    for (;;) {
      const Clock::time_point now = Clock::now();
      expired = queue_.take_expired(now);
      if (!expired.empty()) break;
      if (queue_.empty()) {
        if (stopping_) return false;
        idle_since = Clock::time_point::max();
        changed_.wait(lock);
        continue;
      }
      idle_since = std::min(idle_since, now);
      const int64_t limit = is_dynamic_ ? batch_limit(times_, bounds_) : 1;
      const WaitingRows waiting = queue_.view(is_dynamic_, limit, now);
      batching::BatchChoice choice = choose_batch(times_, bounds_, limit, waiting);
      if (choice.requests == 0 && !stopping_) {
        changed_.wait_for(lock, std::chrono::duration<double, std::micro>(choice.wait_us));
        continue;
      }
      choice.requests = std::max<size_t>(choice.requests, 1);
      batch.requests = queue_.take(is_dynamic_, limit, choice.requests);
      batch.record.why = std::move(choice.why);
      batch.record.left_waiting = static_cast<int64_t>(queue_.size());
      batch.record.waited_us = waiting.oldest_us;
      batch.record.idle_us = us_between(idle_since, now);
      has_one = true;
      break;
    }
  }
  for (const RequestPtr& request : expired)
    fail(request, Failure::kTimeout,
         fmt::format("Request timeout expired: it waited {:.1f} ms for model '{}'",
                     us_between(request->arrived, Clock::now()) / 1e3, name()));
  if (!has_one) batch.requests.clear();
  return true;
}

void Model::work(int instance) {
  Runner& runner = *runners_[static_cast<size_t>(instance)];
  for (;;) {
    Batch batch;
    if (!next_batch(batch)) return;
    std::erase_if(batch.requests, [this](const RequestPtr& request) {
      if (!request->is_abandoned || !request->is_abandoned()) return false;
      fail(request, Failure::kCancelled, "the client has gone");
      return true;
    });
    if (batch.requests.empty()) continue;
    batch.record.instance = instance;
    run_batch(runner, batch);
  }
}

void Model::run_batch(Runner& runner, Batch& batch) {
  BatchRecord& record = batch.record;
  const Clock::time_point start = Clock::now();
  record.requests = batch.requests.size();
  for (const RequestPtr& request : batch.requests) record.rows += request->rows;
  {
    const std::lock_guard lock(mutex_);
    record.size = is_batched() ? std::max(times_.size_for(record.rows), record.rows) : 1;
    record.expected_us = times_.of(record.size);
  }
  std::vector<Answer> answers;
  BatchTime time;
  const Status status = runner.run(batch.requests, record.size, answers, time);
  if (!status.ok()) {
    // One request's data may be wrong: the others are not to suffer from it.
    if (batch.requests.size() > 1) return run_alone(runner, batch.requests);
    return fail(batch.requests[0], failure_of_request(status), status.message());
  }
  const Clock::time_point end = Clock::now();
  record.took_us = us_between(start, end);
  std::vector<Statistics::Served> served;
  for (const RequestPtr& request : batch.requests)
    served.push_back({ns_between(request->arrived, end), ns_between(request->arrived, start)});
  {
    const std::lock_guard lock(mutex_);
    times_.seen(record.size, record.took_us);
  }
  statistics_.batch(std::move(record), time, served);
  const Wakes wakes;
  for (size_t k = 0; k < answers.size(); ++k) finish(batch.requests[k], std::move(answers[k]));
}

void Model::run_alone(Runner& runner, std::span<const RequestPtr> requests) {
  for (const RequestPtr& request : requests) {
    Batch batch;
    batch.requests = {request};
    batch.record.why = "alone, for the batch it was in failed";
    run_batch(runner, batch);
  }
}

void Model::stop(bool refuses_waiting) {
  std::vector<RequestPtr> refused;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (refuses_waiting) refused = queue_.take_all();
  }
  for (const RequestPtr& request : refused)
    fail(request, Failure::kUnavailable, "the server is ending");
  changed_.notify_all();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

Model::~Model() {
  stop();
}

inference::ModelMetadataResponse Model::metadata() const {
  inference::ModelMetadataResponse metadata;
  metadata.set_name(name());
  metadata.set_platform(config_.platform());
  const auto add = [this](auto* tensor, const TensorInfo& info) {
    tensor->set_name(info.name);
    tensor->set_datatype(std::string(protocol_name(info.type)));
    for (size_t k = 0; k < info.dims.size(); ++k)
      tensor->add_shape(k == 0 && is_batched() ? -1 : info.dims[k]);
  };
  for (const TensorInfo& info : engine_->inputs()) add(metadata.add_inputs(), info);
  for (const TensorInfo& info : engine_->outputs()) add(metadata.add_outputs(), info);
  return metadata;
}

inference::ModelStatistics Model::statistics_message() const {
  inference::ModelStatistics message;
  message.set_name(name());
  message.set_version(std::to_string(version_));
  statistics_.fill(message);
  inference::MemoryUsage& memory = *message.add_memory_usage();
  memory.set_type("CPU");
  memory.set_byte_size(engine_->info().file_bytes);
  return message;
}

nlohmann::ordered_json Model::batches(size_t count) const {
  using Json = nlohmann::ordered_json;
  Json json;
  json["model_name"] = name();
  json["model_version"] = std::to_string(version_);
  {
    const std::lock_guard lock(mutex_);
    json["waiting"] = queue_.size();
    json["latency_goal_ms"] = bounds_.goal_us / 1e3;
    json["max_queue_delay_us"] = bounds_.max_delay_us;
    const int64_t limit = is_dynamic_ ? batch_limit(times_, bounds_) : 1;
    json["largest_batch"] = limit;
    json["why_largest"] =
        !is_dynamic_ ? "requests are not put together: the model has no open batch, or its "
                       "configuration no dynamic_batching"
        : limit == times_.largest()
            ? "the model's max_batch_size"
            : fmt::format("the largest of which two fit into 0.9 of the goal of {:.3g} ms",
                          bounds_.goal_us / 1e3);
    json["instances"] = runners_.size();
    json["threads_per_instance"] = threads_per_instance_;
    Json times = Json::array();
    for (const int64_t size : times_.sizes())
      times.push_back(
          {{"size", size},
           {"us", times_.of(size)},
           {"us_at_load", times_.at_load(size)},
           {"rows_per_s", static_cast<double>(size) / std::max(times_.of(size), 1e-3) * 1e6}});
    json["times"] = std::move(times);
  }
  Json batches = Json::array();
  for (const BatchRecord& record : statistics_.latest(count))
    batches.push_back({{"id", record.id},
                       {"started_ms", record.started_ms},
                       {"instance", record.instance},
                       {"requests", record.requests},
                       {"rows", record.rows},
                       {"size", record.size},
                       {"why", record.why},
                       {"oldest_waited_us", record.waited_us},
                       {"instance_waited_us", record.idle_us},
                       {"left_waiting", record.left_waiting},
                       {"expected_us", record.expected_us},
                       {"took_us", record.took_us}});
  json["batches"] = std::move(batches);
  return json;
}

}  // namespace camshaft::serve
