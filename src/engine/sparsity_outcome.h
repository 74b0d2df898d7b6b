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

// Names of sparse tactics say so.
bool is_sparse_tactic(std::string_view name);
SparsityOutcome sparsity_outcome(const PlanStep& step);

}  // namespace camshaft::engine
