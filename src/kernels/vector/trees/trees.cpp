// SPDX-License-Identifier: Apache-2.0
// Tree ensembles: a walk down a tree waits for one load after another, so eight walks go at once,
// without branches: eight rows down one tree, of the last rows eight trees. Weights are added in
// double precision in the order of the trees: the bits of the reference kernel.
#include "kernels/nest.h"
#include "kernels/packed/packed_forest.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::trees {
namespace {

constexpr int kWalks = 8;

using Mode = PackedForest::Mode;

template <Mode kMode>
CAMSHAFT_INLINE bool holds(float x, float split) {
  switch (kMode) {
    case Mode::kLeq:
      return x <= split;
    case Mode::kLt:
      return x < split;
    case Mode::kGte:
      return x >= split;
    default:
      return x > split;
  }
}

CAMSHAFT_INLINE const ForestNode& node_at(const std::byte* nodes, int64_t at) {
  return *reinterpret_cast<const ForestNode*>(nodes + at);
}

template <Mode kMode, bool kTellsMissing>
CAMSHAFT_INLINE int64_t step(const std::byte* nodes, int64_t at, const float* x) {
  const ForestNode& node = node_at(nodes, at);
  if constexpr (!kTellsMissing) return node.next[holds<kMode>(x[node.feature], node.split)];
  const int32_t tells = node.feature >> 31;
  const float value = x[node.feature ^ tells];
  const bool is_missing = value != value;
  return node.next[holds<kMode>(value, node.split) | (is_missing & (tells != 0))];
}

// Walks until every one has reached its leaf, after `least` steps at the earliest.
template <Mode kMode, bool kTellsMissing>
void walk(const std::byte* nodes, const float* const* x, int32_t least, int64_t* to) {
  int64_t at[kWalks];
  __builtin_memcpy(at, to, sizeof at);
  const auto go = [&] {
#pragma GCC unroll 8
    for (int w = 0; w < kWalks; ++w) at[w] = step<kMode, kTellsMissing>(nodes, at[w], x[w]);
  };
  for (int32_t k = 0; k < least; ++k) go();
  const auto goes_on = [&] {
    bool any = false;
#pragma GCC unroll 8
    for (int w = 0; w < kWalks; ++w) any |= node_at(nodes, at[w]).next[0] != at[w];
    return any;
  };
  while (goes_on()) {  // steps of a leaf stay there
    go();
    go();
  }
  __builtin_memcpy(to, at, sizeof at);
}

using Walk = void (*)(const std::byte* nodes, const float* const* x, int32_t least, int64_t* to);

template <bool kTellsMissing>
Walk walk_of(Mode mode) {
  switch (mode) {
    case Mode::kLeq:
      return walk<Mode::kLeq, kTellsMissing>;
    case Mode::kLt:
      return walk<Mode::kLt, kTellsMissing>;
    case Mode::kGte:
      return walk<Mode::kGte, kTellsMissing>;
    default:
      return walk<Mode::kGt, kTellsMissing>;
  }
}

// Rows whose sums wait together, while tree after tree passes them.
int64_t rows_together(int64_t targets) {
  constexpr int64_t kMost = 64, kSums = 4096;
  return smaller(kMost, at_least_one(kSums / at_least_one(targets)));
}

struct Trees {
  TensorView x, scores, reached;
  int64_t together;   // rows
  ForestView forest;  // of the call
  Walk walk;
  void (*add_block)(const Trees&, int64_t first, int64_t count, double* sums, bool* was_reached);
  int64_t rows, targets;

  const float* row(int64_t k) const {
    return x.as<const float>() + (x.rank == 2 ? k * x.strides[0] : 0);
  }

  void store(int64_t first, int64_t count, const double* sums, const bool* was_reached) const {
    const double trees = forest.averages != 0 ? static_cast<double>(forest.trees) : 1;
    float* to = scores.as<float>();
    for (int64_t k = 0; k < count; ++k)
      for (int64_t t = 0; t < targets; ++t) {
        const double sum = sums[k * targets + t];
        to[(first + k) * scores.strides[0] + t * scores.strides[1]] =
            static_cast<float>(forest.averages != 0 ? sum / trees : sum);
        if (reached.present())
          reached.as<bool>()[(first + k) * reached.strides[0] + t * reached.strides[1]] =
              was_reached[k * targets + t];
      }
  }

  void block(int64_t first, int64_t count, std::byte* scratch) const {
    auto* sums = reinterpret_cast<double*>(scratch);
    auto* was_reached = reinterpret_cast<bool*>(sums + count * targets);
    const bool reaches_all = forest.has_lists == 0 && forest.trees > 0;
    for (int64_t k = 0; k < count * targets; ++k) sums[k] = 0, was_reached[k] = reaches_all;
    add_block(*this, first, count, sums, was_reached);
    store(first, count, sums, was_reached);
  }
};

// What leaves hold: one weight, one for each target, or lists.
enum class Leaves { kOne, kEach, kLists };

// Adds a leaf's weights to the sums of a row.
template <Leaves kLeaves>
CAMSHAFT_INLINE void add_leaf(const Trees& job, int64_t at, double* sums, bool* was_reached) {
  int32_t first;
  __builtin_memcpy(&first, &node_at(job.forest.nodes, at).split, sizeof first);
  const int32_t* words = job.forest.leaves + first;
  const auto weight = [](const int32_t* word) {
    float value;
    __builtin_memcpy(&value, word, sizeof value);
    return static_cast<double>(value);
  };
  if constexpr (kLeaves == Leaves::kOne) {
    *sums += weight(words);
  } else if constexpr (kLeaves == Leaves::kEach) {
    for (int64_t t = 0; t < job.targets; ++t) sums[t] += weight(words + t);
  } else {
    const int32_t count = *words++;
    for (int32_t k = 0; k < count; ++k, words += 2) {
      sums[*words] += weight(words + 1);
      was_reached[*words] = true;
    }
  }
}

// Eight rows down every tree, tree by tree.
template <Leaves kLeaves>
void rows_down(const Trees& job, int64_t first, int64_t count, double* sums, bool* was_reached) {
  for (int32_t tree = 0; tree < job.forest.trees; ++tree) {
    const ForestTree root = job.forest.roots[tree];
    for (int64_t block = 0; block < count; block += kWalks) {
      const float* from[kWalks];
      int64_t at[kWalks];
      for (int w = 0; w < kWalks; ++w) from[w] = job.row(first + block + w), at[w] = root.root;
      job.walk(job.forest.nodes, from, root.nearest_leaf, at);
#pragma GCC unroll 8
      for (int w = 0; w < kWalks; ++w)
        add_leaf<kLeaves>(job, at[w], sums + (block + w) * job.targets,
                          was_reached + (block + w) * job.targets);
    }
  }
}

// One row down eight trees at once.
template <Leaves kLeaves>
void row_down(const Trees& job, int64_t index, double* sums, bool* was_reached) {
  const float* from[kWalks];
  for (int w = 0; w < kWalks; ++w) from[w] = job.row(index);
  for (int32_t tree = 0; tree < job.forest.trees; tree += kWalks) {
    int64_t at[kWalks];
    const int count = static_cast<int>(smaller(kWalks, job.forest.trees - tree));
    int32_t least = job.forest.roots[tree].nearest_leaf;
    for (int w = 0; w < kWalks; ++w) {
      const ForestTree root = job.forest.roots[tree + (w < count ? w : 0)];
      at[w] = root.root;
      least = root.nearest_leaf < least ? root.nearest_leaf : least;
    }
    job.walk(job.forest.nodes, from, least, at);
    for (int w = 0; w < count; ++w) add_leaf<kLeaves>(job, at[w], sums, was_reached);
  }
}

template <Leaves kLeaves>
void add_block(const Trees& job, int64_t first, int64_t count, double* sums, bool* was_reached) {
  const int64_t whole = count / kWalks * kWalks;
  rows_down<kLeaves>(job, first, whole, sums, was_reached);
  for (int64_t k = whole; k < count; ++k)
    row_down<kLeaves>(job, first + k, sums + k * job.targets, was_reached + k * job.targets);
}

auto add_block_of(Leaves leaves) {
  switch (leaves) {
    case Leaves::kOne:
      return add_block<Leaves::kOne>;
    case Leaves::kEach:
      return add_block<Leaves::kEach>;
    default:
      return add_block<Leaves::kLists>;
  }
}

double steps_of(int64_t rows, int64_t trees) {
  constexpr double kDepth = 8;
  return static_cast<double>(rows * trees) * kDepth;
}

constexpr double kUsPerStep = 0.8e-3;

int64_t rows_of(const Problem& p) {
  const ir::Extents& x = p.inputs[0].extents;
  return x.size() == 2 ? x[0] : 1;
}

double cost_us(const Problem& p) {
  return 0.2 + kUsPerStep * steps_of(rows_of(p), count_of(p.inputs[5])) / p.threads;
}

uint32_t packed_inputs(const Problem&) {
  return 0x7e;  // all but x
}

int64_t worker_bytes(int64_t targets) {
  return round_up(rows_together(targets) * targets * 9, 64);
}

void run(Trees& job, const KernelCall& call) {
  job.forest = ForestView(call.packed);
  const Leaves leaves = job.forest.has_lists != 0 ? Leaves::kLists
                        : job.targets == 1        ? Leaves::kOne
                                                  : Leaves::kEach;
  job.add_block = add_block_of(leaves);
  job.walk = job.forest.tells_missing != 0 ? walk_of<true>(job.forest.mode)
                                           : walk_of<false>(job.forest.mode);
  job.x.data = call.inputs[0];
  job.scores.data = call.outputs[0];
  if (job.reached.present()) job.reached.data = call.outputs[1];
  const int64_t together = job.together, bytes = worker_bytes(job.targets);
  split(call.pool, ceil_div(job.rows, together), kUsPerStep * steps_of(job.rows, job.forest.trees),
        [&](int worker, int64_t first, int64_t last) {
          for (int64_t k = first; k < last; ++k)
            job.block(k * together, smaller(together, job.rows - k * together),
                      call.workspace + worker * bytes);
        });
}

// A block for every thread, of 8 rows at least.
int64_t rows_of_block(int64_t rows, int64_t targets, int64_t threads) {
  return smaller(rows_together(targets), larger(ceil_div(rows, threads), 8));
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView& scores = args.outputs[0];
  const int64_t targets = scores.extents[1];
  keep_state<run>(
      kernel,
      Trees{args.inputs[0], scores, args.outputs.size() > 1 ? args.outputs[1] : TensorView(),
            rows_of_block(scores.extents[0], targets, threads_of(args)), ForestView(args.packed),
            nullptr, nullptr, scores.extents[0], targets});
  kernel.workspace_bytes = static_cast<size_t>(worker_bytes(targets) * threads_of(args));
}

constexpr Tactic kTactics[] = {
    {"tree_walks_f32", ir::LayerKind::kGeneric, kIsa, FormatRule::kLinear, 3, refuse_forest,
     cost_us, packed_inputs, packed_forest_bytes, pack_forest, prepare},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::trees
