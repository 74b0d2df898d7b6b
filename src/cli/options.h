// SPDX-License-Identifier: Apache-2.0
// Command lines from tables: one row per option says how it is written, what it takes and what help
// prints.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace camshaft::cli {

enum class OptionValue : uint8_t { kNone, kText, kInteger, kNumber, kChoice };

enum class OptionStatus : uint8_t {
  kWorks,
  kAlways,    // accepted: what it asks for is so anyhow
  kNoEffect,  // accepted with a warning that says why nothing comes of it
  kLater,     // an error that says so: never silently ignored
  kRemoved,   // of older trtexec versions, gone there too
};

struct OptionRow {
  const char* name;  // without dashes
  OptionValue value = OptionValue::kNone;
  const char* form = "";      // "FILE"; of kChoice the words: "disable|enable|force"
  const char* fallback = "";  // the default, as help prints it and text() gives it
  const char* section = "";
  OptionStatus status = OptionStatus::kWorks;
  const char* help = "";
  const char* alias_of = "";  // another row's name: this is only another spelling
  char letter = 0;            // 'o': also -o
  double least = -std::numeric_limits<double>::infinity();  // of kInteger and kNumber
};

struct GivenOption {
  const OptionRow* row;  // aliases resolved
  std::string spelling;  // as it was written: "--streams"
  std::string value;
};

struct OptionSyntax {
  bool needs_equals = false;   // trtexec's way: --name=value only
  size_t max_positionals = 0;  // words that are not options
};

class Options {
 public:
  // Errors name the option and, for an unknown one, the nearest that exists. kLater and kRemoved
  // rows are errors here.
  static Result<Options> parse(std::span<const OptionRow> rows, std::span<char* const> words,
                               const OptionSyntax& syntax = {});

  bool has(std::string_view name) const;
  // The last value given, else the default of the row ("" : none).
  std::string text(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  std::vector<std::string> all(std::string_view name) const;
  // Of all values, cut at commas outside of quotes.
  std::vector<std::string> names(std::string_view name) const;

  const std::vector<GivenOption>& given() const { return given_; }
  const std::vector<std::string>& positionals() const { return positionals_; }

 private:
  std::span<const OptionRow> rows_;
  std::vector<GivenOption> given_;
  std::vector<std::string> positionals_;
};

// The row name closest to `name` by edit distance, "" when none is near.
std::string nearest_option(std::span<const OptionRow> rows, std::string_view name);
// The word closest to `word`, "" when none is near.
std::string nearest_word(std::span<const std::string> words, std::string_view word);

// All sections in order of first appearance; rows of kRemoved are left out.
// Lines are at most `columns` wide.
std::string options_help(std::span<const OptionRow> rows, size_t columns = 100);

// Splits at `separator` outside of '…' and "…"; quotes are kept.
std::vector<std::string> split_outside_quotes(std::string_view text, char separator);
// Takes one pair of quotes round the whole text away.
std::string unquoted(std::string_view text);

}  // namespace camshaft::cli
