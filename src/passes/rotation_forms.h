// SPDX-License-Identifier: Apache-2.0
// Rotary positions as exporters write them out. Pairs are halves of the last dimension, or of its
// first part:
//   x · c + Concat(-x₂, x₁) · s      (transformers' rotate_half)
//   Concat(x₁ · c - x₂ · s, x₁ · s + x₂ · c[, the rest of x])
// or neighbours, x₁ being x[..., ::2] and x₂ x[..., 1::2], each with a last dimension of 1 (GPT-J,
// RoFormer, Cohere, products of complex numbers, RotaryEmbedding with `interleaved`):
//   x · c + Reshape(Concat(-x₂, x₁)) · s
//   Reshape(Concat(x₁ · c - x₂ · s, x₁ · s + x₂ · c))
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace camshaft::passes {

struct RotationForm {
  ir::Tensor *x = nullptr, *cosine = nullptr, *sine = nullptr;
  int64_t half = 0;
  ir::Shape shape;                             // of x as it is turned: a reshape of it
  bool has_neighbours = false;                 // pairs are neighbours, not halves
  bool has_columns = false;                    // the factors have a last dimension of 1 more
  std::vector<const ir::Tensor*> sliced = {};  // what x₁ and x₂ are taken from, reshapes of x

  bool ends_at(const ir::Tensor* tensor) const {
    return tensor == x || tensor == cosine || tensor == sine ||
           std::find(sliced.begin(), sliced.end(), tensor) != sliced.end();
  }
};

// Whose result `layer` makes. Factors are as they were found.
std::optional<RotationForm> find_rotation(const ir::Layer& layer);
// The same of pairs [..., 2] that nothing reshapes.
std::optional<RotationForm> find_rotated_pairs(const ir::Layer& layer);

}  // namespace camshaft::passes
