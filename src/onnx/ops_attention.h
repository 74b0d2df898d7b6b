// SPDX-License-Identifier: Apache-2.0
// What the importers of attention operators share.
#pragma once

#include "onnx/node.h"

namespace camshaft::onnx_import {

// [B, T, H*D] → [B, T, H, D]
Result<Tensor*> split_heads(Node& node, Tensor* x, int64_t heads);
// [B, T, H*D] → [B, H, T, D]; a tensor of rank 4 stays as it is.
Result<Tensor*> by_heads(Node& node, Tensor* x, int64_t heads);

Status import_tensor_scatter(Node& node);
Status import_decoder_attention(Node& node);

std::span<const OperatorRow> microsoft_attention_operators();
std::span<const OperatorRow> microsoft_recurrence_operators();

}  // namespace camshaft::onnx_import
