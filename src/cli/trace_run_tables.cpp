// SPDX-License-Identifier: Apache-2.0
// Tables of modules, steps, collectives and ranks; which files are ranks of one job.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "cli/trace_views.h"
#include "server/run_store.h"

namespace camshaft::cli {

using trace::Profile;

namespace {

void add_modules(const Profile& profile, const std::vector<trace::ModuleNode>& nodes, size_t depth,
                 Report& report) {
  for (const trace::ModuleNode& node : nodes) {
    report.add({std::string(2 * depth, ' ') + node.name, static_cast<double>(depth),
                static_cast<double>(node.occurrences), static_cast<double>(node.operators),
                profile.clock.to_us(node.device_total), profile.clock.to_us(node.device_self),
                profile.clock.to_us(node.host_total), profile.clock.to_us(node.host_self)});
    add_modules(profile, node.children, depth + 1, report);
  }
}

}  // namespace

Report module_report(const Loaded& loaded) {
  Report report({{"name", "Module"},
                 {"depth", "Depth", Unit::kCount},
                 {"calls", "Calls", Unit::kCount},
                 {"operators", "Operators", Unit::kCount},
                 {"device_total_us", "Device total", Unit::kMicroseconds},
                 {"device_self_us", "Device self", Unit::kMicroseconds},
                 {"host_total_us", "Host total", Unit::kMicroseconds},
                 {"host_self_us", "Host self", Unit::kMicroseconds}});
  add_modules(*loaded.profile, loaded.profile->modules, 0, report);
  return report;
}

Report step_report(const Loaded& loaded) {
  const Profile& profile = *loaded.profile;
  Report report({{"step", "Step"},
                 {"total_us", "Total", Unit::kMicroseconds},
                 {"kernel_us", "Kernel", Unit::kMicroseconds},
                 {"memcpy_us", "Memcpy", Unit::kMicroseconds},
                 {"memset_us", "Memset", Unit::kMicroseconds},
                 {"communication_us", "Communication", Unit::kMicroseconds},
                 {"runtime_us", "Runtime", Unit::kMicroseconds},
                 {"dataloader_us", "DataLoader", Unit::kMicroseconds},
                 {"cpu_exec_us", "CPU Exec", Unit::kMicroseconds},
                 {"other_us", "Other", Unit::kMicroseconds}});
  for (size_t k = 0; k < profile.steps.list.size(); ++k) {
    const trace::Step& step = profile.steps.list[k];
    std::vector<Cell> row{step.name, profile.clock.to_us(step.end - step.start)};
    for (const double part : profile.breakdown.steps[k]) row.push_back(profile.clock.to_us(part));
    report.add(std::move(row));
  }
  return report;
}

Report collective_report(const Loaded& loaded) {
  Report report({{"name", "Collective", Unit::kKernelName},
                 {"group", "Group"},
                 {"group_size", "Ranks", Unit::kCount},
                 {"calls", "Calls", Unit::kCount},
                 {"total_us", "Total", Unit::kMicroseconds},
                 {"mean_us", "Mean", Unit::kMicroseconds},
                 {"exposed_us", "Exposed", Unit::kMicroseconds},
                 {"bytes", "Bytes", Unit::kBytes},
                 {"gb_per_s", "GB/s", Unit::kCount}});
  for (const trace::CollectiveUse& use : loaded.insights.collectives) {
    const auto calls = static_cast<double>(use.calls);
    const auto bytes = static_cast<double>(use.bytes);
    report.add({use.name, use.group, static_cast<double>(use.group_size), calls, use.total_us,
                calls > 0 ? use.total_us / calls : 0, use.exposed_us, bytes,
                use.total_us > 0 ? bytes / use.total_us / 1e3 : 0});
  }
  return report;
}

Report rank_report(const Loaded& loaded) {
  Report report({{"worker", "Worker"},
                 {"rank", "Rank"},
                 {"matched", "Matched", Unit::kCount},
                 {"unmatched", "Here alone", Unit::kCount},
                 {"came_last", "Came last", Unit::kCount},
                 {"wait_us", "Waiting", Unit::kMicroseconds},
                 {"wait_percent", "% of steps", Unit::kPercent},
                 {"transfer_us", "Transfer", Unit::kMicroseconds},
                 {"waits_for", "Mostly for"},
                 {"busy_with", "Busier than others with"},
                 {"busy_percent", "% of steps", Unit::kPercent}});
  if (loaded.together == nullptr) return report;
  for (const trace::RankUse& use : loaded.together->ranks)
    report.add({use.worker, use.rank < 0 ? std::string() : std::to_string(use.rank),
                static_cast<double>(use.matched), static_cast<double>(use.unmatched),
                static_cast<double>(use.came_last), use.wait_us, use.wait_percent, use.transfer_us,
                use.waits_for < 0 ? std::string() : loaded.together->ranks[use.waits_for].title(),
                std::string(use.busy_excess_percent > 0 ? trace::part_name(use.busy_with) : ""),
                use.busy_percent});
  return report;
}

void join_ranks(std::vector<Loaded>& traces) {
  namespace fs = std::filesystem;
  std::map<std::pair<std::string, std::string>, std::set<std::string>> stamps;
  std::vector<server::TraceFile> files(traces.size());
  std::vector<std::string> folders;
  for (size_t k = 0; k < traces.size(); ++k) {
    const fs::path path(traces[k].name);
    if (!server::parse_trace_name(path.filename().string(), files[k]))
      files[k].worker = path.filename().string();
    traces[k].profile->worker = files[k].worker;
    folders.push_back(path.parent_path().string());
    stamps[{folders[k], files[k].worker}].insert(files[k].stamp);
  }
  std::map<std::pair<std::string, int64_t>, std::vector<size_t>> jobs;  // by folder and span
  for (size_t k = 0; k < traces.size(); ++k) {
    const auto& known = stamps[{folders[k], files[k].worker}];
    jobs[{folders[k], std::distance(known.begin(), known.find(files[k].stamp))}].push_back(k);
  }
  for (const auto& [job, members] : jobs) {
    std::vector<const Profile*> workers;
    for (const size_t k : members) workers.push_back(traces[k].profile.get());
    const auto together =
        std::make_shared<const trace::CrossRank>(trace::match_collectives(workers));
    for (size_t k = 0; k < members.size(); ++k) {
      Loaded& loaded = traces[members[k]];
      loaded.together = together;
      loaded.insights.findings =
          trace::with_ranks(std::move(loaded.insights.findings), *together, k);
    }
  }
}

}  // namespace camshaft::cli
