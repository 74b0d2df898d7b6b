// SPDX-License-Identifier: Apache-2.0
// SignedToUnsigned: kernels multiply uint8 activations by int8 weights, so int8 activations become
// uint8: codes and zero points move by as much as the program that makes them gives negative codes
// (not at all after a ReLU, a little after a SiLU), at most by 128. Small codes are wanted: what
// can be multiplied without saturating depends on them. Tensors that layers only move, choose from
// or put together change as one group; where a group meets the network's own int8 tensors or a
// layer that reads integers, a product gets a converted copy. Bit exact.
#include <algorithm>

#include "passes/match.h"
#include "passes/passes.h"
#include "passes/shift_codes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

constexpr int kShift = 128;

// What must stay int8 is copied for the products that read it.
int convert_for_products(Rewriter& rewriter, const CodeGroup& group) {
  int made = 0;
  for (Tensor* tensor : group) {
    Tensor* copy = nullptr;
    const std::vector<Layer*> readers = tensor->consumers;
    for (Layer* reader : readers) {
      if (!is_product(*reader)) continue;
      for (size_t k = 0; k < 2; ++k) {
        if (reader->inputs[k] != tensor || (k == 1 && reader->kind != LayerKind::kMatrixMultiply))
          continue;
        if (!copy) {
          PointWiseAttrs attrs;
          attrs.program.num_inputs = 1;
          append(attrs.program, PointOp::kAdd, 0,
                 append(attrs.program, PointOp::kConst, -1, -1, -1, kShift));
          attrs.type = DataType::kUInt8;
          copy = rewriter.add_tensor_like(*tensor, tensor->name + " (unsigned)", DataType::kUInt8);
          rewriter.set_facts(copy, with_shifted_zero_points(tensor->facts, kShift));
          const Layer* before = *std::min_element(
              readers.begin(), readers.end(), [&](const Layer* a, const Layer* b) {
                return rewriter.graph().position(a) < rewriter.graph().position(b);
              });
          rewriter.insert_before(before, LayerKind::kPointWise, copy->name, attrs, {tensor}, {copy},
                                 {});
          ++made;
        }
        rewriter.set_input(reader, k, copy);
        shift_zero_point(rewriter, reader, k, kShift);
      }
    }
  }
  return made;
}

}  // namespace

int signed_to_unsigned(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "SignedToUnsigned", records);
  int copies = 0;
  for (const CodeGroup& group : code_groups(graph, DataType::kInt8)) {
    if (!can_shift(graph, group)) {
      copies += convert_for_products(rewriter, group);
      continue;
    }
    const int shift = std::max(0, -lowest_code(group));
    rewriter.applied(Action::kEdit, *group[0]->producer,
                     shift == 0
                         ? fmt::format("{} has no negative codes", group[0]->name)
                         : fmt::format("Moving the codes of {} by {}", group[0]->name, shift));
    shift_codes(rewriter, group, shift);
  }
  return rewriter.edits() + copies;
}

}  // namespace camshaft::passes
