// SPDX-License-Identifier: Apache-2.0
// Shape inference: one function per layer kind, used on symbols while building and on numbers while
// running.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace camshaft::ir {

struct InferInput {
  bool present = false;
  DataType type = DataType::kUndefined;
  bool has_rank = true;
  Shape shape;
  std::optional<std::vector<Dim>> value;  // elements of small integer tensors, if known
  // Row-major elements of a float constant (Resize scales, Range) or of a double one, if known.
  const float* float_value = nullptr;
  const double* double_value = nullptr;
};

struct InferOutput {
  DataType type = DataType::kUndefined;
  bool has_rank = true;
  Shape shape;
  std::optional<std::vector<Dim>> value;
};

// Output types and shapes of a layer. Extents that only running can tell become new runtime symbols
// (at run time, with every value present, none are left but those the kernel itself decides:
// NonZero, Loop …).
Result<std::vector<InferOutput>> infer(const Layer& layer, std::span<const InferInput> inputs,
                                       SymbolTable& symbols);

// Runs infer() on the layer's tensors and stores the result in its outputs; propagates value
// ranges.
Status infer_layer(Graph& graph, Layer& layer);

// Padding and output extent of one window dimension, all modes; shared by inference and kernels.
struct Window {
  int64_t pre_padding, post_padding, output;
};
Window resolve_window(PaddingMode mode, int64_t input, int64_t kernel, int64_t stride,
                      int64_t dilation, int64_t pre, int64_t post);

// ONNX's Reshape rules on symbols: 0 copies the extent unless allow_zero, one -1 is what remains.
Result<Shape> resolve_reshape(const Shape& input, std::span<const Dim> requested, bool allow_zero,
                              SymbolTable& symbols);

// ONNX's Slice rules for one dimension: negative positions count from the end, everything is
// clamped. Empty where a symbol's sign decides and is not known.
struct SliceRange {
  Dim start, size;
};
std::optional<SliceRange> resolve_slice(Dim extent, Dim start, Dim end, int64_t step,
                                        SymbolTable& symbols);

// numpy broadcasting of two shapes.
Result<Shape> broadcast_shapes(const Shape& a, const Shape& b, SymbolTable& symbols);

// Whether infer() knows a Generic operator of that name.
bool has_shape_rule(std::string_view generic_op_type);

// What infer() is told about a tensor.
InferInput infer_input(const Tensor* tensor, SymbolTable& symbols);

}  // namespace camshaft::ir
