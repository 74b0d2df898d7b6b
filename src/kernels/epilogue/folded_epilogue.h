// SPDX-License-Identifier: Apache-2.0
// Epilogues of quantized convolutions that are affine per channel (scales, clamps, requantization),
// folded into a multiplier and an addend of each channel while packing.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/epilogue/epilogue.h"
#include "kernels/kernel.h"

namespace camshaft::kernels {

// y = round(clamp(v, low, high)) + after (float outputs: without rounding), where
// v = sum * multiplier + addend; gated ones: v * clamp(gate(v)) * scale + shift of that. With a
// table, y is its index. Kernels put all that in front of their packed weights. Not folded:
// multiplier 1, addend 0, and the program is to be run on what that gives.
struct FoldedHeader {
  int32_t is_folded = 0;
  float low = 0, high = 0;
  int32_t after = 0;
  int32_t is_gated = 0;
  float scale = 1, shift = 0;
  Gate gate = {};
  int32_t has_table = 0;
};
struct FoldedEpilogue {
  FoldedHeader header;
  std::vector<float> multipliers, addends;  // per channel
  std::vector<uint8_t> table;               // of 256 codes, or none
};
// What stands in front of packed weights: the header, then room for a table.
size_t folded_bytes();
void store_folded(const FoldedEpilogue& folded, std::byte* packed);

enum class Bias : uint8_t { kInSum, kInAddend };

// Of a quantized Convolution with constant weights and bias.
void fold_epilogue(const Problem& problem, Bias bias, FoldedEpilogue& folded);
bool is_epilogue_folded(const Problem& problem);
// Why neither folding nor running the program will do; for addends: biases that are no exact
// floats.
std::string refuse_quantized_epilogue(const Problem& problem, Bias bias);
// Weights and bias.
uint32_t quantized_packed_inputs(const Problem& problem);

}  // namespace camshaft::kernels
