// SPDX-License-Identifier: Apache-2.0
#include "trace/cross_rank.h"

#include <algorithm>
#include <cstring>
#include <map>

#include <fmt/format.h>

#include "trace/advice.h"
#include "trace/collective_match.h"
#include "trace/findings.h"

namespace camshaft::trace {
namespace {

constexpr double kWorthTellingPercent = 5;  // of the steps

Ticks length_of(const CollectiveOp& op) {
  Ticks sum = 0;
  for (const Range& range : op.ranges) sum += range.end - range.start;
  return sum;
}

double share_of(const Profile& profile, Part part) {
  const Breakdown& breakdown = profile.breakdown;
  return breakdown.average.empty() || breakdown.average_step <= 0
             ? 0
             : 100 * breakdown.average[static_cast<int>(part)] / breakdown.average_step;
}

// What one rank does while the others wait: the part that its steps have more of than theirs.
void find_cause(const std::vector<const Profile*>& workers, size_t worker, RankUse& use) {
  for (const Part part : {Part::kKernel, Part::kMemcpy, Part::kMemset, Part::kRuntime,
                          Part::kDataLoader, Part::kCpuExec, Part::kOther}) {
    double others = 0;
    for (size_t k = 0; k < workers.size(); ++k)
      if (k != worker) others += share_of(*workers[k], part);
    const double own = share_of(*workers[worker], part);
    const double excess = own - others / static_cast<double>(workers.size() - 1);
    if (excess <= use.busy_excess_percent) continue;
    use.busy_with = part;
    use.busy_percent = own;
    use.busy_excess_percent = excess;
  }
}

class Split {
 public:
  explicit Split(const std::vector<const Profile*>& workers)
      : workers_(workers), waited_for_(workers.size(), std::vector<double>(workers.size(), 0)) {}

  CrossRank run() {
    const CollectiveMatch match = match_collective_ops(workers_);
    for (size_t k = 0; k < workers_.size(); ++k) {
      RankUse use;
      use.rank = workers_[k]->trace.rank;
      use.worker = workers_[k]->worker;
      for (const int64_t group : match.group_of[k]) use.unmatched += group < 0 ? 1 : 0;
      result_.ranks.push_back(std::move(use));
    }
    result_.collectives = static_cast<int64_t>(match.groups.size());
    for (const auto& members : match.groups) add(members);
    if (result_.collectives > 0)
      for (size_t k = 0; k < workers_.size(); ++k) finish(k);
    return std::move(result_);
  }

 private:
  const CollectiveOp& op_of(const CollectiveMember& member) const {
    return workers_[member.worker]->collectives.ops[member.op];
  }

  void add(const std::vector<CollectiveMember>& members) {
    const auto last =
        std::min_element(members.begin(), members.end(), [&](const auto& a, const auto& b) {
          const double first = us(a, length_of(op_of(a))), second = us(b, length_of(op_of(b)));
          return first != second ? first < second
                                 : workers_[a.worker]->worker < workers_[b.worker]->worker;
        });
    const double least = us(*last, length_of(op_of(*last)));
    ++result_.ranks[last->worker].came_last;
    for (const CollectiveMember& member : members) {
      RankUse& use = result_.ranks[member.worker];
      const double wait = us(member, length_of(op_of(member))) - least;
      ++use.matched;
      use.wait_us += wait;
      use.transfer_us += least;
      waited_for_[member.worker][last->worker] += wait;
      result_.ranks[last->worker].caused_us += wait;
      add_within_steps(member, wait);
    }
  }

  // Waiting comes first in a collective, then the transfer.
  void add_within_steps(const CollectiveMember& member, double wait_us) {
    const Profile& profile = *workers_[member.worker];
    const Range span = profile.steps.span();
    Ticks left = profile.clock.from_us(wait_us), waited = 0, moved = 0;
    for (const Range& range : op_of(member).ranges) {
      const Ticks moves = std::min(range.end, range.start + left);
      left -= moves - range.start;
      waited += clipped(range.start, moves, span);
      moved += clipped(moves, range.end, span);
    }
    RankUse& use = result_.ranks[member.worker];
    use.wait_percent += profile.clock.to_us(waited);
    use.transfer_percent += profile.clock.to_us(moved);
  }

  static Ticks clipped(Ticks from, Ticks to, const Range& span) {
    return std::max(0.0, std::min(to, span.end) - std::max(from, span.start));
  }

  double us(const CollectiveMember& member, Ticks length) const {
    return workers_[member.worker]->clock.to_us(length);
  }

  void finish(size_t worker) {
    RankUse& use = result_.ranks[worker];
    const Range span = workers_[worker]->steps.span();
    const double steps_us = workers_[worker]->clock.to_us(span.end - span.start);
    for (double* sum : {&use.wait_percent, &use.transfer_percent})
      *sum = steps_us > 0 ? 100 * *sum / steps_us : 0;
    const std::vector<double>& waited = waited_for_[worker];
    const auto most = std::max_element(waited.begin(), waited.end());
    if (*most > 0) use.waits_for = most - waited.begin();
    use.waits_for_us = *most;
    use.lower_transfers = without_tags(lower_transfers(*workers_[worker]));
    find_cause(workers_, worker, use);
  }

  const std::vector<const Profile*>& workers_;
  std::vector<std::vector<double>> waited_for_;  // [who][for whom]
  CrossRank result_;
};

// What would bring a late rank in time.
const char* remedy(Part part) {
  switch (part) {
    case Part::kDataLoader:
      return "Faster input there (num_workers, prefetching, the storage it reads) lets all go on.";
    case Part::kKernel:
      return "It has more work for its device, or a slower one: share the work out evenly.";
    case Part::kMemcpy:
    case Part::kMemset:
      return "It copies more than the others.";
    default:
      return "Its host is later than the others': see its own findings.";
  }
}

std::string cause_text(const RankUse& late) {
  return late.busy_excess_percent < kWorthTellingPercent
             ? "The traces do not show what holds it up."
             : fmt::format("{:.0f}% of its steps are {} ({:.0f} points more than elsewhere). {}",
                           late.busy_percent, part_name(late.busy_with), late.busy_excess_percent,
                           remedy(late.busy_with));
}

}  // namespace

std::string RankUse::title() const {
  return rank >= 0 ? fmt::format("rank {} ({})", rank, worker) : worker;
}

CrossRank match_collectives(const std::vector<const Profile*>& workers) {
  return Split(workers).run();
}

std::vector<Finding> with_ranks(std::vector<Finding> own, const CrossRank& all, size_t worker) {
  const RankUse& use = all.ranks[worker];
  if (use.matched == 0) return own;
  std::erase_if(
      own, [](const Finding& finding) { return std::strcmp(finding.id, "communication") == 0; });
  if (use.transfer_percent > 2 * kWorthTellingPercent)
    own.insert(own.begin(),
               {"communication",
                fmt::format("Transfers of collectives take {:.1f}% of the steps (waiting for other "
                            "ranks not counted). {}",
                            use.transfer_percent, use.lower_transfers),
                use.transfer_percent});
  if (use.wait_percent > kWorthTellingPercent && use.waits_for >= 0) {
    const RankUse& late = all.ranks[use.waits_for];
    own.insert(
        own.begin(),
        {"rank-wait",
         fmt::format(
             "Waits {:.1f}% of the steps inside collectives for other ranks, {} of "
             "it ({}) for {}, and transfers {:.1f}%. {}",
             use.wait_percent, 2 * use.waits_for_us > use.wait_us ? "most" : "the largest part",
             time_text(use.waits_for_us), late.title(), use.transfer_percent, cause_text(late)),
         use.wait_percent});
  }
  double others_wait = 0;
  for (const RankUse& other : all.ranks) others_wait = std::max(others_wait, other.wait_percent);
  if (others_wait > kWorthTellingPercent && use.caused_us > use.wait_us && use.came_last > 0)
    own.insert(own.begin(),
               {"straggler",
                fmt::format("The other ranks wait {} for this one, the last to reach {} of {} "
                            "collectives. {}",
                            time_text(use.caused_us), use.came_last, use.matched, cause_text(use)),
                use.caused_us});
  return own;
}

}  // namespace camshaft::trace
