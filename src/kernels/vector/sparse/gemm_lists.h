// SPDX-License-Identifier: Apache-2.0
// Products of floats with weights that are mostly zeros, of any pattern. Every output channel has a
// list of its weights that are not zero; lanes are pixels, so a weight is one broadcast and a
// multiply-add per vector of pixels, whatever its neighbours are:
//
//   pixels ─▶ X[k][pixel] (a block of K, turned, in L1) ─▶ Y[channel][pixel] ─▶ pixels, epilogue
//
// Packed: bias of all channels, padded to vectors; where the list of each (group, block of K,
// channel) ends; the lists.
#pragma once

#include "kernels/vector/convolution/conv_gemm.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// Pixels of a block: eight vectors hide the latency of multiply-adds, and their loads (one each)
// leave room for those of the weight and its place.
inline constexpr int kListVecs = 8;
inline constexpr int64_t kListPixels = kListVecs * kLanes;
inline constexpr int64_t kListRowBytes = kListPixels * kLaneBytes;
// Rows of X. 28 KiB: with the rows of Y that pass they fit the smallest L1 there is, and lists are
// long enough (measured with half of the weights: 64 rows of 256 bytes reach 0.9 of 96 rows).
inline constexpr int64_t kListRows = 28 * 1024 / kListRowBytes;
inline constexpr int64_t kListChannels = 256;  // of Y

struct ListEntry {
  int32_t offset;  // bytes from the first row of the block of K
  float weight;
};

struct ListLayout {
  int64_t groups, channels, k;  // of a group
  EvenSplit blocks;             // of K
  int64_t capacity;             // entries
  int64_t bias_lanes, ends_at, entries_at, bytes;

  // At most one of `divisor` weights is not zero.
  ListLayout(const ConvShape& shape, int64_t divisor);

  const int32_t* ends(const std::byte* packed) const {
    return reinterpret_cast<const int32_t*>(packed + ends_at);
  }
  int64_t list(int64_t group, int64_t block, int64_t channel) const {
    return (group * blocks.parts + block) * channels + channel;
  }
};

// `bias`: null for zeros.
void pack_lists(const ConvShape& shape, const ListLayout& layout, const Filter<float>& filter,
                float alpha, const float* bias, std::byte* packed);
// Microseconds of one thread; `nonzeros`: of all weights.
double lists_cost_us(const ConvShape& shape, double nonzeros);
// `run` has its shape, tensors and epilogue; outputs are floats, channels contiguous.
void prepare_lists(const KernelArgs& args, const ConvRun& run, const ListLayout& layout,
                   PreparedKernel& kernel);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
