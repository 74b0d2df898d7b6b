// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>

#include "cli/trace_views.h"

namespace camshaft::cli {

using trace::Profile;

namespace {

double percent(double part, double whole) {
  return whole > 0 ? 100 * part / whole : 0;
}

}  // namespace

Report operator_report(const Loaded& loaded, bool by_shape) {
  const Profile& profile = *loaded.profile;
  std::vector<Field> fields{{"name", "Operator"}};
  if (by_shape) fields.push_back({"shape", "Input shapes"});
  for (const Field& field : {Field{"calls", "Calls", Unit::kCount},
                             Field{"device_self_us", "Device self", Unit::kMicroseconds},
                             Field{"device_self_percent", "%", Unit::kPercent},
                             Field{"device_total_us", "Device total", Unit::kMicroseconds},
                             Field{"host_self_us", "Host self", Unit::kMicroseconds},
                             Field{"host_self_percent", "%", Unit::kPercent},
                             Field{"host_total_us", "Host total", Unit::kMicroseconds}})
    fields.push_back(field);
  Report report(fields);
  const auto& groups = by_shape ? profile.operators.by_shape : profile.operators.by_name;
  double device_all = 0, host_all = 0;
  for (const trace::OperatorGroup& group : groups)
    device_all += group.device_self, host_all += std::max(0.0, group.host_self);
  for (const uint32_t k : trace::order_by_self_time(groups, !profile.has_device_work)) {
    const trace::OperatorGroup& group = groups[k];
    std::vector<Cell> row{std::string(profile.trace.strings[group.name])};
    if (by_shape) row.push_back(std::string(profile.trace.strings[group.shapes]));
    row.push_back(static_cast<double>(group.calls));
    row.push_back(profile.clock.to_us(group.device_self));
    row.push_back(percent(group.device_self, device_all));
    row.push_back(profile.clock.to_us(group.device_total));
    row.push_back(profile.clock.to_us(group.host_self));
    row.push_back(percent(group.host_self, host_all));
    row.push_back(profile.clock.to_us(group.host_total));
    report.add(std::move(row));
  }
  return report;
}

Report kernel_report(const Loaded& loaded, bool by_launch) {
  const Profile& profile = *loaded.profile;
  std::vector<Field> fields{{"name", "Kernel", Unit::kKernelName}};
  if (by_launch)
    fields.insert(fields.end(), {{"op", "Operator"}, {"grid", "Grid"}, {"block", "Block"}});
  for (const Field& field :
       {Field{"tensor_cores", "TC"}, Field{"calls", "Calls", Unit::kCount},
        Field{"total_us", "Total", Unit::kMicroseconds}, Field{"percent", "%", Unit::kPercent},
        Field{"mean_us", "Mean", Unit::kMicroseconds}, Field{"max_us", "Max", Unit::kMicroseconds},
        Field{"min_us", "Min", Unit::kMicroseconds}})
    fields.push_back(field);
  Report report(fields);
  for (const trace::KernelGroup& group :
       by_launch ? profile.kernels.by_properties : profile.kernels.by_name) {
    std::vector<Cell> row{std::string(profile.trace.strings[group.name])};
    const std::string operator_name = trace::operator_label(profile.trace, group);
    if (by_launch)
      for (const std::string_view text :
           {std::string_view(operator_name), profile.trace.strings[group.grid],
            profile.trace.strings[group.block]})
        row.push_back(std::string(text));
    row.push_back(std::string(trace::matrix_use_word(
        trace::matrix_use(profile.trace.strings[group.name], profile.semantics))));
    row.push_back(static_cast<double>(group.calls));
    row.push_back(profile.clock.to_us(group.total));
    row.push_back(percent(group.total, profile.kernels.total));
    for (const double ticks : {group.mean(), group.longest, group.shortest})
      row.push_back(profile.clock.to_us(ticks));
    report.add(std::move(row));
  }
  return report;
}

Report memory_report(const Loaded& loaded) {
  const Profile& profile = *loaded.profile;
  Report report({{"device", "Device"},
                 {"name", "Operator"},
                 {"calls", "Calls", Unit::kCount},
                 {"self_kept", "Self kept", Unit::kBytes},
                 {"kept", "Kept", Unit::kBytes},
                 {"self_allocations", "Self allocs", Unit::kCount},
                 {"self_allocated", "Self allocated", Unit::kBytes},
                 {"allocated", "Allocated", Unit::kBytes}});
  const auto tables =
      trace::memory_stats(profile.trace, profile.clock, profile.semantics, profile.forest,
                          profile.memory, trace::moved_away(profile), {});
  for (size_t device = 0; device < tables.size(); ++device)
    for (const trace::MemoryStat& stat : tables[device]) {
      std::vector<Cell> row{profile.memory.devices[device],
                            std::string(profile.trace.strings[stat.name])};
      for (const int64_t value : {stat.calls, stat.self_kept, stat.kept, stat.self_allocations,
                                  stat.self_allocated, stat.allocated})
        row.push_back(static_cast<double>(value));
      report.add(std::move(row));
    }
  report.sort_by("self_allocated");
  return report;
}

trace::Figures diff_figures(const Loaded& a, const Loaded& b) {
  trace::Figures figures;
  const auto left = trace::metrics(*a.profile, a.insights),
             right = trace::metrics(*b.profile, b.insights);
  for (const auto& [name, before] : left)
    for (const auto& [other, after] : right) {
      if (name != other) continue;
      figures.emplace_back("a." + name, before);
      figures.emplace_back("b." + name, after);
      figures.emplace_back("delta." + name, after - before);
      figures.emplace_back("ratio." + name, before != 0  ? after / before
                                            : after == 0 ? 1.0
                                                         : HUGE_VAL);
    }
  return figures;
}

Report diff_report(const Loaded& a, const Loaded& b) {
  Report report({{"name", "Operator"},
                 {"a_calls", "A calls", Unit::kCount},
                 {"b_calls", "B calls", Unit::kCount},
                 {"a_self_us", "A self", Unit::kMicroseconds},
                 {"b_self_us", "B self", Unit::kMicroseconds},
                 {"delta_us", "Change", Unit::kMicroseconds}});
  struct Sides {
    double calls[2] = {0, 0}, self[2] = {0, 0};
  };
  const bool on_device = a.profile->has_device_work && b.profile->has_device_work;
  std::map<std::string, Sides> rows;
  int side = 0;
  for (const Loaded* loaded : {&a, &b}) {
    for (const trace::OperatorGroup& group : loaded->profile->operators.by_name) {
      Sides& sides = rows[std::string(loaded->profile->trace.strings[group.name])];
      sides.calls[side] += static_cast<double>(group.calls);
      sides.self[side] +=
          loaded->profile->clock.to_us(on_device ? group.device_self : group.host_self);
    }
    ++side;
  }
  std::vector<std::pair<std::string, Sides>> order(rows.begin(), rows.end());
  std::stable_sort(order.begin(), order.end(), [](const auto& x, const auto& y) {
    return std::abs(x.second.self[1] - x.second.self[0]) >
           std::abs(y.second.self[1] - y.second.self[0]);
  });
  for (const auto& [name, sides] : order)
    report.add({name, sides.calls[0], sides.calls[1], sides.self[0], sides.self[1],
                sides.self[1] - sides.self[0]});
  return report;
}

}  // namespace camshaft::cli
