// SPDX-License-Identifier: Apache-2.0
// What the passes share that split one Generic operator into layers with kernels.
#pragma once

#include "passes/passes.h"

namespace camshaft::passes {

// Of all layers that are `op_type`: split(rewriter, layer), or why refusal() declines.
int split_generic(ir::Graph& graph, Records* records, const char* pass, std::string_view op_type,
                  ir::Refusal (*refusal)(const ir::Layer&),
                  void (*split)(ir::Rewriter&, ir::Layer*));

}  // namespace camshaft::passes
