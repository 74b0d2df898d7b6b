// SPDX-License-Identifier: Apache-2.0
// The register tiles of products as rows of tactic tables, X(vectors, "rows x columns"), and how
// many rows each has.
#pragma once

namespace camshaft::kernels::avx512 {

inline constexpr int kMaxVecs = 8;
inline constexpr int kMaxRows[kMaxVecs + 1] = {0, 14, 14, 9, 6, 5, 4, 3, 2};
inline constexpr int kMaxByteRows[kMaxVecs + 1] = {0, 14, 14, 9, 6, 5, 4, 3, 2};

inline constexpr int kMaxInt16Rows[kMaxVecs + 1] = {0, 14, 14};
// Of sparse bytes: wide tiles as high as dense ones leave the picked bytes no registers.
inline constexpr int kMaxSparseRows[kMaxVecs + 1] = {0, 14, 13, 8, 5, 4, 4, 3, 2};
// Of sparse floats: sums, and picks and weights of two products.
inline constexpr int kMaxNarrowRows[kMaxVecs + 1] = {0, 14, 14, 4, 4, 4, 4, 3, 2};
inline constexpr int kMaxPickRows[kMaxVecs + 1] = {0, 14, 13, 8, 6, 5, 4, 3, 2};
// Sums, tables of each row and a vector of codes.
inline constexpr int kMaxQuadRows[kMaxVecs + 1] = {0, 4, 4, 4, 4, 4, 4, 3, 2};

inline constexpr int kMaxFoldVecs = 3;

#define CAMSHAFT_GEMM_TILES(X) X(1, "14x16") X(2, "14x32") X(3, "9x48") X(4, "6x64") X(8, "2x128")
// Of one or two rows.
#define CAMSHAFT_WIDE_TILES(X) X(8, "2x128")
#define CAMSHAFT_BYTE_TILES(X) CAMSHAFT_GEMM_TILES(X)
#define CAMSHAFT_SPARSE_TILES(X) CAMSHAFT_BYTE_TILES(X)
#define CAMSHAFT_PICK_TILES(X) X(1, "14x16") X(2, "13x32") X(3, "8x48") X(4, "6x64") X(8, "2x128")
#define CAMSHAFT_NARROW_TILES(X) X(2, "14x32") X(8, "2x128")
// Of weights of few bits as floats.
#define CAMSHAFT_UNPACKED_TILES(X) X(2, "14x32") X(3, "9x48") X(4, "6x64")
#define CAMSHAFT_WORD_TILES(X)  // it has VNNI, nearly always
// Lanes beside 2 and 4 that a column, or inputs of a group, may take.
#define CAMSHAFT_LANE_FOLDS(X) X(8) X(16)
#define CAMSHAFT_LANE_GROUPS(X) X(8, "by8") X(16, "by16")
#define CAMSHAFT_AMX_TILES(X) X(1, "32x16") X(2, "32x32")

inline constexpr bool kChainsSteps = false;

}  // namespace camshaft::kernels::avx512
