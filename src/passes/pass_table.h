// SPDX-License-Identifier: Apache-2.0
// Every pass by its one name: SoftMaxFusion in the log, the engine's record and the documentation,
// softmax_fusion() in softmax_fusion.cpp. Command lines take either spelling.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "passes/passes.h"

namespace camshaft::passes {

struct Pass {
  std::string_view name;
  PassFunction run;
  std::string_view function;
  // What the log says beside the name, or instead: TensorRT names some cases of a pass.
  std::vector<std::string_view> also_logs;
  std::string_view file = function;  // a variant stands with the pass it varies
};

std::span<const Pass> all_passes();
const Pass& pass_of(PassFunction function);
// By name, whatever case and underscores; an error lists the names that come near.
Result<const Pass*> find_pass(std::string_view name);

}  // namespace camshaft::passes
