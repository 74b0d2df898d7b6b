// SPDX-License-Identifier: Apache-2.0
// Products of bytes with weights that are mostly zeros, of any pattern: as gemm_lists.h for floats,
// every output channel has a list of what it multiplies, and lanes are pixels. A lane holds four
// bytes, as everywhere, so an entry is four weights and the row of X they are for:
//
//   pixels ─▶ X[row][pixel] (a block of K, turned, in L1) ─▶ Y[channel][pixel] ─▶ pixels, epilogue
//
// Where all four weights are zero, neighbouring input channels, there is no entry.
//
// Packed: the epilogue; bias of all channels, padded to vectors; where the kinds of entries of each
// (group, block of K, channel) end; the entries.
#pragma once

#include "kernels/vector/convolution/conv_gemm.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

inline constexpr int64_t kQuad = 4;           // channels
inline constexpr int64_t kByteListKinds = 3;  // chains of two, single entries, 16-bit products
inline constexpr int kByteListVecs = 4;
inline constexpr int64_t kByteListPixels = kByteListVecs * kLanes;
inline constexpr int64_t kByteRowBytes = kByteListPixels * kLaneBytes;

struct ByteEntry {
  int32_t offset;  // bytes from the first row of the block of K
  int8_t weights[kQuad];
};

struct ByteLists {
  int64_t groups, channels;  // output channels of a group
  int64_t taps, tap_quads;
  EvenSplit blocks;  // of quads of K
  int64_t most;      // entries with weights
  int64_t capacity;  // the zeros of odd lists, too
  int64_t bias_lanes, ends_at, entries_at, bytes;

  // Room for `share` quarters of all quads.
  ByteLists(const ConvShape& shape, int64_t share);

  const int32_t* ends(const std::byte* packed) const {
    return reinterpret_cast<const int32_t*>(packed + ends_at);
  }
  const ByteEntry* entries(const std::byte* packed) const {
    return reinterpret_cast<const ByteEntry*>(packed + entries_at);
  }
  int64_t list(int64_t group, int64_t block, int64_t channel) const {
    return (group * blocks.parts + block) * channels + channel;
  }
  int64_t lists() const { return groups * blocks.parts * channels; }
};

// The lists alone, from ends_at on; no code of X exceeds x_maximum.
void pack_byte_lists(const ByteLists& lists, const ConvShape& shape, const Filter<int8_t>& filter,
                     int64_t x_maximum, std::byte* packed);
void count_list_products(const ByteLists& lists, const std::byte* packed, ProductShares& shares);
// Microseconds of one thread.
double byte_lists_cost_us(const ByteLists& lists, const ConvShape& shape, double entries);

// Neighbouring lists of one block: those of the output channels whose Y are `y_stride` apart.
struct ListRange {
  const ByteEntry* entries;
  const int32_t* ends;  // of the kinds of each list
  int32_t begin;        // of the first list
  int64_t count;
};
// Y[vecs * kLanes] += X · list for each of them; `start`: begins with zeros.
using AddByteLists = void (*)(const std::byte* x, const ListRange& lists, bool start, int32_t* y,
                              int64_t y_stride);
AddByteLists byte_list_kernel(int64_t vecs);

// `run` has its shape, tensors, bias and epilogue.
void prepare_byte_lists(const KernelArgs& args, const ConvRun& run, const ByteLists& lists,
                        PreparedKernel& kernel);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
