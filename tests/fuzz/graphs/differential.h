// SPDX-License-Identifier: Apache-2.0
// One graph through the interpreter, unoptimized, and through engines: predicted and random
// choices, every instruction set of this machine, one and two threads.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/cpu.h"
#include "fuzz/graphs/graph_case.h"

namespace camshaft::fuzz {

struct Variant {
  Isa isa = Isa::kScalar;
  int threads = 1;
  uint64_t choices = 0;  // BuildOptions::random_choices; 0: what the tuner predicts to be fastest
  bool bfloat16 = false;
  // BuildOptions::forced_way; kAllWays: one engine after the other, as many as the layer with the
  // most ways has.
  int way = -1;
};
constexpr int kAllWays = -2;

std::string to_string(const Variant& variant);

// Of the graph of that number: `rounds` of random choices per instruction set.
std::vector<Variant> variants_for(uint64_t seed, int rounds);
// All ways to run every layer, on every instruction set, with one and with two threads.
std::vector<Variant> all_ways_for(uint64_t seed);

struct Failure {
  std::string what;  // "values", "extents", "build", "run", "oracle", "crash 11" …: the class
  std::string text;  // for a person
  Variant variant;
};

// Nothing: all engines agree with the oracle, or the oracle refuses the graph's values.
std::optional<Failure> find_failure(const Case& test, const std::vector<Variant>& variants);

// A line for every step of the engine: its layer and tactic.
std::string plan_of(const Case& test, const Variant& variant);

// What has been covered since the process began.
struct Coverage {
  std::map<std::string, long> tactics;  // steps per tactic and instruction set
  std::map<std::string, long> passes;   // rewrites per pass
  std::map<std::string, long> kinds;    // layers per kind, as imported
  long engines = 0, executions = 0, outputs = 0, loose = 0, unsettled = 0, refused = 0;
  long strays_run = 0, strays_refused = 0;  // of inputs that may contradict each other
};
Coverage& coverage();

}  // namespace camshaft::fuzz
