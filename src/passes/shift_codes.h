// SPDX-License-Identifier: Apache-2.0
// What the passes that move codes share: uint8 codes that are others by a constant, with the zero
// points, programs and bounds of all layers that make and read them.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "ir/rewriter.h"

namespace camshaft::passes {

// Tensors that layers only move, choose from or put together: they change as one. Members and
// groups come in the order of the graph's tensors.
using CodeGroup = std::vector<ir::Tensor*>;
std::vector<CodeGroup> code_groups(const ir::Graph& graph, ir::DataType type);

// Whether all that make and read the group's codes can follow a shift.
bool can_shift(const ir::Graph& graph, const CodeGroup& group);

// For what reads codes that are larger by `shift`.
void shift_zero_point(ir::Rewriter& rewriter, ir::Layer* product, size_t operand, int shift);
ir::Facts with_shifted_zero_points(ir::Facts facts, int shift);

// No code of the group is smaller, by the programs that make them.
int lowest_code(const CodeGroup& group);

// The group becomes uint8 codes that are larger by `shift`: none may be below 0 or above 255 then.
void shift_codes(ir::Rewriter& rewriter, const CodeGroup& group, int shift);

}  // namespace camshaft::passes
