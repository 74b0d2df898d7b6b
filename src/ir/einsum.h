// SPDX-License-Identifier: Apache-2.0
// The equation of an Einsum: one label per dimension of every operand and of the result.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace camshaft::ir {

struct EinsumTerms {
  std::vector<std::string> operands;
  std::string result;
};

// Dimensions behind an ellipsis get the labels '0', '1' … from the right, so that they broadcast.
// An equation without arrow gives these and the labels that occur once, sorted.
Result<EinsumTerms> parse_einsum(const std::string& equation, std::span<const size_t> ranks);

}  // namespace camshaft::ir
