// SPDX-License-Identifier: Apache-2.0
#include "trace/answers_parse.h"

#include <nlohmann/json.hpp>

namespace camshaft::trace {
namespace {

using Json = nlohmann::ordered_json;

Value parse_value(const Json& json) {
  if (json.is_number_float()) return json.get<double>();
  if (json.is_number()) return json.get<int64_t>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_boolean()) return json.get<bool>();
  return nullptr;
}

Column parse_column(const Json& json) {
  Column column;
  column.type = json.at("type");
  column.is_html_tooltip = json.contains("role");
  column.name = json.value("name", "");
  column.tooltip = json.value("tooltip", "");
  return column;
}

Table parse_table(const Json& json) {
  Table table;
  for (const Json& column : json.at("columns")) table.columns.push_back(parse_column(column));
  for (const Json& row : json.at("rows")) {
    std::vector<Value>& values = table.rows.emplace_back();
    for (const Json& value : row) values.push_back(parse_value(value));
  }
  return table;
}

Performance parse_performance(const Json& json) {
  Performance part{
      json.at("name"), parse_value(json.at("value")), parse_value(json.at("extra")), {}};
  for (const Json& child : json.value("children", Json::array()))
    part.children.push_back(parse_performance(child));
  return part;
}

std::vector<TitledValue> parse_titled(const Json& json) {
  std::vector<TitledValue> list;
  for (const Json& entry : json) list.push_back({entry.at("title"), entry.at("value")});
  return list;
}

OperationRow parse_operation_row(const Json& json) {
  OperationRow row;
  row.name = json.at("name");
  if (json.contains("input_shape")) row.input_shape = json.at("input_shape").get<std::string>();
  row.calls = json.at("calls");
  if (json.contains("device_self_duration"))
    row.device_self = parse_value(json.at("device_self_duration"));
  if (json.contains("device_total_duration"))
    row.device_total = parse_value(json.at("device_total_duration"));
  row.host_self = parse_value(json.at("host_self_duration"));
  row.host_total = parse_value(json.at("host_total_duration"));
  row.tc_eligible = json.at("tc_eligible") == "Yes";
  row.tc_self_ratio = parse_value(json.at("tc_self_ratio"));
  row.tc_total_ratio = parse_value(json.at("tc_total_ratio"));
  if (json.contains("call_stack"))
    row.call_stack = json.at("call_stack").get<std::string>();
  else
    row.call_stack = json.at("has_call_stack").get<bool>();
  return row;
}

// Runs `read` on the parsed text; any missing or mistyped member becomes one error.
template <class Answer, class Read>
Result<Answer> parsed(std::string_view text, const char* what, const Read& read) {
  try {
    const Json json = Json::parse(text);
    Answer answer;
    read(json, answer);
    return answer;
  } catch (const Json::exception& error) {
    return make_error(ErrorCode::kCorrupt, "no {} answer: {}", what, error.what());
  }
}

}  // namespace

Result<OverviewAnswer> parse_overview(std::string_view text) {
  return parsed<OverviewAnswer>(text, "overview", [](const Json& json, OverviewAnswer& answer) {
    answer.steps = parse_table(json.at("steps"));
    for (const Json& part : json.at("performance"))
      answer.performance.push_back(parse_performance(part));
    answer.recommendations = json.at("recommendations");
    answer.environments = parse_titled(json.at("environments"));
    for (const char* key : {"gpu_metrics", "mlu_metrics"}) {
      if (!json.contains(key)) continue;
      const Json& devices = json.at(key);
      answer.devices = DeviceSummary{key, devices.at("title"), parse_titled(devices.at("data")),
                                     devices.at("tooltip")};
    }
  });
}

Result<OperationAnswer> parse_operation(std::string_view text) {
  return parsed<OperationAnswer>(text, "operation", [](const Json& json, OperationAnswer& answer) {
    constexpr const char* kKeys[4] = {"device_total_time", "device_self_time", "host_total_time",
                                      "host_self_time"};
    for (int k = 0; k < 4; ++k)
      if (!json.at(kKeys[k]).is_null())
        answer.pies[k] = Pie{json.at(kKeys[k]).at("title"), parse_table(json.at(kKeys[k]))};
  });
}

Result<OperationTableAnswer> parse_operation_table(std::string_view text) {
  return parsed<OperationTableAnswer>(
      text, "operation table", [](const Json& json, OperationTableAnswer& answer) {
        answer.sort = json.at("metadata").at("sort");
        for (const auto& [key, tooltip] : json.at("metadata").at("tooltips").items())
          answer.tooltips.emplace_back(key, tooltip);
        for (const Json& row : json.at("data")) answer.rows.push_back(parse_operation_row(row));
      });
}

Result<KernelTableAnswer> parse_kernel_table(std::string_view text) {
  return parsed<KernelTableAnswer>(text, "kernel table",
                                   [](const Json& json, KernelTableAnswer& answer) {
                                     answer.sort = json.at("metadata").at("sort");
                                     answer.table = parse_table(json.at("data"));
                                   });
}

Result<TotalAnswer> parse_total(std::string_view text) {
  return parsed<TotalAnswer>(text, "kernel", [](const Json& json, TotalAnswer& answer) {
    answer.total = parse_table(json.at("total"));
  });
}

}  // namespace camshaft::trace
