// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include <fmt/format.h>

namespace camshaft::cli {
namespace {

constexpr const char* kStyleCodes[] = {"", "1", "2", "32", "33", "31", "36"};

bool use_colour(std::FILE* stream) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return (no_color == nullptr || *no_color == 0) && is_terminal(stream) &&
         (term == nullptr || std::string_view(term) != "dumb");
}

bool starts_code_point(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
}

// The first byte after `count` code points.
size_t bytes_of(std::string_view text, size_t count) {
  size_t byte = 0;
  for (; byte < text.size(); ++byte) {
    if (starts_code_point(text[byte]) && count-- == 0) break;
  }
  return byte;
}

void append_cell(std::string& line, std::string_view cell, size_t width, Align align) {
  const size_t used = display_width(cell);
  const std::string blanks(width > used ? width - used : 0, ' ');
  if (align == Align::kRight) line += blanks;
  line += cell;
  if (align == Align::kLeft) line += blanks;
}

std::string time_left(double seconds) {
  return seconds < 1 ? "less than 1 s left"
                     : fmt::format("about {} left", human_seconds(std::ceil(seconds)));
}

void trim_right(std::string& line) {
  while (!line.empty() && line.back() == ' ') line.pop_back();
}

}  // namespace

bool is_terminal(std::FILE* stream) {
  return isatty(fileno(stream)) != 0;
}

int terminal_columns() {
  winsize size{};
  if (!is_terminal(stdout) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

std::string styled(std::string_view text, Style style, std::FILE* stream) {
  if (style == Style::kPlain || !use_colour(stream)) return std::string(text);
  return fmt::format("\033[{}m{}\033[0m", kStyleCodes[static_cast<int>(style)], text);
}

int fail(std::string_view text) {
  std::fflush(stdout);
  fmt::print(stderr, "{} {}\n", styled("camshaft: error:", Style::kRed, stderr), text);
  return 1;
}

void warn(std::string_view text) {
  std::fflush(stdout);
  fmt::print(stderr, "{} {}\n", styled("camshaft: warning:", Style::kYellow, stderr), text);
}

std::string human_bytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 4) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.4g} {}", bytes, kUnits[unit]);
}

std::string human_seconds(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  if (seconds < 60) return fmt::format("{:.3g} s", seconds);
  const int64_t whole = std::llround(seconds);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

std::string microseconds_text(double us) {
  return us > 0 ? fmt::format("{:.1f}", us) : "";
}

std::string human_count(double count) {
  static constexpr const char* kUnits[] = {"", " k", " M", " G", " T"};
  int unit = 0;
  while (count >= 1000 && unit < 4) {
    count /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f}", count) : fmt::format("{:.3g}{}", count, kUnits[unit]);
}

size_t display_width(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), starts_code_point));
}

std::string shorten(std::string_view text, size_t width) {
  const size_t used = display_width(text);
  if (used <= width) return std::string(text);
  if (width == 0) return "";
  const size_t head = (width - 1) / 2;
  const size_t tail = width - 1 - head;
  return fmt::format("{}…{}", text.substr(0, bytes_of(text, head)),
                     text.substr(bytes_of(text, used - tail)));
}

std::vector<std::string> wrapped(std::string_view text, size_t width) {
  std::vector<std::string> lines(1);
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    const size_t used = display_width(lines.back());
    if (used > 0 && used + 1 + display_width(word) > width) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
  }
  return lines;
}

void Table::add(std::vector<std::string> cells, Style style) {
  cells.resize(columns_.size());
  rows_.push_back({std::move(cells), style, false});
}

void Table::rule() {
  rows_.push_back({{}, Style::kDim, true});
}

namespace {

size_t total_width(const std::vector<size_t>& widths) {
  return std::accumulate(widths.begin(), widths.end(), size_t{0}) + 2 * (widths.size() - 1);
}

}  // namespace

std::vector<size_t> Table::widths(size_t available) const {
  std::vector<size_t> result(columns_.size());
  for (size_t k = 0; k < columns_.size(); ++k) {
    result[k] = display_width(columns_[k].title);
    for (const Row& row : rows_) {
      if (!row.is_rule) result[k] = std::max(result[k], display_width(row.cells[k]));
    }
    if (columns_[k].max_width != 0) result[k] = std::min(result[k], columns_[k].max_width);
  }
  if (available == 0) return result;
  // Names shrink, but stay long enough to be told apart as long as there is a column to leave out.
  for (size_t least : {size_t{12}, size_t{1}}) {
    while (total_width(result) > available) {
      size_t widest = result.size();
      for (size_t k = 0; k < result.size(); ++k) {
        if (columns_[k].align == Align::kLeft &&
            (widest == result.size() || result[k] > result[widest]))
          widest = k;
      }
      if (widest != result.size() && result[widest] > least) {
        --result[widest];
      } else if (result.size() > 1 && least > 1) {
        result.pop_back();
      } else {
        break;
      }
    }
  }
  return result;
}

std::string Table::text(std::FILE* stream, bool fit) const {
  const bool limited = fit && stream == stdout;
  return text_within(limited ? static_cast<size_t>(terminal_columns()) : 0, stream);
}

std::string Table::text_within(size_t columns, std::FILE* stream) const {
  const std::vector<size_t> width = widths(columns);
  std::string out;
  auto append_line = [&](const std::vector<std::string>& cells, Style style) {
    std::string line;
    for (size_t k = 0; k < width.size(); ++k) {
      if (k > 0) line += "  ";
      append_cell(line, shorten(cells[k], width[k]), width[k], columns_[k].align);
    }
    trim_right(line);
    out += styled(line, style, stream) + "\n";
  };
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  append_line(titles, Style::kBold);
  for (const Row& row : rows_) {
    if (row.is_rule) {
      out += styled(std::string(total_width(width), '-'), Style::kDim, stream) + "\n";
    } else {
      append_line(row.cells, row.style);
    }
  }
  return out;
}

ProgressLine::ProgressLine() : enabled_(is_terminal(stderr)), start_(Clock::now()) {}

void ProgressLine::update(std::string_view phase, int64_t done, int64_t total) {
  if (!enabled_) return;
  const Clock::time_point now = Clock::now();
  if (phase != phase_) {
    phase_ = phase;
    phase_start_ = now;
  }
  using std::chrono::milliseconds;
  if (now - start_ < milliseconds(500) || (visible_ && now - last_drawn_ < milliseconds(100)))
    return;
  last_drawn_ = now;
  visible_ = true;
  constexpr int kCells = 30;
  const double share =
      total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0) : 0;
  const int filled = static_cast<int>(share * kCells);
  const double elapsed = std::chrono::duration<double>(now - phase_start_).count();
  std::string left;
  if (done > 0 && elapsed > 0.5 && share < 1) left = time_left(elapsed * (1 - share) / share);
  fmt::print(stderr, "\r\033[K{}  [{}{}] {:3.0f}%  {}", phase,
             std::string(static_cast<size_t>(filled), '#'),
             std::string(static_cast<size_t>(kCells - filled), '.'), share * 100, left);
  std::fflush(stderr);
}

void ProgressLine::clear() {
  if (visible_) fmt::print(stderr, "\r\033[K");
  visible_ = false;
}

}  // namespace camshaft::cli
