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
  std::string name;
  std::string verb;    // what it does, the same on every rank: "all_reduce"
  StringId group = 0;  // process group and its members, 0: not known
  StringId group_ranks = 0;
  int64_t sequence = kNoId;
  Ticks start = 0, end = 0;
  int64_t bytes = 0;
  std::string step = "";  // name of the step that holds it wholly
  bool in_step = false;
  // Its own, then its kernels'; by default only its kernels' where it has any: on the host a
  // collective takes as long as its launch.
  std::vector<Range> ranges;
};

struct Collectives {
  std::vector<CollectiveOp> ops;              // by (start, -end)
  std::unordered_set<int64_t> external_ids;   // of the ops
  std::vector<bool> device_is_communication;  // by event row
  bool several_libraries = false;
  std::string library;
};

// By default a kernel that no known operation launched is a collective of its own.
Collectives find_collectives(const Trace& trace, const Clock& clock, const Semantics& semantics,
                             const CallForest& forest, const Launches& launches);
// "all_reduce" of "nccl:all_reduce", "allreduce" or "ncclDevKernel_AllReduce_Sum_f32_RING_LL".
std::string collective_verb(std::string_view name);
// Bytes of one element of a type as PyTorch ("c10::Half") or its collectives ("BFloat16") name it,
// 0 if unknown.
int64_t element_bytes_of(std::string_view type);

// Names the step of each op; done after the steps are known.
void assign_steps(Collectives& collectives, const Steps& steps);

}  // namespace camshaft::trace
