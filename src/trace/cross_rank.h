// SPDX-License-Identifier: Apache-2.0
// What the ranks of one job say together: who came last to their collectives and why, and what the
// others lost waiting.
#pragma once

#include <string>
#include <vector>

#include "trace/insights.h"

namespace camshaft::trace {

struct RankUse {
  int64_t rank = -1;
  std::string worker;
  int64_t matched = 0;     // collectives found on another rank, too
  int64_t unmatched = 0;   // found here alone
  int64_t came_last = 0;   // of the matched: the others waited for this one
  double wait_us = 0;      // longer than on the rank that came last
  double transfer_us = 0;  // the rest
  double caused_us = 0;    // what others waited for this one
  // Inside the steps, as shares of them.
  double wait_percent = 0, transfer_percent = 0;
  int64_t waits_for = -1;  // the rank (index) that most of the waiting is for
  double waits_for_us = 0;
  Part busy_with = Part::kOther;   // what the steps of this rank spend more on than the others'
  double busy_percent = 0;         // of its steps
  double busy_excess_percent = 0;  // more than the others, on average
  std::string lower_transfers;     // what would make its transfers shorter

  std::string title() const;  // "rank 1 (worker1)"
};

struct CrossRank {
  int64_t collectives = 0;  // matched on at least two ranks
  std::vector<RankUse> ranks;
};

// The last to arrive waits least: what a collective takes there is taken for its transfer, the rest
// of its time elsewhere for waiting. No clocks are compared.
CrossRank match_collectives(const std::vector<const Profile*>& workers);

// The findings of one rank once the others are known: waiting is told from transferring, and named
// with the rank it is for and what that one does meanwhile.
std::vector<Finding> with_ranks(std::vector<Finding> own, const CrossRank& all, size_t worker);

}  // namespace camshaft::trace
