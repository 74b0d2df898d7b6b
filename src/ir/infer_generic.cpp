// SPDX-License-Identifier: Apache-2.0
// Shapes of Generic layers: ONNX operators that only have a reference kernel.
#include "ir/infer_internal.h"

namespace camshaft::ir {

Status infer_generic(Inference& f) {
  const auto& a = f.layer.as<GenericAttrs>();
  return make_error(ErrorCode::kUnsupported, "no shape rule for operator {}", a.op_type);
}

}  // namespace camshaft::ir
