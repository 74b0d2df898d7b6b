// SPDX-License-Identifier: Apache-2.0
#include "inspect/explain.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace camshaft::inspect {
namespace {

// "a + PWN(b, c) || d" -> {a, b, c, d}: the names a fused name is made of.
std::vector<std::string> components(const std::string& name) {
  static constexpr std::string_view kBetween[] = {" + ", " || ", ", ", "PWN("};
  std::vector<std::string> parts(1);
  int open = 0;
  for (size_t k = 0; k < name.size();) {
    const std::string_view rest = std::string_view(name).substr(k);
    const auto* mark =
        std::find_if(std::begin(kBetween), std::end(kBetween),
                     [&](std::string_view between) { return rest.starts_with(between); });
    if (mark != std::end(kBetween)) {
      open += *mark == "PWN(" ? 1 : 0;
      parts.emplace_back();
      k += mark->size();
    } else if (open > 0 && rest[0] == ')') {
      --open;
      ++k;
    } else {
      parts.back() += name[k++];
    }
  }
  std::erase(parts, "");
  return parts;
}

}  // namespace

bool concerns(const RewriteInfo& record, const LayerInfo& layer) {
  if (record.layer == layer.name) return true;
  std::vector<std::string> known = components(layer.name);
  known.insert(known.end(), layer.source_nodes.begin(), layer.source_nodes.end());
  const std::vector<std::string> wanted = components(record.layer);
  return !wanted.empty() && std::all_of(wanted.begin(), wanted.end(), [&](const std::string& part) {
    return std::find(known.begin(), known.end(), part) != known.end();
  });
}

std::string explain_json(const LayerInfo& layer, std::span<const RewriteInfo> rewrites) {
  using Json = nlohmann::ordered_json;
  Json records = Json::array(), candidates = Json::array();
  for (const RewriteInfo& record : rewrites)
    records.push_back({{"Pass", record.pass},
                       {"Layer", record.layer},
                       {"Text", record.text},
                       {"Declined", record.declined}});
  for (const LayerCandidate& candidate : layer.candidates)
    candidates.push_back({{"Tactic", candidate.tactic.empty() ? "reference" : candidate.tactic},
                          {"Formats", candidate.formats},
                          {"TimeUs", candidate.time_us},
                          {"Chosen", candidate.chosen},
                          {"Refusal", candidate.refusal}});
  const Json object = {{"Name", layer.name}, {"Rewrites", records}, {"Candidates", candidates}};
  return object.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace camshaft::inspect
