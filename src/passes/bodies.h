// SPDX-License-Identifier: Apache-2.0
// What passes over layers with bodies (If, Loop, Scan) share.
#pragma once

#include "ir/rewriter.h"

namespace camshaft::passes {

// Where a layer's lists and its bodies' match.
struct BodySlots {
  size_t carried = 0;
  size_t first_in = 0, first_out = 0;  // of what is carried: inputs, and outputs of the body
  size_t captured = 0;                 // inputs of the layer from here on
  size_t unseen = 0;                   // inputs of the layer that no body gets
};
BodySlots slots_of(const ir::Layer& layer);

// What reads `inside`, of the loop's body, reads `outside`, which the loop captures, instead. The
// body's input that stands for it.
ir::Tensor* capture(ir::Rewriter& around, ir::Layer* loop, ir::Rewriter& in_body,
                    ir::Tensor* inside, ir::Tensor* outside);

}  // namespace camshaft::passes
