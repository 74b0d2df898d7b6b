// SPDX-License-Identifier: Apache-2.0
// Two engines of one network side by side: which layers do the work of the same ONNX nodes, and
// which of them are in more pieces here than there.
#pragma once

#include <vector>

#include "camshaft/inspector.h"

namespace camshaft::cli {

// Layers that share ONNX nodes, directly or through others.
struct PieceGroup {
  std::vector<const LayerInfo*> here, there;  // that run, in order
  double here_us = 0, there_us = 0;

  bool has_more_pieces() const { return !there.empty() && here.size() > there.size(); }
  // Of the smallest pieces, as many as there are more here.
  double extra_us() const;
};

// In the order of the layers here; a layer whose nodes are only here (Q/DQ) goes with the layer
// that reads what it makes, else with the one that makes what it reads.
std::vector<PieceGroup> match_pieces(const std::vector<LayerInfo>& here,
                                     const std::vector<LayerInfo>& there);

// Groups that differ in numbers of their names only, as the blocks of a network do.
struct AlikeGroups {
  std::vector<const PieceGroup*> groups;
};
std::vector<AlikeGroups> alike(const std::vector<const PieceGroup*>& groups);

}  // namespace camshaft::cli
