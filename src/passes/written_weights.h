// SPDX-License-Identifier: Apache-2.0
// Weights that a network computes from constant codes by arithmetic: casts, zero points that are
// taken off, scales, shifts, reshapes and transposes in any order.
#pragma once

#include <optional>
#include <vector>

#include "ir/extents.h"
#include "ir/graph.h"

namespace camshaft::passes {

// Numbers, row major, that are one as long as nothing makes them differ.
class Values {
 public:
  explicit Values(float value) : values_{value} {}
  explicit Values(std::vector<float> values) : values_(std::move(values)) {}
  float operator[](int64_t k) const { return values_[is_one() ? 0 : static_cast<size_t>(k)]; }
  bool is_one() const { return values_.size() == 1; }
  const std::vector<float>& all() const { return values_; }

 private:
  std::vector<float> values_;
};

// weight = (code - zero) * scale
struct WrittenWeights {
  ir::Extents extents;
  Values codes{0.0f}, scale{1.0f}, zero{0.0f};
  bool is_scaled = false;       // not by one number alone
  bool has_byte_codes = false;  // of a type of 8 bits or less

  int64_t count() const { return ir::element_count(extents); }
};

// Empty: `weights` are made of something else.
std::optional<WrittenWeights> written_weights(const ir::Tensor& weights);

}  // namespace camshaft::passes
