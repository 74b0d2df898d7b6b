// SPDX-License-Identifier: Apache-2.0
#include "passes/quantization.h"

#include <algorithm>
#include <cmath>

#include "ir/infer.h"
#include "ir/kind_traits.h"
#include "passes/match.h"

namespace camshaft::passes {

using namespace ir;

namespace {

template <class T>
void append_values(const Tensor& tensor, std::vector<int32_t>& values) {
  for (T value : tensor.values<T>()) values.push_back(static_cast<int32_t>(value));
}

std::optional<std::vector<int32_t>> integers(const Tensor& tensor) {
  std::vector<int32_t> values;
  switch (tensor.type) {
    case DataType::kInt8:
      append_values<int8_t>(tensor, values);
      return values;
    case DataType::kUInt8:
      append_values<uint8_t>(tensor, values);
      return values;
    case DataType::kInt16:
      append_values<int16_t>(tensor, values);
      return values;
    case DataType::kUInt16:
      append_values<uint16_t>(tensor, values);
      return values;
    case DataType::kInt32:
      append_values<int32_t>(tensor, values);
      return values;
    default:
      return std::nullopt;
  }
}

bool has_type_of_codes(DataType type) {
  return is_quantized(type) || type == DataType::kInt32;
}

bool has_type_of_wide_codes(DataType type) {
  return type == DataType::kInt16 || type == DataType::kUInt16;
}

std::optional<Grid> constant_grid(const Layer& layer, bool (*is_wanted)(DataType)) {
  if (layer.kind != LayerKind::kQuantize && layer.kind != LayerKind::kDequantize)
    return std::nullopt;
  const auto& attrs = layer.as<QuantizeAttrs>();
  const Tensor* scale = layer.inputs[1];
  if (attrs.block_size != 0 || !is_float_constant(scale) || !is_wanted(attrs.type))
    return std::nullopt;
  Grid grid;
  grid.type = attrs.type;
  grid.axis = attrs.axis;
  const auto scales = scale->values<float>();
  grid.scale.assign(scales.begin(), scales.end());
  if (const Tensor* zero = input_at(layer, 2)) {
    if (!zero->is_constant()) return std::nullopt;
    const std::optional<std::vector<int32_t>> values = integers(*zero);
    if (!values || values->size() != grid.scale.size()) return std::nullopt;
    grid.zero_point = *values;
  } else {
    grid.zero_point.assign(grid.scale.size(), 0);
  }
  // Nothing is divided by the scales of stored codes: those of weights that are all but zero may be
  // tiny.
  const bool is_stored = layer.kind == LayerKind::kDequantize && layer.inputs[0]->is_constant();
  const auto is_usable = [&](float s) {
    if (is_stored) return std::isfinite(s) && s >= 0;
    return std::isnormal(s) && s > 0 && std::isnormal(1 / s);
  };
  if (grid.scale.empty() || !std::all_of(grid.scale.begin(), grid.scale.end(), is_usable))
    return std::nullopt;
  if (all_equal(grid.scale) && all_equal(grid.zero_point)) {
    grid.scale.resize(1);
    grid.zero_point.resize(1);
    grid.axis = 0;
  }
  return grid;
}

}  // namespace

std::optional<Grid> grid_of(const Layer& layer) {
  return constant_grid(layer, has_type_of_codes);
}
std::optional<Grid> wide_grid_of(const Layer& layer) {
  return constant_grid(layer, has_type_of_wide_codes);
}

Layer* dequantizer_of(const Tensor* tensor) {
  return producer_of_kind(tensor, LayerKind::kDequantize);
}
Layer* quantizer_of(const Tensor* tensor) {
  return producer_of_kind(tensor, LayerKind::kQuantize);
}

CodeRange code_range(DataType type) {
  switch (type) {
    case DataType::kUInt8:
      return {0, 255};
    case DataType::kInt16:
      return {-32768, 32767};
    case DataType::kUInt16:
      return {0, 65535};
    default:
      return {-128, 127};
  }
}

int quantize_value(float value, float scale, int32_t zero_point, DataType type) {
  const CodeRange range = code_range(type);
  const double code = std::nearbyint(value / scale) + zero_point;
  return static_cast<int>(std::clamp<double>(code, range.low, range.high));
}

Attrs attributes_on_codes(const Layer& layer, const Grid& grid) {
  Attrs attrs = layer.attrs;
  if (auto* pad = std::get_if<PadAttrs>(&attrs))
    pad->value = static_cast<float>(
        quantize_value(pad->value, grid.scale[0], grid.zero_point[0], grid.type));
  return attrs;
}

bool multiplies_centered_codes(const ConvolutionAttrs& attrs, const Extents& weights) {
  if (weights[1] > 1) return true;
  int64_t taps = 1;
  for (const int64_t extent : attrs.kernel) taps *= extent;
  return attrs.groups == weights[0] && attrs.kernel.size() <= 2 && taps <= 128;
}

bool may_be_dequantized(const Tensor* tensor) {
  const Layer* producer = tensor ? tensor->producer : nullptr;
  if (!producer) return false;
  if (producer->kind == LayerKind::kDequantize) return true;
  if (producer->kind == LayerKind::kConcatenation)
    return std::all_of(producer->inputs.begin(), producer->inputs.end(), may_be_dequantized);
  return moves_elements(*producer) && may_be_dequantized(producer->inputs[0]);
}

bool is_read_as_codes_only(const Tensor* tensor, const Grid& grid) {
  if (tensor->graph->is_output(tensor) || tensor->consumers.empty()) return false;
  return std::all_of(tensor->consumers.begin(), tensor->consumers.end(), [&](const Layer* reader) {
    if (reader->kind == LayerKind::kQuantize)
      return reader->inputs[0] == tensor && grid_of(*reader) == grid;
    const bool passes = moves_elements(*reader) || reader->kind == LayerKind::kConcatenation;
    return passes && is_read_as_codes_only(reader->outputs[0], grid);
  });
}

bool is_quantized_wholly(const Tensor* tensor, const Grid& grid) {
  const auto quantizes = [&](const Tensor* value) {
    return std::any_of(value->consumers.begin(), value->consumers.end(), [&](const Layer* reader) {
      return reader->kind == LayerKind::kQuantize && reader->inputs[0] == value &&
             grid_of(*reader) == grid;
    });
  };
  return std::all_of(tensor->consumers.begin(), tensor->consumers.end(), [&](const Layer* reader) {
    if (reader->kind == LayerKind::kQuantize)
      return reader->inputs[0] == tensor && grid_of(*reader) == grid;
    if (reader->kind == LayerKind::kSlice && quantizes(reader->outputs[0])) return true;
    const bool passes = moves_elements(*reader) || reader->kind == LayerKind::kConcatenation;
    return passes && is_read_as_codes_only(reader->outputs[0], grid);
  });
}

void set_grid_facts(Rewriter& rewriter, Tensor* codes, const Grid& grid) {
  Facts facts = codes->facts;
  facts.scale = grid.scale;
  facts.zero_point = grid.zero_point;
  facts.quantized_axis = grid.per_tensor() ? -1 : grid.axis;
  rewriter.set_facts(codes, std::move(facts));
}

Program quantize_program(const Grid& grid) {
  Program program;
  program.num_inputs = 1;
  const int factor = append(program, PointOp::kConst, -1, -1, -1,
                            static_cast<float>(1.0 / static_cast<double>(grid.scale[0])));
  int value = append(program, PointOp::kRound, append(program, PointOp::kMul, 0, factor));
  if (grid.zero_point[0] != 0) {
    const int zero =
        append(program, PointOp::kConst, -1, -1, -1, static_cast<float>(grid.zero_point[0]));
    value = append(program, PointOp::kAdd, value, zero);
  }
  return program;
}

namespace {

bool may_miss(const PoolingAttrs& a, size_t d, Dim extent) {
  if (a.global) return extent == Dim(0);
  const int64_t kernel = a.kernel[d], stride = a.stride[d], dilation = a.dilation[d],
                pre = a.pre_padding[d], post = a.post_padding[d];
  const bool is_same =
      a.padding_mode == PaddingMode::kSameUpper || a.padding_mode == PaddingMode::kSameLower;
  if (!extent.is_known())
    return dilation > 1 ? is_same || pre + post > 0 : !is_same && (pre >= kernel || post >= kernel);
  const int64_t in = extent.extent();
  const Window window = resolve_window(a.padding_mode, in, kernel, stride, dilation, pre, post);
  for (int64_t o = 0; o < window.output; ++o) {
    const int64_t start = o * stride - window.pre_padding;
    const int64_t tap =
        start >= 0 ? 0 : (-start + dilation - 1) / dilation;  // the first one inside
    if (tap >= kernel || start + tap * dilation >= in) return true;
  }
  return false;
}

}  // namespace

bool may_pool_nothing(const Layer& pooling) {
  const Shape& shape = pooling.inputs[0]->shape;
  for (size_t d = 2; d < shape.size(); ++d)
    if (may_miss(pooling.as<PoolingAttrs>(), d - 2, shape[d])) return true;
  return false;
}

Program dequantize_program(const Grid& grid) {
  Program program;
  program.num_inputs = 1;
  int value = 0;
  if (grid.zero_point[0] != 0) {
    const int zero =
        append(program, PointOp::kConst, -1, -1, -1, static_cast<float>(grid.zero_point[0]));
    value = append(program, PointOp::kSub, value, zero);
  }
  const int factor = append(program, PointOp::kConst, -1, -1, -1, grid.scale[0]);
  append(program, PointOp::kMul, value, factor);
  return program;
}

Tensor* insert_quantizer(Rewriter& rewriter, const Layer* model, Tensor* value,
                         const std::string& name, const Layer* before) {
  Tensor* codes = rewriter.add_tensor_like(*value, name + "_output", model->outputs[0]->type);
  set_grid_facts(rewriter, codes, *grid_of(*model));
  std::vector<Tensor*> inputs = model->inputs;
  inputs[0] = value;
  rewriter.insert_before(before, LayerKind::kQuantize, name, model->attrs, inputs, {codes},
                         {model});
  return codes;
}

}  // namespace camshaft::passes
