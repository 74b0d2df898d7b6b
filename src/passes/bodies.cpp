// SPDX-License-Identifier: Apache-2.0
#include "passes/bodies.h"

namespace camshaft::passes {

using namespace ir;

BodySlots slots_of(const Layer& layer) {
  if (layer.kind == LayerKind::kIf) return {0, 0, 0, 1, 1};
  const auto& a = layer.as<LoopAttrs>();
  BodySlots s;
  s.first_in = layer.kind == LayerKind::kLoop ? 2 : 0;
  s.first_out = layer.kind == LayerKind::kLoop ? 1 : 0;
  s.carried = layer.bodies[0]->outputs().size() - s.first_out - a.scan_output_axes.size();
  s.captured = s.first_in + s.carried + static_cast<size_t>(a.num_scan_inputs);
  return s;
}

Tensor* capture(Rewriter& around, Layer* loop, Rewriter& in_body, Tensor* inside, Tensor* outside) {
  Tensor* captured = in_body.add_tensor_like(*inside, outside->name, inside->type);
  in_body.set_facts(captured, inside->facts);
  in_body.replace_uses(inside, captured);
  in_body.add_input(captured);
  around.append_input(loop, outside);
  return captured;
}

}  // namespace camshaft::passes
