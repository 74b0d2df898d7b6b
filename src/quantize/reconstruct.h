// SPDX-License-Identifier: Apache-2.0
// What pruned weights did, given to the kept ones of their block of input channels: the least mean
// squared error of the layer's outputs on the samples, block by block and tap by tap.
#pragma once

#include <span>

#include "ir/sparsity.h"
#include "quantize/input_moments.h"

namespace camshaft::quantize {

// `pruned` holds the kept weights and zeros, `original` all; both of `axis`. Codes are rounded.
void reconstruct(ir::DataType type, std::span<const std::byte> original,
                 std::span<std::byte> pruned, const ir::ChannelAxis& axis,
                 const InputMoments& moments);

}  // namespace camshaft::quantize
