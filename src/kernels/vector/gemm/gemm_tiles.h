// SPDX-License-Identifier: Apache-2.0
// The register tiles of floats and of bytes as rows of tactic tables: X(vecs, "rows x columns").
#pragma once

#include "kernels/vector/gemm/gemm_tile.h"

#if defined(CAMSHAFT_TARGET_avx512)
#define CAMSHAFT_GEMM_TILES(X) X(1, "14x16") X(2, "14x32") X(3, "9x48") X(4, "6x64") X(8, "2x128")
#define CAMSHAFT_BYTE_TILES(X) CAMSHAFT_GEMM_TILES(X)
#elif defined(CAMSHAFT_TARGET_avx2)
#define CAMSHAFT_GEMM_TILES(X) X(1, "12x8") X(2, "6x16") X(3, "4x24") X(8, "1x64")
#define CAMSHAFT_BYTE_TILES(X) X(1, "6x8") X(2, "3x16") X(6, "1x48")
#define CAMSHAFT_SPARSE_TILES(X) X(1, "6x8") X(2, "4x16") X(3, "3x24") X(6, "1x48")
#define CAMSHAFT_WORD_TILES(X) X(1, "6x8") X(2, "6x16") X(3, "4x24")
#else
#define CAMSHAFT_GEMM_TILES(X) X(1, "4x4") X(2, "4x8")
#define CAMSHAFT_BYTE_TILES(X) CAMSHAFT_GEMM_TILES(X)
#endif
#if !defined(CAMSHAFT_SPARSE_TILES)
#define CAMSHAFT_SPARSE_TILES(X) CAMSHAFT_BYTE_TILES(X)
#endif
#if !defined(CAMSHAFT_WORD_TILES)  // AVX-512 has VNNI, nearly always
#define CAMSHAFT_WORD_TILES(X)
#endif
