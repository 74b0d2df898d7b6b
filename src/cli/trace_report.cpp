// SPDX-License-Identifier: Apache-2.0
#include "cli/trace_report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "cli/terminal.h"
#include "cli/trace_names.h"

namespace camshaft::cli {
namespace {

constexpr size_t kNameColumns = 90;  // of names, where no terminal says how wide it is

std::string shown(Unit unit, double value) {
  switch (unit) {
    case Unit::kMicroseconds:
      return value < 0 ? "-" + human_seconds(-value / 1e6) : human_seconds(value / 1e6);
    case Unit::kBytes:
      return value < 0 ? "-" + human_bytes(-value) : human_bytes(value);
    case Unit::kPercent:
      return fmt::format("{:.1f}", value);
    default:
      return value == std::floor(value) && std::abs(value) < 1e15 ? fmt::format("{:.0f}", value)
                                                                  : fmt::format("{:.2f}", value);
  }
}

std::string folded(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return text;
}

// As wide as the terminal leaves names beside the other columns.
size_t name_columns(size_t columns) {
  const auto terminal = static_cast<size_t>(terminal_columns());
  return terminal == 0 ? kNameColumns
                       : std::max<size_t>(24, terminal - std::min(terminal, 11 * (columns - 1)));
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
      return fields_[k].is_number() ? a[k].number > b[k].number : a[k].text < b[k].text;
    });
    return true;
  }
  return false;
}

void Report::filter(const std::string& part) {
  const std::string wanted = folded(part);
  std::erase_if(rows_, [&](const std::vector<Cell>& row) {
    for (size_t k = 0; k < fields_.size(); ++k)
      if (!fields_[k].is_number() && folded(row[k].text).find(wanted) != std::string::npos)
        return false;
    return true;
  });
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
      if (fields_[k].is_number())
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
          (fields_[k].is_number() ? fmt::format("{}", row[k].number) : csv_quoted(row[k].text)) +
          ",";
    line.pop_back();
    fmt::print("{}\n", line);
  }
}

void Report::print() const {
  std::vector<Column> columns;
  for (const Field& field : fields_)
    columns.push_back(
        {field.title, field.is_number() ? Align::kRight : Align::kLeft, kNameColumns});
  Table table(columns);
  std::vector<std::vector<std::string>> cells(rows_.size());
  for (size_t k = 0; k < fields_.size(); ++k) {
    std::vector<std::string> column;
    for (const auto& row : rows_)
      column.push_back(fields_[k].is_number() ? shown(fields_[k].unit, row[k].number)
                                              : row[k].text);
    if (fields_[k].unit == Unit::kKernelName)
      column = short_kernel_names(column, name_columns(fields_.size()));
    for (size_t row = 0; row < rows_.size(); ++row) cells[row].push_back(std::move(column[row]));
  }
  for (std::vector<std::string>& row : cells) table.add(std::move(row));
  fmt::print("{}", table.text());
  if (left_out_ > 0)
    fmt::print("{}\n",
               styled(fmt::format("{} more rows: --top 0 prints all", left_out_), Style::kDim));
}

}  // namespace camshaft::cli
