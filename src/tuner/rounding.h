// SPDX-License-Identifier: Apache-2.0
// What a tactic that multiplies transformed numbers (Winograd) rounds, with the weights a layer
// has: measured while building, beside direct convolution.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "kernels/kernel.h"

namespace camshaft::tuner {

// Largest errors of a sample of outputs for normally distributed inputs, as shares of the largest
// output; `direct`: of adding up the products one after another in floats.
struct Rounding {
  double error = 0, direct = 0;
  double ratio() const { return error / direct; }
};

// Empty where the tactic does not transform.
std::optional<Rounding> measure_rounding(const kernels::Problem& problem,
                                         const kernels::Tactic& tactic);

std::string to_string(
    const Rounding& rounding);  // "error 2.1e-06 of the largest output, 9 x direct"
// Why the tactic must not be used; empty: it may.
std::string refusal_of(const Rounding& rounding);

// What was measured, by tactic and weights.
class Roundings {
 public:
  const std::optional<Rounding>& of(const kernels::Problem& problem, const kernels::Tactic& tactic);

 private:
  std::map<std::pair<const void*, const kernels::Tactic*>, std::optional<Rounding>> known_;
};

}  // namespace camshaft::tuner
