// SPDX-License-Identifier: Apache-2.0
#include "cli/trace_names.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "cli/terminal.h"

namespace camshaft::cli {
namespace {

// Depth of template brackets at every byte, as far as they match: "operator<" and "->" open none.
std::vector<int> template_depths(std::string_view name) {
  std::vector<int> depths(name.size(), 0);
  int depth = 0;
  for (size_t k = 0; k < name.size(); ++k) {
    const bool is_operator = k >= 8 && name.substr(k - 8, 8) == "operator";
    const bool is_arrow = k > 0 && name[k - 1] == '-';
    if (name[k] == '>' && depth > 0 && !is_operator && !is_arrow) --depth;
    depths[k] = depth;
    if (name[k] == '<' && !is_operator) ++depth;
  }
  return depths;
}

// What is nested deeper than `most` becomes "…".
std::string without_arguments(std::string_view name, int most) {
  const std::vector<int> depths = template_depths(name);
  std::string out;
  bool left_out = false;
  for (size_t k = 0; k < name.size(); ++k) {
    if (depths[k] <= most) {
      out += name[k];
      left_out = false;
    } else if (!left_out) {
      out += "…";
      left_out = true;
    }
  }
  return out;
}

// Without "void " in front and the list of parameters behind.
std::string_view bare(std::string_view name) {
  if (name.substr(0, 5) == "void ") name.remove_prefix(5);
  if (name.empty() || name.back() != ')') return name;
  int depth = 0;
  for (size_t k = name.size(); k-- > 0;) {
    depth += name[k] == ')' ? 1 : name[k] == '(' ? -1 : 0;
    if (depth == 0) return k > 0 && name[k - 1] != ' ' ? name.substr(0, k) : name;
  }
  return name;
}

// Where `name` differs from the one most like it, of those that would look the same.
size_t telling_place(std::string_view name, const std::vector<const std::string*>& others) {
  size_t place = 0;
  for (const std::string* full : others) {
    const std::string_view other = bare(*full);
    if (other == name) continue;
    const auto apart = std::mismatch(name.begin(), name.end(), other.begin(), other.end());
    place = std::max(place, static_cast<size_t>(apart.first - name.begin()));
  }
  return place;
}

std::string around(std::string_view name, size_t place, size_t width) {
  const size_t head = width / 3, rest = width - head - 2;
  const size_t lead = std::min<size_t>(8, rest / 3);
  size_t from = place > lead ? place - lead : 0;
  from = std::max(head, std::min(from, name.size() > rest ? name.size() - rest : 0));
  if (from <= head) return shorten(name, width);
  const std::string_view tail = name.substr(from, rest);
  return fmt::format("{}…{}{}", name.substr(0, head), tail, from + rest < name.size() ? "…" : "");
}

}  // namespace

std::string short_kernel_name(std::string_view name, size_t width) {
  if (width == 0 || display_width(name) <= width) return std::string(name);
  const std::string_view core = bare(name);
  const std::vector<int> depths = template_depths(core);
  const int deepest = depths.empty() ? 0 : *std::max_element(depths.begin(), depths.end());
  for (int most = deepest; most >= 0; --most) {
    std::string shorter = without_arguments(core, most);
    if (display_width(shorter) <= width) return shorter;
  }
  return shorten(without_arguments(core, 0), width);
}

std::vector<std::string> short_kernel_names(const std::vector<std::string>& names, size_t width) {
  std::vector<std::string> shown;
  std::map<std::string, std::vector<const std::string*>> alike;
  for (const std::string& name : names) {
    shown.push_back(short_kernel_name(name, width));
    alike[shown.back()].push_back(&name);
  }
  for (size_t k = 0; k < names.size(); ++k) {
    const auto& others = alike[shown[k]];
    const bool is_unique = std::all_of(
        others.begin(), others.end(), [&](const std::string* other) { return *other == names[k]; });
    const std::string_view core = bare(names[k]);
    if (!is_unique) shown[k] = around(core, telling_place(core, others), width);
  }
  return shown;
}

std::string wrapped(std::string_view text, size_t width, size_t indent) {
  if (width <= indent + 20) return std::string(text);
  std::string out;
  size_t column = 0;
  while (!text.empty()) {
    const size_t blank = text.find(' ');
    const std::string_view word = text.substr(0, blank);
    text.remove_prefix(blank == text.npos ? text.size() : blank + 1);
    const size_t used = display_width(word);
    if (column > 0 && indent + column + 1 + used > width) {
      out += "\n" + std::string(indent, ' ');
      column = 0;
    } else if (column > 0) {
      out += ' ';
      ++column;
    }
    out += word;
    column += used;
  }
  return out;
}

}  // namespace camshaft::cli
