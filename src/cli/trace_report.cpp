// SPDX-License-Identifier: Apache-2.0
#include "cli/trace_report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "cli/terminal.h"

namespace camshaft::cli {
namespace {

std::string shown(double value) {
  const bool is_whole = value == std::floor(value) && std::abs(value) < 1e15;
  return is_whole ? fmt::format("{:.0f}", value) : fmt::format("{:.2f}", value);
}

}  // namespace

std::string csv_quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

bool Report::sort_by(const std::string& key) {
  for (size_t k = 0; k < fields_.size(); ++k) {
    if (key != fields_[k].key) continue;
    std::stable_sort(rows_.begin(), rows_.end(), [&](const auto& a, const auto& b) {
      return fields_[k].is_number ? a[k].number > b[k].number : a[k].text < b[k].text;
    });
    return true;
  }
  return false;
}

void Report::cut(int64_t top) {
  if (top > 0 && rows_.size() > static_cast<size_t>(top)) {
    left_out_ = rows_.size() - static_cast<size_t>(top);
    rows_.resize(static_cast<size_t>(top));
  }
}

void Report::write(trace::JsonWriter& json) const {
  json.begin_array();
  for (const auto& row : rows_) {
    json.begin_object();
    for (size_t k = 0; k < fields_.size(); ++k) {
      if (fields_[k].is_number)
        json.real(fields_[k].key, row[k].number);
      else
        json.text(fields_[k].key, row[k].text);
    }
    json.end_object();
  }
  json.end_array();
}

void Report::print_csv(bool with_file, const std::string& file, bool with_header) const {
  if (with_header) {
    std::string header = with_file ? "file," : "";
    for (const Field& field : fields_) header += std::string(field.key) + ",";
    header.pop_back();
    fmt::print("{}\n", header);
  }
  for (const auto& row : rows_) {
    std::string line = with_file ? csv_quoted(file) + "," : "";
    for (size_t k = 0; k < fields_.size(); ++k)
      line +=
          (fields_[k].is_number ? fmt::format("{}", row[k].number) : csv_quoted(row[k].text)) + ",";
    line.pop_back();
    fmt::print("{}\n", line);
  }
}

void Report::print() const {
  std::vector<Column> columns;
  for (const Field& field : fields_)
    columns.push_back({field.title, field.is_number ? Align::kRight : Align::kLeft, 90});
  Table table(columns);
  for (const auto& row : rows_) {
    std::vector<std::string> cells;
    for (size_t k = 0; k < fields_.size(); ++k)
      cells.push_back(fields_[k].is_number ? shown(row[k].number) : row[k].text);
    table.add(std::move(cells));
  }
  fmt::print("{}", table.text());
  if (left_out_ > 0)
    fmt::print("{}\n",
               styled(fmt::format("{} more rows: --top 0 prints all", left_out_), Style::kDim));
}

}  // namespace camshaft::cli
