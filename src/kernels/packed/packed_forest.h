// SPDX-License-Identifier: Apache-2.0
// A TreeEnsemble (kernels/reference/generic_trees.cpp lists its inputs) laid out for walking:
// checked once, while building, so that walks look at nothing but nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/kernel.h"

namespace camshaft::kernels {

// Offsets are in bytes from the nodes. A leaf leads to itself; its split holds (as bits) where its
// weights begin in the list of leaf words: how many, then target and weight of each.
struct ForestNode {
  float split;
  int32_t feature;  // negative: ~feature, and a NaN counts as true
  int32_t next[2];  // if false, if true
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(split) CAMSHAFT_FIELD(feature) CAMSHAFT_FIELD(next))
};
// Walked where they are stored, field after field.
static_assert(sizeof(ForestNode) == 16 && offsetof(ForestNode, feature) == 4 &&
              offsetof(ForestNode, next) == 8);

// A record (packed_records.h), followed by the roots (offsets), the leaf words and the nodes.
struct PackedForest {
  enum class Mode : int32_t { kLeq, kLt, kGte, kGt };
  Mode mode = Mode::kLeq;
  int32_t trees = 0;
  int32_t targets = 0;
  int32_t averages = 0;       // else sums
  int32_t tells_missing = 0;  // some feature is negative
  int32_t leaf_words = 0;
  int64_t nodes_at = 0;  // bytes from the record
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(mode) CAMSHAFT_FIELD(trees) CAMSHAFT_FIELD(targets)
                      CAMSHAFT_FIELD(averages) CAMSHAFT_FIELD(tells_missing)
                          CAMSHAFT_FIELD(leaf_words) CAMSHAFT_FIELD(nodes_at))
};

// A packed forest as it is read.
struct ForestView : PackedForest {
  const int32_t *roots, *leaves;
  const std::byte* nodes;
  explicit ForestView(const std::byte* packed);
};

// Empty: the problem is a TreeEnsemble that can be packed.
std::string refuse_forest(const Problem& problem);
// Of one that can.
size_t packed_forest_bytes(const Problem& problem);
void pack_forest(const Problem& problem, std::byte* packed);

}  // namespace camshaft::kernels
