// SPDX-License-Identifier: Apache-2.0
// The register tiles of products as rows of tactic tables, X(vectors, "rows x columns"), and how
// many rows each has.
// Few and small: for machines without AVX2 and for checking.
#pragma once

namespace camshaft::kernels::scalar {

inline constexpr int kMaxVecs = 2;
inline constexpr int kMaxRows[kMaxVecs + 1] = {0, 4, 4};
inline constexpr int kMaxByteRows[kMaxVecs + 1] = {0, 4, 4};

inline constexpr int kMaxInt16Rows[kMaxVecs + 1] = {0, 4, 4};
inline constexpr int kMaxSparseRows[kMaxVecs + 1] = {0, 4, 4};
inline constexpr int kMaxPickRows[kMaxVecs + 1] = {0, 4, 4};
inline constexpr int kMaxNarrowRows[kMaxVecs + 1] = {0, 4, 4};
inline constexpr int kMaxQuadRows[kMaxVecs + 1] = {0, 2, 2};

inline constexpr int kMaxFoldVecs = 2;

#define CAMSHAFT_GEMM_TILES(X) X(1, "4x4") X(2, "4x8")
// Of one or two rows.
#define CAMSHAFT_WIDE_TILES(X)
#define CAMSHAFT_BYTE_TILES(X) CAMSHAFT_GEMM_TILES(X)
#define CAMSHAFT_SPARSE_TILES(X) CAMSHAFT_BYTE_TILES(X)
#define CAMSHAFT_PICK_TILES(X) CAMSHAFT_GEMM_TILES(X)
#define CAMSHAFT_NARROW_TILES(X) X(2, "4x8")
// Of weights of few bits as floats.
#define CAMSHAFT_UNPACKED_TILES(X) X(2, "4x8")
#define CAMSHAFT_WORD_TILES(X)
// Lanes beside 2 and 4 that a column, or inputs of a group, may take.
#define CAMSHAFT_LANE_FOLDS(X)
#define CAMSHAFT_LANE_GROUPS(X)
#define CAMSHAFT_AMX_TILES(X)

inline constexpr bool kChainsSteps = false;

}  // namespace camshaft::kernels::scalar
