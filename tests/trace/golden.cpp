// SPDX-License-Identifier: Apache-2.0
#include "trace/golden.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "trace/byte_source.h"
#include "trace/json_text.h"

namespace camshaft::golden {
namespace {

using nlohmann::json;

std::string read_all(const std::string& path) {
  auto source = trace::open_byte_source(path);
  if (!source.ok()) return "";
  std::string text;
  char chunk[1 << 16];
  for (;;) {
    auto got = (*source)->read(chunk, sizeof chunk);
    if (!got.ok() || *got == 0) return text;
    text.append(chunk, *got);
  }
}

std::string decoded(const std::string& text) {
  std::string out;
  for (size_t k = 0; k < text.size(); ++k) {
    if (text[k] == '%' && k + 2 < text.size()) {
      out += static_cast<char>(std::stoi(text.substr(k + 1, 2), nullptr, 16));
      k += 2;
    } else {
      out += text[k] == '+' ? ' ' : text[k];
    }
  }
  return out;
}

bool near(double want, double got, const Tolerance& tolerance, double absolute) {
  if (want == got) return true;
  // Differences of large sums carry the rounding of the sums.
  return std::abs(want - got) <=
         tolerance.relative * std::max(std::abs(want), std::abs(got)) + absolute + 1e-9;
}

// Texts equal but for numbers in them that are near.
bool near_text(const std::string& want, const std::string& got, const Tolerance& tolerance) {
  size_t i = 0, j = 0;
  const auto is_number = [](const std::string& text, size_t k) {
    return k < text.size() && text[k] >= '0' && text[k] <= '9';
  };
  while (i < want.size() && j < got.size()) {
    if (is_number(want, i) && is_number(got, j)) {
      char *end_want = nullptr, *end_got = nullptr;
      const double a = std::strtod(want.c_str() + i, &end_want),
                   b = std::strtod(got.c_str() + j, &end_got);
      if (!near(a, b, tolerance, tolerance.whole)) return false;
      i = end_want - want.c_str();
      j = end_got - got.c_str();
      continue;
    }
    if (want[i] != got[j]) return false;
    ++i, ++j;
  }
  return i == want.size() && j == got.size();
}

// Which of the seven rules a list of recommendations shows, by the words no two of them share.
std::string rules_of(const std::string& html) {
  struct Mark {
    char rule;
    std::vector<const char*> words;
  };
  static const std::vector<Mark> kMarks{
      {'1', {"DataLoader"}},
      {'2', {"instead of DataParallel", "driven by DataParallel"}},
      {'3', {"nccl", "NCCL", "Nccl", "cncl", "Cncl"}},
      {'4', {"ommunication"}},
      {'5', {"low utilization", "busy less than"}},
      {'6', {"Tensor Cores eligible"}},
      {'7', {"memory. ", "heckpoint"}}};
  std::string rules;
  for (size_t at = html.find("<li>"); at != html.npos; at = html.find("<li>", at + 1)) {
    const std::string item = html.substr(at, html.find("</li>", at) - at);
    for (const Mark& mark : kMarks) {
      bool found = false;
      for (const char* word : mark.words) found = found || item.find(word) != item.npos;
      if (!found) continue;
      rules += mark.rule;
      break;
    }
  }
  return rules;
}

// What rows are sorted by: a column of arrays, a member of objects, or not known.
struct SortKey {
  int column = -1;
  std::string member;

  const json* of(const json& row) const {
    if (row.is_array() && column >= 0 && static_cast<size_t>(column) < row.size())
      return &row[column];
    return row.is_object() && row.contains(member) ? &row[member] : nullptr;
  }
};

SortKey sort_key_of(const json& table) {
  SortKey key;
  if (table.contains("metadata") && table["metadata"].is_object() &&
      table["metadata"].contains("sort") && table["metadata"]["sort"].is_string())
    key.member = table["metadata"]["sort"];
  if (!table.contains("columns") || !table.contains("rows") || !table["columns"].is_array())
    return key;
  const json& columns = table["columns"];
  if (columns.size() == 2) key.column = 1;
  for (size_t k = 0; k < columns.size(); ++k)
    if (columns[k].contains("name") && columns[k]["name"] == "Total Duration (us)")
      key.column = static_cast<int>(k);
  return key;
}

std::string compare(const json& want, const json& got, const Tolerance& tolerance,
                    const std::string& where, const SortKey& key);

// Rows may stand in another order where what they are sorted by is equal.
bool is_sorted_alike(const json& want, const json& got, const Tolerance& tolerance,
                     const SortKey& key) {
  for (size_t k = 0; k < want.size(); ++k) {
    const json *a = key.of(want[k]), *b = key.of(got[k]);
    if (a == nullptr || b == nullptr) continue;
    if (!compare(*a, *b, tolerance, "", {}).empty()) return false;
  }
  return true;
}

std::string compare_arrays(const json& want, const json& got, const Tolerance& tolerance,
                           const std::string& where, const SortKey& key) {
  if (want.size() != got.size())
    return fmt::format("{}: {} elements, not {}", where, got.size(), want.size());
  std::string first;
  std::vector<size_t> open;
  for (size_t k = 0; k < want.size(); ++k) {
    const std::string found =
        compare(want[k], got[k], tolerance, fmt::format("{}[{}]", where, k), {});
    if (found.empty()) continue;
    if (first.empty()) first = found;
    open.push_back(k);
  }
  const bool is_table = where.find("rows") != where.npos || where.find("data") != where.npos;
  if (first.empty() || !tolerance.ties_as_sets || !is_table || open.size() > 4000 ||
      !is_sorted_alike(want, got, tolerance, key))
    return first;
  std::vector<bool> used(open.size(), false);
  for (const size_t k : open) {
    bool found = false;
    for (size_t n = 0; n < open.size() && !found; ++n)
      if (!used[n] && compare(want[k], got[open[n]], tolerance, where, {}).empty())
        found = used[n] = true;
    if (!found) return first;
  }
  return "";
}

std::string compare(const json& want, const json& got, const Tolerance& tolerance,
                    const std::string& where, const SortKey& outer) {
  const auto shown = [](const json& value) { return value.dump(-1, ' ', true).substr(0, 160); };
  const auto differs = [&] {
    return fmt::format("{}: got {}, not {}", where, shown(got), shown(want));
  };
  if (want.is_number() && got.is_number())
    return near(want.get<double>(), got.get<double>(), tolerance,
                want.is_number_integer() ? tolerance.whole : tolerance.absolute)
               ? ""
               : differs();
  if (want.type() != got.type()) return differs();
  if (want.is_array()) return compare_arrays(want, got, tolerance, where, outer);
  if (want.is_object()) {
    SortKey key = sort_key_of(want);
    if (key.member.empty()) key.member = outer.member;
    for (const auto& [name, value] : want.items()) {
      if (!got.contains(name)) return fmt::format("{}: no {}", where, name);
      if (name == "recommendations" && !tolerance.recommendations) {
        const std::string wanted = rules_of(value), shown_rules = rules_of(got[name]);
        if (wanted != shown_rules)
          return fmt::format("{}: rules {}, not {}", where, shown_rules, wanted);
        continue;
      }
      if (const std::string found = compare(value, got[name], tolerance, where + "." + name, key);
          !found.empty())
        return found;
    }
    for (const auto& [name, value] : got.items())
      if (!want.contains(name)) return fmt::format("{}: {} is too much", where, name);
    return "";
  }
  if (want.is_string()) {
    const auto &a = want.get_ref<const std::string&>(), &b = got.get_ref<const std::string&>();
    return a == b || near_text(a, b, tolerance) ? "" : differs();
  }
  return want == got ? "" : differs();
}

}  // namespace

std::string data_folder() {
  const char* named = std::getenv("CAMSHAFT_SHARED");
  for (const std::string& folder : {std::string(named != nullptr ? named : ""),
                                    std::string("../shared"), std::string("../../shared")})
    if (!folder.empty() && std::filesystem::is_directory(folder + "/profiler")) return folder;
  return "";
}

std::vector<Exchange> read_exchanges(const std::string& path) {
  std::vector<Exchange> list;
  const std::string text = read_all(path);
  for (size_t from = 0; from < text.size();) {
    const size_t end = std::min(text.find('\n', from), text.size());
    const std::string line = text.substr(from, end - from);
    from = end + 1;
    if (line.size() < 2) continue;
    const json parsed = json::parse(line);
    Exchange exchange;
    exchange.url = parsed["url"];
    exchange.status = parsed["status"];
    const size_t body = line.find("\"body\": ");
    if (body != line.npos) exchange.body = parsed["body"].dump();
    list.push_back(std::move(exchange));
  }
  return list;
}

void split_url(const std::string& url, std::string& path, server::Parameters& parameters) {
  const std::string whole = url.substr(0, url.find('#'));
  const size_t question = whole.find('?');
  path = whole.substr(0, question);
  if (question == whole.npos) return;
  for (size_t from = question + 1; from <= whole.size();) {
    const size_t end = std::min(whole.find('&', from), whole.size());
    const std::string pair = whole.substr(from, end - from);
    const size_t equals = std::min(pair.find('='), pair.size());
    if (!pair.empty())
      parameters.emplace(decoded(pair.substr(0, equals)),
                         equals < pair.size() ? decoded(pair.substr(equals + 1)) : "");
    from = end + 1;
  }
}

std::string difference(const json& want, const json& got, const Tolerance& tolerance,
                       const std::string& where) {
  return compare(want, got, tolerance, where, {});
}

}  // namespace camshaft::golden
