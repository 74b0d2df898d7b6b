// SPDX-License-Identifier: Apache-2.0
// Traces changed in ways that must not change what is answered: clocks shifted and rescaled,
// processes and threads renamed, events shuffled, runs split into spans, ranks permuted, unrelated
// events added. 200 of them, of made-up traces and of recorded ones where those are there.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trace/byte_source.h"
#include "trace/cross_rank.h"
#include "trace/golden.h"
#include "trace/insights.h"
#include "trace/testing.h"
#include "trace/views.h"

namespace camshaft::golden {
namespace {

using nlohmann::json;
using trace::Profile;
using trace::Semantics;

constexpr int kDerived = 200;
constexpr const char* kRecorded[] = {"hta_amd_mi250/worker0", "hta_triton/rank0",
                                     "hta_cpu_only/rank-34",  "hta_simple_add/rank0",
                                     "hta_cupti_range/rank0", "tl_h100_bertsmall/rank0",
                                     "tl_vllm_decode/rank0",  "hta_rank_non_gpu/rank0"};

struct Source {
  std::string name;
  json document;  // {"traceEvents": […], …}
  bool whole_microseconds = true;
};

std::string read_file(const std::string& path) {
  auto source = trace::open_byte_source(path);
  std::string text;
  char chunk[1 << 16];
  while (source.ok()) {
    auto got = (*source)->read(chunk, sizeof chunk);
    if (!got.ok() || *got == 0) break;
    text.append(chunk, *got);
  }
  return text;
}

// Times as whole nanoseconds: what a file says exactly.
int64_t nanoseconds(const json& us) {
  return std::llround(us.get<long double>() * 1000);
}
json microseconds(int64_t ns) {
  if (ns % 1000 == 0) return ns / 1000;
  return json::parse(fmt::format("{}.{:03}", ns / 1000, ns % 1000));
}

const std::vector<Source>& sources() {
  static const std::vector<Source> list = [] {
    std::vector<Source> made{{"made up", json::parse(trace::testing::sample_trace()), true}};
    const std::string folder = data_folder();
    for (const char* name : kRecorded) {
      if (folder.empty()) break;
      json document = json::parse(
          read_file(fmt::format("{}/profiler/traces/{}.pt.trace.json.gz", folder, name)), nullptr,
          false);
      if (document.is_array()) document = {{"traceEvents", std::move(document)}};
      if (document.is_object()) made.push_back({name, std::move(document), true});
    }
    for (Source& source : made)
      for (const json& event : source.document["traceEvents"])
        if (event.contains("ts") && event["ts"].is_number() && nanoseconds(event["ts"]) % 1000 != 0)
          source.whole_microseconds = false;
    return made;
  }();
  return list;
}

// Everything answered about one trace, by route; without absolute times.
std::map<std::string, json> answers(const Profile& profile) {
  std::map<std::string, json> all;
  const auto add = [&](const std::string& route, const std::string& text) {
    all[route] = json::parse(text);
  };
  add("overview", to_json(trace::overview(profile, 1)));
  for (const bool by_shape : {false, true}) {
    const std::string suffix = by_shape ? " by shape" : "";
    add("operation" + suffix, to_json(trace::operation_pies(profile, by_shape)));
    add("operation/table" + suffix, to_json(trace::operation_table(profile, by_shape)));
  }
  add("kernel", to_json(trace::kernel_pie(profile)));
  add("kernel/table", to_json(trace::kernel_table(profile)));
  add("kernel/table by properties", to_json(trace::kernel_table_by_properties(profile)));
  add("tc_pie", to_json(trace::tensor_core_pie(profile)));
  add("memory", trace::memory_stats_json(profile, {}));
  json curve = json::parse(trace::memory_curve_json(profile, {}));
  if (curve.contains("metadata")) curve["metadata"].erase("first_ts");
  all["memory_curve"] = std::move(curve);
  add("module", trace::modules_json(profile));
  if (profile.semantics.original) return all;
  json figures = json::object();
  const trace::Insights insights = trace::find_insights(profile);
  for (const auto& [name, value] : trace::metrics(profile, insights))
    if (name != "events") figures[name] = value;
  all["figures"] = std::move(figures);
  json findings = json::array();
  for (const trace::Finding& finding : insights.findings) findings.push_back(finding.text);
  all["findings"] = std::move(findings);
  return all;
}

std::unique_ptr<Profile> profile_of(const json& document, bool original) {
  Semantics semantics;
  semantics.original = original;
  auto read = trace::testing::read_text(document.dump());
  if (read == nullptr) return nullptr;
  semantics.dialect = trace::dialect_of(*read);
  return trace::analyze(read, semantics);
}

// "" when both answer the same.
std::string differing(const json& before, const json& after, bool original) {
  const auto a = profile_of(before, original), b = profile_of(after, original);
  if (a == nullptr || b == nullptr) return "cannot be read";
  const auto want = answers(*a), got = answers(*b);
  for (const auto& [route, body] : want) {
    const std::string found = difference(body, got.at(route), Tolerance{1e-9, 1e-6, 0, true, true});
    if (!found.empty()) return route + ": " + found;
  }
  return "";
}

class Changes {
 public:
  explicit Changes(uint32_t seed) : random_(seed) {}

  size_t below(size_t count) { return random_() % count; }

  // A trace like this one: some of its operators and annotations are missing.
  json thinned(json document) {
    json kept = json::array();
    for (json& event : document["traceEvents"]) {
      const std::string category = event.value("cat", "");
      const bool may_go = category == "cpu_op" || category == "python_function";
      if (!may_go || below(10) != 0) kept.push_back(std::move(event));
    }
    document["traceEvents"] = std::move(kept);
    return document;
  }

  json shifted(json document) {
    const int64_t by = static_cast<int64_t>(below(1'000'000'000)) * 1000;
    for (json& event : document["traceEvents"])
      if (event.contains("ts") && event["ts"].is_number())
        event["ts"] = microseconds(nanoseconds(event["ts"]) + by);
    return document;
  }

  json renamed(json document) {
    std::map<std::string, int64_t> names;
    const int64_t offset = 1000 + static_cast<int64_t>(below(100000));
    const auto rename = [&](json& id) {
      const std::string text = id.is_string() ? id.get<std::string>() : id.dump();
      const auto [place, is_new] =
          names.try_emplace(text, offset + static_cast<int64_t>(names.size()));
      if (id.is_string())
        id = std::to_string(place->second);
      else
        id = place->second;
    };
    for (json& event : document["traceEvents"])
      for (const char* key : {"pid", "tid"})
        if (event.contains(key)) rename(event[key]);
    return document;
  }

  // Events of one time keep their order: it says which of two equal ranges is inside the other.
  json shuffled(json document) {
    std::vector<json> events(document["traceEvents"].begin(), document["traceEvents"].end());
    std::map<std::string, std::vector<size_t>> of_time;
    for (size_t k = 0; k < events.size(); ++k)
      of_time[events[k].contains("ts") ? events[k]["ts"].dump() : ""].push_back(k);
    std::vector<size_t> order(events.size());
    for (size_t k = 0; k < order.size(); ++k) order[k] = k;
    std::shuffle(order.begin(), order.end(), random_);
    std::map<std::string, size_t> next;
    json mixed = json::array();
    for (const size_t at : order) {
      const std::string time = events[at].contains("ts") ? events[at]["ts"].dump() : "";
      mixed.push_back(events[of_time[time][next[time]++]]);
    }
    document["traceEvents"] = std::move(mixed);
    return document;
  }

  // Counters, marks, flows and ranges of kinds nobody knows, on threads of their own.
  json with_others(json document) {
    json& events = document["traceEvents"];
    std::vector<json> times;
    for (const json& event : events)
      if (event.contains("ts") && event["ts"].is_number()) times.push_back(event["ts"]);
    json mixed = json::array();
    for (json& event : events) {
      mixed.push_back(std::move(event));
      if (below(4) != 0 || times.empty()) continue;
      const json& ts = times[below(times.size())];
      const json kinds[] = {
          {{"ph", "X"},
           {"cat", "power"},
           {"name", "aten::mm"},
           {"pid", 99},
           {"tid", 98},
           {"ts", ts},
           {"dur", 5}},
          {{"ph", "C"},
           {"name", "GPU 0 Utilization"},
           {"pid", 0},
           {"ts", ts},
           {"args", {{"value", 1}}}},
          {{"ph", "i"}, {"s", "g"}, {"name", "a mark"}, {"pid", 99}, {"tid", 98}, {"ts", ts}},
          {{"ph", "s"},
           {"cat", "ac2g"},
           {"name", "ac2g"},
           {"id", 7},
           {"pid", 1},
           {"tid", 1},
           {"ts", ts}},
          {{"ph", "M"}, {"name", "process_name"}, {"pid", 99}, {"args", {{"name", "other"}}}}};
      mixed.push_back(kinds[below(std::size(kinds))]);
    }
    events = std::move(mixed);
    return document;
  }

 private:
  std::mt19937 random_;
};

// Every time a thousand times as long, as if nanoseconds stood for microseconds.
json rescaled(json document) {
  int64_t first = std::numeric_limits<int64_t>::max();
  for (const json& event : document["traceEvents"])
    if (event.contains("ts") && event["ts"].is_number())
      first = std::min(first, nanoseconds(event["ts"]));
  for (json& event : document["traceEvents"]) {
    if (event.contains("ts") && event["ts"].is_number())
      event["ts"] = nanoseconds(event["ts"]) - first;
    if (event.contains("dur") && event["dur"].is_number()) event["dur"] = nanoseconds(event["dur"]);
  }
  return document;
}

// Shares and counts stay, lengths are a thousand times as long.
std::string differing_in_scale(const json& before, const json& after) {
  const auto a = profile_of(before, false), b = profile_of(after, false);
  if (a == nullptr || b == nullptr) return "cannot be read";
  const auto same = [](double want, double got) {
    return std::abs(want - got) <= 1e-9 * std::max(std::abs(want), std::abs(got)) + 1e-9;
  };
  if (a->operators.by_name.size() != b->operators.by_name.size()) return "other operators";
  if (a->kernels.by_properties.size() != b->kernels.by_properties.size()) return "other kernels";
  for (size_t k = 0; k < a->operators.by_name.size(); ++k) {
    const trace::OperatorGroup &x = a->operators.by_name[k], &y = b->operators.by_name.at(k);
    if (x.calls != y.calls || !same(1000 * x.host_self, y.host_self) ||
        !same(1000 * x.device_total, y.device_total))
      return fmt::format("operator {}", a->trace.strings[x.name]);
  }
  for (size_t k = 0; k < a->kernels.by_properties.size(); ++k)
    if (!same(1000 * a->kernels.by_properties[k].total, b->kernels.by_properties.at(k).total))
      return fmt::format("kernel {}", k);
  for (int part = 0; part < trace::kPartCount; ++part)
    if (!same(1000 * a->breakdown.average[part], b->breakdown.average[part]))
      return fmt::format("part {}", part);
  return "";
}

// Spans of a run, cut between two steps: their kernels and operators are those of the whole.
std::string differing_in_spans(const json& document) {
  int64_t border = 0, begin = std::numeric_limits<int64_t>::max();
  for (const json& event : document["traceEvents"]) {
    if (event.value("ph", "") != "X" || event.value("cat", "") == "gpu_user_annotation" ||
        event.value("name", "").substr(0, 13) != "ProfilerStep#")
      continue;
    border = std::max(border, nanoseconds(event["ts"]));
    begin = std::min(begin, nanoseconds(event["ts"]));
  }
  if (border <= begin) return "";  // no two steps
  json parts[2] = {document, document};
  for (json& part : parts) part["traceEvents"] = json::array();
  for (const json& event : document["traceEvents"]) {
    const bool is_late = event.contains("ts") && nanoseconds(event["ts"]) >= border;
    parts[is_late ? 1 : 0]["traceEvents"].push_back(event);
  }
  std::map<std::string, std::pair<int64_t, double>> whole, sum;
  const auto collect = [](const Profile& profile, auto& into) {
    for (const trace::OperatorGroup& group : profile.operators.by_name) {
      auto& [calls, time] = into[std::string(profile.trace.strings[group.name])];
      calls += group.calls;
      time += group.host_self + group.device_total;
    }
    for (const trace::KernelGroup& group : profile.kernels.by_name) {
      auto& [calls, time] = into[std::string(profile.trace.strings[group.name])];
      calls += group.calls;
      time += group.total;
    }
  };
  collect(*profile_of(document, false), whole);
  for (const json& part : parts) collect(*profile_of(part, false), sum);
  for (const auto& [name, figures] : whole)
    if (sum[name].first != figures.first || std::abs(sum[name].second - figures.second) > 1e-3)
      return fmt::format("{}: {} calls, not {}", name, sum[name].first, figures.first);
  return "";
}

// Four ranks with clocks of their own that meet in collectives without numbers; each recording
// begins and ends somewhere else.
std::vector<std::unique_ptr<Profile>> make_ranks(Changes& changes) {
  constexpr int kRanks = 4, kSteps = 12;
  std::vector<std::vector<int64_t>> starts(kRanks);
  std::vector<int64_t> ends;
  int64_t now = 1'000'000;
  for (int step = 0; step < kSteps; ++step) {
    int64_t last = 0;
    for (auto& own : starts) {
      own.push_back(now + 100 + static_cast<int64_t>(changes.below(2000)));
      last = std::max(last, own.back());
    }
    ends.push_back(last + 500);
    now = ends.back() + 1000 + static_cast<int64_t>(changes.below(300));
  }
  std::vector<std::unique_ptr<Profile>> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto offset = static_cast<int64_t>(changes.below(1'000'000'000));
    json events = json::array();
    for (size_t step = changes.below(3); step < kSteps - changes.below(2); ++step)
      events.push_back({{"ph", "X"},
                        {"cat", "kernel"},
                        {"name", "ncclKernel_AllReduce_RING_LL"},
                        {"pid", 0},
                        {"tid", 7},
                        {"ts", starts[rank][step] + offset},
                        {"dur", ends[step] - starts[rank][step]},
                        {"args", {{"device", 0}}}});
    ranks.push_back(
        profile_of({{"traceEvents", events}, {"distributedInfo", {{"rank", rank}}}}, false));
    ranks.back()->worker = fmt::format("rank{}", rank);
  }
  return ranks;
}

std::string differing_in_order(Changes& changes) {
  const auto ranks = make_ranks(changes);
  std::vector<const Profile*> plain;
  for (const auto& rank : ranks) plain.push_back(rank.get());
  std::vector<const Profile*> permuted = plain;
  std::rotate(permuted.begin(), permuted.begin() + 1 + static_cast<int64_t>(changes.below(3)),
              permuted.end());
  const trace::CrossRank want = trace::match_collectives(plain),
                         got = trace::match_collectives(permuted);
  if (want.collectives < 9) return fmt::format("only {} collectives found", want.collectives);
  for (const trace::RankUse& use : want.ranks)
    for (const trace::RankUse& other : got.ranks) {
      if (use.worker != other.worker) continue;
      if (use.matched != other.matched || use.came_last != other.came_last ||
          std::abs(use.wait_us - other.wait_us) > 1e-6 ||
          std::abs(use.transfer_us - other.transfer_us) > 1e-6)
        return use.worker;
    }
  return "";
}

struct Derivation {
  const char* name;
  std::string (*check)(const Source&, Changes&);
};

// Doubles of microseconds round with the time of day: --compat is asked where times are whole.
std::string both_modes(const Source& source, const json& before, const json& after,
                       bool moves_clock = false) {
  std::string found = differing(before, after, false);
  if (found.empty() && (source.whole_microseconds || !moves_clock)) {
    found = differing(before, after, true);
    if (!found.empty()) found = "--compat: " + found;
  }
  return found;
}

constexpr Derivation kDerivations[] = {
    {"clock shifted",
     [](const Source& source, Changes& changes) {
       const json before = changes.thinned(source.document);
       return both_modes(source, before, changes.shifted(before), true);
     }},
    {"clock rescaled",
     [](const Source& source, Changes& changes) {
       const json before = changes.thinned(source.document);
       return differing_in_scale(before, rescaled(before));
     }},
    {"threads renamed",
     [](const Source& source, Changes& changes) {
       const json before = changes.thinned(source.document);
       return both_modes(source, before, changes.renamed(before));
     }},
    {"events shuffled",
     [](const Source& source, Changes& changes) {
       const json before = changes.thinned(source.document);
       return both_modes(source, before, changes.shuffled(before));
     }},
    {"split into spans",
     [](const Source& source, Changes& changes) {
       return differing_in_spans(changes.thinned(source.document));
     }},
    {"ranks permuted", [](const Source&, Changes& changes) { return differing_in_order(changes); }},
    {"others added",
     [](const Source& source, Changes& changes) {
       const json before = changes.thinned(source.document);
       return both_modes(source, before, changes.with_others(before));
     }},
};

TEST(Derived, AnswersDoNotChange) {
  std::map<std::string, int> checked;
  for (int k = 0; k < kDerived; ++k) {
    Changes changes(static_cast<uint32_t>(k) + 1);
    const Derivation& derivation = kDerivations[k % std::size(kDerivations)];
    const size_t round = static_cast<size_t>(k) / std::size(kDerivations);
    const Source& source = sources()[round % sources().size()];
    EXPECT_EQ(derivation.check(source, changes), "")
        << "derived trace " << k << ": " << source.name << ", " << derivation.name;
    ++checked[derivation.name];
  }
  std::printf("derived from %zu traces%s:\n", sources().size(),
              data_folder().empty() ? " (8 recorded ones are not here: neither CAMSHAFT_SHARED nor "
                                      "../shared holds profiler/)"
                                    : "");
  for (const auto& [name, count] : checked) std::printf("  %-20s %3d\n", name.c_str(), count);
}

}  // namespace
}  // namespace camshaft::golden
