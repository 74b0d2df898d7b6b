// SPDX-License-Identifier: Apache-2.0
// What the Q/DQ passes share: the grid a Quantize or Dequantize layer maps to, and which layers it
// may pass.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/rewriter.h"

namespace camshaft::passes {

template <class T>
bool all_equal(const std::vector<T>& values) {
  return std::all_of(values.begin(), values.end(), [&](T v) { return v == values[0]; });
}

// Real value = scale * (code - zero_point); one element, or one per index of `axis`.
struct Grid {
  std::vector<float> scale;
  std::vector<int32_t> zero_point;  // as many as scales
  int64_t axis = 0;                 // 0 per tensor
  ir::DataType type = ir::DataType::kUndefined;

  bool per_tensor() const { return scale.size() == 1; }
  friend bool operator==(const Grid&, const Grid&) = default;
};

// Of a Quantize or Dequantize layer whose scale and zero point are constants; empty: they are not,
// are blocked, or a scale is not positive.
std::optional<Grid> grid_of(const ir::Layer& layer);
// The same of 16-bit codes, which no kernel multiplies: other passes than WideQuantizeFusion do not
// know their grids.
std::optional<Grid> wide_grid_of(const ir::Layer& layer);
// Of the layer of that kind that made `tensor`; null otherwise.
ir::Layer* dequantizer_of(const ir::Tensor* tensor);
ir::Layer* quantizer_of(const ir::Tensor* tensor);

struct CodeRange {
  int low, high;
};
CodeRange code_range(ir::DataType type);  // of an 8-bit or 16-bit type
// saturate(round_half_even(value / scale) + zero_point) in float arithmetic, as Quantize does.
int quantize_value(float value, float scale, int32_t zero_point, ir::DataType type);

// The attributes of a layer that moves_elements() (ir/kind_traits.h), for codes of one scale > 0
// instead of their floats: a constant Pad needs its value quantized.
ir::Attrs attributes_on_codes(const ir::Layer& layer, const Grid& grid);

// Whether Q/DQ motion may bring a Dequantize layer next to what reads `tensor`.
bool may_be_dequantized(const ir::Tensor* tensor);

// Whether kernels multiply codes by weights [K, C / groups, …] less a zero point that int8 does not
// take away: depthwise ones sum windows of up to 128 taps.
bool multiplies_centered_codes(const ir::ConvolutionAttrs& attrs, const ir::Extents& weights);

// Whether a window of this Pooling layer may hold no pixel, so that its mean is 0 and not the code
// of 0. An extent that only running tells is taken for one that has pixels: ONNX Runtime refuses to
// pool an image that has none.
bool may_pool_nothing(const ir::Layer& pooling);

// Every use of `tensor` is a Quantize layer of `grid`, perhaps behind layers that commute.
bool is_read_as_codes_only(const ir::Tensor* tensor, const Grid& grid);

// Every use of `tensor` is a Quantize layer of `grid`, or has one behind a slice or other layers
// that commute; slices may be read as floats besides: quantizing all of it once is no more work.
bool is_quantized_wholly(const ir::Tensor* tensor, const Grid& grid);

void set_grid_facts(ir::Rewriter& rewriter, ir::Tensor* codes, const Grid& grid);

// The codes that a new Quantize layer like `model` makes of `value`.
ir::Tensor* insert_quantizer(ir::Rewriter& rewriter, const ir::Layer* model, ir::Tensor* value,
                             const std::string& name, const ir::Layer* before);

// What a Quantize layer of one scale computes, as a program: multiply, round, shift; the store
// saturates. And a Dequantize layer: shift, multiply.
ir::Program quantize_program(const Grid& grid);
ir::Program dequantize_program(const Grid& grid);

}  // namespace camshaft::passes
