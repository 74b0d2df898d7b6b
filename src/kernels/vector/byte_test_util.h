// SPDX-License-Identifier: Apache-2.0
// For tests of the kernels of bytes, which have several ways to multiply on one machine.
#pragma once

namespace camshaft::kernels {
namespace avx512 {
void force_word_products(bool force);
}
namespace avx2 {
void force_word_products(bool force);
}

namespace test {

// As on machines without VNNI and AVX-VNNI.
inline void force_word_products(bool force) {
  avx512::force_word_products(force);
  avx2::force_word_products(force);
}

}  // namespace test
}  // namespace camshaft::kernels
