// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include <fmt/format.h>

#include "cli/terminal.h"

namespace camshaft::cli {
namespace {

const OptionRow* find_row(std::span<const OptionRow> rows, std::string_view name) {
  auto at = std::find_if(rows.begin(), rows.end(),
                         [&](const OptionRow& row) { return row.name == name; });
  return at == rows.end() ? nullptr : &*at;
}

const OptionRow* find_letter(std::span<const OptionRow> rows, char letter) {
  auto at = std::find_if(rows.begin(), rows.end(),
                         [&](const OptionRow& row) { return row.letter == letter; });
  return at == rows.end() ? nullptr : &*at;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t k = 0; k < a.size(); ++k) {
    size_t diagonal = row[0];
    row[0] = k + 1;
    for (size_t m = 0; m < b.size(); ++m) {
      const bool same = std::tolower(static_cast<unsigned char>(a[k])) ==
                        std::tolower(static_cast<unsigned char>(b[m]));
      const size_t replaced = diagonal + (same ? 0 : 1);
      diagonal = row[m + 1];
      row[m + 1] = std::min({replaced, row[m] + 1, row[m + 1] + 1});
    }
  }
  return row[b.size()];
}

bool is_choice(std::string_view choices, std::string_view word) {
  while (true) {
    const size_t bar = choices.find('|');
    if (choices.substr(0, bar) == word) return true;
    if (bar == std::string_view::npos) return false;
    choices.remove_prefix(bar + 1);
  }
}

Status check_value(const OptionRow& row, const std::string& spelling, const std::string& value) {
  if (row.value == OptionValue::kChoice && !is_choice(row.form, value)) {
    return make_error(ErrorCode::kInvalidArgument, "{}: '{}' is not one of {}", spelling, value,
                      row.form);
  }
  if (row.value != OptionValue::kInteger && row.value != OptionValue::kNumber) return ok_status();
  double number = 0;
  int64_t integer = 0;
  const char* end = value.data() + value.size();
  const auto parsed = row.value == OptionValue::kInteger
                          ? std::from_chars(value.data(), end, integer)
                          : std::from_chars(value.data(), end, number);
  if (row.value == OptionValue::kInteger) number = static_cast<double>(integer);
  if (value.empty() || parsed.ec != std::errc() || parsed.ptr != end || !std::isfinite(number)) {
    return make_error(ErrorCode::kInvalidArgument, "{}: '{}' is not {}", spelling, value,
                      row.value == OptionValue::kInteger ? "a whole number" : "a number");
  }
  if (number < row.least)
    return make_error(ErrorCode::kInvalidArgument, "{}: {} is below {}", spelling, value,
                      row.least);
  return ok_status();
}

Status check_status(const OptionRow& row, const std::string& spelling) {
  if (row.status == OptionStatus::kLater) {
    return make_error(ErrorCode::kUnsupported, "{} is not in this version: {}", spelling, row.help);
  }
  if (row.status == OptionStatus::kRemoved) {
    return make_error(ErrorCode::kUnsupported, "{} was removed: {}", spelling, row.help);
  }
  return ok_status();
}

Status unknown_option(std::span<const OptionRow> rows, const std::string& spelling) {
  const std::string near = nearest_option(rows, spelling.substr(spelling.find_first_not_of('-')));
  if (near.empty()) return make_error(ErrorCode::kInvalidArgument, "unknown option {}", spelling);
  return make_error(ErrorCode::kInvalidArgument, "unknown option {}; did you mean --{}?", spelling,
                    near);
}

std::string option_form(const OptionRow& row) {
  std::string form = fmt::format("--{}", row.name);
  if (row.value != OptionValue::kNone) form += fmt::format("={}", row.form);
  if (row.letter != 0) form = fmt::format("-{}, {}", row.letter, form);
  return form;
}

}  // namespace

std::string nearest_word(std::span<const std::string> words, std::string_view word) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : words) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string nearest_option(std::span<const OptionRow> rows, std::string_view name) {
  std::vector<std::string> names;
  for (const OptionRow& row : rows) {
    if (row.status != OptionStatus::kRemoved) names.emplace_back(row.name);
  }
  return nearest_word(names, name);
}

namespace {

// One word taken apart: "--name", "--name=value", "-n", "-n4".
struct OptionWord {
  std::string spelling;
  const OptionRow* row = nullptr;
  bool has_value = false;
  std::string value;
};

OptionWord take_apart(std::span<const OptionRow> rows, const std::string& word) {
  OptionWord result;
  const size_t equals = word.find('=');
  result.spelling = word.substr(0, equals);
  result.has_value = equals != std::string::npos;
  if (result.has_value) result.value = word.substr(equals + 1);
  if (result.spelling.starts_with("--")) {
    result.row = find_row(rows, result.spelling.substr(2));
  } else {
    result.row = find_letter(rows, word[1]);
    const bool attached = result.row != nullptr && word.size() > 2 && word[2] != '=';
    if (attached && result.row->value == OptionValue::kNone) result.row = nullptr;
    if (attached && result.row != nullptr)
      result = {word.substr(0, 2), result.row, true, word.substr(2)};
  }
  if (result.row != nullptr && *result.row->alias_of != 0)
    result.row = find_row(rows, result.row->alias_of);
  return result;
}

}  // namespace

Result<Options> Options::parse(std::span<const OptionRow> rows, std::span<char* const> words,
                               const OptionSyntax& syntax) {
  Options result;
  result.rows_ = rows;
  bool only_positionals = false;
  for (size_t k = 0; k < words.size(); ++k) {
    const std::string word = words[k];
    if (only_positionals || word.size() < 2 || word[0] != '-') {
      if (result.positionals_.size() == syntax.max_positionals) {
        return make_error(ErrorCode::kInvalidArgument, "unexpected argument '{}'{}", word,
                          syntax.needs_equals ? "; options are written --name=value" : "");
      }
      result.positionals_.push_back(word);
      continue;
    }
    if (word == "--" && syntax.max_positionals > 0) {
      only_positionals = true;
      continue;
    }
    OptionWord option = take_apart(rows, word);
    if (option.row == nullptr) return unknown_option(rows, option.spelling);
    CAMSHAFT_TRY(check_status(*option.row, option.spelling));
    if (option.has_value && option.row->value == OptionValue::kNone) {
      return make_error(ErrorCode::kInvalidArgument, "{} takes no value", option.spelling);
    }
    if (!option.has_value && option.row->value != OptionValue::kNone) {
      if (syntax.needs_equals || k + 1 == words.size()) {
        return make_error(ErrorCode::kInvalidArgument, "{} needs a value: {}={}", option.spelling,
                          option.spelling, option.row->form);
      }
      option.value = words[++k];
    }
    CAMSHAFT_TRY(check_value(*option.row, option.spelling, option.value));
    result.given_.push_back({option.row, option.spelling, option.value});
  }
  return result;
}

bool Options::has(std::string_view name) const {
  return std::any_of(given_.begin(), given_.end(),
                     [&](const GivenOption& option) { return option.row->name == name; });
}

std::string Options::text(std::string_view name) const {
  for (auto at = given_.rbegin(); at != given_.rend(); ++at) {
    if (at->row->name == name) return at->value;
  }
  const OptionRow* row = find_row(rows_, name);
  return row == nullptr ? "" : row->fallback;
}

int64_t Options::integer(std::string_view name) const {
  return std::strtoll(text(name).c_str(), nullptr, 10);
}

double Options::number(std::string_view name) const {
  return std::strtod(text(name).c_str(), nullptr);
}

std::vector<std::string> Options::all(std::string_view name) const {
  std::vector<std::string> values;
  for (const GivenOption& option : given_) {
    if (option.row->name == name) values.push_back(option.value);
  }
  return values;
}

std::vector<std::string> Options::names(std::string_view name) const {
  std::vector<std::string> names;
  for (const std::string& text : all(name))
    for (const std::string& part : split_outside_quotes(text, ',')) names.push_back(unquoted(part));
  return names;
}

namespace {

std::string help_text(const OptionRow& row) {
  std::string help = *row.alias_of != 0 ? fmt::format("the same as --{}", row.alias_of) : row.help;
  if (*row.fallback != 0) help += fmt::format(" (default {})", row.fallback);
  switch (row.status) {
    case OptionStatus::kAlways:
      return "[always so] " + help;
    case OptionStatus::kNoEffect:
      return "[no effect here] " + help;
    case OptionStatus::kLater:
      return "[not in this version] " + help;
    default:
      return help;
  }
}

}  // namespace

std::string options_help(std::span<const OptionRow> rows, size_t columns) {
  constexpr size_t kLongestForm = 36;  // longer ones stand in a line of their own
  std::vector<std::string> sections;
  size_t width = 0;
  for (const OptionRow& row : rows) {
    if (row.status == OptionStatus::kRemoved) continue;
    if (std::find(sections.begin(), sections.end(), row.section) == sections.end())
      sections.emplace_back(row.section);
    const size_t length = display_width(option_form(row));
    if (length <= kLongestForm) width = std::max(width, length);
  }
  const size_t indent = width + 4;
  const std::string next_line = "\n" + std::string(indent, ' ');
  std::string out;
  for (const std::string& section : sections) {
    out += fmt::format("{}=== {} ===\n", out.empty() ? "" : "\n", section);
    for (const OptionRow& row : rows) {
      if (row.section != section || row.status == OptionStatus::kRemoved) continue;
      const std::string form = option_form(row);
      const size_t length = display_width(form);
      const std::vector<std::string> lines = wrapped(help_text(row), columns - indent);
      out += fmt::format("  {}{}{}\n", form,
                         length <= width ? std::string(width - length + 2, ' ') : next_line,
                         fmt::join(lines, next_line));
    }
  }
  return out;
}

std::vector<std::string> split_outside_quotes(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  char quote = 0;
  for (char c : text) {
    if (quote == 0 && c == separator) {
      parts.emplace_back();
      continue;
    }
    if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    }
    parts.back() += c;
  }
  return parts;
}

std::string unquoted(std::string_view text) {
  if (text.size() >= 2 && (text.front() == '\'' || text.front() == '"') &&
      text.back() == text.front()) {
    text = text.substr(1, text.size() - 2);
  }
  return std::string(text);
}

}  // namespace camshaft::cli
