// SPDX-License-Identifier: Apache-2.0
// The same collective on several ranks, found by process group and sequence number: who came last,
// and what the others lost waiting.
#pragma once

#include <string>
#include <vector>

#include "trace/profile.h"

namespace camshaft::trace {

struct RankUse {
  int64_t rank = -1;
  std::string worker;
  int64_t matched = 0;     // collectives found on another rank, too
  int64_t unmatched = 0;   // known by group and number, but here alone
  int64_t came_last = 0;   // of the matched: the others waited for this one
  double wait_us = 0;      // longer than on the rank that came last
  double transfer_us = 0;  // the rest
};

struct CrossRank {
  int64_t collectives = 0;  // matched on at least two ranks
  std::vector<RankUse> ranks;
};

// The last to arrive waits least: what a collective takes there is taken for its transfer, the rest
// of its time elsewhere for waiting. No clocks are compared.
CrossRank match_collectives(const std::vector<const Profile*>& workers);

}  // namespace camshaft::trace
