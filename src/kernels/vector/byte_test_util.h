// SPDX-License-Identifier: Apache-2.0
// For tests of the kernels of bytes, which have several ways to multiply on one machine.
#pragma once

#include "base/cpu.h"

namespace camshaft::kernels::test {

// As on machines without VNNI and AVX-VNNI.
inline void force_word_products(bool force) {
  hold_back(force ? Features{Feature::kVnni} : Features{});
}

}  // namespace camshaft::kernels::test
