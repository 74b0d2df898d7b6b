// SPDX-License-Identifier: Apache-2.0
// Pass tests: text in, text out, and the same numbers before and after.
#pragma once

#include <string>
#include <string_view>

#include "passes/passes.h"

namespace camshaft::passes {

// Attributes of convolutions that keep the extents of a map.
inline constexpr const char* kWindow3x3 =
    "kernel=[3, 3], stride=[1, 1], dilation=[1, 1], pre_padding=[1, 1], post_padding=[1, 1]";
inline constexpr const char* kWindow1x1 =
    "kernel=[1, 1], stride=[1, 1], dilation=[1, 1], pre_padding=[0, 0], post_padding=[0, 0]";

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
