// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/gemm/gemm_chain_sort.h"

#if defined(CAMSHAFT_HAS_BYTE_PAIRS)

#include <cstring>

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

constexpr int kStepLoad = 256;               // at most: two weights
constexpr int kLargestLoad = 2 * kStepLoad;  // of a unit
constexpr int kMostTries = 48;               // units looked at for one chain

int16_t limit(int64_t most, int64_t x_maximum) {
  const int64_t weights = most / (x_maximum < 1 ? 1 : x_maximum);
  return static_cast<int16_t>(weights < 4 * kStepLoad ? weights : 4 * kStepLoad);
}

}  // namespace

ChainSorter::ChainSorter(int64_t steps, int64_t width, int64_t x_maximum, int64_t unit)
    : unit_(unit),
      units_(steps / unit),
      lanes_(2 * width),
      most_positive_(limit(32767, x_maximum)),
      most_negative_(limit(32768, x_maximum)),
      loads_(new int16_t[static_cast<size_t>(units_ * 2 * lanes_)]),
      sum_(new int16_t[static_cast<size_t>(2 * lanes_)]),
      largest_(new int32_t[static_cast<size_t>(units_)]),
      left_(new int32_t[static_cast<size_t>(units_)]) {}

ChainSorter::~ChainSorter() {
  delete[] loads_;
  delete[] sum_;
  delete[] largest_;
  delete[] left_;
}

void ChainSorter::add_loads(const int8_t* weights) {
  std::memset(loads_, 0, static_cast<size_t>(units_ * 2 * lanes_) * sizeof(int16_t));
  for (int64_t unit = 0; unit < units_; ++unit) {
    int16_t *positive = loads_ + unit * 2 * lanes_, *negative = positive + lanes_;
    int largest = 0;
    for (int64_t step = 0; step < unit_; ++step)
      for (int64_t lane = 0; lane < lanes_; ++lane, weights += 2) {
        const int w0 = weights[0], w1 = weights[1];
        const int above = (w0 > 0 ? w0 : 0) + (w1 > 0 ? w1 : 0);
        positive[lane] = static_cast<int16_t>(positive[lane] + above);
        negative[lane] = static_cast<int16_t>(negative[lane] + above - w0 - w1);
        largest = positive[lane] > largest ? positive[lane] : largest;
        largest = negative[lane] > largest ? negative[lane] : largest;
      }
    largest_[unit] = largest;
  }
}

void ChainSorter::sort_by_size() {
  int32_t first[kLargestLoad + 1] = {};  // place of the next unit of that size
  for (int64_t unit = 0; unit < units_; ++unit) ++first[largest_[unit]];
  for (int32_t size = kLargestLoad, place = 0; size >= 0; --size) {
    const int32_t count = first[size];
    first[size] = place;
    place += count;
  }
  for (int64_t unit = 0; unit < units_; ++unit)
    left_[first[largest_[unit]]++] = static_cast<int32_t>(unit);
  num_left_ = units_;
}

bool ChainSorter::fits(const int16_t* sum, int64_t step) const {
  const int16_t* load = loads_ + step * 2 * lanes_;
  int above = 0, below = 0;
  for (int64_t lane = 0; lane < lanes_; ++lane) above |= most_positive_ - sum[lane] - load[lane];
  for (int64_t lane = lanes_; lane < 2 * lanes_; ++lane)
    below |= most_negative_ - sum[lane] - load[lane];
  return (above | below) >= 0;
}

// Positions in left_ of the units that join the one at `largest`, from the end; how many.
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

bool ChainSorter::step_fits(const int8_t* weights) const {
  for (int64_t lane = 0; lane < lanes_; ++lane, weights += 2) {
    const int w0 = weights[0], w1 = weights[1];
    const int above = (w0 > 0 ? w0 : 0) + (w1 > 0 ? w1 : 0);
    if (above > most_positive_ || above - w0 - w1 > most_negative_) return false;
  }
  return true;
}

// Those of the units left that fit.
template <class Fits>
void ChainSorter::take(const Fits& fits, int32_t*& out) {
  int64_t kept = 0;
  for (int64_t k = 0; k < num_left_; ++k)
    if (fits(left_[k]))
      *out++ = left_[k];
    else
      left_[kept++] = left_[k];
  num_left_ = kept;
}

void ChainSorter::sort(const int8_t* weights, int32_t* ends, int32_t* order) {
  add_loads(weights);
  sort_by_size();
  int32_t* out = order;
  const auto end = [&](int kind) { ends[kind] = static_cast<int32_t>(out - order); };
  const auto alone = [this](int32_t unit) { return fits(sum_, unit); };
  const auto each = [this, weights](int32_t unit) {
    const int8_t* first = weights + unit * unit_ * 2 * lanes_;
    return step_fits(first) && step_fits(first + 2 * lanes_);
  };
  take_chains(static_cast<int>(4 / unit_), out);
  end(0);
  if (unit_ == 1) take_chains(2, out);
  if (unit_ == 1) end(1);
  std::memset(sum_, 0, static_cast<size_t>(2 * lanes_) * sizeof(int16_t));
  take(alone, out);
  if (unit_ == 2) end(1);
  if (unit_ == 2) take(each, out);
  end(2);
  take([](int32_t) { return true; }, out);
  end(3);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET

#endif
