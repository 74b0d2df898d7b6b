// SPDX-License-Identifier: Apache-2.0
#include "trace/cross_rank.h"

#include <algorithm>
#include <map>

namespace camshaft::trace {
namespace {

// Group and its members, number in the group, name: the same on every rank that takes part.
struct CollectiveKey {
  std::string group, ranks;
  int64_t sequence = 0;
  std::string name;
  int64_t repeat = 0;  // numbers may start over: the how-manieth with this one
  auto operator<=>(const CollectiveKey&) const = default;
};

struct Occurrence {
  size_t worker = 0;
  double length_us = 0;
};

void collect(const Profile& profile, size_t worker,
             std::map<CollectiveKey, std::vector<Occurrence>>& found) {
  std::map<CollectiveKey, int64_t> repeats;
  for (const uint32_t device : profile.launches.devices) {
    const DeviceDetail& detail = profile.trace.device[profile.trace.events.detail[device]];
    if (detail.collective == kNoRow) continue;
    const CollectiveDetail& collective = profile.trace.collectives[detail.collective];
    if (collective.sequence == kNoId) continue;
    const StringPool& strings = profile.trace.strings;
    CollectiveKey key{std::string(strings[collective.group]),
                      std::string(strings[collective.ranks]), collective.sequence,
                      std::string(strings[collective.name]), 0};
    key.repeat = repeats[key]++;
    found[key].push_back(
        {worker, profile.clock.to_us(event_length(profile.trace, profile.clock, device))});
  }
}

}  // namespace

CrossRank match_collectives(const std::vector<const Profile*>& workers) {
  CrossRank result;
  std::map<CollectiveKey, std::vector<Occurrence>> found;
  for (size_t k = 0; k < workers.size(); ++k) {
    RankUse use;
    use.rank = workers[k]->trace.rank;
    use.worker = workers[k]->worker;
    result.ranks.push_back(std::move(use));
    collect(*workers[k], k, found);
  }
  for (const auto& [key, list] : found) {
    if (list.size() < 2) {
      ++result.ranks[list.front().worker].unmatched;
      continue;
    }
    ++result.collectives;
    const auto last = std::min_element(
        list.begin(), list.end(),
        [](const Occurrence& a, const Occurrence& b) { return a.length_us < b.length_us; });
    ++result.ranks[last->worker].came_last;
    for (const Occurrence& occurrence : list) {
      RankUse& use = result.ranks[occurrence.worker];
      ++use.matched;
      use.wait_us += occurrence.length_us - last->length_us;
      use.transfer_us += last->length_us;
    }
  }
  return result;
}

}  // namespace camshaft::trace
