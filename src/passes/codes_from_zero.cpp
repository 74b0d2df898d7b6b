// SPDX-License-Identifier: Apache-2.0
// CodesFromZero: uint8 codes of which none is small move down, with their zero points, until the
// least is 0: after a ReLU whose zero point is 128 they are 0 to 127 then instead of 128 to 255.
// Products without VNNI are exact and fast for small codes (gemm_chains.h), and none adds anything
// for a zero point of 0. Bit exact.
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/shift_codes.h"

namespace camshaft::passes {

using namespace ir;

int codes_from_zero(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "CodesFromZero", records);
  for (const CodeGroup& group : code_groups(graph, DataType::kUInt8)) {
    if (!can_shift(graph, group)) continue;
    const int lowest = lowest_code(group);
    if (lowest == 0) continue;
    rewriter.applied(Action::kEdit, *group[0]->producer,
                     fmt::format("Moving the codes of {} by {}", group[0]->name, -lowest));
    shift_codes(rewriter, group, -lowest);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
