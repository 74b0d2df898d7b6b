// SPDX-License-Identifier: Apache-2.0
// A product of 8-bit codes as a product of floats: the codes less their zero point and the weights
// become floats, the epilogue stays as it is. Sums are exact below 2^24, so the codes stored are
// those of the 8-bit product but for rounding ties of longer sums.
#pragma once

#include <string>
#include <vector>

#include "ir/rewriter.h"

namespace camshaft::passes {

struct FloatForm {
  std::vector<ir::Layer*> layers;  // in order; the last makes what the product makes
  ir::Refusal refusal;             // why there is none
};

// Adds the layers in front of `product`; nothing reads them yet.
FloatForm add_float_form(ir::Rewriter& rewriter, ir::Layer& product);
// They take the product's place …
void take_float_form(ir::Rewriter& rewriter, ir::Layer& product, const FloatForm& form);
// … or go again.
void drop_float_form(ir::Rewriter& rewriter, const FloatForm& form);

}  // namespace camshaft::passes
