// SPDX-License-Identifier: Apache-2.0
// The plugin's answers as plain structures that print to the JSON it spoke.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"
#include "trace/json_text.h"

namespace camshaft::trace {

// A JSON scalar. Whole and real numbers stay apart: 15 and 15.0 are different texts.
using Value = std::variant<std::nullptr_t, int64_t, double, std::string, bool>;

void write(JsonWriter& json, const Value& value);
inline double as_double(const Value& value) {
  if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  return 0;
}

struct Column {
  std::string type;  // "string", "number"
  std::string name;
  std::string tooltip;           // "": none
  bool is_html_tooltip = false;  // {"type", "role": "tooltip", "p": {"html": "true"}}: has no name

  bool operator==(const Column&) const = default;
};

struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<Value>> rows;

  bool operator==(const Table&) const = default;
};

struct Performance {
  std::string name;
  Value value;
  Value extra;
  std::vector<Performance> children;

  bool operator==(const Performance&) const = default;
};

struct TitledValue {
  std::string title, value;
  bool operator==(const TitledValue&) const = default;
};

struct DeviceSummary {
  std::string key = "gpu_metrics";  // "mlu_metrics" in the MLU dialect
  std::string title;
  std::vector<TitledValue> data;
  std::string tooltip;

  bool operator==(const DeviceSummary&) const = default;
};

struct OverviewAnswer {
  Table steps;
  std::vector<Performance> performance;
  std::string recommendations;
  std::vector<TitledValue> environments;
  std::optional<DeviceSummary> devices;

  bool operator==(const OverviewAnswer&) const = default;
};

struct Pie {
  std::string title;
  Table table;
  bool operator==(const Pie&) const = default;
};

// device total, device self, host total, host self.
struct OperationAnswer {
  std::optional<Pie> pies[4];
  bool operator==(const OperationAnswer&) const = default;
};

struct OperationRow {
  std::string name;
  std::optional<std::string> input_shape;
  int64_t calls = 0;
  std::optional<Value> device_self, device_total;
  Value host_self, host_total;
  bool tc_eligible = false;
  Value tc_self_ratio, tc_total_ratio;
  std::variant<bool, std::string> call_stack;  // whether it has one, or the stack itself

  bool operator==(const OperationRow&) const = default;
};

struct OperationTableAnswer {
  std::string sort;
  std::vector<std::pair<std::string, std::string>> tooltips;
  std::vector<OperationRow> rows;

  bool operator==(const OperationTableAnswer&) const = default;
};

struct KernelTableAnswer {
  std::string sort;
  Table table;
  bool operator==(const KernelTableAnswer&) const = default;
};

struct TotalAnswer {  // {"total": table}: kernel pies
  Table total;
  bool operator==(const TotalAnswer&) const = default;
};

void write(JsonWriter& json, const Table& table);

std::string to_json(const OverviewAnswer& answer);
std::string to_json(const OperationAnswer& answer);
std::string to_json(const OperationTableAnswer& answer);
std::string to_json(const KernelTableAnswer& answer);
std::string to_json(const TotalAnswer& answer);

}  // namespace camshaft::trace
