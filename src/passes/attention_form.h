// SPDX-License-Identifier: Apache-2.0
// softmax(epilogue(scale q · kᵀ)) · v, where nobody else reads the scores, becomes Attention, which
// does not keep them in memory:
//   s = MatrixMultiply(q, k) {transpose_b, alpha, epilogue}; w = SoftMax(s);
//   y = MatrixMultiply(w, v)
// Between them may stand a pointwise layer (masks of truth values), a reshape of the batch
// dimensions, also between product and mask, and, of floats, before the second product, and weights
// that are no numbers set to zero. Of codes, a pointwise layer rounds the weights. Of floats, q, k
// and v may lie as [depth, steps], and y as well: MatrixMultiply(v, w) {transpose_b}.
#pragma once

#include "ir/rewriter.h"
#include "passes/attention_parts.h"

namespace camshaft::passes {

int fuse_attention(ir::Rewriter& rewriter, Factors factors);

}  // namespace camshaft::passes
