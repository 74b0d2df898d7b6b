// SPDX-License-Identifier: Apache-2.0
// Pass tests: text in, text out, and the same numbers before and after.
#pragma once

#include <string>
#include <string_view>

#include "passes/passes.h"

namespace camshaft::passes {

// Runs `pass` on the graph of `before` (until it changes nothing), verifies it, compares its layers
// with `after` and the network outputs, on random inputs, with those of the graph before. `after`
// has one line per layer as to_text() prints it, without types, facts and provenance.
void expect_rewrite(PassFunction pass, std::string_view before, std::string_view after,
                    Records* records = nullptr);

// The layer lines of a graph in that form.
std::string layer_lines(const ir::Graph& graph);

// Compares the outputs of two graphs with the same inputs on random values. Symbolic extents are
// taken as `symbol_extent`.
void expect_same_numbers(const ir::Graph& before, const ir::Graph& after, double tolerance,
                         int64_t symbol_extent = 3);

}  // namespace camshaft::passes
