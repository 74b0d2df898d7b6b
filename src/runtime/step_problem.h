// SPDX-License-Identifier: Apache-2.0
// A plan's step as the problem its tactic was chosen for: to check a plan against the kernels, and
// to choose anew on another machine.
#pragma once

#include <memory>
#include <vector>

#include "runtime/schedule.h"

namespace camshaft::runtime {

struct StepProblem {
  std::unique_ptr<ir::Layer>
      layer;  // attributes hold numbers; null: some shape or attribute is not known
  std::vector<ir::ConstantData> constants;
  kernels::Problem problem;
};

// 64-byte aligned memory with the constants of `problem` as the tactic wants them; null: nothing is
// packed.
std::shared_ptr<std::byte[]> pack_for(const kernels::Tactic& tactic,
                                      const kernels::Problem& problem);
// Do the formats of the first input and output suit the rule? (A plan's formats are given.)
bool fits_formats(kernels::FormatRule rule, const kernels::Problem& problem);

// Would the tactic compute in 16 bits what the plan has as floats? Only the builder may choose
// that.
bool rounds_floats(const kernels::Tactic& tactic, const kernels::Problem& problem);

StepProblem make_step_problem(const PlanFacts& facts, const engine::PlanStep& step,
                              const Bindings& bindings, int threads);

// Gives steps whose tactic this machine lacks (they run the reference kernel so far) the best
// tactic it has, where the constants are stored raw; packs them in memory.
void replace_missing_tactics(PlanFacts& facts, const Bindings& bindings, int threads);

// Checks every step at these symbol values: shape inference agrees with the plan's shapes, tactics
// accept their problems and have the packed weights they expect. What depends on values only
// running can tell is not looked at.
Status verify_steps(const PlanFacts& facts, const Bindings& bindings);

}  // namespace camshaft::runtime
