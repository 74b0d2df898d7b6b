// SPDX-License-Identifier: Apache-2.0
// Numbers from 0 on in sets that are joined; a set's root is its least number.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace camshaft {

class DisjointSets {
 public:
  explicit DisjointSets(size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
  }
  size_t count() const { return parent_.size(); }
  size_t root_of(size_t k) {
    while (parent_[k] != k) k = parent_[k] = parent_[parent_[k]];
    return k;
  }
  void join(size_t a, size_t b) {
    a = root_of(a), b = root_of(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<size_t> parent_;
};

}  // namespace camshaft
