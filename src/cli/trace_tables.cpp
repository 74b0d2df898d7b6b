// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>

#include "cli/trace_views.h"

namespace camshaft::cli {

using trace::Profile;

Report operator_report(const Loaded& loaded, bool by_shape) {
  const Profile& profile = *loaded.profile;
  std::vector<Field> fields{{"name", "Operator", false}};
  if (by_shape) fields.push_back({"shape", "Input shapes", false});
  for (const Field& field :
       {Field{"calls", "Calls", true}, Field{"device_self_us", "Device self us", true},
        Field{"device_total_us", "Device total us", true},
        Field{"host_self_us", "Host self us", true}, Field{"host_total_us", "Host total us", true}})
    fields.push_back(field);
  Report report(fields);
  const auto& groups = by_shape ? profile.operators.by_shape : profile.operators.by_name;
  for (const uint32_t k : trace::order_by_self_time(groups, !profile.has_device_work)) {
    const trace::OperatorGroup& group = groups[k];
    std::vector<Cell> row{std::string(profile.trace.strings[group.name])};
    if (by_shape) row.push_back(std::string(profile.trace.strings[group.shapes]));
    row.push_back(static_cast<double>(group.calls));
    for (const double ticks :
         {group.device_self, group.device_total, group.host_self, group.host_total})
      row.push_back(profile.clock.to_us(ticks));
    report.add(std::move(row));
  }
  return report;
}

Report kernel_report(const Loaded& loaded, bool by_launch) {
  const Profile& profile = *loaded.profile;
  std::vector<Field> fields{{"name", "Kernel", false}};
  if (by_launch)
    fields.insert(fields.end(),
                  {{"op", "Operator", false}, {"grid", "Grid", false}, {"block", "Block", false}});
  for (const Field& field : {Field{"tensor_cores", "TC", false}, Field{"calls", "Calls", true},
                             Field{"total_us", "Total us", true}, Field{"mean_us", "Mean us", true},
                             Field{"max_us", "Max us", true}, Field{"min_us", "Min us", true}})
    fields.push_back(field);
  Report report(fields);
  for (const trace::KernelGroup& group :
       by_launch ? profile.kernels.by_properties : profile.kernels.by_name) {
    std::vector<Cell> row{std::string(profile.trace.strings[group.name])};
    if (by_launch)
      for (const std::string_view text :
           {trace::operator_label(profile.trace, group), profile.trace.strings[group.grid],
            profile.trace.strings[group.block]})
        row.push_back(std::string(text));
    const bool on_matrix_units =
        trace::uses_matrix_units(profile.trace.strings[group.name], profile.semantics);
    row.push_back(std::string(on_matrix_units ? "yes" : "no"));
    row.push_back(static_cast<double>(group.calls));
    for (const double ticks : {group.total, group.mean(), group.longest, group.shortest})
      row.push_back(profile.clock.to_us(ticks));
    report.add(std::move(row));
  }
  return report;
}

Report memory_report(const Loaded& loaded) {
  const Profile& profile = *loaded.profile;
  Report report({{"device", "Device", false},
                 {"name", "Operator", false},
                 {"calls", "Calls", true},
                 {"self_increase", "Self increase B", true},
                 {"increase", "Increase B", true},
                 {"self_allocations", "Self allocs", true},
                 {"self_allocated", "Self allocated B", true},
                 {"allocated", "Allocated B", true}});
  const auto tables =
      trace::memory_stats(profile.trace, profile.clock, profile.semantics, profile.forest,
                          profile.memory, trace::moved_away(profile), {});
  for (size_t device = 0; device < tables.size(); ++device)
    for (const trace::MemoryStat& stat : tables[device]) {
      std::vector<Cell> row{profile.memory.devices[device],
                            std::string(profile.trace.strings[stat.name])};
      for (const int64_t value : {stat.calls, stat.self_increase, stat.increase,
                                  stat.self_allocations, stat.self_allocated, stat.allocated})
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
  Report report({{"name", "Operator", false},
                 {"a_calls", "A calls", true},
                 {"b_calls", "B calls", true},
                 {"a_self_us", "A self us", true},
                 {"b_self_us", "B self us", true},
                 {"delta_us", "Change us", true}});
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
