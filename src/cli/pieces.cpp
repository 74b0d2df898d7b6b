// SPDX-License-Identifier: Apache-2.0
#include "cli/pieces.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>
#include <string>

#include "base/disjoint_sets.h"

namespace camshaft::cli {
namespace {

// Layers of both sides in one list: those here first.
class Matcher {
 public:
  Matcher(const std::vector<LayerInfo>& here, const std::vector<LayerInfo>& there)
      : here_(here), there_(there), sets_(here.size() + there.size()) {}

  std::vector<PieceGroup> match() {
    join_by_nodes();
    join_lonely();
    std::map<size_t, PieceGroup> groups;  // by root: the first layer's number
    for (size_t k = 0; k < sets_.count(); ++k) {
      const bool is_here = k < here_.size();
      const LayerInfo& layer = is_here ? here_[k] : there_[k - here_.size()];
      if (layer.is_no_op) continue;
      PieceGroup& group = groups[sets_.root_of(k)];
      (is_here ? group.here : group.there).push_back(&layer);
      (is_here ? group.here_us : group.there_us) += layer.build_time_us;
    }
    std::vector<PieceGroup> list;
    list.reserve(groups.size());
    for (auto& [root, group] : groups) list.push_back(std::move(group));
    return list;
  }

 private:
  void join_by_nodes() {
    std::map<std::string, size_t> first;
    for (size_t k = 0; k < sets_.count(); ++k) {
      const LayerInfo& layer = k < here_.size() ? here_[k] : there_[k - here_.size()];
      for (const std::string& node : layer.source_nodes)
        sets_.join(k, first.emplace(node, k).first->second);
    }
  }

  // Backwards, so that of two conversions in a row the first finds the second one's place.
  void join_lonely() {
    std::vector<bool> matched(sets_.count());
    for (size_t k = here_.size(); k < sets_.count(); ++k) matched[sets_.root_of(k)] = true;
    for (size_t k = here_.size(); k-- > 0;) {
      if (matched[sets_.root_of(k)]) continue;
      size_t partner = k;
      for (size_t other = 0; partner == k && other < here_.size(); ++other)
        if (other != k && reads(here_[other], here_[k])) partner = other;
      for (size_t other = 0; partner == k && other < here_.size(); ++other)
        if (other != k && reads(here_[k], here_[other])) partner = other;
      const bool is_matched = matched[sets_.root_of(partner)];
      sets_.join(k, partner);
      matched[sets_.root_of(k)] = is_matched;
    }
  }

  static bool reads(const LayerInfo& reader, const LayerInfo& maker) {
    for (const LayerTensor& x : reader.inputs)
      for (const LayerTensor& y : maker.outputs)
        if (x.name == y.name) return true;
    return false;
  }

  const std::vector<LayerInfo>& here_;
  const std::vector<LayerInfo>& there_;
  DisjointSets sets_;
};

// Numbers become '#'.
std::string signature(const PieceGroup& group) {
  std::string text;
  const auto add = [&](const std::vector<const LayerInfo*>& layers) {
    for (const LayerInfo* layer : layers) {
      for (const char c : layer->name + "\n") {
        const bool is_digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
        if (!is_digit)
          text += c;
        else if (text.empty() || text.back() != '#')
          text += '#';
      }
    }
    text += '\n';
  };
  add(group.here);
  add(group.there);
  return text;
}

}  // namespace

double PieceGroup::extra_us() const {
  std::vector<double> us;
  for (const LayerInfo* layer : here) us.push_back(layer->build_time_us);
  std::sort(us.begin(), us.end());
  const size_t extra = here.size() > there.size() ? here.size() - there.size() : 0;
  return std::accumulate(us.begin(), us.begin() + static_cast<std::ptrdiff_t>(extra), 0.0);
}

std::vector<PieceGroup> match_pieces(const std::vector<LayerInfo>& here,
                                     const std::vector<LayerInfo>& there) {
  return Matcher(here, there).match();
}

std::vector<AlikeGroups> alike(const std::vector<const PieceGroup*>& groups) {
  std::vector<AlikeGroups> list;
  std::map<std::string, size_t> known;
  for (const PieceGroup* group : groups) {
    const auto [row, is_new] = known.emplace(signature(*group), list.size());
    if (is_new) list.emplace_back();
    list[row->second].groups.push_back(group);
  }
  return list;
}

}  // namespace camshaft::cli
