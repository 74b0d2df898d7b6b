// SPDX-License-Identifier: Apache-2.0
// Packed panels of bytes whose weights are 2:4 or 4:8. A step is eight neighbouring bytes of A,
// broadcast; each lane, one output channel, picks the four of them its weights are for with a byte
// shuffle, and multiplies them as dense steps multiply four: half as many products.
//
// Weights lie as in dense panels, four bytes a lane, followed by which of the eight bytes they are
// for: a byte each (any four of eight), or two bits each (two of each four): the bytes of four
// steps share one vector then, which takes a shift and a logic operation per step to unpack and
// saves three eighths of what is read. Bytes 0 and 2 of a lane are from the first four then, bytes
// 1 and 3 from the others. Which weights share a 16-bit lane is chosen so that their sums are
// small.
//
// Without VNNI two neighbouring steps may stay together where taps have an even number of them: one
// load broadcasts sixteen bytes for both, and positions of the second are 8 further. (Read step by
// step, eight bytes broadcast lie there twice.)
//
// A panel is: its header; for each span where its kinds of groups end (gemm_chains.h); the steps in
// the order they are taken; groups of four steps, four rows of weights and then their positions.
// Steps that fill a group up have weights of 0.
#pragma once

#include "kernels/conv_shape.h"
#include "kernels/product_shares.h"
#include "kernels/vector/convolution/conv_filter.h"
#include "kernels/vector/gemm/gemm_chains.h"
#include "kernels/vector/gemm/gemm_tile.h"
#include "kernels/weight_zeros.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// How positions are kept; quads of bfloat16s: pair_quads.h; picks of floats: float_picks.h.
enum class SparseIndex : uint8_t { kNone, kBytes, kBits, kQuads, kPicks };

inline constexpr int64_t kSparseStep = 8;   // bytes of A
inline constexpr int64_t kSparseGroup = 4;  // steps

struct SparseHeader {
  int32_t packs_bits;
  int32_t groups;    // of a span
  int32_t in_pairs;  // steps 0 and 1, 2 and 3 of every group are neighbours
  int32_t unused;
};
struct SparseLayout {
  int64_t groups, order_at, groups_at;  // groups of a span; bytes from the panel's start
  SparseLayout(const Spans& spans);
};
inline constexpr int64_t sparse_group_rows(SparseIndex index) {
  return index == SparseIndex::kBits ? kSparseGroup + 1 : 2 * kSparseGroup;
}

// Kernel rows of taps of whole steps.
Spans sparse_spans(const ConvShape& shape);
Panels sparse_panels(const ConvShape& shape, int max_vecs, SparseIndex index);
int sparse_max_rows(int vecs);

// Why weights do not fit the pattern; "" where all do.
inline std::string refuse_sparse(const Problem& problem, SparseIndex index) {
  return index == SparseIndex::kBytes ? refuse_4_8(problem) : refuse_2_4(problem);
}
// [groups][panel]; no code of A exceeds x_maximum.
void pack_sparse_filter(const ConvShape& shape, const Filter<int8_t>& filter, int max_vecs,
                        SparseIndex index, int64_t x_maximum, std::byte* packed);
void count_sparse_products(const ConvShape& shape, int max_vecs, SparseIndex index,
                           const std::byte* packed, ProductShares& shares);

// Sets the panel of `tile`; gives the kernel for it.
TileKernel sparse_panel_kernel(const std::byte* panel, const Spans& spans, int vecs, int rows,
                               Tile& tile);
// Of its tiles of bytes: AVX-512 has no others.
constexpr Features sparse_needs(Numeric numeric) {
  return kIsa == Isa::kAvx512 && numeric == Numeric::kByte ? Features{Feature::kVnni} : Features{};
}

// Beside a dense step of bytes that reads half as much of A.
double sparse_tile_cost_us(int64_t rows, int64_t strip, const Panels& panels, SparseIndex index);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
