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
// So far apart lie measurements: three layers of one shape, 1.06 to the tuner, gain 1.00, 1.01 and
// 1.06 in the network (ResNet-50 in int8, AVX2, one thread, other programs running).
inline constexpr double kSparseGain = 1.03;

// Names of sparse tactics say so.
bool is_sparse_tactic(std::string_view name);
SparsityOutcome sparsity_outcome(const PlanStep& step);

}  // namespace camshaft::engine
