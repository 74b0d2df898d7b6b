// SPDX-License-Identifier: Apache-2.0
// Layers in words, as tables and profiles show them.
#include <fmt/format.h>

#include "camshaft/inspector.h"

namespace camshaft {
std::string tactic_text(const LayerSummary& layer) {
  if (layer.has_bodies()) return "its body";
  if (layer.is_no_op || !layer.tactic.empty()) return layer.tactic;
  return layer.is_late ? "when run" : "reference";
}

std::string indented_name(const InnerLayer& layer, double calls) {
  std::string name(static_cast<size_t>(2 * layer.depth), ' ');
  name += layer.name;
  if (calls > 0) name += fmt::format(" ×{:.4g}", calls);
  return name;
}

}  // namespace camshaft
