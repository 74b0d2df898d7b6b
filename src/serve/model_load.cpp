// SPDX-License-Identifier: Apache-2.0
// From a folder of the repository to a model that serves: engine, policies, measured batch sizes,
// warm-up, instances.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "api/engine_cache.h"
#include "base/cpu.h"
#include "camshaft/builder.h"
#include "serve/data_types.h"
#include "serve/engine_key.h"
#include "serve/model.h"

namespace camshaft::serve {

namespace fs = std::filesystem;

namespace {

constexpr int kMostRuns = 7;          // of one batch size when it is measured
constexpr double kLongRunUs = 100e3;  // such a run is believed the first time

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Random floats, zeros of all else: integers are often indices.
void fill(DataType type, bool is_random, std::span<std::byte> bytes) {
  std::memset(bytes.data(), 0, bytes.size());
  if (!is_random || type != DataType::kFloat) return;
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(0, 1);
  for (size_t at = 0; at + sizeof(float) <= bytes.size(); at += sizeof(float)) {
    const float value = uniform(random);
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }
}

// Owns the bytes of a request of the server's own.
void add_input(Request& request, std::vector<std::vector<std::byte>>& memory,
               const TensorInfo& info, Dims dims) {
  memory.emplace_back(byte_size(info.type, element_count(dims)));
  request.inputs.push_back({info.name, info.type, std::move(dims), memory.back()});
}

Result<BuildOptions> build_options(const ModelConfig& config, int threads) {
  BuildOptions options;
  options.threads = threads;
  const std::string precision = parameter(config, "precision");
  if (!precision.empty() && precision != "fp32" && precision != "fp16" && precision != "bf16" &&
      precision != "best")
    return make_error(ErrorCode::kInvalidArgument,
                      "config.pbtxt: parameter precision: '{}'; it is fp32, fp16, bf16 or best",
                      precision);
  options.fp16 = precision == "fp16" || precision == "best";
  options.bf16 = precision == "bf16" || precision == "best";
  CAMSHAFT_ASSIGN(const double level,
                  number_parameter(config, "level", options.optimization_level));
  if (level > 5)
    return make_error(ErrorCode::kInvalidArgument, "config.pbtxt: parameter level: 0 to 5");
  options.optimization_level = static_cast<int>(level);
  return options;
}

std::string describe(const std::vector<OptimizationProfile>& profiles) {
  std::string text;
  for (const OptimizationProfile& profile : profiles)
    for (const ShapeRange& range : profile)
      text += fmt::format("{} {} {} {};", range.input, to_string(range.min), to_string(range.opt),
                          to_string(range.max));
  return text;
}

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error))
    if (entry.is_regular_file(error) && entry.path().extension() != ".engine")
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// The largest batch an engine takes: of its first profile; 0: its inputs have none.
int64_t batch_bound(const Engine& engine) {
  if (engine.profiles().empty()) return 0;
  int64_t bound = 0;
  for (const ShapeRange& range : engine.profiles()[0]) {
    if (range.min.empty() || range.min[0] > 1) return 0;
    bound = bound == 0 ? range.max[0] : std::min(bound, range.max[0]);
  }
  return bound;
}

Result<fs::path> model_file(const fs::path& folder, const ModelConfig& config) {
  std::vector<std::string> names = {"model.engine", "model.onnx"};
  if (const std::string& own = config.default_model_filename(); !own.empty()) {
    if (own.find('/') != std::string::npos)
      return make_error(ErrorCode::kInvalidArgument,
                        "config.pbtxt: default_model_filename is a name, not a path: '{}'", own);
    names = {own};
  }
  std::error_code error;
  for (const std::string& name : names)
    if (fs::exists(folder / name, error)) return folder / name;
  return make_error(ErrorCode::kIo, "{}: there is no {}", folder.string(),
                    fmt::format("{}", fmt::join(names, " or ")));
}

}  // namespace

Status Model::build_engine(const fs::path& file, GivenConfig& given, const ModelOptions& options) {
  CAMSHAFT_ASSIGN(camshaft::Model network, camshaft::Model::from_file(file));
  const NetworkFacts facts{network.inputs(), network.outputs(), 0, "camshaft_onnx"};
  CAMSHAFT_TRY(complete_config(given, given.config.name(), facts, options.default_max_batch));
  CAMSHAFT_ASSIGN(BuildOptions build, build_options(given.config, threads_per_instance_));
  CAMSHAFT_ASSIGN(build.profiles, build_profiles(given.config, network.inputs()));
  const api::EngineCache cache(options.cache_folder, options.cache_limit);
  CAMSHAFT_ASSIGN(const std::string key,
                  engine_key(files_of(file.parent_path()),
                             fmt::format("{} {} {} {} {} {}", file.filename().string(),
                                         describe(build.profiles), build.threads, build.fp16,
                                         build.bf16, build.optimization_level)));
  std::string note;
  engine_ = cache.load(key, note);
  if (!note.empty()) options.say(note);
  if (engine_) return ok_status();
  const Clock::time_point start = Clock::now();
  options.say(fmt::format("model '{}' version {}: building an engine", name(), version_));
  build.progress = [&options](const char*, int, int) { return !options.is_ending(); };
  CAMSHAFT_ASSIGN(Engine engine, camshaft::build(std::move(network), build));
  options.say(fmt::format("model '{}' version {}: built in {:.1f} s", name(), version_,
                          seconds_since(start)));
  if (const Status stored = cache.store(key, engine); !stored.ok()) options.say(stored.message());
  engine_ = std::move(engine);
  return ok_status();
}

Status Model::open_engine(const fs::path& folder, GivenConfig& given, const ModelOptions& options) {
  CAMSHAFT_ASSIGN(const fs::path file, model_file(folder, given.config));
  int instances = 0;
  for (const auto& group : given.config.instance_group()) instances += std::max(group.count(), 1);
  const int threads = options.threads > 0 ? options.threads : default_num_threads();
  threads_per_instance_ = std::max(1, threads / std::max(instances, 1));
  if (file.extension() != ".engine") return build_engine(file, given, options);
  CAMSHAFT_ASSIGN(Engine engine, Engine::load(file));
  const NetworkFacts facts{engine.inputs(), engine.outputs(), batch_bound(engine),
                           "camshaft_engine"};
  engine_ = std::move(engine);
  return complete_config(given, given.config.name(), facts, options.default_max_batch);
}

Status Model::read_policies(const ModelOptions& options) {
  is_dynamic_ = config_.has_dynamic_batching() && config_.max_batch_size() > 1;
  CAMSHAFT_ASSIGN(const double goal_ms,
                  number_parameter(config_, "latency_goal_ms", options.latency_goal_ms));
  bounds_.goal_us = goal_ms * 1e3;
  bounds_.max_delay_us =
      static_cast<double>(config_.dynamic_batching().max_queue_delay_microseconds());
  const inference::ModelDynamicBatching& batching = config_.dynamic_batching();
  if (batching.priority_levels() > 0 &&
      (batching.default_priority_level() < 1 ||
       batching.default_priority_level() > batching.priority_levels()))
    return make_error(ErrorCode::kInvalidArgument,
                      "config.pbtxt: default_priority_level {}: it is 1 to priority_levels ({})",
                      batching.default_priority_level(), batching.priority_levels());
  queue_size_ = options.queue_size;
  times_ = batching::BatchTimes(batching::batch_sizes(std::max(config_.max_batch_size(), 1)));
  return ok_status();
}

Status Model::read_labels(const fs::path& folder) {
  for (const auto& output : config_.output()) {
    if (output.label_filename().empty()) continue;
    const fs::path name = output.label_filename();
    if (name.is_absolute() || name.lexically_normal().string().rfind("..", 0) == 0)
      return make_error(ErrorCode::kInvalidArgument,
                        "config.pbtxt: label_filename is inside the model's folder, not '{}'",
                        name.string());
    std::ifstream stream(folder / name);
    if (!stream)
      return make_error(ErrorCode::kIo, "config.pbtxt: label_filename: {} cannot be read",
                        (folder / name).string());
    std::vector<std::string>& lines = labels_[output.name()];
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
  }
  return ok_status();
}

Status Model::make_runners() {
  int count = 0;
  for (const auto& group : config_.instance_group()) count += group.count();
  for (int k = 0; k < count; ++k) {
    CAMSHAFT_ASSIGN(std::unique_ptr<Runner> runner,
                    Runner::create(*engine_, threads_per_instance_, is_batched()));
    runners_.push_back(std::move(runner));
  }
  return ok_status();
}

// Inputs of the shapes the engine was tuned for, `rows` of them.
Result<RequestPtr> Model::sample_request(int64_t rows) const {
  auto request = std::make_shared<Request>();
  auto memory = std::make_shared<std::vector<std::vector<std::byte>>>();
  for (const TensorInfo& info : engine_->inputs()) {
    Dims dims = info.dims;
    for (const OptimizationProfile& profile : engine_->profiles()) {
      for (const ShapeRange& range : profile)
        if (range.input == info.name) dims = range.opt;
      break;
    }
    if (!info.has_rank || element_count(dims) < 0)
      return make_error(ErrorCode::kUnsupported, "input '{}': no shape is known to measure with",
                        info.name);
    if (is_batched() && !dims.empty()) dims[0] = rows;
    add_input(*request, *memory, info, std::move(dims));
    fill(info.type, true, memory->back());
  }
  request->rows = rows;
  request->keeper = memory;
  return request;
}

// Every size runs once (which also plans it); the ends of the table are measured first, for what
// lies between is a line.
Status Model::measure(const ModelOptions& options) {
  std::vector<int64_t> order(times_.sizes().begin(), times_.sizes().end());
  std::stable_partition(order.begin(), order.end(), [](int64_t size) {
    return (size & (size - 1)) == 0;  // powers of two
  });
  const Clock::time_point start = Clock::now();
  std::vector<Answer> answers;
  for (const int64_t size : order) {
    const bool is_late = seconds_since(start) * 1e3 > static_cast<double>(options.measure_ms);
    if (is_late && size != 1 && size != times_.largest()) continue;
    Result<RequestPtr> request = sample_request(size);
    if (!request.ok()) return ok_status();  // such a model is not measured
    std::vector<double> us;
    BatchTime time;
    const double budget =
        static_cast<double>(options.measure_ms) / 1e3 / static_cast<double>(order.size());
    const Clock::time_point begin = Clock::now();
    for (int run = 0; run <= kMostRuns; ++run) {
      const Clock::time_point before = Clock::now();
      const Status status = runners_[0]->run({&*request, 1}, size, answers, time);
      if (status.code() == ErrorCode::kInvalidModel) return status;
      if (!status.ok()) return ok_status();  // zeros and random numbers are nothing it takes
      const double took = seconds_since(before) * 1e6;
      if (run > 0 || took > kLongRunUs) us.push_back(took);
      if (!us.empty() && seconds_since(begin) > budget) break;
    }
    // The least: what else the machine did is no property of the model.
    times_.measured(size, *std::min_element(us.begin(), us.end()));
  }
  // The other instances plan the sizes that will be met most.
  for (size_t k = 1; k < runners_.size(); ++k)
    for (const int64_t size : {int64_t{1}, times_.largest()}) {
      CAMSHAFT_ASSIGN(const RequestPtr request, sample_request(size));
      BatchTime time;
      CAMSHAFT_TRY(runners_[k]->run({&request, 1}, size, answers, time));
    }
  return ok_status();
}

// model_warmup of the configuration, on every instance.
Status Model::warm_up(const fs::path& folder) {
  for (const inference::ModelWarmup& sample : config_.model_warmup()) {
    const std::string place = fmt::format("model_warmup '{}'", sample.name());
    auto request = std::make_shared<Request>();
    std::vector<std::vector<std::byte>> memory;
    const int64_t rows = std::max<int64_t>(sample.batch_size(), 1);
    for (const TensorInfo& info : engine_->inputs()) {
      const auto given = sample.inputs().find(info.name);
      if (given == sample.inputs().end())
        return make_error(ErrorCode::kInvalidArgument, "{}: input '{}' is not given", place,
                          info.name);
      Dims dims(given->second.dims().begin(), given->second.dims().end());
      if (is_batched()) dims.insert(dims.begin(), rows);
      if (const int64_t count = checked_elements(dims, info.type); count < 0 || count > (1 << 30))
        return make_error(ErrorCode::kInvalidArgument, "{}: input '{}' is {}", place, info.name,
                          to_string(dims));
      add_input(*request, memory, info, dims);
      fill(info.type, given->second.random_data(), memory.back());
      if (const std::string& file = given->second.input_data_file(); !file.empty()) {
        std::ifstream stream(folder / "warmup" / fs::path(file).filename(), std::ios::binary);
        stream.read(reinterpret_cast<char*>(memory.back().data()),
                    static_cast<std::streamsize>(memory.back().size()));
        if (static_cast<size_t>(stream.gcount()) != memory.back().size())
          return make_error(ErrorCode::kIo, "{}: warmup/{} has fewer than {} bytes", place, file,
                            memory.back().size());
      }
    }
    if (const auto error = check(*request))
      return make_error(ErrorCode::kInvalidArgument, "{}: {}", place, error->message);
    std::vector<Answer> answers;
    BatchTime time;
    const int64_t size = is_batched() ? times_.size_for(request->rows) : 1;
    for (const auto& runner : runners_)
      for (uint32_t k = 0; k < std::clamp<uint32_t>(sample.count(), 1, 1000); ++k)
        CAMSHAFT_TRY(runner->run({&request, 1}, size, answers, time).with_context(place));
  }
  return ok_status();
}

Result<std::shared_ptr<Model>> Model::load(const std::string& name, int64_t version,
                                           const fs::path& folder, GivenConfig given,
                                           const ModelOptions& options) {
  const Clock::time_point start = Clock::now();
  std::shared_ptr<Model> model(new Model());
  model->version_ = version;
  if (!given.config.name().empty() && given.config.name() != name)
    return make_error(ErrorCode::kInvalidArgument,
                      "config.pbtxt: the name is '{}', the folder's is '{}'", given.config.name(),
                      name);
  given.config.set_name(name);
  model->config_.set_name(name);
  CAMSHAFT_TRY(model->open_engine(folder / std::to_string(version), given, options));
  for (const std::string& note : given.notes)
    options.say(fmt::format("model '{}': config.pbtxt: {}", name, note));
  model->config_ = std::move(given.config);
  CAMSHAFT_TRY(model->read_policies(options));
  CAMSHAFT_TRY(model->read_labels(folder));
  CAMSHAFT_TRY(model->make_runners());
  CAMSHAFT_TRY(model->measure(options));
  CAMSHAFT_TRY(model->warm_up(folder));
  model->load_seconds_ = seconds_since(start);
  for (size_t k = 0; k < model->runners_.size(); ++k)
    model->threads_.emplace_back([raw = model.get(), k] { raw->work(static_cast<int>(k)); });
  options.say(fmt::format(
      "model '{}' version {}: ready in {:.2f} s, {}", name, version, model->load_seconds_,
      model->is_batched() ? fmt::format("batches up to {}", model->config_.max_batch_size())
                          : "without batches"));
  return model;
}

}  // namespace camshaft::serve
