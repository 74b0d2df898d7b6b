// SPDX-License-Identifier: Apache-2.0
// QuantizedAttentionFusion: two products of 8-bit codes with a softmax and the rounding of its
// weights between them become Attention of codes (attention_form.h). Bit exact: its kernels are
// those the layers have alone, run on a block of queries at a time.
#include "passes/attention_form.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

int quantized_attention_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "QuantizedAttentionFusion", records);
  return fuse_attention(rewriter, Factors::kCodes);
}

}  // namespace camshaft::passes
