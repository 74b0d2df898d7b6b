// SPDX-License-Identifier: Apache-2.0
// The typed attributes of every layer kind. Each struct lists its fields once, in fields():
// printing, parsing, comparing, hashing, storing and inspecting all walk that list.
// One file: the variant at its end needs them all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ir/program.h"
#include "ir/types.h"

namespace camshaft::ir {

// A visitor gets (name, field) with field one of: bool, int64_t, float, std::string, Ints,
// std::vector<float>, std::vector<std::string>, Shape, Program, DataType, or an enum below (all
// enums have enum_name()/parse_enum()).
#define CAMSHAFT_FIELDS(...)                                             \
  template <class Self, class V>                                         \
  static void fields([[maybe_unused]] Self& s, [[maybe_unused]] V&& v) { \
    __VA_ARGS__                                                          \
  }
#define CAMSHAFT_FIELD(name) v(#name, s.name);

enum class PaddingMode : uint8_t {
  kExplicit,
  kExplicitRoundUp,
  kSameUpper,
  kSameLower
};  // RoundUp: ceil_mode of pooling
enum class PoolingType : uint8_t { kMax, kAverage, kLp };
enum class ReduceOp : uint8_t {
  kSum,
  kMean,
  kMax,
  kMin,
  kProd,
  kL1,
  kL2,
  kLogSum,
  kLogSumExp,
  kSumSquare
};
enum class NormKind : uint8_t { kLayer, kRms, kInstance, kGroup };
enum class GatherMode : uint8_t { kDefault, kElements, kNd };
enum class ScatterMode : uint8_t { kElements, kNd };
enum class ScatterReduction : uint8_t { kNone, kAdd, kMul, kMin, kMax };
enum class PadMode : uint8_t { kConstant, kReflect, kEdge, kWrap };
enum class ResizeMode : uint8_t { kNearest, kLinear, kCubic };
enum class CoordinateTransform : uint8_t {
  kHalfPixel,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric,
  kHalfPixelSymmetric,
  kTfCropAndResize
};
enum class NearestRounding : uint8_t { kRoundPreferFloor, kRoundPreferCeil, kFloor, kCeil };
enum class RnnKind : uint8_t { kRnn, kGru, kLstm };
enum class RnnDirection : uint8_t { kForward, kReverse, kBidirectional };

struct NoAttrs {
  CAMSHAFT_FIELDS()
};

// Convolution: inputs x [N,C,spatial…], w [K,C/groups,kernel…], bias [K] or absent, then one input
// per epilogue input ≥ 1. Deconvolution: the same, w [C,K/groups,kernel…]. Epilogue: value 0 is the
// accumulator with bias; empty: none. Extra inputs have the output's shape or broadcast to it.
// Quantized: x 8-bit, w 8-bit, of Deconvolution int8; bias int32 or absent; the accumulator Σ (x -
// zero_point) * (w - w_zero_point) + bias is exact in int32, padding adds nothing. Value 0 is it as
// a float; the epilogue scales it.
struct ConvolutionAttrs {
  Ints kernel, stride, dilation, pre_padding, post_padding;  // one number per spatial dimension
  PaddingMode padding_mode = PaddingMode::kExplicit;
  int64_t groups = 1;
  Ints output_padding, output_shape;     // Deconvolution only; output_shape empty: computed
  int64_t zero_point = 0;                // of a quantized x
  int64_t w_zero_point = 0;              // of a quantized w; Convolution only
  int64_t x_maximum = 255;               // no code of a uint8 x is larger
  DataType type = DataType::kUndefined;  // of y; kUndefined: float where x is quantized, else x's
  Program epilogue;
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(kernel) CAMSHAFT_FIELD(stride) CAMSHAFT_FIELD(dilation)
                      CAMSHAFT_FIELD(pre_padding) CAMSHAFT_FIELD(post_padding)
                          CAMSHAFT_FIELD(padding_mode) CAMSHAFT_FIELD(groups)
                              CAMSHAFT_FIELD(output_padding) CAMSHAFT_FIELD(output_shape)
                                  CAMSHAFT_FIELD(zero_point) CAMSHAFT_FIELD(w_zero_point)
                                      CAMSHAFT_FIELD(x_maximum) CAMSHAFT_FIELD(type)
                                          CAMSHAFT_FIELD(epilogue))
};

// y = epilogue(alpha * op(a) · op(b) + bias): numpy matmul broadcasting over leading dimensions;
// transposes swap the last two. Inputs a, b, bias (absent or broadcastable to y; beta is folded
// into it), then the epilogue's. Quantized: a and b 8-bit, bias int32 or absent, alpha 1; the
// accumulator Σ (a - a_zero_point) * (b - b_zero_point) + bias is exact in int32.
struct MatrixMultiplyAttrs {
  bool transpose_a = false, transpose_b = false;
  float alpha = 1;
  int64_t a_zero_point = 0, b_zero_point = 0;  // of quantized factors
  int64_t a_maximum = 255;                     // no code of a uint8 a is larger
  DataType type = DataType::kUndefined;        // of y, as Convolution's
  Program epilogue;
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(transpose_a) CAMSHAFT_FIELD(transpose_b) CAMSHAFT_FIELD(alpha)
                      CAMSHAFT_FIELD(a_zero_point) CAMSHAFT_FIELD(b_zero_point)
                          CAMSHAFT_FIELD(a_maximum) CAMSHAFT_FIELD(type) CAMSHAFT_FIELD(epilogue))
};

// LowBitMultiply: y = epilogue(a · wᵀ + bias) with weights w [columns, depth] of few bits that stay
// packed. Inputs are float rows a [..., depth], the weights' records (uint8 constant,
// weight_records.h), a bias (absent or broadcastable to y), then the epilogue's.
struct LowBitMultiplyAttrs {
  int64_t columns = 0, depth = 0;
  int64_t bits = 4;                      // 2, 4, 8
  int64_t block = 32;                    // neighbours along the depth with one scale and zero point
  DataType zero = DataType::kUndefined;  // zero points: uint8, float, or all 2^(bits - 1)
  bool codes_rows = false;  // rows may be quantized to int8, block by block (accuracy_level 4)
  Program epilogue;
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(columns) CAMSHAFT_FIELD(depth) CAMSHAFT_FIELD(bits)
                      CAMSHAFT_FIELD(block) CAMSHAFT_FIELD(zero) CAMSHAFT_FIELD(codes_rows)
                          CAMSHAFT_FIELD(epilogue))
};

// Experts: every row goes through the experts chosen for it; y = Σ share · (down · h + down bias)
// with h = activation(up · x + up bias), weights being those of each expert. Inputs are float rows
// x
// [..., width], the chosen experts (int64 [..., k]) and their shares [..., k], the weights of the
// first product, of the second, and the biases [experts, columns] of both, which may be absent.
// Value 0 of `activation` is the first `hidden` columns of the first product; where it has a value
// 1, the columns behind them are that (the gate of SwiGLU and what it gates). No program: h is what
// the product gives. Weights are floats [experts, columns, depth] or, of few bits, records as those
// of LowBitMultiply: [experts, columns, blocks, record].
struct ExpertsAttrs {
  int64_t experts = 0, width = 0, hidden = 0;
  int64_t up_bits = 0, down_bits = 0;    // 0: floats
  int64_t up_block = 0, down_block = 0;  // and zero points, as LowBitMultiply has them
  DataType up_zero = DataType::kUndefined, down_zero = DataType::kUndefined;
  bool codes_rows = false;  // rows may be quantized to int8, block by block (accuracy_level 4)
  Program activation;
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(experts) CAMSHAFT_FIELD(width) CAMSHAFT_FIELD(hidden)
                      CAMSHAFT_FIELD(up_bits) CAMSHAFT_FIELD(down_bits) CAMSHAFT_FIELD(up_block)
                          CAMSHAFT_FIELD(down_block) CAMSHAFT_FIELD(up_zero)
                              CAMSHAFT_FIELD(down_zero) CAMSHAFT_FIELD(codes_rows)
                                  CAMSHAFT_FIELD(activation))
};

// Inputs x, then the epilogue's. Output y, and for max pooling optionally the flat indices (int64).
// The maximum of an 8-bit x keeps its type; the average is the mean of the codes, as float.
struct PoolingAttrs {
  PoolingType type = PoolingType::kMax;
  bool global = false;  // the window is the whole map; the rest is ignored
  Ints kernel, stride, dilation, pre_padding, post_padding;
  PaddingMode padding_mode = PaddingMode::kExplicit;
  bool count_includes_padding = false;
  int64_t p = 2;  // of kLp
  bool column_major_indices = false;
  Program epilogue;  // as Convolution's, of y; extra inputs follow at index 1
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(type) CAMSHAFT_FIELD(global) CAMSHAFT_FIELD(kernel)
                      CAMSHAFT_FIELD(stride) CAMSHAFT_FIELD(dilation) CAMSHAFT_FIELD(pre_padding)
                          CAMSHAFT_FIELD(post_padding) CAMSHAFT_FIELD(padding_mode)
                              CAMSHAFT_FIELD(count_includes_padding) CAMSHAFT_FIELD(p)
                                  CAMSHAFT_FIELD(column_major_indices) CAMSHAFT_FIELD(epilogue))
};

// Activation (one input), Unary (one), ElementWise (two), Select (three: kSelect): one elementwise
// operator with numpy broadcasting.
struct PointOpAttrs {
  PointOp op = PointOp::kIdentity;
  float x = 0, y = 0;
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(op) CAMSHAFT_FIELD(x) CAMSHAFT_FIELD(y))
};

// Scale: y = x * scale[c] + shift[c] along `axis`; inputs x, scale, shift (constants of one element
// per channel).
struct ScaleAttrs {
  int64_t axis = 1;
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(axis))
};

// PointWise: inputs broadcast to the output; float arithmetic, float, bool or 8-bit inputs (their
// codes). An 8-bit output is the result rounded half to even and saturated.
struct PointWiseAttrs {
  Program program;
  DataType type = DataType::kUndefined;  // of y; kUndefined: float, bool where the program gives it
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(program) CAMSHAFT_FIELD(type))
};

// Shuffle: transpose by first_transpose, reshape, transpose by second_transpose. Empty: that step
// is not there. `reshape` holds the final extents (symbols allowed). With a second input (int64
// vector) the reshape comes from it at run time (ONNX rules: 0 copies unless allow_zero, one -1 is
// inferred).
struct ShuffleAttrs {
  Ints first_transpose;
  bool has_reshape = false;
  Shape reshape;
  Ints second_transpose;
  bool allow_zero = false;
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(first_transpose) CAMSHAFT_FIELD(has_reshape)
                      CAMSHAFT_FIELD(reshape) CAMSHAFT_FIELD(second_transpose)
                          CAMSHAFT_FIELD(allow_zero))
};

// Slice: one start, size and step per dimension of x (full rank): y[i] = x[start + i*step]. Sizes
// are output extents. With inputs starts, ends, axes, steps (ONNX order; attributes empty) it is
// evaluated at run time.
struct SliceAttrs {
  Shape start, size;  // symbols allowed
  Ints step;          // may be negative
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(start) CAMSHAFT_FIELD(size) CAMSHAFT_FIELD(step))
};

// Pad: amounts per dimension (may be negative: crops); inputs x, and if the attributes are empty:
// pads, value, axes at run time.
struct PadAttrs {
  PadMode mode = PadMode::kConstant;
  Ints pre, post;
  float value = 0;
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(mode) CAMSHAFT_FIELD(pre) CAMSHAFT_FIELD(post)
                      CAMSHAFT_FIELD(value))
};

struct AxisAttrs {   // Concatenation, CumSum's flags live in CumSumAttrs
  int64_t axis = 0;  // ≥ 0
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(axis))
};

// Reduce: axes ≥ 0, sorted; empty axes with a second input: from it at run time, where an empty
// list means all axes, or none if empty_is_none.
struct ReduceAttrs {
  ReduceOp op = ReduceOp::kSum;
  Ints axes;
  bool keep_dims = true;
  bool empty_is_none = false;
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(op) CAMSHAFT_FIELD(axes) CAMSHAFT_FIELD(keep_dims)
                      CAMSHAFT_FIELD(empty_is_none))
};

struct SoftMaxAttrs {
  int64_t axis = 0;  // ≥ 0
  int64_t last_axis =
      0;  // normalizes over [axis, last_axis] (opset < 13 flattens: last_axis = rank-1)
  bool log = false;
  bool hard = false;  // Hardmax
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(axis) CAMSHAFT_FIELD(last_axis) CAMSHAFT_FIELD(log)
                      CAMSHAFT_FIELD(hard))
};

// Attention: y = softmax(epilogue(scale * q · kᵀ)) · v per head, without the scores in memory.
// Inputs q, k, v, lengths (integers, one per item of the batch; or absent), then the epilogue's,
// which broadcast to the scores [batch, heads, queries, keys]; value 0 of the epilogue is a score.
// Heads are dimension 1 of rank 4, 0 of rank 3; with *_steps_first a tensor is [batch, steps,
// heads, depth] or [batch, steps, heads * depth] (of heads, kv_heads; y always so). heads /
// kv_heads neighbouring heads of q read the same one of k and v. A key is hidden (its weight is 0)
// from lengths[b] on, and where it is more than `left_window` before or `right_window` behind the
// query's position (below 0: no window; causal is a right window of 0). Query i has position
// first_query + i, where that is not given lengths[b] - queries + i, else i.
// Of codes (`weights` is a type): q, k and v are of 8 bits and have zero points, a score begins as
// the sum of products of codes, `weight_codes` makes a code of a weight between 0 and 1, and
// `result` the result of the sum of codes times values. There are no lengths and no windows then.
struct AttentionAttrs {
  float scale = 1;
  int64_t heads = 0, kv_heads = 0;  // of tensors that do not have a dimension of heads
  bool q_steps_first = false, k_steps_first = false, v_steps_first = false, y_steps_first = false;
  int64_t left_window = -1, right_window = -1;
  Shape first_query;         // one extent, or none
  bool nan_is_zero = false;  // a query whose weights are no numbers (all keys are hidden) gives 0
  Program epilogue;
  DataType weights = DataType::kUndefined;  // their codes' type; kUndefined: all is float
  int64_t q_zero_point = 0, k_zero_point = 0, v_zero_point = 0, weights_zero_point = 0;
  Program weight_codes, result;          // of value 0 alone
  DataType type = DataType::kUndefined;  // of y where q is of codes; kUndefined: float
  CAMSHAFT_FIELDS(
      CAMSHAFT_FIELD(scale) CAMSHAFT_FIELD(heads) CAMSHAFT_FIELD(kv_heads)
          CAMSHAFT_FIELD(q_steps_first) CAMSHAFT_FIELD(k_steps_first) CAMSHAFT_FIELD(v_steps_first)
              CAMSHAFT_FIELD(y_steps_first) CAMSHAFT_FIELD(left_window) CAMSHAFT_FIELD(right_window)
                  CAMSHAFT_FIELD(first_query) CAMSHAFT_FIELD(nan_is_zero) CAMSHAFT_FIELD(epilogue)
                      CAMSHAFT_FIELD(weights) CAMSHAFT_FIELD(q_zero_point)
                          CAMSHAFT_FIELD(k_zero_point) CAMSHAFT_FIELD(v_zero_point)
                              CAMSHAFT_FIELD(weights_zero_point) CAMSHAFT_FIELD(weight_codes)
                                  CAMSHAFT_FIELD(result) CAMSHAFT_FIELD(type))

  bool of_codes() const { return weights != DataType::kUndefined; }
};

// Normalization: inputs x, scale (or absent), bias (or absent). kLayer/kRms normalize over axes
// [axis, rank); kInstance over the spatial dimensions per channel; kGroup over the channels of a
// group and space (scale, bias per channel).
struct NormalizationAttrs {
  NormKind kind = NormKind::kLayer;
  int64_t axis = 0;
  float epsilon = 1e-5f;
  int64_t groups = 1;
  Program epilogue;  // as Convolution's; extra inputs follow at index 3
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(kind) CAMSHAFT_FIELD(axis) CAMSHAFT_FIELD(epsilon)
                      CAMSHAFT_FIELD(groups) CAMSHAFT_FIELD(epilogue))
};

struct GatherAttrs {  // inputs data, indices
  GatherMode mode = GatherMode::kDefault;
  int64_t axis = 0;
  int64_t batch_dims = 0;  // of kNd
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(mode) CAMSHAFT_FIELD(axis) CAMSHAFT_FIELD(batch_dims))
};

struct ScatterAttrs {  // inputs data, indices, updates
  ScatterMode mode = ScatterMode::kElements;
  int64_t axis = 0;
  ScatterReduction reduction = ScatterReduction::kNone;
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(mode) CAMSHAFT_FIELD(axis) CAMSHAFT_FIELD(reduction))
};

// Resize: one scale and output extent per dimension of x. Scales are those the model states, or
// out/in where it states sizes. Inputs x; with the attributes `scales` and `sizes` both empty: roi,
// scales, sizes at run time (ONNX positions).
struct ResizeAttrs {
  ResizeMode mode = ResizeMode::kNearest;
  CoordinateTransform transform = CoordinateTransform::kHalfPixel;
  NearestRounding rounding = NearestRounding::kRoundPreferFloor;
  std::vector<float> scales;  // empty: out/in of `sizes`
  Shape sizes;                // output extents, always set when static
  std::vector<float> roi;     // kTfCropAndResize
  float cubic_coefficient = -0.75f;
  bool exclude_outside = false, antialias = false;
  float extrapolation_value = 0;
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(mode) CAMSHAFT_FIELD(transform) CAMSHAFT_FIELD(rounding)
                      CAMSHAFT_FIELD(scales) CAMSHAFT_FIELD(sizes) CAMSHAFT_FIELD(roi)
                          CAMSHAFT_FIELD(cubic_coefficient) CAMSHAFT_FIELD(exclude_outside)
                              CAMSHAFT_FIELD(antialias) CAMSHAFT_FIELD(extrapolation_value))
};

struct CastAttrs {
  DataType to = DataType::kFloat;
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(to))
};

// Expand: broadcasts x to `shape` (final extents); with a second input and empty shape: at run
// time. Tile: repeats in `shape`. Fill (ConstantOfShape): no x; input 0 is the shape vector if
// `shape` is not static.
struct ShapeAttrs {
  bool is_static = true;
  Shape shape;
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(is_static) CAMSHAFT_FIELD(shape))
};

struct FillAttrs {
  DataType type = DataType::kFloat;
  double value = 0;
  bool is_static = true;
  Shape shape;
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(type) CAMSHAFT_FIELD(value) CAMSHAFT_FIELD(is_static)
                      CAMSHAFT_FIELD(shape))
};

// ShapeOf: the extents [first, last) of x as int64; kToTheEnd for an x of unknown rank.
struct ShapeOfAttrs {
  static constexpr int64_t kToTheEnd = 1000;
  int64_t first = 0, last = 0;
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(first) CAMSHAFT_FIELD(last))
};

struct TopKAttrs {  // inputs x, k; outputs values, indices. ArgMinMax: axis, keep_dims, largest,
                    // select_last_index
  int64_t axis = 0;
  bool largest = true, sorted = true, keep_dims = true, select_last_index = false;
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(axis) CAMSHAFT_FIELD(largest) CAMSHAFT_FIELD(sorted)
                      CAMSHAFT_FIELD(keep_dims) CAMSHAFT_FIELD(select_last_index))
};

struct CumSumAttrs {  // inputs x, axis
  bool exclusive = false, reverse = false;
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(exclusive) CAMSHAFT_FIELD(reverse))
};

// Recurrence (RNN, GRU, LSTM): ONNX inputs and outputs, in ONNX order (X, W, R, B, sequence_lens,
// initial_h, initial_c, P; of weights as codes, scales and zero points: ir/infer_control.cpp).
struct RnnAttrs {
  RnnKind kind = RnnKind::kLstm;
  RnnDirection direction = RnnDirection::kForward;
  int64_t hidden_size = 0;
  bool batch_first = false;              // ONNX layout = 1
  bool linear_before_reset = false;      // GRU
  bool input_forget = false;             // LSTM
  float clip = 0;                        // 0: none
  std::vector<std::string> activations;  // empty: defaults
  std::vector<float> activation_alpha, activation_beta;
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(kind) CAMSHAFT_FIELD(direction) CAMSHAFT_FIELD(hidden_size)
                      CAMSHAFT_FIELD(batch_first) CAMSHAFT_FIELD(linear_before_reset)
                          CAMSHAFT_FIELD(input_forget) CAMSHAFT_FIELD(clip)
                              CAMSHAFT_FIELD(activations) CAMSHAFT_FIELD(activation_alpha)
                                  CAMSHAFT_FIELD(activation_beta))
};

// Quantize: inputs x, scale, zero_point (or absent); Dequantize the same. axis: of the scale
// vector; block_size 0: not blocked.
struct QuantizeAttrs {
  int64_t axis = 1;
  int64_t block_size = 0;
  DataType type = DataType::kInt8;  // of the quantized side
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(axis) CAMSHAFT_FIELD(block_size) CAMSHAFT_FIELD(type))
};

struct DepthSpaceAttrs {  // DepthToSpace, SpaceToDepth
  int64_t block = 1;
  bool column_row_depth = false;  // mode CRD (DepthToSpace)
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(block) CAMSHAFT_FIELD(column_row_depth))
};

struct LoopAttrs {  // Loop, Scan: ONNX's conventions; If has none
  int64_t num_scan_inputs = 0;
  Ints scan_input_axes, scan_input_directions, scan_output_axes, scan_output_directions;
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(num_scan_inputs) CAMSHAFT_FIELD(scan_input_axes)
                      CAMSHAFT_FIELD(scan_input_directions) CAMSHAFT_FIELD(scan_output_axes)
                          CAMSHAFT_FIELD(scan_output_directions))
};

// Generic: an ONNX operator that only has a reference kernel, with its attributes as the model
// gives them.
struct GenericAttribute {
  std::string name;
  Ints ints;
  std::vector<float> floats;
  std::string text;
  friend bool operator==(const GenericAttribute&, const GenericAttribute&) = default;
};
struct GenericAttrs {
  std::string op_type;
  int64_t opset = 0;
  std::vector<GenericAttribute> attributes;
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(op_type) CAMSHAFT_FIELD(opset) CAMSHAFT_FIELD(attributes))
};

// X(kind, name in text form and inspector, attributes). The variant below lists each attribute
// struct once.
#define CAMSHAFT_LAYER_KINDS(X)                             \
  X(kConvolution, "Convolution", ConvolutionAttrs)          \
  X(kDeconvolution, "Deconvolution", ConvolutionAttrs)      \
  X(kMatrixMultiply, "MatrixMultiply", MatrixMultiplyAttrs) \
  X(kLowBitMultiply, "LowBitMultiply", LowBitMultiplyAttrs) \
  X(kExperts, "Experts", ExpertsAttrs)                      \
  X(kPooling, "Pooling", PoolingAttrs)                      \
  X(kActivation, "Activation", PointOpAttrs)                \
  X(kUnary, "Unary", PointOpAttrs)                          \
  X(kElementWise, "ElementWise", PointOpAttrs)              \
  X(kSelect, "Select", PointOpAttrs)                        \
  X(kScale, "Scale", ScaleAttrs)                            \
  X(kPointWise, "PointWise", PointWiseAttrs)                \
  X(kShuffle, "Shuffle", ShuffleAttrs)                      \
  X(kSlice, "Slice", SliceAttrs)                            \
  X(kPad, "Pad", PadAttrs)                                  \
  X(kConcatenation, "Concatenation", AxisAttrs)             \
  X(kReduce, "Reduce", ReduceAttrs)                         \
  X(kSoftMax, "SoftMax", SoftMaxAttrs)                      \
  X(kAttention, "Attention", AttentionAttrs)                \
  X(kNormalization, "Normalization", NormalizationAttrs)    \
  X(kGather, "Gather", GatherAttrs)                         \
  X(kScatter, "Scatter", ScatterAttrs)                      \
  X(kResize, "Resize", ResizeAttrs)                         \
  X(kCast, "Cast", CastAttrs)                               \
  X(kExpand, "Expand", ShapeAttrs)                          \
  X(kTile, "Tile", ShapeAttrs)                              \
  X(kFill, "Fill", FillAttrs)                               \
  X(kShapeOf, "ShapeOf", ShapeOfAttrs)                      \
  X(kTopK, "TopK", TopKAttrs)                               \
  X(kArgMinMax, "ArgMinMax", TopKAttrs)                     \
  X(kCumSum, "CumSum", CumSumAttrs)                         \
  X(kRange, "Range", NoAttrs)                               \
  X(kNonZero, "NonZero", NoAttrs)                           \
  X(kRecurrence, "Recurrence", RnnAttrs)                    \
  X(kQuantize, "Quantize", QuantizeAttrs)                   \
  X(kDequantize, "Dequantize", QuantizeAttrs)               \
  X(kDepthToSpace, "DepthToSpace", DepthSpaceAttrs)         \
  X(kSpaceToDepth, "SpaceToDepth", DepthSpaceAttrs)         \
  X(kIf, "If", NoAttrs)                                     \
  X(kLoop, "Loop", LoopAttrs)                               \
  X(kScan, "Scan", LoopAttrs)                               \
  X(kReformat, "Reformat", NoAttrs)                         \
  X(kGeneric, "Generic", GenericAttrs)

enum class LayerKind : uint8_t {
#define CAMSHAFT_KIND(kind, name, attrs) kind,
  CAMSHAFT_LAYER_KINDS(CAMSHAFT_KIND)
#undef CAMSHAFT_KIND
};

// Copied, moved and destroyed by functions of attrs.cpp: for 31 structs these take 1.6 s of a unit
// that has them all, and 32 units had some.
struct Attrs
    : std::variant<NoAttrs, ConvolutionAttrs, MatrixMultiplyAttrs, LowBitMultiplyAttrs,
                   ExpertsAttrs, PoolingAttrs, PointOpAttrs, ScaleAttrs, PointWiseAttrs,
                   ShuffleAttrs, SliceAttrs, PadAttrs, AxisAttrs, ReduceAttrs, SoftMaxAttrs,
                   AttentionAttrs, NormalizationAttrs, GatherAttrs, ScatterAttrs, ResizeAttrs,
                   CastAttrs, ShapeAttrs, FillAttrs, ShapeOfAttrs, TopKAttrs, CumSumAttrs, RnnAttrs,
                   QuantizeAttrs, DepthSpaceAttrs, LoopAttrs, GenericAttrs> {
  using variant::variant;
  Attrs();
  Attrs(const Attrs&);
  Attrs(Attrs&&) noexcept;
  Attrs& operator=(const Attrs&);
  Attrs& operator=(Attrs&&) noexcept;
  ~Attrs();
};

std::string_view kind_name(LayerKind kind);
Result<LayerKind> parse_kind(std::string_view name);
Attrs default_attrs(LayerKind kind);  // the struct of that kind, default constructed
bool equal(const Attrs& a, const Attrs& b);

// One overload per enum above: "max", "round_prefer_floor" …
std::string_view enum_name(PaddingMode value);
std::string_view enum_name(PoolingType value);
std::string_view enum_name(ReduceOp value);
std::string_view enum_name(NormKind value);
std::string_view enum_name(GatherMode value);
std::string_view enum_name(ScatterMode value);
std::string_view enum_name(ScatterReduction value);
std::string_view enum_name(PadMode value);
std::string_view enum_name(ResizeMode value);
std::string_view enum_name(CoordinateTransform value);
std::string_view enum_name(NearestRounding value);
std::string_view enum_name(RnnKind value);
std::string_view enum_name(RnnDirection value);
inline std::string_view enum_name(PointOp value) {
  return point_op_name(value);
}
inline std::string_view enum_name(DataType value) {
  return type_name(value);
}

// The value of that name; empty: there is none. enum_name() gives "" beyond the last value.
template <class E>
std::optional<E> parse_enum(std::string_view name) {
  for (int k = 0; !enum_name(static_cast<E>(k)).empty(); ++k)
    if (enum_name(static_cast<E>(k)) == name) return static_cast<E>(k);
  return std::nullopt;
}

}  // namespace camshaft::ir
