// SPDX-License-Identifier: Apache-2.0
#include "trace/collective_match.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

namespace camshaft::trace {
namespace {

constexpr int64_t kMostShift = 400;  // positions tried to either side
constexpr double kAgreeNs = 1e6;     // ends of one collective on several ranks
constexpr size_t kTellingPairs = 3;  // fewer ends agree by chance

struct Key {
  std::string group, ranks, name;
  int64_t sequence = kNoId;
  int64_t repeat = 0;  // numbers may start over: the how-manieth with this one
  auto operator<=>(const Key&) const = default;
};

using Members = std::vector<CollectiveMember>;

double end_ns(const Profile& profile, const CollectiveOp& op) {
  return static_cast<double>(profile.trace.base_time_ns) +
         static_cast<double>(profile.clock.nanoseconds(op.ranges.back().end));
}

struct Agreement {
  double spread = 0, offset = 0;  // median distance from the median difference, and that
  size_t pairs = 0;
};

Agreement agreement(const std::vector<double>& a, const std::vector<double>& b, int64_t shift) {
  std::vector<double> apart;
  const auto first = std::max<int64_t>(0, -shift);
  const auto last =
      std::min<int64_t>(static_cast<int64_t>(a.size()), static_cast<int64_t>(b.size()) - shift);
  for (int64_t k = first; k < last; ++k) apart.push_back(a[k] - b[k + shift]);
  Agreement result;
  result.pairs = apart.size();
  if (apart.empty()) return result;
  const auto median = [&] {
    const auto middle = apart.begin() + static_cast<int64_t>(apart.size() / 2);
    std::nth_element(apart.begin(), middle, apart.end());
    return *middle;
  };
  result.offset = median();
  for (double& value : apart) value = std::abs(value - result.offset);
  result.spread = median();
  return result;
}

void join(CollectiveMatch& match, Members members) {
  if (members.size() < 2) return;
  for (const CollectiveMember& member : members)
    match.group_of[member.worker][member.op] = static_cast<int64_t>(match.groups.size());
  match.groups.push_back(std::move(members));
}

// Two files that say they are the same rank are no ranks of one job.
bool same_rank(const Profile& a, const Profile& b) {
  return a.trace.rank >= 0 && a.trace.rank == b.trace.rank;
}

// Lists of one key, one per worker, aligned with the longest of them.
void join_by_position(const std::vector<const Profile*>& workers,
                      const std::map<uint32_t, std::vector<uint32_t>>& lists,
                      CollectiveMatch& match) {
  const auto longest = std::max_element(
      lists.begin(), lists.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  const auto ends = [&](const auto& list) {
    std::vector<double> times;
    for (const uint32_t op : list.second)
      times.push_back(end_ns(*workers[list.first], workers[list.first]->collectives.ops[op]));
    return times;
  };
  const std::vector<double> reference = ends(*longest);
  std::map<int64_t, Members> members;  // by position in the longest list, before and behind it too
  for (size_t k = 0; k < reference.size(); ++k)
    members[static_cast<int64_t>(k)].push_back({longest->first, longest->second[k]});
  for (const auto& list : lists) {
    int64_t shift = 0;
    if (list.first == longest->first || same_rank(*workers[list.first], *workers[longest->first]) ||
        !find_shift(ends(list), reference, shift))
      continue;
    for (size_t k = 0; k < list.second.size(); ++k)
      members[static_cast<int64_t>(k) + shift].push_back({list.first, list.second[k]});
  }
  for (auto& [position, found] : members) join(match, std::move(found));
}

}  // namespace

bool find_shift(const std::vector<double>& a, const std::vector<double>& b, int64_t& shift) {
  if (std::min(a.size(), b.size()) < kTellingPairs) {
    shift = 0;
    return a.size() == b.size() && agreement(a, b, 0).spread <= kAgreeNs;
  }
  const size_t least = std::max(kTellingPairs, std::min(a.size(), b.size()) * 3 / 5);
  Agreement best;
  bool found = false;
  for (int64_t to = -kMostShift; to <= kMostShift; ++to) {
    const Agreement now = agreement(a, b, to);
    if (now.pairs < least || now.spread > kAgreeNs) continue;
    // Regular steps agree at several shifts: then the clocks decide, which seldom differ by a step.
    const bool clearly = now.spread * 4 < best.spread, alike = now.spread <= best.spread * 4;
    if (found && !clearly && !(alike && std::abs(now.offset) < std::abs(best.offset))) continue;
    best = now;
    shift = to;
    found = true;
  }
  return found;
}

CollectiveMatch match_collective_ops(const std::vector<const Profile*>& workers) {
  CollectiveMatch match;
  std::map<Key, Members> numbered;
  std::map<Key, std::map<uint32_t, std::vector<uint32_t>>> positioned;
  for (uint32_t worker = 0; worker < workers.size(); ++worker) {
    const Profile& profile = *workers[worker];
    match.group_of.emplace_back(profile.collectives.ops.size(), -1);
    std::map<Key, int64_t> repeats;
    for (uint32_t k = 0; k < profile.collectives.ops.size(); ++k) {
      const CollectiveOp& op = profile.collectives.ops[k];
      Key key{std::string(profile.trace.strings[op.group]),
              std::string(profile.trace.strings[op.group_ranks]), op.verb, op.sequence, 0};
      if (op.sequence == kNoId) {
        positioned[key][worker].push_back(k);
        continue;
      }
      key.repeat = repeats[key]++;
      numbered[key].push_back({worker, k});
    }
  }
  for (auto& [key, members] : numbered) join(match, std::move(members));
  for (const auto& [key, lists] : positioned)
    if (lists.size() > 1) join_by_position(workers, lists, match);
  return match;
}

}  // namespace camshaft::trace
