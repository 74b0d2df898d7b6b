// SPDX-License-Identifier: Apache-2.0
// The instruction set that a source is compiled for (CMakeLists.txt: once for each), and the folder
// that holds what it supplies. Tests and whatever else is compiled once see the scalar one.
#pragma once

#if !defined(CAMSHAFT_TARGET)
#define CAMSHAFT_TARGET scalar
#define CAMSHAFT_TARGET_scalar 1
#endif

#define CAMSHAFT_QUOTED(text) #text
#define CAMSHAFT_QUOTED_VALUE(text) CAMSHAFT_QUOTED(text)
// #include CAMSHAFT_SIMD(bytes.h): kernels/simd/avx2/bytes.h
// Blanks would become part of the name.
// clang-format off
#define CAMSHAFT_SIMD(file) CAMSHAFT_QUOTED_VALUE(kernels/simd/CAMSHAFT_TARGET/file)
// clang-format on
