// SPDX-License-Identifier: Apache-2.0
// Says at build that much of a quantized network runs in float, and why: of the products that read
// dequantized tensors, how many QuantizeDoubleInputNodes declined, and the commonest reason.
#include <algorithm>
#include <map>
#include <set>

#include "base/log.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

constexpr size_t kLargePart = 4;  // a quarter of the products

}  // namespace

void warn_of_float_products(const Records& records) {
  std::set<std::string> quantized;
  std::map<std::string, std::string> reasons;  // of each layer, the last
  for (const RewriteRecord& record : records) {
    if (record.pass != "QuantizeDoubleInputNodes") continue;
    // The pass also fuses Quantize layers into epilogues.
    if (record.action == Action::kConvert) quantized.insert(record.layers[0]);
    if (record.action == Action::kDecline) reasons[record.layers[0]] = record.text;
  }
  std::map<std::string, size_t> counts;
  for (const auto& [layer, reason] : reasons)
    if (!quantized.contains(layer)) ++counts[reason];
  size_t declined = 0;
  for (const auto& [reason, count] : counts) declined += count;
  if (declined * kLargePart < declined + quantized.size() || declined == 0) return;
  const auto commonest =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  log(Severity::kWarning,
      "{} of {} products of quantized tensors run in float: {} ({} of them); `camshaft explain` "
      "has the reason of each",
      declined, declined + quantized.size(),
      commonest->first.substr(std::string_view("not quantized: ").size()), commonest->second);
}

}  // namespace camshaft::passes
