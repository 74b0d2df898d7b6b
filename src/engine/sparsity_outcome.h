// SPDX-License-Identifier: Apache-2.0
// What became of the zeros in a step's weights: eligible for sparse tactics or not, picked or not,
// and why.
#pragma once

#include <string>
#include <string_view>

#include "engine/engine.h"

namespace camshaft::engine {

struct SparsityOutcome {
  bool eligible = false;  // a sparse tactic takes it
  bool picked = false;
  std::string dense, sparse;           // the fastest of each that was timed; "": none
  double dense_us = 0, sparse_us = 0;  // 0: not timed
  std::string reason;                  // why no sparse tactic was picked
};

// A sparse tactic is picked where it is so much faster than the best dense one; ties are dense.
// What the tuner cannot see (where residuals come from, what the layer before has left in L2) costs
// that much: of ResNet-50 in int8 layers at 1.04 to 1.07 to the tuner were 0.90 to 1.06 in the
// network (Zen 5 with AVX-512, AVX2), those above gained.
inline constexpr double kSparseGain = 1.07;

// Names of sparse tactics say so.
bool is_sparse_tactic(std::string_view name);
SparsityOutcome sparsity_outcome(const PlanStep& step);

}  // namespace camshaft::engine
