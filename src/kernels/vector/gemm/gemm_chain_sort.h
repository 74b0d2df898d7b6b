// SPDX-License-Identifier: Apache-2.0
// Which steps of K can be multiplied by vpmaddubsw, and which of them added in 16 bits. A 16-bit
// lane holds x0 w0 + x1 w1 + … of codes up to some maximum: it stays within 16 bits for all of them
// where its positive weights sum up to at most 32767 / maximum, its negative ones to no less than
// -32768 / maximum. Chains are formed as the largest step left with the smallest that fit: of
// weights as trained ones lie nearly all steps find a chain of four where codes are at most 127.
#pragma once

#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

inline constexpr int kChainKinds = 4;  // chains of 4, of 2, single steps, 16-bit products

class ChainSorter {
 public:
  // Of spans of `steps` steps of `width` columns, in units of one or two neighbouring steps that
  // stay together.
  ChainSorter(int64_t steps, int64_t width, int64_t x_maximum, int64_t unit = 1);
  ~ChainSorter();
  ChainSorter(const ChainSorter&) = delete;
  ChainSorter& operator=(const ChainSorter&) = delete;

  // `weights`: [steps][width][4]. Gives the order of the units, and where each kind ends in it.
  // Steps of a unit of kind 2 (single) fit 16 bits each, not together.
  void sort(const int8_t* weights, int32_t* ends, int32_t* order);

 private:
  void add_loads(const int8_t* weights);
  void sort_by_size();
  bool fits(const int16_t* sum, int64_t step) const;
  int find_partners(int64_t largest, int depth);
  void take_chains(int depth, int32_t*& out);
  template <class Fits>
  void take(const Fits& fits, int32_t*& out);
  bool step_fits(const int8_t* weights) const;

  int64_t unit_, units_, lanes_;  // lanes of 16 bits: positive sums, then negative ones
  int16_t most_positive_, most_negative_;
  int16_t* loads_;    // [units][2 * lanes]
  int16_t* sum_;      // of the chain being formed
  int32_t* largest_;  // of each unit: its largest load
  int32_t* left_;     // units not yet taken, largest first
  int64_t num_left_ = 0;
  int64_t partners_[3];  // positions in left_
};

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
