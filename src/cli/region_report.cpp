// SPDX-License-Identifier: Apache-2.0
#include "cli/region_report.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "cli/terminal.h"

namespace camshaft::cli {
namespace {

std::string share_text(double us, double total) {
  return us > 0 && total > 0 ? fmt::format("{:.1f}", us / total * 100) : "";
}

// Caches of a decoder cross the border by the dozen: of each reason the first few, and how many
// more.
void print_borders(const char* title, const std::vector<RegionInfo::Border>& borders) {
  constexpr size_t kShown = 4;
  if (borders.empty()) return;
  fmt::print("\n{}\n", styled(title, Style::kBold));
  std::map<std::string, size_t> shown;
  for (const RegionInfo::Border& border : borders)
    if (shown[border.reason]++ < kShown)
      fmt::print("  {}: {}{}\n", border.tensor.name,
                 border.layer < 0 ? "" : fmt::format("{} ({}), ", border.layer_name, border.layer),
                 border.reason);
  for (const auto& [reason, count] : shown)
    if (count > kShown) fmt::print("  and {} more: {}\n", count - kShown, reason);
}

void print_layers(const Inspector& inspector, const RegionInfo& region) {
  Table table({{"#", Align::kRight},
               {"layer", Align::kLeft, 72},
               {"in the region", Align::kLeft, 56},
               {"kind"},
               {"us", Align::kRight},
               {"%", Align::kRight},
               {"tactic"}});
  for (const int k : region.layers) {
    const LayerInfo& layer = inspector.layers()[static_cast<size_t>(k)];
    table.add({std::to_string(k), layer.name, layer.region_name, layer.region_type,
               microseconds_text(layer.build_time_us),
               share_text(layer.build_time_us, region.build_time_us), tactic_text(layer)},
              layer.is_no_op ? Style::kDim : Style::kPlain);
  }
  fmt::print("\n{}", table.text());
}

}  // namespace

double total_us(const Inspector& inspector) {
  double us = 0;
  for (const LayerInfo& layer : inspector.layers()) us += layer.build_time_us;
  return us;
}

const RegionInfo* find_region(const Inspector& inspector, const std::string& word) {
  for (const RegionInfo& region : inspector.regions())
    if (word == region.name || word == fmt::format("region{}", region.index)) return &region;
  if (!word.starts_with("ForeignNode") && !word.starts_with("{ForeignNode")) return nullptr;
  const RegionInfo* found = nullptr;
  for (const RegionInfo& region : inspector.regions()) {
    if (region.name.find(word) == std::string::npos) continue;
    if (found != nullptr) return nullptr;
    found = &region;
  }
  return found;
}

void print_region_list(const Inspector& inspector) {
  if (inspector.regions().empty()) return;
  const double total = total_us(inspector);
  fmt::print("\n{}\n", styled("regions", Style::kBold));
  for (const RegionInfo& region : inspector.regions())
    fmt::print("  region{} {}: {} layers, {:.1f} us, {} % of all\n", region.index, region.name,
               region.layers.size(), region.build_time_us, share_text(region.build_time_us, total));
}

void explain_region(const Inspector& inspector, const RegionInfo& region) {
  fmt::print("{}\n", styled(region.name, Style::kBold));
  fmt::print("region  {}: {} layers, {} of them run, the others are views\n", region.index,
             region.layers.size(), region.running);
  const double total = total_us(inspector);
  if (region.build_time_us > 0)
    fmt::print("time    {:.1f} us when built, {} % of the engine's {:.1f} us\n",
               region.build_time_us, share_text(region.build_time_us, total), total);
  fmt::print("why     {}\n", region.reason);
  print_borders("where it begins", region.before);
  print_borders("where it ends", region.after);
  print_layers(inspector, region);
}

}  // namespace camshaft::cli
