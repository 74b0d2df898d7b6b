// SPDX-License-Identifier: Apache-2.0
// A plan's step as the problem its tactic was chosen for: to check a plan against the kernels, and
// to choose anew on another machine.
#pragma once

#include <span>

#include "runtime/layer_problem.h"
#include "runtime/schedule.h"

namespace camshaft::runtime {

// Longer lists are data, not numbers that shapes are made of.
inline constexpr int64_t kMaxValueElements = 256;

// The type that shape inference sees: the builder may store floats in 16 bits, whatever a layer's
// rule says of types.
ir::DataType family_of(ir::DataType type);

// A step's views, where they say more than the plan: once it is about to run.
struct StepViews {
  std::span<const TensorView> inputs, outputs;
};

// `views` null: as the plan and the symbols' values have it.
LayerProblem make_step_problem(const PlanFacts& facts, const engine::PlanStep& step,
                               const Bindings& bindings, int threads,
                               const StepViews* views = nullptr);

// Gives steps whose tactic this machine lacks (they run the reference kernel so far) the best
// tactic it has (best_tactic), where the constants are stored raw; packs them in memory.
void replace_missing_tactics(PlanFacts& facts, const Bindings& bindings, int threads);

// Checks every step at these symbol values: shape inference agrees with the plan's shapes, tactics
// accept their problems and have the packed weights they expect. What depends on values only
// running can tell is not looked at.
Status verify_steps(const PlanFacts& facts, const Bindings& bindings);
// Only that the inputs' extents, as an application gave them, go together. Steps whose symbols have
// the values they have in `checked` (may be null) are not looked at again.
Status check_extents(const PlanFacts& facts, const Bindings& bindings,
                     const Bindings* checked = nullptr);
Status check_extents(const PlanFacts& facts, int step, const Bindings& bindings);

}  // namespace camshaft::runtime
