// SPDX-License-Identifier: Apache-2.0
#include "tuner/timing.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "kernels/prepared.h"
#include "runtime/buffer.h"
#include "tuner/sample_values.h"

namespace camshaft::tuner {
namespace {

using kernels::KernelArgs;
using kernels::Problem;
using kernels::ProblemTensor;
using kernels::Tactic;
using kernels::TensorView;
using Clock = std::chrono::steady_clock;

constexpr double kMinSampleUs = 30;  // shorter kernels are run several times per sample
constexpr double kMaxProblemUs =
    200'000;  // all candidates of one problem together, after the first round
constexpr size_t kMinColdBytes = 4096;  // fewer bytes of weights: a few cache misses at most
constexpr size_t kMaxCopies = 256, kFewCopies = 8;
constexpr double kMaxWaitingUs = 1'000;    // longer kernels do not wait for their weights
constexpr double kMaxReferenceUs = 2'000;  // runs of a reference kernel after the first
constexpr double kDropFirst = 2.0, kDropLater = 1.25;  // times the best so far: no hope

double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

size_t bytes_of(const ProblemTensor& t) {
  return ir::bytes_for(t.type, ir::element_count(t.extents));
}

// The tensors of a problem in memory, shared by all candidates.
struct Arena {
  std::vector<runtime::Buffer> buffers;
  std::vector<TensorView> inputs, outputs;

  explicit Arena(const Problem& problem) : buffers(problem.inputs.size() + problem.outputs.size()) {
    size_t next = 0;
    for (size_t k = 0; k < problem.inputs.size(); ++k) {
      const ProblemTensor& t = problem.inputs[k];
      inputs.push_back(view(t, buffers[next++]));
      if (!t.present) continue;
      if (t.constant && t.format == ir::Format::kLinear)
        std::memcpy(inputs.back().data, t.constant->view.data(), t.constant->view.size());
      else
        fill_sample(problem, k, inputs.back());
    }
    for (const ProblemTensor& t : problem.outputs) {
      outputs.push_back(view(t, buffers[next++]));
      if (t.present) std::memset(outputs.back().data, 0, bytes_of(t));
    }
  }
  static TensorView view(const ProblemTensor& t, runtime::Buffer& buffer) {
    return t.present ? kernels::make_view(buffer.reserve(bytes_of(t)), t.type, t.format, t.extents)
                     : TensorView();
  }
};

#if defined(__x86_64__)
constexpr bool kCanFlush = true;
void flush(const std::byte* bytes, size_t count) {
  for (size_t k = 0; k < count; k += 64) _mm_clflush(bytes + k);
  _mm_mfence();
}
#else
constexpr bool kCanFlush = false;
void flush(const std::byte*, size_t) {}
#endif

// Weights of one candidate, packed or read as they are, made cold before every run: written back to
// memory, or one of so many copies in turn that the L2 cache has forgotten it.
class ColdWeights {
 public:
  // `write` fills the memory of one copy.
  template <class Write>
  void prepare(size_t bytes, WeightsFrom from, const Write& write) {
    bytes_ = bytes;
    if (bytes_ == 0) return;
    if (bytes_ < kMinColdBytes) from = WeightsFrom::kL2;
    flushed_ = from == WeightsFrom::kMemory && kCanFlush;
    copies_ = from == WeightsFrom::kL2 || flushed_
                  ? 1
                  : std::min(2 * cpu_info().l2_bytes / bytes_ + 2, kMaxCopies);
    stride_ = (bytes_ + 63) / 64 * 64;
    std::byte* memory = memory_.reserve(stride_ * copies_);
    std::memset(memory, 0, bytes_);
    write(memory);
    for (size_t k = 1; k < copies_; ++k) std::memcpy(memory + k * stride_, memory, bytes_);
  }
  bool flushed() const { return flushed_; }
  // Runs that read weights larger than a share of L3 once more before they are timed: other
  // candidates' have displaced them, which would be timed as memory (1x768 times 768x768 on Zen 3:
  // all tiles 0.2 ms, where L3 gives 0.033 to one and 0.096 to another).
  size_t runs_before() const { return copies_ > 1 && copies_ <= kFewCopies ? copies_ : 0; }

  std::byte* next() {
    if (bytes_ == 0) return nullptr;
    if (flushed_) flush(memory_.data(), bytes_);
    turn_ = (turn_ + 1) % copies_;
    return memory_.data() + turn_ * stride_;
  }

 private:
  runtime::Buffer memory_;
  size_t bytes_ = 0, stride_ = 0, copies_ = 1, turn_ = 0;
  bool flushed_ = false;
};

// One tactic with its weights: each has its own, so that candidates do not warm the cache for each
// other.
struct Candidate {
  const Tactic* tactic = nullptr;
  ColdWeights packed;
  std::vector<std::pair<size_t, ColdWeights>>
      unpacked;  // constant inputs the tactic reads as they are
  runtime::Buffer workspace;
  kernels::BoundKernel kernel;
  ThreadPool* pool = nullptr;
  int runs_per_sample = 1;
  double first_run_us = 0;  // cold
  std::vector<double> samples;
  bool dropped = false;

  void prepare(const Problem& problem, const Arena& arena, ThreadPool& of_run, WeightsFrom from) {
    pool = &of_run;
    std::vector<TensorView> inputs = arena.inputs;
    const uint32_t mask = tactic->packed_inputs ? tactic->packed_inputs(problem) : 0;
    for (size_t k = 0; k < inputs.size(); ++k) {
      const ProblemTensor& t = problem.inputs[k];
      if (k < 32 && (mask >> k & 1))
        inputs[k].data = nullptr;
      else if (t.present && t.constant && bytes_of(t) >= kMinColdBytes)
        unpacked.emplace_back(k, ColdWeights())
            .second.prepare(bytes_of(t), from, [&](std::byte* to) {
              std::memcpy(to, arena.inputs[k].data, bytes_of(t));
            });
    }
    KernelArgs args;
    args.layer = problem.layer;
    args.inputs = inputs;
    args.outputs = arena.outputs;
    args.pool = pool;
    packed.prepare(tactic->packed_bytes ? tactic->packed_bytes(problem) : 0, from,
                   [&](std::byte* to) { tactic->pack(problem, to); });
    args.packed = packed.next();
    kernel = kernels::BoundKernel(*tactic, args);
    kernel.set_workspace(workspace.reserve(kernel.workspace_bytes()));
  }

  void next_weights() {
    kernel.set_packed(packed.next());
    for (auto& [k, weights] : unpacked) kernel.set_input(k, weights.next());
  }
  // Invented data may be out of range: the error takes its time, too.
  void run() { static_cast<void>(kernel.run()); }
  bool flushed() const {
    return packed.flushed() || std::any_of(unpacked.begin(), unpacked.end(),
                                           [](const auto& u) { return u.second.flushed(); });
  }
  size_t runs_before() const {
    size_t runs = packed.runs_before();
    for (const auto& [k, weights] : unpacked) runs = std::max(runs, weights.runs_before());
    return runs;
  }

  double sample() {
    if (flushed()) return sample_cold();
    if (first_run_us > 0 && first_run_us < kMaxWaitingUs)
      for (size_t k = runs_before(); k > 0; --k) {
        next_weights();
        run();
      }
    pool->rouse();
    const Clock::time_point start = Clock::now();
    for (int k = 0; k < runs_per_sample; ++k) {
      next_weights();
      run();
    }
    return us_since(start) / runs_per_sample;
  }
  double sample_cold() {
    double sum = 0;
    for (int k = 0; k < runs_per_sample; ++k) {
      next_weights();
      pool->rouse();  // they fell asleep while the weights left the caches
      const Clock::time_point start = Clock::now();
      run();
      sum += us_since(start);
    }
    return sum / runs_per_sample;
  }
  // The first quartile: noise of other programs only ever adds time.
  double typical() const {
    std::vector<double> sorted = samples;
    std::nth_element(sorted.begin(), sorted.begin() + sorted.size() / 4, sorted.end());
    return sorted[sorted.size() / 4];
  }
};

void drop_hopeless(std::vector<Candidate>& candidates, double factor) {
  double best = 1e30;
  for (const Candidate& c : candidates) best = std::min(best, c.typical());
  // Not for one sample that another program disturbed.
  for (Candidate& c : candidates)
    c.dropped |= std::min(c.typical(), c.first_run_us) > factor * best;
}

}  // namespace

Timer::Timer(int threads, int avg_timing) : pool_(threads), rounds_(std::max(avg_timing, 1)) {}
Timer::~Timer() = default;

// Most of L2 may be weights: what is timed cold but found there runs on tactics twice as slow as
// the best, the other way round they lose a few percent. Of L3 half counts: other cores, and other
// programs, use it too (25 MB of ResNet-50's bytes beside an L3 of 32 MB came from memory: sparse
// products that were timed from L3 took 1.65 times as long in the network).
WeightsFrom weights_from(size_t constant_bytes) {
  const CpuInfo& cpu = cpu_info();
  return constant_bytes > cpu.l3_bytes / 2       ? WeightsFrom::kMemory
         : constant_bytes > cpu.l2_bytes * 7 / 8 ? WeightsFrom::kL3
                                                 : WeightsFrom::kL2;
}

WeightsFrom weights_from(WeightsFrom network, const Problem& problem) {
  size_t bytes = 0;
  for (const ProblemTensor& t : problem.inputs)
    if (t.constant) bytes += t.constant->view.size();
  return bytes < kMinColdBytes ? WeightsFrom::kL2 : network;
}

std::string_view weights_from_name(WeightsFrom from) {
  static constexpr std::string_view kNames[] = {"L2", "L3", "memory"};
  return kNames[static_cast<int>(from)];
}

std::vector<double> Timer::time(const Problem& problem, std::span<const Tactic* const> tactics,
                                WeightsFrom weights) {
  ThreadPool& pool = pool_.team(problem.threads);
  const Arena arena(problem);
  std::vector<Candidate> candidates(tactics.size());
  for (size_t k = 0; k < tactics.size(); ++k) {
    candidates[k].tactic = tactics[k];
    candidates[k].prepare(problem, arena, pool, weights);
    // Pages, caches and branch predictors; tells how many runs make a sample.
    const double first = candidates[k].first_run_us = candidates[k].sample();
    candidates[k].runs_per_sample =
        static_cast<int>(std::clamp(kMinSampleUs / std::max(first, 0.05), 1.0, 200.0));
  }
  const Clock::time_point start = Clock::now();
  for (int round = 0; round < rounds_; ++round) {
    for (Candidate& c : candidates)
      if (!c.dropped) c.samples.push_back(c.sample());
    if (round == 0) drop_hopeless(candidates, kDropFirst);
    if (round == 2) drop_hopeless(candidates, kDropLater);
    if (round >= 2 && us_since(start) > kMaxProblemUs) break;
  }
  std::vector<double> times;
  times.reserve(candidates.size());
  for (const Candidate& c : candidates) times.push_back(c.typical());
  return times;
}

std::optional<double> Timer::time_reference(const Problem& problem) {
  const kernels::ReferenceKernel* kernel = kernels::reference_kernel(*problem.layer);
  if (!kernel) return std::nullopt;
  const Arena arena(problem);
  KernelArgs args;
  args.layer = problem.layer;
  args.inputs = arena.inputs;
  args.outputs = arena.outputs;
  args.pool = &pool_.team(problem.threads);
  std::vector<kernels::DynamicOutput> dynamic;
  double best_us = 0;
  const Clock::time_point begin = Clock::now();
  for (int round = 0; round == 0 || (round < rounds_ && us_since(begin) < kMaxReferenceUs);
       ++round) {
    dynamic.assign(problem.outputs.size(), {});
    const Clock::time_point start = Clock::now();
    const Status status = kernel->run ? kernel->run(args) : kernel->run_dynamic(args, dynamic);
    if (!status.ok()) return std::nullopt;
    best_us = round == 0 ? us_since(start) : std::min(best_us, us_since(start));
  }
  return best_us;
}

}  // namespace camshaft::tuner
