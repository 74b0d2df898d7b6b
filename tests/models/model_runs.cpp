// SPDX-License-Identifier: Apache-2.0
// Runs the shared models (or any folder of that layout) and compares with their stored outputs:
// rtol 1e-3, atol 1e-4 of the largest reference value. Prints one line per data set: error, build
// and load time, median run time.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>

#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "onnx/importer.h"
#include "passes/pipeline.h"
#include "runtime/context.h"
#include "tuner/builder.h"
#include "tuner/layer_check.h"

namespace camshaft {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using onnx_import::StoredTensor;

struct Options {
  std::vector<std::string> models;  // names or folders; empty: all
  tuner::BuildOptions build;
  int runs = 20;
  bool profile = false, verbose = false, layers = false;
};

struct PrintLogger : Logger {
  void log(Severity severity, std::string_view text) override {
    std::fprintf(stderr, "[%c] %.*s\n", "FEWIV"[static_cast<int>(severity)],
                 static_cast<int>(text.size()), text.data());
  }
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

fs::path shared_folder() {
  if (const char* folder = std::getenv("CAMSHAFT_SHARED")) return folder;
  return fs::path("..") / "shared";
}

struct DataSet {
  std::string name;
  std::vector<StoredTensor> inputs, outputs;
};

Result<std::vector<DataSet>> read_data(const fs::path& model) {
  std::vector<DataSet> sets;
  for (int k = 0; fs::exists(model / fmt::format("test_data_set_{}", k)); ++k) {
    DataSet set{fmt::format("set {}", k), {}, {}};
    const fs::path folder = model / fmt::format("test_data_set_{}", k);
    for (auto [list, stem] : {std::pair(&set.inputs, "input"), std::pair(&set.outputs, "output")}) {
      for (int j = 0; fs::exists(folder / fmt::format("{}_{}.pb", stem, j)); ++j) {
        CAMSHAFT_ASSIGN(StoredTensor tensor,
                        onnx_import::read_tensor_file(folder / fmt::format("{}_{}.pb", stem, j)));
        list->push_back(std::move(tensor));
      }
    }
    sets.push_back(std::move(set));
  }
  return sets;
}

// One profile that spans all data sets, tuned for the first.
engine::Profile profile_of(const ir::Graph& graph, const std::vector<DataSet>& sets) {
  engine::Profile profile;
  for (size_t k = 0; k < graph.inputs().size(); ++k) {
    engine::ShapeRange range{graph.inputs()[k]->name, {}, {}, {}};
    for (const DataSet& set : sets) {
      const ir::Extents& extents = set.inputs.at(k).extents;
      if (range.opt.empty()) range.min = range.opt = range.max = extents;
      for (size_t d = 0; d < extents.size(); ++d) {
        range.min[d] = std::min(range.min[d], extents[d]);
        range.max[d] = std::max(range.max[d], extents[d]);
      }
    }
    profile.push_back(std::move(range));
  }
  return profile;
}

// Q/DQ models round: their outputs are compared as a whole (cosine), see the models' README.
bool is_quantized(const ir::Graph& graph) {
  for (const auto& layer : graph.layers())
    if (layer->kind == ir::LayerKind::kQuantize) return true;
  return false;
}

double cosine(const StoredTensor& expected, const void* data) {
  const auto* a = static_cast<const float*>(data);
  const auto* b = reinterpret_cast<const float*>(expected.bytes.data());
  double ab = 0, aa = 0, bb = 0;
  for (size_t k = 0; k < expected.bytes.size() / 4; ++k) {
    ab += double{a[k]} * b[k];
    aa += double{a[k]} * a[k];
    bb += double{b[k]} * b[k];
  }
  return ab / std::sqrt(std::max(aa * bb, 1e-300));
}

// Largest |a - b| relative to what is allowed (above 1: wrong), for float outputs; other types must
// be equal.
double excess(const StoredTensor& expected, const void* data, double& max_error) {
  if (expected.type != ir::DataType::kFloat)
    return std::memcmp(expected.bytes.data(), data, expected.bytes.size()) ? 1e9 : 0;
  const auto* a = static_cast<const float*>(data);
  const auto* b = reinterpret_cast<const float*>(expected.bytes.data());
  const size_t count = expected.bytes.size() / 4;
  double largest = 0, worst = 0;
  size_t outside = 0;
  for (size_t k = 0; k < count; ++k)
    largest = std::max<double>(largest, std::isfinite(b[k]) ? std::fabs(b[k]) : 0);
  for (size_t k = 0; k < count; ++k) {
    if (a[k] == b[k] || (std::isnan(a[k]) && std::isnan(b[k]))) continue;
    const double error = std::fabs(double{a[k]} - b[k]);
    const double ratio = error / (1e-3 * std::fabs(b[k]) + 1e-4 * largest);
    max_error =
        std::max(max_error, std::isnan(error) ? INFINITY : error / std::max(largest, 1e-30));
    worst = std::max(worst, std::isnan(ratio) ? INFINITY : ratio);
    outside += ratio > 1;
  }
  return outside * 10000 <= count ? worst / 10 : worst;
}

Status bind(runtime::Context& context, const DataSet& set) {
  for (size_t k = 0; k < set.inputs.size(); ++k) {
    CAMSHAFT_TRY(context.set_input_extents(static_cast<int>(k), set.inputs[k].extents));
    CAMSHAFT_TRY(context.set_input(static_cast<int>(k), set.inputs[k].bytes.data(),
                                   set.inputs[k].bytes.size()));
  }
  return ok_status();
}

Result<double> compare(runtime::Context& context, const DataSet& set, bool quantized,
                       double& max_error) {
  double worst = 0;
  for (size_t k = 0; k < set.outputs.size(); ++k) {
    CAMSHAFT_ASSIGN(const ir::Extents extents, context.output_extents(static_cast<int>(k)));
    if (!(extents == set.outputs[k].extents))
      return make_error(ErrorCode::kInternal, "output {} has another shape than stored", k);
    const void* data = context.output_data(static_cast<int>(k));
    const double ratio = excess(set.outputs[k], data, max_error);
    const bool close = quantized && set.outputs[k].type == ir::DataType::kFloat &&
                       cosine(set.outputs[k], data) >= 0.999;
    worst = std::max(worst, close ? 0 : ratio);
  }
  return worst;
}

void print_profile(runtime::Context& context, int runs) {
  const auto& steps = context.engine().plan().steps;
  std::vector<double> total(steps.size());
  context.set_profiler(
      [&](const runtime::LayerTime& time) { total[time.step] += time.microseconds; });
  for (int k = 0; k < runs; ++k)
    if (!context.execute().ok()) return;
  context.set_profiler(nullptr);
  std::vector<int> order(steps.size());
  for (size_t k = 0; k < order.size(); ++k) order[k] = static_cast<int>(k);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return total[a] > total[b]; });
  double sum = 0;
  for (const double us : total) sum += us / runs;
  std::printf("    %10.1f us in %zu layers\n", sum, steps.size());
  for (size_t k = 0; k < order.size() && k < 25; ++k) {
    const auto& step = steps[order[k]];
    std::printf("    %10.1f us  %-16s %-34s %s\n", total[order[k]] / runs,
                std::string(ir::kind_name(step.layer.kind)).c_str(),
                step.tactic.empty() ? "reference" : step.tactic.c_str(),
                step.layer.name.substr(0, 70).c_str());
  }
}

// Prints the steps that differ from the interpreter on the operands they found.
Status check_layers(const fs::path& folder, const DataSet& set, runtime::Context& context) {
  CAMSHAFT_ASSIGN(onnx_import::ImportedModel model,
                  onnx_import::import_file(folder / "model.onnx"));
  std::vector<kernels::Value> inputs;
  for (const StoredTensor& input : set.inputs) {
    CAMSHAFT_ASSIGN(kernels::Value value,
                    kernels::make_value(input.type, input.extents, input.bytes));
    inputs.push_back(std::move(value));
  }
  passes::PassRecord record;
  CAMSHAFT_TRY(passes::optimize(*model.graph, record));
  CAMSHAFT_ASSIGN(const std::vector<tuner::LayerCheck> checks,
                  tuner::check_layers(*model.graph, inputs, context));
  for (const tuner::LayerCheck& layer : checks)
    if (!layer.is_within(1e-4)) std::printf("    %s\n", text_of(layer).c_str());
  CAMSHAFT_ASSIGN(const std::vector<kernels::Value> outputs,
                  kernels::evaluate(*model.graph, inputs));
  for (size_t k = 0; k < outputs.size(); ++k) {
    double error = 0;
    const double ratio = excess(set.outputs[k], outputs[k].bytes().data(), error);
    std::printf(
        "    the optimized graph by the interpreter: output %zu error %.2e, %.2f of what is "
        "allowed\n",
        k, error, ratio);
  }
  return ok_status();
}

Status run_model(const fs::path& folder, const Options& options) {
  const std::string name = folder.filename().string();
  CAMSHAFT_ASSIGN(const std::vector<DataSet> sets, read_data(folder));
  CAMSHAFT_ASSIGN(onnx_import::ImportedModel model,
                  onnx_import::import_file(folder / "model.onnx"));
  const bool quantized = is_quantized(*model.graph);
  tuner::BuildOptions build = options.build;
  build.profiles = {profile_of(*model.graph, sets)};
  tuner::BuildStatistics statistics;
  const Clock::time_point build_start = Clock::now();
  CAMSHAFT_ASSIGN(GrowingBytes bytes, tuner::build(std::move(model.graph), build, &statistics));
  const double build_seconds = seconds_since(build_start);
  const Clock::time_point load_start = Clock::now();
  CAMSHAFT_ASSIGN(std::shared_ptr<const engine::Engine> engine,
                  engine::Engine::load(std::move(bytes)));
  const double load_ms = seconds_since(load_start) * 1e3;
  CAMSHAFT_ASSIGN(std::unique_ptr<runtime::Context> context,
                  runtime::Context::create(engine, {.threads = options.build.threads}));
  bool wrong = false;
  for (const DataSet& set : sets) {
    CAMSHAFT_TRY(bind(*context, set));
    if (options.layers) CAMSHAFT_TRY(check_layers(folder, set, *context));
    std::vector<double> times;
    for (int k = 0; k < options.runs + 1; ++k) {
      const Clock::time_point start = Clock::now();
      CAMSHAFT_TRY(context->execute());
      times.push_back(seconds_since(start) * 1e6);
    }
    double max_error = 0;
    CAMSHAFT_ASSIGN(const double worst, compare(*context, set, quantized, max_error));
    std::sort(times.begin(), times.end() - 0);
    std::printf(
        "%-28s %-6s %s  error %.1e  min %10.1f us  median %10.1f us  arena %6.1f MiB  build %5.2f "
        "s (%d timed)  load %5.1f ms\n",
        name.c_str(), set.name.c_str(), worst <= 1 ? "ok   " : "WRONG", max_error, times.front(),
        times[times.size() / 2], static_cast<double>(context->arena_bytes()) / (1 << 20),
        build_seconds, statistics.timed_tactics, load_ms);
    wrong |= worst > 1;
    if (options.profile) print_profile(*context, std::max(options.runs, 1));
  }
  return wrong ? make_error(ErrorCode::kInternal, "outputs differ from the stored ones")
               : ok_status();
}

// In a child process: a crash in one model is one failure, not the end.
bool run_isolated(const fs::path& folder, const Options& options) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const Status status = run_model(folder, options);
    if (!status.ok())
      std::printf("%-28s FAILED %s\n", folder.filename().c_str(), status.message().c_str());
    std::fflush(stdout);
    _exit(status.ok() ? 0 : 1);
  }
  int result = 0;
  waitpid(child, &result, 0);
  if (WIFSIGNALED(result))
    std::printf("%-28s CRASHED signal %d\n", folder.filename().c_str(), WTERMSIG(result));
  return WIFEXITED(result) && WEXITSTATUS(result) == 0;
}

constexpr const char* kHelp =
    "model_runs [MODEL...] [--runs N] [--threads N] [--level N] [--cache FILE] [--profile] "
    "[--verbose]\n"
    "MODEL: a name under shared/models (CAMSHAFT_SHARED or ../shared), or a folder with model.onnx "
    "and test_data_set_K\n";

bool parse(int argc, char** argv, Options& options) {
  options.build.threads = 1;
  for (int k = 1; k < argc; ++k) {
    const std::string word = argv[k];
    const auto number = [&] { return k + 1 < argc ? std::atoi(argv[++k]) : 0; };
    if (word == "--runs")
      options.runs = number();
    else if (word == "--threads")
      options.build.threads = number();
    else if (word == "--level")
      options.build.optimization_level = number();
    else if (word == "--cache")
      options.build.timing_cache_file = k + 1 < argc ? argv[++k] : "";
    else if (word == "--profile")
      options.profile = true;
    else if (word == "--layers")
      options.layers = true;
    else if (word == "--verbose")
      options.verbose = true;
    else if (word.starts_with("--"))
      return false;
    else
      options.models.push_back(word);
  }
  return true;
}

int run_all(const Options& options) {
  const fs::path models = shared_folder() / "models";
  std::vector<fs::path> folders;
  for (const std::string& name : options.models)
    folders.push_back(fs::exists(fs::path(name) / "model.onnx") ? fs::path(name) : models / name);
  if (folders.empty()) {
    if (!fs::exists(models)) {
      std::printf("skipped: no folder %s (set CAMSHAFT_SHARED)\n", models.c_str());
      return 77;
    }
    for (const auto& entry : fs::directory_iterator(models))
      if (fs::exists(entry.path() / "model.onnx")) folders.push_back(entry.path());
    std::sort(folders.begin(), folders.end());
  }
  int failed = 0;
  for (const fs::path& folder : folders) failed += !run_isolated(folder, options);
  std::printf("%d of %zu models failed\n", failed, folders.size());
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace camshaft

int main(int argc, char** argv) {
  camshaft::Options options;
  if (!camshaft::parse(argc, argv, options)) {
    std::fputs(camshaft::kHelp, stdout);
    return 2;
  }
  camshaft::PrintLogger logger;
  if (options.verbose) camshaft::set_logger(&logger, camshaft::Severity::kVerbose);
  return camshaft::run_all(options);
}
