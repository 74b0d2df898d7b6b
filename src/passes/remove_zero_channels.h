// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "passes/passes.h"

namespace camshaft::passes {

int remove_zero_channels(ir::Graph& graph, Records* records);

}  // namespace camshaft::passes
