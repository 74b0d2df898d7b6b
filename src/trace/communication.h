// SPDX-License-Identifier: Apache-2.0
// Collectives of one worker, and what several workers' collectives say together.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "trace/launches.h"
#include "trace/ranges.h"
#include "trace/steps.h"

namespace camshaft::trace {

struct CollectiveOp {
  uint32_t event = 0;
  StringId name = 0;
  Ticks start = 0, end = 0;
  int64_t bytes = 0;
  std::string step = "";  // name of the step that holds it wholly
  bool in_step = false;
  std::vector<Range> ranges;  // its own, then its kernels'
};

struct Collectives {
  std::vector<CollectiveOp> ops;              // by (start, -end)
  std::unordered_set<int64_t> external_ids;   // of the ops
  std::vector<bool> device_is_communication;  // by event row
  bool several_libraries = false;
  std::string library;
};

Collectives find_collectives(const Trace& trace, const Clock& clock, const Semantics& semantics);
// Bytes of one element of a type as PyTorch ("c10::Half") or its collectives ("BFloat16") name it,
// 0 if unknown.
int64_t element_bytes_of(std::string_view type);

// Names the step of each op; done after the steps are known.
void assign_steps(Collectives& collectives, const Steps& steps);

}  // namespace camshaft::trace
