// SPDX-License-Identifier: Apache-2.0
// The two products of an expert (ExpertsAttrs) as matrices: extents and coding of their weights.
#pragma once

#include "ir/weight_records.h"

namespace camshaft::ir {

// Of one expert. `bits` 0: the weights are floats.
struct ExpertProduct {
  int64_t columns = 0, depth = 0;
  int64_t bits = 0, block = 0;
  DataType zero = DataType::kUndefined;

  bool is_float() const { return bits == 0; }
  LowBits low_bits() const {
    LowBits weights;
    weights.columns = columns;
    weights.depth = depth;
    weights.bits = bits;
    weights.block = block;
    weights.zero = zero;
    return weights;
  }
  bool is_valid() const {
    LowBits weights = low_bits();
    if (is_float()) weights.bits = 8, weights.block = 1;
    return RecordLayout::is_valid(weights);
  }
  int64_t bytes() const {
    return is_float() ? columns * depth * int64_t{sizeof(float)} : RecordLayout(low_bits()).bytes();
  }
  // The weights of all experts.
  Extents extents(int64_t experts) const {
    if (is_float()) return {experts, columns, depth};
    const RecordLayout layout(low_bits());
    return {experts, columns, layout.blocks(), layout.record()};
  }
  DataType type() const { return is_float() ? DataType::kFloat : DataType::kUInt8; }
};

inline bool has_gate(const ExpertsAttrs& a) {
  return a.activation.num_inputs == 2;
}
inline ExpertProduct up_product(const ExpertsAttrs& a) {
  return {a.hidden * (has_gate(a) ? 2 : 1), a.width, a.up_bits, a.up_block, a.up_zero};
}
inline ExpertProduct down_product(const ExpertsAttrs& a) {
  return {a.width, a.hidden, a.down_bits, a.down_block, a.down_zero};
}
inline bool is_valid(const ExpertsAttrs& a) {
  constexpr int64_t kMostExperts = 1 << 20;
  return a.experts > 0 && a.experts <= kMostExperts && a.activation.num_inputs <= 2 &&
         up_product(a).is_valid() && down_product(a).is_valid();
}

// Inputs of the layer.
enum ExpertsInput : size_t {
  kExpertRows,
  kExpertsChosen,
  kExpertShares,
  kUpWeights,
  kDownWeights,
  kUpBias,
  kDownBias
};

}  // namespace camshaft::ir
