// SPDX-License-Identifier: Apache-2.0
// Quantized operators as Q/DQ around float layers: what the families share.
#pragma once

#include <string_view>

#include "onnx/node.h"

namespace camshaft::onnx_import {

// scale * (x - zero_point); `axis` counts where the scale is a vector. zero_point may be null.
Result<Tensor*> dequantize(Node& node, std::string_view step, Tensor* x, Tensor* scale,
                           Tensor* zero_point, int64_t axis);
// The node's output 0 is `y` quantized.
Status quantize_output(Node& node, Tensor* y, Tensor* scale, Tensor* zero_point);
// An int32 bias in units of scale_a * scale_b * factor.
Result<Tensor*> dequantize_bias(Node& node, Tensor* bias, Tensor* scale_a, Tensor* scale_b,
                                float factor = 1);

// A product of codes with constant weights of rank 2, as floats; zero points and bias may be null.
struct CodeProduct {
  Tensor *a, *b, *a_scale, *b_scale, *a_zero, *b_zero, *bias;
};
Result<Tensor*> code_product(Node& node, const CodeProduct& p);

// Channels from the last dimension to dimension 1, and back.
Result<Tensor*> channels_first(Node& node, Tensor* x);
Result<Tensor*> channels_last(Node& node, Tensor* x);

}  // namespace camshaft::onnx_import
