// SPDX-License-Identifier: Apache-2.0
#include "inspect/explain.h"

#include <nlohmann/json.hpp>

namespace camshaft::inspect {

std::string explain_json(const LayerInfo& layer, const RegionInfo* region,
                         std::span<const RewriteInfo> rewrites) {
  using Json = nlohmann::ordered_json;
  Json records = Json::array(), candidates = Json::array();
  for (const RewriteInfo& record : rewrites)
    records.push_back({{"Pass", record.pass},
                       {"Action", record.action},
                       {"Layer", record.layer},
                       {"Layers", record.layers},
                       {"Text", record.text},
                       {"Declined", record.declined},
                       {"Reason", record.reason}});
  for (const LayerCandidate& candidate : layer.candidates)
    candidates.push_back({{"Tactic", candidate.tactic.empty() ? "reference" : candidate.tactic},
                          {"Formats", candidate.formats},
                          {"TimeUs", candidate.time_us},
                          {"Chosen", candidate.chosen},
                          {"Refusal", candidate.refusal},
                          {"WhyNot", candidate.why_not}});
  Json object = {{"Name", layer.name}};
  if (region != nullptr) {
    object["Region"] = region->name;
    object["RegionLayer"] = layer.region_name;
  }
  object["Rewrites"] = records;
  object["Candidates"] = candidates;
  return object.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace camshaft::inspect
