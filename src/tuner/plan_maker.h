// SPDX-License-Identifier: Apache-2.0
// A graph whose tactics and formats are chosen, written down as a plan: tensors, steps, reformats,
// packed weights.
#pragma once

#include <unordered_map>

#include "engine/engine.h"
#include "tuner/problem.h"
#include "tuner/rounding.h"

namespace camshaft::tuner {

struct Kernel {
  const kernels::Tactic* tactic = nullptr;  // null: the reference kernel
  int threads = 0;                          // 1: the calling thread alone; 0: all there are
  double us = 0;                            // timed; of the reference kernel predicted
};

// How one layer runs.
struct Choice {
  Kernel kernel;
  Formats formats;
  bool is_view = false;  // nothing moves: the output is another name of the input's bytes
  std::vector<ir::Dim> part_offsets;  // of a concatenation that is a view: where its inputs start
  std::vector<engine::Candidate> candidates;
};
// A tensor that is a part of another one's memory, along one axis.
struct View {
  const ir::Tensor* parent = nullptr;
  int axis = 0;
  ir::Dim offset;
};
using Views = std::unordered_map<const ir::Tensor*, View>;
using Choices = std::unordered_map<const ir::Layer*, Choice>;

struct PlanContext {
  Choices* choices = nullptr;
  const runtime::Bindings* bindings = nullptr;  // at the opt shapes
  // Fastest way to copy a tensor into another format or place.
  std::function<Kernel(const kernels::Problem&)> reformat_kernel;
  engine::Weights* weights = nullptr;
  Roundings* roundings = nullptr;
  int threads = 1;
  std::vector<ir::RewriteRecord>* record = nullptr;
  bool portable = false;  // keep the constants that are packed, too
};

// Moves names, attributes and bodies out of the graph.
Result<engine::Plan> make_plan(ir::Graph& graph, const PlanContext& context);

}  // namespace camshaft::tuner
