// SPDX-License-Identifier: Apache-2.0
#include "passes/generic_split.h"

namespace camshaft::passes {

using namespace ir;

int split_generic(Graph& graph, Records* records, const char* pass, std::string_view op_type,
                  Refusal (*refusal)(const Layer&), void (*split)(Rewriter&, Layer*)) {
  Rewriter rewriter(graph, pass, records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    const auto* attrs = std::get_if<GenericAttrs>(&layer->attrs);
    if (attrs == nullptr || attrs->op_type != op_type) continue;
    rewriter.running(*layer);
    if (Refusal reason = refusal(*layer))
      rewriter.declined(*layer, std::move(reason).behind("stays whole: "));
    else
      split(rewriter, layer);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
