// SPDX-License-Identifier: Apache-2.0
// A table of `camshaft trace` in three forms: for a terminal, with units people read; as CSV and as
// JSON, in microseconds and bytes.
#pragma once

#include <string>
#include <vector>

#include "trace/json_text.h"

namespace camshaft::cli {

enum class Unit : uint8_t { kText, kKernelName, kCount, kMicroseconds, kBytes, kPercent };

struct Field {
  const char* key;
  const char* title;
  Unit unit = Unit::kText;

  bool is_number() const { return unit != Unit::kText && unit != Unit::kKernelName; }
};
struct Cell {
  Cell(std::string from) : text(std::move(from)) {}  // NOLINT: implicit on purpose
  Cell(double from) : number(from) {}                // NOLINT: implicit on purpose
  std::string text;
  double number = 0;
};

std::string csv_quoted(const std::string& text);

class Report {
 public:
  explicit Report(std::vector<Field> fields) : fields_(std::move(fields)) {}

  void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  // Numbers from the largest, texts from the first; false when `key` is no column.
  bool sort_by(const std::string& key);
  // Rows that have `part` in one of their texts, whatever the case.
  void filter(const std::string& part);
  void cut(int64_t top);  // 0: everything stays
  void write(trace::JsonWriter& json) const;
  // Of several files, one after the other, `file` is a column.
  void print_csv(bool with_file, const std::string& file, bool with_header) const;
  void print() const;

 private:
  std::vector<Field> fields_;
  std::vector<std::vector<Cell>> rows_;
  size_t left_out_ = 0;
};

}  // namespace camshaft::cli
