// SPDX-License-Identifier: Apache-2.0
// Overview, operators and kernels in the plugin's words; memory and modules are in views_memory.cpp
// and views_tree.cpp.
#include "trace/views.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "trace/advice.h"

namespace camshaft::trace {
namespace {

constexpr const char* kBlocksTooltip =
    "Blocks Per SM = blocks of this kernel / SM number of this GPU.\nIf this number is less than "
    "1, it indicates the GPU "
    "multiprocessors are not fully utilized.\n\"Mean Blocks per SM\" is the weighted average of "
    "all calls of this "
    "kernel, using each call's execution duration as weight.";
#define CAMSHAFT_OCCUPANCY_TEXT                                                                    \
  "Est. Achieved Occupancy:\nFor most cases such as memory bandwidth bounded kernels, the higher " \
  "the better. "                                                                                   \
  "Occupancy is the ratio of active warps on an SM to the maximum number of active warps "         \
  "supported by the SM. The "                                                                      \
  "theoretical occupancy of a kernel is upper limit occupancy of this kernel, limited by "         \
  "multiple factors such as "                                                                      \
  "kernel shape, kernel used resource, and the GPU compute capability.\nEst. Achieved Occupancy "  \
  "of a kernel, OCC_K "                                                                            \
  "= min(threads of the kernel / SM number / max threads per SM, theoretical occupancy of the "    \
  "kernel). "
constexpr const char* kMeanOccupancyTooltip = CAMSHAFT_OCCUPANCY_TEXT
    "This \"Mean\" number is the weighted average of all calls' OCC_K of the kernel, using each "
    "call's execution "
    "duration as weight. It shows fine-grained low-level GPU utilization.";

Column text_column(std::string name, std::string tooltip = "") {
  return {"string", std::move(name), std::move(tooltip), false};
}
Column number_column(std::string name, std::string tooltip = "") {
  return {"number", std::move(name), std::move(tooltip), false};
}

std::string real_text(double value) {
  std::string text;
  append_real(text, value);
  return text;
}

std::string value_text(const Value& value) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return fmt::format("{}", *whole);
  // A step without ends spans all 64-bit times, and Python's integers hold that.
  if (as_double(value) == -18446744073709551616.0) return "-18446744073709551615";
  return real_text(as_double(value));
}

double rounded_percent(double part, double whole) {
  return whole != 0 ? round_places(100 * part / whole, 2) : 0.0;
}

// Whole microseconds; beyond 64 bits (a step without ends, as the original has them) a float.
Value rounded(double value) {
  if (!(std::abs(value) < 9e18)) return value;
  return static_cast<int64_t>(round_whole(value));
}

std::vector<Part> shown_parts(const Breakdown& breakdown) {
  std::vector<Part> parts;
  if (breakdown.has_device_activity) parts = {Part::kKernel, Part::kMemcpy, Part::kMemset};
  if (breakdown.has_communication) parts.push_back(Part::kCommunication);
  if (breakdown.has_device_activity) parts.push_back(Part::kRuntime);
  parts.insert(parts.end(), {Part::kDataLoader, Part::kCpuExec, Part::kOther});
  return parts;
}

Table step_table(const Profile& profile, const StepFigures& figures,
                 const std::vector<Part>& parts) {
  Table table;
  table.columns.push_back(text_column("Step"));
  for (const Part part : parts) {
    table.columns.push_back(number_column(part_name(part)));
    table.columns.push_back({"string", "", "", true});
  }
  for (size_t k = 0; k < figures.steps.list.size(); ++k) {
    const Step& step = figures.steps.list[k];
    const Ticks length = step.end - step.start;
    std::vector<Value> row{step.name};
    for (const Part part : parts) {
      const Ticks time = figures.breakdown.steps[k][static_cast<int>(part)];
      const bool touched = figures.breakdown.touched[k] >> static_cast<int>(part) & 1;
      const Value cell = touched ? profile.clock.length(time) : Value(int64_t{0});
      row.push_back(cell);
      row.push_back(
          fmt::format("<div class=\"visualization-tooltip\" style=\"white-space: nowrap;\">Step "
                      "{}<br>Total: {}us<br><b>{}: "
                      "{}us</b><br>Percentage: {}%</div>",
                      step.name, value_text(profile.clock.length(length)), part_name(part),
                      value_text(cell), real_text(rounded_percent(time, length))));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::vector<Performance> performance(const Profile& profile, const Breakdown& breakdown,
                                     const std::vector<Part>& parts) {
  Performance all{
      "Average Step Time", rounded(profile.clock.to_us(breakdown.average_step)), int64_t{100}, {}};
  for (const Part part : parts) {
    const Ticks time = breakdown.average.empty() ? 0 : breakdown.average[static_cast<int>(part)];
    all.children.push_back({part_name(part),
                            rounded(profile.clock.to_us(time)),
                            rounded_percent(time, breakdown.average_step),
                            {}});
  }
  return {std::move(all)};
}

const DeviceProperties* properties_of(const Trace& trace, int64_t device) {
  if (device < 0 || device >= static_cast<int64_t>(trace.device_properties.size())) return nullptr;
  return &trace.device_properties[device];
}

std::string device_tooltip(const Profile& profile, bool has_efficiency, bool has_occupancy,
                           bool has_tensor_cores) {
  const std::string word = profile.semantics.is_mlu() ? "MLU" : "GPU";
  std::string text = fmt::format(
      "The {0} usage metrics:\n\n{0} Utilization:\n{0} busy time / All steps time. The higher, the "
      "better. {0} busy "
      "time is the time during which there is at least one {0} kernel running on it. All steps "
      "time is the total time "
      "of all profiler steps(or called as iterations).\n",
      word);
  if (has_efficiency)
    text +=
        "\nEst. SM Efficiency:\nEstimated Stream Multiprocessor Efficiency. The higher, the "
        "better. This metric of a "
        "kernel, SM_Eff_K = min(blocks of this kernel / SM number of this GPU, 100%). This overall "
        "number is the sum "
        "of all kernels' SM_Eff_K weighted by kernel's execution duration, divided by all steps "
        "time.\n";
  if (has_occupancy)
    text += "\n" CAMSHAFT_OCCUPANCY_TEXT
            "This overall number is the weighted average of all kernels' OCC_K using kernel's "
            "execution duration as "
            "weight. It shows fine-grained low-level GPU utilization.\n";
  if (has_tensor_cores) {
    text += fmt::format(
        "\nKernel using Tensor Cores:\nTotal {0} Time for Tensor Core kernels / Total {0} Time for "
        "all kernels.\n",
        word);
    if (profile.semantics.dialect == Dialect::kMlu)
      text += "It is always 0.0 On MLU devices because MLU does not using Tensor Cores.\n";
  }
  return text;
}

std::string percent_text(double fraction) {
  return real_text(round_places(fraction * 100, 2)) + " %";
}

std::optional<DeviceSummary> device_summary(const Profile& profile, const DeviceUses& uses) {
  if (!profile.has_kernels) return std::nullopt;
  const bool is_mlu = profile.semantics.is_mlu();
  const std::string word = is_mlu ? "MLU" : "GPU";
  DeviceSummary summary;
  if (profile.semantics.dialect == Dialect::kMlu) summary.key = "mlu_metrics";
  summary.title = word + " Summary";
  bool has_efficiency = false, has_occupancy = false, has_tensor_cores = false;
  for (const DeviceUse& use : uses.devices) {
    if (!summary.data.empty()) summary.data.push_back({"<hr/>", ""});
    summary.data.push_back({fmt::format("{} {}:", word, use.device), ""});
    if (const DeviceProperties* device = properties_of(profile.trace, use.device)) {
      if (!device->name.empty() || !profile.trace.device_properties.empty())
        summary.data.push_back({"Name", device->name});
      if (device->memory_bytes > 0)
        summary.data.push_back(
            {"Memory",
             real_text(round_places(static_cast<double>(device->memory_bytes) / (1 << 30), 2)) +
                 " GB"});
      if (device->compute_major >= 0)
        summary.data.push_back({"Compute Capability", fmt::format("{}.{}", device->compute_major,
                                                                  device->compute_minor)});
    }
    summary.data.push_back({word + " Utilization", percent_text(use.utilization)});
    const bool knows_tensor_cores = profile.semantics.dialect != Dialect::kMluLate || !is_mlu;
    if (use.sm_efficiency && !is_mlu) {
      has_efficiency = true;
      summary.data.push_back({"Est. SM Efficiency", percent_text(*use.sm_efficiency)});
    }
    if (use.occupancy && !is_mlu) {
      has_occupancy = true;
      summary.data.push_back(
          {"Est. Achieved Occupancy", real_text(round_places(*use.occupancy, 2)) + " %"});
    }
    if (use.tensor_core_share && knows_tensor_cores) {
      has_tensor_cores = true;
      summary.data.push_back(
          {"Kernel Time using Tensor Cores", percent_text(*use.tensor_core_share)});
    }
  }
  summary.tooltip = device_tooltip(profile, has_efficiency, has_occupancy, has_tensor_cores);
  return summary;
}

struct PieColumn {
  const char* title;
  Ticks OperatorGroup::*value;
  bool is_device;
};
constexpr PieColumn kPies[4] = {
    {"Device Total Time (us)", &OperatorGroup::device_total, true},
    {"Device Self Time (us)", &OperatorGroup::device_self, true},
    {"Host Total Time (us)", &OperatorGroup::host_total, false},
    {"Host Self Time (us)", &OperatorGroup::host_self, false},
};

// Percent with two places; the whole number 0 when there is nothing to divide by.
Value share_value(Ticks part, Ticks whole) {
  if (!(whole > 0)) return int64_t{0};
  return round_places(100 * part / whole, 2);
}

std::vector<std::pair<std::string, std::string>> operation_tooltips() {
  return {{"tc_eligible", "Whether this operator is eligible to use Tensor Cores."},
          {"tc_self_ratio", "Time of self-kernels with Tensor Cores / Time of self-kernels."},
          {"tc_total_ratio", "Time of kernels with Tensor Cores / Time of kernels."}};
}

OperationTableAnswer operation_answer(const Profile& profile,
                                      const std::vector<OperatorGroup>& groups, bool by_shape,
                                      bool with_stack) {
  OperationTableAnswer answer;
  const bool by_host = !profile.has_device_work;
  answer.sort = by_host ? "host_self_duration" : "device_self_duration";
  answer.tooltips = operation_tooltips();
  const auto whole = [&](Ticks ticks) { return rounded(profile.clock.to_us(ticks)); };
  for (const uint32_t k : order_by_self_time(groups, by_host)) {
    const OperatorGroup& group = groups[k];
    OperationRow row;
    row.name = profile.trace.strings[group.name];
    if (by_shape)
      row.input_shape = group.shapes == 0 ? "[]" : std::string(profile.trace.strings[group.shapes]);
    row.calls = group.calls;
    if (!by_host) {
      row.device_self = whole(group.device_self);
      row.device_total = whole(group.device_total);
    }
    row.host_self = whole(group.host_self);
    row.host_total = whole(group.host_total);
    row.tc_eligible = group.tc_eligible;
    row.tc_self_ratio = share_value(group.tc_self, group.device_self);
    row.tc_total_ratio = share_value(group.tc_total, group.device_total);
    if (with_stack)
      row.call_stack = profile.stacks.text(profile.trace, group.call_stack);
    else
      row.call_stack = group.has_call_stack;
    answer.rows.push_back(std::move(row));
  }
  return answer;
}

// `nothing_weighs`: without any length there is no mean; the plugin then writes a whole zero.
void append_kernel_metrics(const Profile& profile, const KernelGroup& group, bool nothing_weighs,
                           std::vector<Value>& row) {
  const auto mean = [&](double value) {
    return nothing_weighs ? Value(int64_t{0}) : Value(round_places(value, 2));
  };
  if (profile.kernels.has_blocks) row.push_back(mean(group.mean_blocks));
  if (profile.kernels.has_occupancy) row.push_back(mean(group.mean_occupancy));
}

void append_metric_columns(const Profile& profile, Table& table) {
  if (profile.kernels.has_blocks)
    table.columns.push_back(number_column("Mean Blocks Per SM", kBlocksTooltip));
  if (profile.kernels.has_occupancy)
    table.columns.push_back(
        number_column("Mean Est. Achieved Occupancy (%)", kMeanOccupancyTooltip));
}

std::string kernel_tc_tooltip(const Semantics& semantics) {
  return semantics.dialect == Dialect::kMlu
             ? "Whether this kernel uses Tensor Cores. It's always NO On MLU devices because MLU "
               "does not have Tensor Cores."
             : "Whether this kernel uses Tensor Cores.";
}

// The original hangs kernels without a launch on the roots of threads with steps.
bool hangs_on_root(const Profile& profile, const KernelGroup& group) {
  if (profile.semantics.loses()) return true;
  return !group.has_launch &&
         std::any_of(profile.forest.threads.begin(), profile.forest.threads.end(),
                     [](const ThreadTree& thread) { return thread.has_step; });
}

std::string op_name(const Profile& profile, const KernelGroup& group) {
  if (!group.op_is_root) return std::string(profile.trace.strings[group.op]);
  // The original's name for what no call launched; what it loses has one of ours.
  return hangs_on_root(profile, group) ? "CallTreeRoot" : std::string(kUnattributed);
}

void append_property_columns(const Profile& profile, Table& table) {
  const Semantics& semantics = profile.semantics;
  if (semantics.dialect == Dialect::kMlu) {
    table.columns.push_back(text_column("DimXYZ"));
    table.columns.push_back(text_column("Kernel Type"));
  } else if (semantics.dialect == Dialect::kMluLate) {
    table.columns.push_back(text_column("Kernel Type"));
    table.columns.push_back(text_column("Dim"));
    table.columns.push_back(number_column("Tasktopo"));
    table.columns.push_back(number_column("Tasktopo_node"));
  } else {
    table.columns.push_back(text_column("Grid"));
    table.columns.push_back(text_column("Block"));
    table.columns.push_back(number_column("Register Per Thread"));
    table.columns.push_back(number_column("Shared Memory"));
  }
}

std::string dim_text(const Profile& profile, StringId id) {
  return id == 0 ? "[None, None, None]" : std::string(profile.trace.strings[id]);
}

std::string or_none(const Profile& profile, StringId id) {
  return id == 0 ? "None" : std::string(profile.trace.strings[id]);
}

void append_properties(const Profile& profile, const KernelGroup& group, std::vector<Value>& row) {
  const Semantics& semantics = profile.semantics;
  if (semantics.dialect == Dialect::kMlu) {
    row.push_back(dim_text(profile, group.dim));
    row.push_back(group.kernel_type == 0
                      ? Value(nullptr)
                      : Value(std::string(profile.trace.strings[group.kernel_type])));
  } else if (semantics.dialect == Dialect::kMluLate) {
    row.push_back(or_none(profile, group.kernel_type));
    row.push_back(dim_text(profile, group.dim));
    row.push_back(or_none(profile, group.task_topology));
    row.push_back(or_none(profile, group.task_topology_node));
  } else {
    row.push_back(or_none(profile, group.grid));
    row.push_back(or_none(profile, group.block));
    row.push_back(fmt::format("{}", group.registers));
    row.push_back(fmt::format("{}", group.shared_memory));
  }
}

}  // namespace

OverviewAnswer overview(const Profile& profile, size_t workers_of_run) {
  const StepFigures& figures = profile.plugin_figures();
  const std::vector<Part> parts = shown_parts(figures.breakdown);
  OverviewAnswer answer;
  answer.steps = step_table(profile, figures, parts);
  answer.performance = performance(profile, figures.breakdown, parts);
  answer.recommendations = advice_html(advise(profile, figures));
  answer.environments.push_back({"Number of Worker(s)", fmt::format("{}", workers_of_run)});
  const std::string device = profile.semantics.is_mlu() ? "MLU" : "GPU";
  answer.environments.push_back(
      {"Device Type", figures.breakdown.has_device_activity ? device : "CPU"});
  answer.devices = device_summary(profile, figures.devices);
  return answer;
}

OperationAnswer operation_pies(const Profile& profile, bool by_shape) {
  const std::vector<OperatorGroup>& groups =
      by_shape ? profile.operators.by_shape : profile.operators.by_name;
  OperationAnswer answer;
  for (int k = 0; k < 4; ++k) {
    std::vector<const OperatorGroup*> order;
    for (const OperatorGroup& group : groups)
      if (group.*kPies[k].value > 0) order.push_back(&group);
    if (order.empty()) continue;
    std::stable_sort(order.begin(), order.end(),
                     [&](const OperatorGroup* a, const OperatorGroup* b) {
                       return a->*kPies[k].value > b->*kPies[k].value;
                     });
    Pie pie;
    pie.title = kPies[k].title;
    pie.table.columns = {text_column("name"), number_column("value")};
    for (const OperatorGroup* group : order)
      pie.table.rows.push_back({std::string(profile.trace.strings[group->name]),
                                profile.clock.length(group->*kPies[k].value)});
    answer.pies[k] = std::move(pie);
  }
  return answer;
}

OperationTableAnswer operation_table(const Profile& profile, bool by_shape) {
  return operation_answer(
      profile, by_shape ? profile.operators.by_shape : profile.operators.by_name, by_shape, false);
}

OperationTableAnswer operation_stacks(const Profile& profile, bool by_shape, std::string_view op,
                                      std::string_view input_shape) {
  std::vector<OperatorGroup> chosen;
  for (const OperatorGroup& group :
       by_shape ? profile.operators.by_shape_stack : profile.operators.by_name_stack) {
    if (profile.trace.strings[group.name] != op) continue;
    const std::string_view shapes = group.shapes == 0 ? "[]" : profile.trace.strings[group.shapes];
    if (by_shape && shapes != input_shape) continue;
    chosen.push_back(group);
  }
  return operation_answer(profile, chosen, by_shape, true);
}

TotalAnswer kernel_pie(const Profile& profile) {
  TotalAnswer answer;
  answer.total.columns = {text_column("name"), number_column("value")};
  for (const KernelGroup& group : profile.kernels.by_name)
    answer.total.rows.push_back(
        {std::string(profile.trace.strings[group.name]), profile.clock.length(group.total)});
  return answer;
}

KernelTableAnswer kernel_table(const Profile& profile) {
  KernelTableAnswer answer;
  answer.sort = "Total Duration (us)";
  answer.table.columns = {text_column("Name"),
                          text_column("Tensor Cores Used", kernel_tc_tooltip(profile.semantics)),
                          number_column("Calls"),
                          number_column("Total Duration (us)"),
                          number_column("Mean Duration (us)"),
                          number_column("Max Duration (us)"),
                          number_column("Min Duration (us)")};
  append_metric_columns(profile, answer.table);
  const auto whole = [&](Ticks ticks) { return rounded(profile.clock.to_us(ticks)); };
  for (const KernelGroup& group : profile.kernels.by_name) {
    std::vector<Value> row{std::string(profile.trace.strings[group.name]),
                           std::string(group.uses_tensor_cores ? "Yes" : "No"),
                           group.calls,
                           whole(group.total),
                           whole(group.mean()),
                           whole(group.longest),
                           whole(group.shortest)};
    append_kernel_metrics(profile, group, false, row);
    answer.table.rows.push_back(std::move(row));
  }
  return answer;
}

KernelTableAnswer kernel_table_by_properties(const Profile& profile) {
  KernelTableAnswer answer;
  const bool shows_op_eligible = profile.semantics.dialect != Dialect::kMlu;
  answer.sort = "Total Duration (us)";
  answer.table.columns = {text_column("Name"), text_column("Operator")};
  append_property_columns(profile, answer.table);
  answer.table.columns.push_back(
      text_column("Kernel Uses Tensor Cores", kernel_tc_tooltip(profile.semantics)));
  if (shows_op_eligible)
    answer.table.columns.push_back(
        text_column("Op is Tensor Cores eligible",
                    "Whether the operator launched this kernel is eligible to use Tensor Cores."));
  for (const char* name : {"Calls", "Total Duration (us)", "Mean Duration (us)",
                           "Max Duration (us)", "Min Duration (us)"})
    answer.table.columns.push_back(number_column(name));
  append_metric_columns(profile, answer.table);
  for (const KernelGroup& group : profile.kernels.by_properties) {
    std::vector<Value> row{std::string(profile.trace.strings[group.name]), op_name(profile, group)};
    append_properties(profile, group, row);
    row.push_back(std::string(group.uses_tensor_cores ? "Yes" : "No"));
    if (shows_op_eligible) row.push_back(std::string(group.op_tc_eligible ? "Yes" : "No"));
    row.push_back(group.calls);
    row.push_back(profile.clock.length(group.total));
    row.push_back(rounded(profile.clock.to_us(group.mean())));
    row.push_back(profile.clock.length(group.longest));
    row.push_back(profile.clock.length(group.shortest));
    append_kernel_metrics(profile, group, group.total == 0, row);
    answer.table.rows.push_back(std::move(row));
  }
  return answer;
}

TotalAnswer tensor_core_pie(const Profile& profile) {
  const double share =
      profile.kernels.total > 0 ? profile.kernels.tc_total / profile.kernels.total : 0;
  TotalAnswer answer;
  answer.total.columns = {text_column("name"), number_column("value")};
  answer.total.rows = {{std::string("Using Tensor Cores"), share},
                       {std::string("Not Using Tensor Cores"), 1 - share}};
  return answer;
}

std::vector<std::string> view_names(const Profile& profile) {
  std::vector<std::string> names{"Overview", "Operator"};
  if (profile.has_kernels) names.push_back("Kernel");
  names.push_back("Trace");
  if (profile.has_memory) names.push_back("Memory");
  if (profile.has_modules) names.push_back(profile.is_lightning ? "Lightning" : "Module");
  return names;
}

}  // namespace camshaft::trace
