// SPDX-License-Identifier: Apache-2.0
// What both programs print with: colour (only on a terminal, never under NO_COLOR), aligned tables,
// a progress line, errors.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace camshaft::cli {

bool is_terminal(std::FILE* stream);
int terminal_columns();  // of standard output; 0: not a terminal

enum class Style : uint8_t { kPlain, kBold, kDim, kGreen, kYellow, kRed, kCyan };
// The text in that style if `stream` is a terminal and NO_COLOR is not set, else the text itself.
std::string styled(std::string_view text, Style style, std::FILE* stream = stdout);

// "camshaft: error: TEXT" on standard error; returns 1, the exit code.
int fail(std::string_view text);
void warn(std::string_view text);

std::string human_bytes(double bytes);      // "3.2 MiB"
std::string human_seconds(double seconds);  // "850 ms", "3.2 s", "1 min 20 s"
std::string human_count(double count);      // "1.24 G", "312 k"
std::string microseconds_text(double us);   // "12.3"; "" where there is no time

// Columns on screen of UTF-8 text (one per code point; good for the scripts layer names use).
size_t display_width(std::string_view text);
// At most `width` columns, the middle replaced by "…".
std::string shorten(std::string_view text, size_t width);

// Broken at blanks into lines of at most `width` columns; a longer word stands in a line of its
// own.
std::vector<std::string> wrapped(std::string_view text, size_t width);

enum class Align : uint8_t { kLeft, kRight };
struct Column {
  std::string title;
  Align align = Align::kLeft;
  size_t max_width = 0;  // 0: unlimited; longer cells lose their middle
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> cells, Style style = Style::kPlain);
  void rule();  // a line before the next row
  bool empty() const { return rows_.empty(); }
  // Header in bold, two blanks between columns, no blanks at line ends. `fit`: never wider than the
  // terminal: the widest left-aligned columns are shortened, then the last columns left out.
  std::string text(std::FILE* stream = stdout, bool fit = true) const;
  // The same for a width of so many columns; 0: unlimited.
  std::string text_within(size_t columns, std::FILE* stream = stdout) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    Style style = Style::kPlain;
    bool is_rule = false;
  };
  // Of the columns that are shown.
  std::vector<size_t> widths(size_t available) const;
  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

// "tuning  [#####.....]  45%  about 12 s left": one line on standard error, redrawn at most ten
// times a second, removed at the end. Silent when standard error is not a terminal. Appears only
// after 0.5 s.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void update(std::string_view phase, int64_t done, int64_t total);
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  bool enabled_;
  bool visible_ = false;
  std::string phase_;
  Clock::time_point start_, phase_start_, last_drawn_;
};

}  // namespace camshaft::cli
