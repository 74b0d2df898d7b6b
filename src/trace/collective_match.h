// SPDX-License-Identifier: Apache-2.0
// The same collective on several ranks: by process group and sequence number where the trace has
// them, else by group, operation and position.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/profile.h"

namespace camshaft::trace {

struct CollectiveMember {
  uint32_t worker = 0;
  uint32_t op = 0;  // of that worker's Collectives::ops
};

struct CollectiveMatch {
  std::vector<std::vector<CollectiveMember>> groups;  // of two members and more
  std::vector<std::vector<int64_t>> group_of;         // [worker][op], -1: found nowhere else
};

// Recordings begin and end at different collectives, so positions are shifted against each other
// until the ends agree: a collective ends at nearly one time on all its ranks, whatever their
// clocks say. Where no shift makes them agree, nothing is matched.
CollectiveMatch match_collective_ops(const std::vector<const Profile*>& workers);

// How far positions of `b` lie behind those of `a` (both ends in nanoseconds, ascending): a[k] is
// b[k + shift]. False when no shift makes the ends agree.
bool find_shift(const std::vector<double>& a, const std::vector<double>& b, int64_t& shift);

}  // namespace camshaft::trace
