// SPDX-License-Identifier: Apache-2.0
// Layers as problems. One builder serves the tuner (a graph's layer at estimated extents), a plan's
// step, and a step whose extents only running could tell; one rule says which tactic is the best
// that was never timed.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/kernel.h"
#include "runtime/schedule.h"

namespace camshaft::runtime {

struct LayerProblem {
  std::unique_ptr<ir::Layer>
      layer;  // attributes hold numbers; null: some shape or attribute is not known
  std::vector<ir::ConstantData> constants;  // those no graph holds
  kernels::Problem problem;                 // points into the above
};

// A view as tactics are asked about it.
kernels::ProblemTensor problem_tensor(const kernels::TensorView& view);

// One tensor of a layer, for the builder.
struct TensorSource {
  kernels::ProblemTensor tensor;
  std::optional<std::span<const std::byte>> stored;  // of a constant that no graph holds
};
enum class Side : uint8_t { kInputs, kOutputs };
// Nothing: its extents are not known. Absent tensors are TensorSource().
using Describe = std::function<std::optional<TensorSource>(Side side, size_t k)>;

LayerProblem build_problem(const ir::Layer& layer, size_t inputs, size_t outputs,
                           const Bindings& bindings, int threads, const Describe& describe);

// The extents of a shape; nothing: a symbol has no value yet.
std::optional<ir::Extents> extents_of(const ir::Shape& shape, const Bindings& bindings);

// Do the formats of the first input and output suit the rule? (A plan's formats are given.)
bool fits_formats(kernels::FormatRule rule, const kernels::Problem& problem);

// Would the tactic compute in 16 bits what the plan has as floats? Only the builder may choose
// that.
bool rounds_floats(const kernels::Tactic& tactic, const kernels::Problem& problem);

// Of the tactics that take the problem in its formats, those of the strongest instruction set that
// has any: the one of least predicted cost. Null: none.
const kernels::Tactic* best_tactic(const kernels::Problem& problem);

// 64-byte aligned memory with the constants of `problem` as the tactic wants them; null: nothing is
// packed.
std::shared_ptr<std::byte[]> pack_for(const kernels::Tactic& tactic,
                                      const kernels::Problem& problem);

}  // namespace camshaft::runtime
