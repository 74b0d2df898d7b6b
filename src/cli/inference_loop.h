// SPDX-License-Identifier: Apache-2.0
// The timed loop: warm-up, then at least so many queries for at least so long, on one or more
// contexts at once.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "camshaft/context.h"
#include "cli/statistics.h"

namespace camshaft::cli {

struct LoopOptions {
  int64_t iterations = 10;
  double warm_up_ms = 200;
  double duration_s = 3;       // -1: until stop()
  double sleep_ms = 0;         // between launch and compute
  double idle_ms = 0;          // between queries
  std::function<bool()> stop;  // asked after every query; may be empty
  std::function<void(double elapsed_s, double total_s)> progress;  // from the first stream
};

struct LoopResult {
  std::vector<QueryTimes> queries;  // timed ones, by start
  int64_t warm_up_queries = 0;
  double warm_up_ms = 0;    // as it was
  double wall_seconds = 0;  // from the first timed query's start to the last one's end
};

// Inputs must be bound. Every context runs in a thread of its own when there are several.
Result<LoopResult> run_loop(std::span<Context> contexts, const LoopOptions& options);

// Set by the first SIGINT (a second one ends the program); install once.
void install_interrupt_handler();
bool interrupted();

}  // namespace camshaft::cli
