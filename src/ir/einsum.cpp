// SPDX-License-Identifier: Apache-2.0
#include "ir/einsum.h"

#include <algorithm>
#include <map>

#include "ir/infer_internal.h"
#include "ir/types.h"

namespace camshaft::ir {
namespace {

constexpr std::string_view kEllipsis = "...";

std::string with_ellipsis(const std::string& term, const std::string& hidden) {
  const size_t dots = term.find(kEllipsis);
  return dots == std::string::npos
             ? term
             : term.substr(0, dots) + hidden + term.substr(dots + kEllipsis.size());
}

Result<std::string> operand_labels(const std::string& term, size_t rank) {
  const size_t named =
      term.find(kEllipsis) == std::string::npos ? rank : term.size() - kEllipsis.size();
  if (named > rank || rank - named > kMaxRank)
    return invalid("term \"{}\" for rank {}", term, rank);
  std::string hidden;
  for (size_t d = rank - named; d-- > 0;) hidden += static_cast<char>('0' + d);
  const std::string labels = with_ellipsis(term, hidden);
  if (labels.size() != rank) return invalid("term \"{}\" for rank {}", term, rank);
  return labels;
}

std::string result_labels(const std::string* stated, const std::map<char, int>& uses) {
  const auto is_hidden = [](char label) { return label >= '0' && label <= '9'; };
  std::string hidden, single;
  for (const auto& [label, count] : uses) {
    if (is_hidden(label)) hidden.insert(hidden.begin(), label);
    if (!is_hidden(label) && count == 1) single += label;
  }
  return stated ? with_ellipsis(*stated, hidden) : hidden + single;
}

}  // namespace

Result<EinsumTerms> parse_einsum(const std::string& given, std::span<const size_t> ranks) {
  std::string equation = given;
  std::erase(equation, ' ');
  const size_t arrow = equation.find("->");
  const std::string left = equation.substr(0, arrow);
  EinsumTerms terms;
  std::map<char, int> uses;
  for (size_t begin = 0; begin <= left.size();) {
    const size_t end = std::min(left.find(',', begin), left.size()), k = terms.operands.size();
    if (k == ranks.size()) break;
    CAMSHAFT_ASSIGN(std::string labels, operand_labels(left.substr(begin, end - begin), ranks[k]));
    for (const char label : labels) ++uses[label];
    terms.operands.push_back(std::move(labels));
    begin = end + 1;
  }
  const auto commas = static_cast<size_t>(std::count(left.begin(), left.end(), ','));
  if (terms.operands.size() != ranks.size() || commas + 1 != ranks.size())
    return invalid("equation \"{}\" for {} inputs", given, ranks.size());
  const std::string stated = arrow == std::string::npos ? "" : equation.substr(arrow + 2);
  terms.result = result_labels(arrow == std::string::npos ? nullptr : &stated, uses);
  if (terms.result.size() > kMaxRank)
    return invalid("the result has {} dimensions", terms.result.size());
  for (const char label : terms.result) {
    if (!uses.count(label))
      return invalid("label {} of equation \"{}\" is in no input", label, given);
    if (std::count(terms.result.begin(), terms.result.end(), label) > 1)
      return invalid("label {} of equation \"{}\" is twice in the result", label, given);
  }
  return terms;
}

}  // namespace camshaft::ir
