// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/gemm/gemm_chain_sort.h"

#if defined(CAMSHAFT_TARGET_avx2)

#include <cstring>

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

constexpr int kLargestLoad = 256;  // of a step: two weights
constexpr int kMostTries = 48;     // steps looked at for one chain

int16_t limit(int64_t most, int64_t x_maximum) {
  const int64_t weights = most / (x_maximum < 1 ? 1 : x_maximum);
  return static_cast<int16_t>(weights < 4 * kLargestLoad ? weights : 4 * kLargestLoad);
}

}  // namespace

ChainSorter::ChainSorter(int64_t steps, int64_t width, int64_t x_maximum)
    : steps_(steps),
      lanes_(2 * width),
      most_positive_(limit(32767, x_maximum)),
      most_negative_(limit(32768, x_maximum)),
      loads_(new int16_t[static_cast<size_t>(steps * 2 * lanes_)]),
      sum_(new int16_t[static_cast<size_t>(2 * lanes_)]),
      largest_(new int32_t[static_cast<size_t>(steps)]),
      left_(new int32_t[static_cast<size_t>(steps)]) {}

ChainSorter::~ChainSorter() {
  delete[] loads_;
  delete[] sum_;
  delete[] largest_;
  delete[] left_;
}

void ChainSorter::add_loads(const int8_t* weights) {
  for (int64_t step = 0; step < steps_; ++step) {
    int16_t *positive = loads_ + step * 2 * lanes_, *negative = positive + lanes_;
    int largest = 0;
    for (int64_t lane = 0; lane < lanes_; ++lane, weights += 2) {
      const int w0 = weights[0], w1 = weights[1];
      const int above = (w0 > 0 ? w0 : 0) + (w1 > 0 ? w1 : 0);
      const int below = above - w0 - w1;
      positive[lane] = static_cast<int16_t>(above);
      negative[lane] = static_cast<int16_t>(below);
      largest = above > largest ? above : largest;
      largest = below > largest ? below : largest;
    }
    largest_[step] = largest;
  }
}

void ChainSorter::sort_by_size() {
  int32_t first[kLargestLoad + 1] = {};  // place of the next step of that size
  for (int64_t step = 0; step < steps_; ++step) ++first[largest_[step]];
  for (int32_t size = kLargestLoad, place = 0; size >= 0; --size) {
    const int32_t count = first[size];
    first[size] = place;
    place += count;
  }
  for (int64_t step = 0; step < steps_; ++step)
    left_[first[largest_[step]]++] = static_cast<int32_t>(step);
  num_left_ = steps_;
}

bool ChainSorter::fits(const int16_t* sum, int64_t step) const {
  const int16_t* load = loads_ + step * 2 * lanes_;
  int above = 0, below = 0;
  for (int64_t lane = 0; lane < lanes_; ++lane) above |= most_positive_ - sum[lane] - load[lane];
  for (int64_t lane = lanes_; lane < 2 * lanes_; ++lane)
    below |= most_negative_ - sum[lane] - load[lane];
  return (above | below) >= 0;
}

// Positions in left_ of the steps that join the one at `largest`, from the end; how many.
int ChainSorter::find_partners(int64_t largest, int depth) {
  std::memcpy(sum_, loads_ + left_[largest] * 2 * lanes_,
              static_cast<size_t>(2 * lanes_) * sizeof(int16_t));
  int found = 0;
  for (int64_t k = num_left_ - 1, tries = 0; k > largest && tries < kMostTries; --k, ++tries) {
    if (!fits(sum_, left_[k])) continue;
    partners_[found++] = k;
    if (found == depth - 1) break;
    const int16_t* load = loads_ + left_[k] * 2 * lanes_;
    for (int64_t lane = 0; lane < 2 * lanes_; ++lane)
      sum_[lane] = static_cast<int16_t>(sum_[lane] + load[lane]);
  }
  return found;
}

void ChainSorter::take_chains(int depth, int32_t*& out) {
  int64_t kept = 0;
  for (int64_t k = 0; k < num_left_; ++k) {
    if (find_partners(k, depth) < depth - 1) {
      left_[kept++] = left_[k];
      continue;
    }
    *out++ = left_[k];
    for (int partner = 0; partner < depth - 1; ++partner) {  // the last in left_ first
      const int64_t at = partners_[partner];
      *out++ = left_[at];
      std::memmove(left_ + at, left_ + at + 1,
                   static_cast<size_t>(num_left_ - at - 1) * sizeof(int32_t));
      --num_left_;
    }
  }
  num_left_ = kept;
}

void ChainSorter::sort(const int8_t* weights, int32_t* ends, int32_t* order) {
  add_loads(weights);
  sort_by_size();
  int32_t* out = order;
  take_chains(4, out);
  ends[0] = static_cast<int32_t>(out - order);
  take_chains(2, out);
  ends[1] = static_cast<int32_t>(out - order);
  std::memset(sum_, 0, static_cast<size_t>(2 * lanes_) * sizeof(int16_t));
  int64_t kept = 0;
  for (int64_t k = 0; k < num_left_; ++k)
    if (fits(sum_, left_[k]))
      *out++ = left_[k];
    else
      left_[kept++] = left_[k];
  ends[2] = static_cast<int32_t>(out - order);
  for (int64_t k = 0; k < kept; ++k) *out++ = left_[k];
  ends[3] = static_cast<int32_t>(out - order);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET

#endif
