// SPDX-License-Identifier: Apache-2.0
// A graph to be tested: the shapes it runs at, its inputs, and its text, which is what a failure is
// reported as and what a regression test is.
//
//   # symbols n=1..2..4 h=3..5..9        (minimum, optimum, maximum of the profile)
//   # run n=1 h=3                        (one line per run)
//   graph "g" { … }                      (docs/ir-text.md)
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"
#include "ir/graph.h"
#include "kernels/interpreter.h"

namespace camshaft::fuzz {

struct SymbolRange {
  std::string name;
  int64_t min = 1, opt = 1, max = 1;
};

// A value for each of Case::symbols.
using Point = std::vector<int64_t>;

struct Case {
  std::unique_ptr<ir::Graph> graph;
  std::vector<SymbolRange> symbols;
  std::vector<Point> runs;
};

// A copy with a symbol table of its own.
std::unique_ptr<ir::Graph> clone(const ir::Graph& graph);
Case clone(const Case& original);

std::vector<engine::Profile> profiles_of(const Case& test);

// The inputs of a run. Values follow from the name, the extents and the number of the run: floats
// are in [-2, 2), those of inputs called k… whole numbers in [-4, 4]; int64 and int32 are in [-4,
// 4], those of inputs called p… in [0, 3]; codes and bools are anything.
std::vector<kernels::Value> inputs_of(const Case& test, size_t run);

// Every input at extents of its own within the profile: they may contradict each other.
std::vector<kernels::Value> stray_inputs_of(const Case& test, size_t number);

std::string to_text(const Case& test);
Result<Case> parse_case(const std::string& text);

}  // namespace camshaft::fuzz
