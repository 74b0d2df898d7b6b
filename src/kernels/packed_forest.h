// SPDX-License-Identifier: Apache-2.0
// A TreeEnsemble (kernels/reference/generic_trees.cpp lists its inputs) laid out for walking:
// checked once, while building, so that walks look at nothing but nodes.
#pragma once

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
};

// Followed by the roots (offsets), the leaf words and the nodes.
struct PackedForest {
  enum class Mode : int32_t { kLeq, kLt, kGte, kGt };
  Mode mode = Mode::kLeq;
  int32_t trees = 0;
  int32_t targets = 0;
  int32_t averages = 0;       // else sums
  int32_t tells_missing = 0;  // some feature is negative
  int32_t leaf_words = 0;
  int64_t nodes_at = 0;  // bytes from here

  const int32_t* roots() const { return reinterpret_cast<const int32_t*>(this + 1); }
  const int32_t* leaves() const { return roots() + trees; }
  const std::byte* nodes() const { return reinterpret_cast<const std::byte*>(this) + nodes_at; }
};

// Empty: the problem is a TreeEnsemble that can be packed.
std::string refuse_forest(const Problem& problem);
// Of one that can.
size_t packed_forest_bytes(const Problem& problem);
void pack_forest(const Problem& problem, std::byte* packed);

}  // namespace camshaft::kernels
