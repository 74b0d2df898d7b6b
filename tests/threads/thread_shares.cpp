// SPDX-License-Identifier: Apache-2.0
// How evenly the layers of a network divide over many threads, on a machine that has fewer: kernels
// are prepared for so many, and one thread does all shares in turn and times them.
//   thread_shares [--threads 8,64] [--least-us 20] [--all] model.onnx …
// Imbalance of a layer: the time with its largest shares, and what nobody shares, over the mean.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/pool_rehearsal.h"
#include "base/thread_pool.h"
#include "onnx/importer.h"
#include "runtime/executor.h"
#include "tuner/builder.h"

namespace camshaft {
namespace {

struct Options {
  std::vector<int> threads = {8, 16, 32, 64};
  double least_us = 20;  // layers that take less are not told
  bool all = false;
  std::vector<std::string> models;
};

struct LayerShares {
  std::string name, tactic;
  double total_us = 0;    // with one thread
  double longest_us = 0;  // with all of them
  std::string counts;     // units of each job

  double imbalance(int threads) const { return longest_us * threads / total_us; }
};

constexpr int kRuns = 5;

class Rehearsal {
 public:
  Rehearsal(const engine::Engine& engine, int threads) : engine_(engine), pool_(threads) {}

  Result<std::vector<LayerShares>> run() {
    CAMSHAFT_ASSIGN(auto executor, runtime::Executor::create(engine_, engine_.plan(), pool_));
    CAMSHAFT_TRY(executor->prepare(input_extents()));
    set_inputs(*executor);
    std::vector<LayerShares> least;
    for (int round = 0; round < kRuns; ++round) {
      std::vector<LayerShares> layers;
      rehearsal_.jobs.clear();
      runtime::Profiler profiler{
          [&](const runtime::LayerTime& time) { layers.push_back(shares_of(time)); }};
      CAMSHAFT_TRY(executor->run(&profiler));
      if (least.empty()) least = layers;
      for (size_t k = 0; k < layers.size() && k < least.size(); ++k)
        if (layers[k].longest_us < least[k].longest_us) least[k] = layers[k];
    }
    return least;
  }

 private:
  std::vector<ir::Extents> input_extents() const {
    std::vector<ir::Extents> all;
    for (const int input : engine_.plan().inputs) {
      ir::Extents extents;
      for (const ir::Dim dim : engine_.plan().tensors[input].shape)
        extents.push_back(dim.is_known() ? dim.extent() : 1);
      all.push_back(extents);
    }
    return all;
  }

  void set_inputs(runtime::Executor& executor) {
    const std::vector<ir::Extents> extents = input_extents();
    for (size_t k = 0; k < extents.size(); ++k) {
      const engine::PlanTensor& tensor = engine_.plan().tensors[engine_.plan().inputs[k]];
      buffers_.emplace_back(ir::bytes_for(tensor.type, ir::element_count(extents[k])) + 64);
      // Zeros would make NaN and denormal numbers of some networks, which take longer.
      if (tensor.type == ir::DataType::kFloat) fill(buffers_.back());
      executor.set_input(static_cast<int>(k), buffers_.back().data());
    }
  }

  static void fill(std::vector<std::byte>& bytes) {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> values(-1, 1);
    for (size_t k = 0; k + sizeof(float) <= bytes.size(); k += sizeof(float)) {
      const float value = values(random);
      std::memcpy(bytes.data() + k, &value, sizeof(float));
    }
  }

  // The jobs since the last layer are those of this one.
  LayerShares shares_of(const runtime::LayerTime& time) {
    const engine::PlanStep& step = engine_.plan().steps[time.step];
    LayerShares layer{step.layer.name, step.tactic, time.microseconds, time.microseconds, ""};
    for (const PoolRehearsal::Job& job : rehearsal_.jobs) {
      const double threads = static_cast<double>(job.share_us.size());
      layer.longest_us += job.total_us() * (job.imbalance() / threads - 1);
      layer.counts += fmt::format("{}{}", layer.counts.empty() ? "" : "+", job.count);
    }
    rehearsal_.jobs.clear();
    return layer;
  }

  const engine::Engine& engine_;
  PoolRehearsal rehearsal_;
  ThreadPool pool_;
  std::vector<std::vector<std::byte>> buffers_;
};

void print(const std::string& model, int threads, std::vector<LayerShares> layers,
           const Options& options) {
  double total = 0, longest = 0;
  for (const LayerShares& layer : layers) {
    total += layer.total_us;
    longest += layer.longest_us;
  }
  fmt::print("{} with {} threads: {:.0f} us of work, {:.1f} times as fast\n", model, threads, total,
             total / longest);
  std::sort(layers.begin(), layers.end(), [&](const LayerShares& a, const LayerShares& b) {
    return a.longest_us - a.total_us / threads > b.longest_us - b.total_us / threads;
  });
  for (const LayerShares& layer : layers) {
    if (!options.all && (layer.total_us < options.least_us || layer.imbalance(threads) < 1.15))
      continue;
    fmt::print("  {:>8.1f} us {:>5.1f}% of the time {:>6.2f} {:<12} {:<36} {:.70}\n",
               layer.total_us, 100 * layer.longest_us / longest, layer.imbalance(threads),
               layer.counts.empty() ? "alone" : layer.counts,
               layer.tactic.empty() ? "reference" : layer.tactic, layer.name);
  }
}

Status run(const std::string& model, const Options& options) {
  for (const int threads : options.threads) {
    CAMSHAFT_ASSIGN(onnx_import::ImportedModel imported, onnx_import::import_file(model));
    tuner::BuildOptions build;
    build.threads = threads;
    build.optimization_level = 0;
    CAMSHAFT_ASSIGN(GrowingBytes bytes, tuner::build(std::move(imported.graph), build));
    CAMSHAFT_ASSIGN(const auto engine, engine::Engine::load(std::move(bytes)));
    CAMSHAFT_ASSIGN(std::vector<LayerShares> layers, Rehearsal(*engine, threads).run());
    print(model, threads, std::move(layers), options);
  }
  return ok_status();
}

std::vector<int> numbers(const char* text) {
  std::vector<int> list;
  for (char* end; *text != '\0'; text = *end == ',' ? end + 1 : end)
    list.push_back(static_cast<int>(std::strtol(text, &end, 10)));
  return list;
}

}  // namespace
}  // namespace camshaft

int main(int argc, char** argv) {
  camshaft::Options options;
  for (int k = 1; k < argc; ++k) {
    if (std::strcmp(argv[k], "--threads") == 0 && k + 1 < argc)
      options.threads = camshaft::numbers(argv[++k]);
    else if (std::strcmp(argv[k], "--least-us") == 0 && k + 1 < argc)
      options.least_us = std::atof(argv[++k]);
    else if (std::strcmp(argv[k], "--all") == 0)
      options.all = true;
    else
      options.models.push_back(argv[k]);
  }
  for (const std::string& model : options.models)
    if (const camshaft::Status status = camshaft::run(model, options); !status.ok()) {
      fmt::print(stderr, "{}: {}\n", model, status.message());
      return 1;
    }
}
