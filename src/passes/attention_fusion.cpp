// SPDX-License-Identifier: Apache-2.0
// AttentionFusion: two products of floats with a softmax between them become Attention
// (attention_form.h). Sums of exponentials are added in another order: a few ulp.
#include "passes/attention_form.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

int attention_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "AttentionFusion", records);
  return fuse_attention(rewriter, Factors::kFloats);
}

}  // namespace camshaft::passes
