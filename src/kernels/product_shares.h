// SPDX-License-Identifier: Apache-2.0
// How the products of a layer of bytes are made, as the inspector shows it.
#pragma once

#include <cstdint>
#include <string>

namespace camshaft::kernels {

// Steps of K times columns, by the way they are multiplied.
struct ProductShares {
  int64_t chain4 = 0, chain2 = 0, single = 0;  // vpmaddubsw, sums of 4, 2, 1 in 16 bits
  int64_t words = 0;                           // 16-bit products
  int64_t vnni = 0;

  // "int8 chain4 61 %, chain2 30 %, single 7 %, s16 2 %": shares of less than half a percent are
  // left out.
  std::string text() const;
};

}  // namespace camshaft::kernels
