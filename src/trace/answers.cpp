// SPDX-License-Identifier: Apache-2.0
// Printing answers, key by key in the order the plugin used.
#include "trace/answers.h"

namespace camshaft::trace {
namespace {

constexpr const char* kPieKeys[4] = {"device_total_time", "device_self_time", "host_total_time",
                                     "host_self_time"};

void write(JsonWriter& json, const Column& column) {
  json.begin_object().text("type", column.type);
  if (column.is_html_tooltip) {
    json.text("role", "tooltip").key("p").begin_object().text("html", "true").end_object();
  } else {
    json.text("name", column.name);
    if (!column.tooltip.empty()) json.text("tooltip", column.tooltip);
  }
  json.end_object();
}

void write(JsonWriter& json, const Performance& part) {
  json.begin_object().text("name", part.name).text("description", "");
  write(json.key("value"), part.value);
  write(json.key("extra"), part.extra);
  if (!part.children.empty()) {
    json.key("children").begin_array();
    for (const Performance& child : part.children) write(json, child);
    json.end_array();
  }
  json.end_object();
}

void write(JsonWriter& json, const std::vector<TitledValue>& list) {
  json.begin_array();
  for (const TitledValue& entry : list)
    json.begin_object().text("title", entry.title).text("value", entry.value).end_object();
  json.end_array();
}

void write(JsonWriter& json, const OperationRow& row) {
  json.begin_object().text("name", row.name);
  if (row.input_shape) json.text("input_shape", *row.input_shape);
  json.integer("calls", row.calls);
  if (row.device_self) write(json.key("device_self_duration"), *row.device_self);
  if (row.device_total) write(json.key("device_total_duration"), *row.device_total);
  write(json.key("host_self_duration"), row.host_self);
  write(json.key("host_total_duration"), row.host_total);
  json.text("tc_eligible", row.tc_eligible ? "Yes" : "No");
  write(json.key("tc_self_ratio"), row.tc_self_ratio);
  write(json.key("tc_total_ratio"), row.tc_total_ratio);
  if (const auto* has = std::get_if<bool>(&row.call_stack))
    json.boolean("has_call_stack", *has);
  else
    json.text("call_stack", std::get<std::string>(row.call_stack));
  json.end_object();
}

}  // namespace

void write(JsonWriter& json, const Value& value) {
  if (const auto* whole = std::get_if<int64_t>(&value))
    json.integer(*whole);
  else if (const auto* real = std::get_if<double>(&value))
    json.real(*real);
  else if (const auto* text = std::get_if<std::string>(&value))
    json.text(*text);
  else if (const auto* truth = std::get_if<bool>(&value))
    json.boolean(*truth);
  else
    json.null();
}

void write(JsonWriter& json, const Table& table) {
  json.begin_object().key("columns").begin_array();
  for (const Column& column : table.columns) write(json, column);
  json.end_array().key("rows").begin_array();
  for (const auto& row : table.rows) {
    json.begin_array();
    for (const Value& value : row) write(json, value);
    json.end_array();
  }
  json.end_array().end_object();
}

std::string to_json(const OverviewAnswer& answer) {
  JsonWriter json;
  json.begin_object();
  write(json.key("steps"), answer.steps);
  json.key("performance").begin_array();
  for (const Performance& part : answer.performance) write(json, part);
  json.end_array();
  json.text("recommendations", answer.recommendations);
  write(json.key("environments"), answer.environments);
  if (answer.devices) {
    json.key(answer.devices->key).begin_object().text("title", answer.devices->title);
    write(json.key("data"), answer.devices->data);
    json.text("tooltip", answer.devices->tooltip).end_object();
  }
  json.end_object();
  return json.take();
}

std::string to_json(const OperationAnswer& answer) {
  JsonWriter json;
  json.begin_object();
  for (int k = 0; k < 4; ++k) {
    json.key(kPieKeys[k]);
    if (!answer.pies[k]) {
      json.null();
      continue;
    }
    json.begin_object().text("title", answer.pies[k]->title).key("columns").begin_array();
    for (const Column& column : answer.pies[k]->table.columns) write(json, column);
    json.end_array().key("rows").begin_array();
    for (const auto& row : answer.pies[k]->table.rows) {
      json.begin_array();
      for (const Value& value : row) write(json, value);
      json.end_array();
    }
    json.end_array().end_object();
  }
  json.end_object();
  return json.take();
}

std::string to_json(const OperationTableAnswer& answer) {
  JsonWriter json;
  json.begin_object()
      .key("metadata")
      .begin_object()
      .text("sort", answer.sort)
      .key("tooltips")
      .begin_object();
  for (const auto& [key, text] : answer.tooltips) json.text(key, text);
  json.end_object().end_object().key("data").begin_array();
  for (const OperationRow& row : answer.rows) write(json, row);
  json.end_array().end_object();
  return json.take();
}

std::string to_json(const KernelTableAnswer& answer) {
  JsonWriter json;
  json.begin_object().key("metadata").begin_object().text("sort", answer.sort).end_object();
  write(json.key("data"), answer.table);
  json.end_object();
  return json.take();
}

std::string to_json(const TotalAnswer& answer) {
  JsonWriter json;
  json.begin_object();
  write(json.key("total"), answer.total);
  json.end_object();
  return json.take();
}

}  // namespace camshaft::trace
