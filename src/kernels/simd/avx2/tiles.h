// SPDX-License-Identifier: Apache-2.0
// The register tiles of products as rows of tactic tables, X(vectors, "rows x columns"), and how
// many rows each has.
#pragma once

namespace camshaft::kernels::avx2 {

inline constexpr int kMaxVecs = 8;
inline constexpr int kMaxRows[kMaxVecs + 1] = {0, 12, 6, 4, 2, 2, 2, 1, 1};
// Of bytes, sums in 16 bits take as many registers as accumulators; but not with AVX-VNNI.
inline constexpr int kMaxByteRows[kMaxVecs + 1] = {0, 6, 3, 2, 1, 1, 1, 0, 0};
inline constexpr int kMaxVnniRows[kMaxVecs + 1] = {0, 6, 6, 4, 2, 2, 1, 0, 0};
inline constexpr int kMaxWordRows[kMaxVecs + 1] = {0, 6, 6, 4, 0, 0, 0, 0, 0};

inline constexpr int kMaxInt16Rows[kMaxVecs + 1] = {0, 12, 6};
// Of sparse bytes: with AVX-VNNI, and in chains, whose sums of 16 bits are of one vector of columns
// at a time.
inline constexpr int kMaxSparseRows[kMaxVecs + 1] = {0, 12, 5, 4, 3, 2, 2, 0, 0};
inline constexpr int kMaxSparseChainRows[kMaxVecs + 1] = {0, 6, 4, 3, 1, 1, 1, 0, 0};
// Of sparse floats: sums, picks and weights of two products.
inline constexpr int kMaxNarrowRows[kMaxVecs + 1] = {0, 12, 6, 4, 2, 2, 2};
inline constexpr int kMaxPickRows[kMaxVecs + 1] = {0, 10, 5, 3, 2, 2, 1, 1, 1};
// Sums, tables of each row and a vector of codes.
inline constexpr int kMaxQuadRows[kMaxVecs + 1] = {0, 3, 3, 2, 2, 1, 1, 1, 1};

inline constexpr int kMaxFoldVecs = 3;

#define CAMSHAFT_GEMM_TILES(X) X(1, "12x8") X(2, "6x16") X(3, "4x24") X(6, "2x48") X(8, "1x64")
// Of one or two rows.
#define CAMSHAFT_WIDE_TILES(X) X(6, "2x48") X(8, "1x64")
#define CAMSHAFT_BYTE_TILES(X) X(1, "6x8") X(2, "3x16") X(6, "1x48")
#define CAMSHAFT_SPARSE_TILES(X) X(1, "6x8") X(2, "4x16") X(3, "3x24") X(6, "1x48")
#define CAMSHAFT_PICK_TILES(X) X(1, "10x8") X(2, "5x16") X(3, "3x24") X(8, "1x64")
#define CAMSHAFT_NARROW_TILES(X) X(2, "6x16") X(6, "2x48")
// Of weights of few bits as floats.
#define CAMSHAFT_UNPACKED_TILES(X) X(2, "6x16") X(3, "4x24")
#define CAMSHAFT_WORD_TILES(X) X(1, "6x8") X(2, "6x16") X(3, "4x24")
// Lanes beside 2 and 4 that a column, or inputs of a group, may take.
#define CAMSHAFT_LANE_FOLDS(X) X(8)
#define CAMSHAFT_LANE_GROUPS(X) X(8, "by8")
#define CAMSHAFT_AMX_TILES(X)

inline constexpr bool kChainsSteps = true;

}  // namespace camshaft::kernels::avx2
