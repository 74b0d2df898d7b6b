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
// weights begin in the leaf words: a list is how many, then target and weight of each; where every
// leaf has one weight for each target, in order, the weights alone.
struct ForestNode {
  float split;
  int32_t feature;  // negative: ~feature, and a NaN counts as true
  int32_t next[2];  // if false, if true
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(split) CAMSHAFT_FIELD(feature) CAMSHAFT_FIELD(next))
};
// Walked where they are stored, field after field.
static_assert(sizeof(ForestNode) == 16 && offsetof(ForestNode, feature) == 4 &&
              offsetof(ForestNode, next) == 8);

// A tree: the root's offset, steps from there to the nearest leaf.
struct ForestTree {
  int32_t root = 0, nearest_leaf = 0;
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(root) CAMSHAFT_FIELD(nearest_leaf))
};
static_assert(sizeof(ForestTree) == 8 && offsetof(ForestTree, nearest_leaf) == 4);

// A record (packed_records.h), followed by the trees, the leaf words and the nodes.
struct PackedForest {
  enum class Mode : int32_t { kLeq, kLt, kGte, kGt };
  Mode mode = Mode::kLeq;
  int32_t trees = 0;
  int32_t targets = 0;
  int32_t averages = 0;       // else sums
  int32_t tells_missing = 0;  // some feature is negative
  int32_t has_lists = 0;      // of leaves; else each has one weight per target
  int32_t leaf_words = 0;
  int64_t nodes_at = 0;  // bytes from the record
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(mode) CAMSHAFT_FIELD(trees) CAMSHAFT_FIELD(targets)
                      CAMSHAFT_FIELD(averages) CAMSHAFT_FIELD(tells_missing)
                          CAMSHAFT_FIELD(has_lists) CAMSHAFT_FIELD(leaf_words)
                              CAMSHAFT_FIELD(nodes_at))
};

// A packed forest as it is read.
struct ForestView : PackedForest {
  const ForestTree* roots;
  const int32_t* leaves;
  const std::byte* nodes;
  explicit ForestView(const std::byte* packed);
};

// Empty: the problem is a TreeEnsemble that can be packed.
std::string refuse_forest(const Problem& problem);
// Of one that can.
size_t packed_forest_bytes(const Problem& problem);
void pack_forest(const Problem& problem, std::byte* packed);

}  // namespace camshaft::kernels
