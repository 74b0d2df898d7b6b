// SPDX-License-Identifier: Apache-2.0
// Recursive descent; truth is 1 and 0, so that one grammar serves numbers and conditions.
#include "trace/condition.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace camshaft::trace {
namespace {

constexpr int kMaxParentheses = 100;

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t k = 0; k < row.size(); ++k) row[k] = k;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t k = 1; k <= b.size(); ++k) {
      const size_t above = row[k];
      row[k] = std::min({above + 1, row[k - 1] + 1, diagonal + (a[i - 1] == b[k - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

class Parser {
 public:
  Parser(std::string_view text, const Figures& figures) : text_(text), figures_(figures) {}

  Result<bool> run() {
    const double value = any(0);
    skip();
    if (error_.ok() && at_ < text_.size()) fail("'{}' is not understood here", text_.substr(at_));
    if (!error_.ok()) return error_;
    return value != 0;
  }

 private:
  template <class... Args>
  void fail(fmt::format_string<Args...> format, Args&&... args) {
    if (error_.ok())
      error_ = make_error(ErrorCode::kInvalidArgument, "condition \"{}\": {}", text_,
                          fmt::format(format, std::forward<Args>(args)...));
    at_ = text_.size();
  }
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool take(std::string_view token) {
    skip();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }

  double any(int depth) {
    double value = all(depth);
    while (take("||")) {
      const double right = all(depth);
      value = value != 0 || right != 0 ? 1 : 0;
    }
    return value;
  }
  double all(int depth) {
    double value = comparison(depth);
    while (take("&&")) {
      const double right = comparison(depth);
      value = value != 0 && right != 0 ? 1 : 0;
    }
    return value;
  }
  double comparison(int depth) {
    const double left = sum(depth);
    for (const std::string_view op : {"<=", ">=", "==", "!=", "<", ">"}) {
      if (!take(op)) continue;
      const double right = sum(depth);
      if (op == "<=") return left <= right;
      if (op == ">=") return left >= right;
      if (op == "==") return left == right;
      if (op == "!=") return left != right;
      return op == "<" ? left < right : left > right;
    }
    return left;
  }
  double sum(int depth) {
    double value = product(depth);
    for (;;) {
      if (take("+"))
        value += product(depth);
      else if (take("-"))
        value -= product(depth);
      else
        return value;
    }
  }
  double product(int depth) {
    double value = factor(depth);
    for (;;) {
      if (take("*"))
        value *= factor(depth);
      else if (take("/"))
        value /= factor(depth);
      else
        return value;
    }
  }
  double factor(int depth) {
    skip();
    if (depth > kMaxParentheses) {
      fail("too deeply nested");
      return 0;
    }
    if (at_ >= text_.size()) {
      fail("it ends where a value should stand");
      return 0;
    }
    if (take("(")) {
      const double value = any(depth + 1);
      if (!take(")")) fail("a ')' is missing");
      return value;
    }
    if (take("-")) return -factor(depth + 1);
    if (std::isdigit(static_cast<unsigned char>(text_[at_])) || text_[at_] == '.') return number();
    return figure();
  }
  double number() {
    double value = 0;
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc())
      fail("'{}' is no number", text_.substr(at_));
    else
      at_ = end - text_.data();
    return value;
  }
  double figure() {
    const size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) ||
                                  text_[at_] == '_' || text_[at_] == '.'))
      ++at_;
    const std::string_view name = text_.substr(start, at_ - start);
    if (name.empty()) {
      fail("'{}' is not understood here", text_.substr(start));
      return 0;
    }
    for (const auto& [known, value] : figures_)
      if (known == name) return value;
    std::string nearest;
    size_t least = ~size_t{0};
    for (const auto& [known, value] : figures_)
      if (const size_t distance = edit_distance(known, name); distance < least)
        least = distance, nearest = known;
    fail("there is no figure '{}' (nearest: {}; --json lists all)", name, nearest);
    return 0;
  }

  std::string_view text_;
  const Figures& figures_;
  size_t at_ = 0;
  Status error_;
};

}  // namespace

Result<bool> holds(std::string_view condition, const Figures& figures) {
  return Parser(condition, figures).run();
}

}  // namespace camshaft::trace
