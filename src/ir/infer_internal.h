// SPDX-License-Identifier: Apache-2.0
// What the shape inference functions share: the inputs of one layer, its outputs, and arithmetic on
// known values.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "ir/infer.h"

namespace camshaft::ir {

// Tensors of more elements are data, not shape arithmetic: their values are not followed.
inline constexpr int64_t kMaxValues = 1024;

struct Inference {
  const Layer& layer;
  std::span<const InferInput> inputs;
  SymbolTable& symbols;
  std::vector<InferOutput>& outputs;

  bool has(size_t k) const { return k < inputs.size() && inputs[k].present; }
  const InferInput& in(size_t k) const { return inputs[k]; }
  const Shape& shape(size_t k) const { return inputs[k].shape; }
  bool ranked(size_t k) const { return has(k) && inputs[k].has_rank; }
  size_t rank(size_t k) const { return inputs[k].shape.size(); }
  InferOutput& out(size_t k = 0) { return outputs[k]; }

  // A new extent that only running can tell.
  Dim unknown() { return symbols.runtime(fmt::format("run{}", symbols.size())); }
  Shape unknown_shape(size_t rank);
  // An output of known type whose rank only running can tell.
  Status unranked(DataType type, size_t k = 0);
  Status give(DataType type, const Shape& shape, size_t k = 0);

  Status require(size_t count) const;  // the first `count` inputs are present
  bool is_number(Dim dim) const { return symbols.is_number(dim); }
  // The value of input k if it is one known number.
  std::optional<int64_t> number(size_t k) const;
  // The value of input k if it is a list of known numbers.
  std::optional<Ints> numbers(size_t k) const;
};

template <class... Args>
Status invalid(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kInvalidModel, format, std::forward<Args>(args)...);
}

std::string to_string(const Shape& shape, const SymbolTable& symbols);  // "[N,3,224,224]"
// axis in [-rank, rank) → [0, rank); -1 when out of range.
int64_t wrap_axis(int64_t axis, size_t rank);
Dim elements(std::span<const Dim> shape, SymbolTable& symbols);
std::optional<int64_t> known_elements(const Shape& shape, const SymbolTable& symbols);
std::optional<Extents> known_extents(const Shape& shape, const SymbolTable& symbols);
// The type of a layer that multiplies x by weights; `wanted` is its attribute.
Result<DataType> product_type(DataType x, DataType weights, DataType wanted);
// No known number differs.
bool compatible(Dim a, Dim b, const SymbolTable& symbols);
// Keeps what both agree on; other extents become new run-time symbols. False: ranks differ.
bool merge_shapes(const Shape& a, const Shape& b, Inference& f, Shape& merged);

// Elements of a known value picked by position: out[i…] = value[offset + Σ i_k * stride_k].
std::vector<Dim> gather_values(const std::vector<Dim>& value, std::span<const int64_t> extents,
                               std::span<const int64_t> strides, int64_t offset);
Ints dense_strides(std::span<const int64_t> extents);

// One elementwise operator on known values; empty where the result is not an integer or not
// provable.
std::optional<Dim> evaluate_symbolic(PointOp op, bool floating, Dim a, Dim b, SymbolTable& symbols);

// Output extent of one window dimension on symbols.
Dim window_output(PaddingMode mode, Dim input, int64_t kernel, int64_t stride, int64_t dilation,
                  int64_t pre, int64_t post, SymbolTable& symbols);

// infer_window.cpp
Status infer_convolution(Inference& f);
Status infer_deconvolution(Inference& f);
Status infer_pooling(Inference& f);
// infer_pointwise.cpp
Status infer_unary(Inference& f);
Status infer_elementwise(Inference& f);
Status infer_select(Inference& f);
Status infer_scale(Inference& f);
Status infer_pointwise(Inference& f);
Status infer_cast(Inference& f);
Status infer_quantize(Inference& f);
Status infer_dequantize(Inference& f);
Status infer_same(Inference& f);
// infer_matrix.cpp
Status infer_matrix_multiply(Inference& f);
Status infer_low_bits(Inference& f);
Status infer_experts(Inference& f);
Status infer_reduce(Inference& f);
Status infer_softmax(Inference& f);
Status infer_normalization(Inference& f);
Status infer_topk(Inference& f);
Status infer_arg_min_max(Inference& f);
Status infer_cumsum(Inference& f);
// infer_attention.cpp
Status infer_attention(Inference& f);
// infer_shuffle.cpp
Status infer_shuffle(Inference& f);
Status infer_slice(Inference& f);
Status infer_pad(Inference& f);
Status infer_concatenation(Inference& f);
Status infer_expand(Inference& f);
Status infer_tile(Inference& f);
Status infer_fill(Inference& f);
Status infer_shape_of(Inference& f);
Status infer_range(Inference& f);
Status infer_depth_to_space(Inference& f);
Status infer_space_to_depth(Inference& f);
// infer_gather.cpp
Status infer_gather(Inference& f);
Status infer_scatter(Inference& f);
Status infer_nonzero(Inference& f);
Status infer_resize(Inference& f);
// infer_control.cpp
Status infer_if(Inference& f);
Status infer_loop(Inference& f);
Status infer_scan(Inference& f);
Status infer_recurrence(Inference& f);
// infer_generic.cpp
Status infer_generic(Inference& f);

// infer_ranges.cpp: the closed range of the outputs' elements, from the inputs' ranges.
void infer_ranges(Layer& layer);

}  // namespace camshaft::ir
