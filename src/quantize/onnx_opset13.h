// SPDX-License-Identifier: Apache-2.0
// Operators as opset 13 spells them, for older models: QuantizeLinear per channel begins there.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"

namespace onnx {
class ModelProto;
}

namespace camshaft::quantize {

// The axis that a Softmax of an older opset, which makes `output`, normalizes over, -1: several.
using SoftmaxAxis = std::function<int64_t(const std::string& output)>;

// Only attributes are rewritten, numbers stay the same. kUnsupported names the node that would need
// more.
Status raise_to_opset_13(onnx::ModelProto& model, const SoftmaxAxis& softmax_axis);

}  // namespace camshaft::quantize
