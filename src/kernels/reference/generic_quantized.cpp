// SPDX-License-Identifier: Apache-2.0
// Integer arithmetic of ONNX: MatMulInteger, QLinearMatMul, ConvInteger, QLinearConv,
// DynamicQuantizeLinear. Each turns its operands into whole numbers with the zero point taken off
// and runs the plain convolution or product on them: exact in double.
#include <algorithm>

#include "ir/infer.h"
#include "kernels/reference/dynamic_grid.h"
#include "kernels/reference/generic.h"

namespace camshaft::kernels::reference {
namespace {

// x - zero point, per element of dimension `axis` where the zero point is a vector.
Result<Dense> centered(const TensorView& x, const TensorView& zero_point, int64_t axis) {
  Dense result = dense(x);
  if (!zero_point.present()) return result;
  const std::vector<double> zeros = load<double>(zero_point);
  if (zeros.size() == 1) {
    for (double& value : result.values) value -= zeros[0];
    return result;
  }
  if (axis >= static_cast<int64_t>(result.extents.size()))
    return make_error(ErrorCode::kInvalidArgument, "{} zero points for a scalar", zeros.size());
  const Lines lines = lines_of(result.extents, axis);
  if (static_cast<int64_t>(zeros.size()) != lines.count)
    return make_error(ErrorCode::kUnsupported, "{} zero points along an axis of {}", zeros.size(),
                      lines.count);
  for (size_t k = 0; k < result.values.size(); ++k)
    result.values[k] -= zeros[static_cast<int64_t>(k) / lines.inner % lines.count];
  return result;
}

TensorView double_view(Dense& tensor) {
  return make_view(tensor.values.data(), DataType::kDouble, Format::kLinear, tensor.extents);
}

// Runs the reference kernel of `layer` on two tensors of whole numbers.
Status run_layer(const Call& call, const ir::Layer& layer, Dense& a, Dense& b, Dense& y) {
  const TensorView inputs[] = {double_view(a), double_view(b)};
  CAMSHAFT_TRY(check_extents(y.extents));
  y.values.assign(count_of(y.extents), 0.0);
  const TensorView outputs[] = {double_view(y)};
  KernelArgs args;
  args.layer = &layer;
  args.inputs = inputs;
  args.outputs = outputs;
  args.pool = call.args().pool;
  return reference_kernel(layer)->run(args);
}

Status multiply(const Call& call, Dense& a, Dense& b, Dense& y) {
  if (a.extents.empty() || b.extents.empty())
    return make_error(ErrorCode::kInvalidArgument, "a matrix product of scalars");
  ir::Layer layer;
  layer.kind = ir::LayerKind::kMatrixMultiply;
  layer.attrs = ir::MatrixMultiplyAttrs{};
  TensorView batches[] = {double_view(a), double_view(b)};
  for (TensorView& view : batches) view.rank = std::max(view.rank - 2, 0);
  CAMSHAFT_ASSIGN(y.extents, broadcast_extents(batches));
  if (a.extents.size() > 1) y.extents.push_back(a.extents[a.extents.size() - 2]);
  if (b.extents.size() > 1) y.extents.push_back(b.extents.back());
  return run_layer(call, layer, a, b, y);
}

Status convolve(const Call& call, Dense& x, Dense& w, Dense& y) {
  if (x.extents.size() < 3 || w.extents.size() != x.extents.size())
    return make_error(ErrorCode::kInvalidArgument, "{}: ranks do not fit", call.op_type());
  const size_t rank = x.extents.size() - 2;
  ir::ConvolutionAttrs attrs;
  attrs.kernel.assign(w.extents.begin() + 2, w.extents.end());
  attrs.stride = call.list_or("strides", rank, 1);
  attrs.dilation = call.list_or("dilations", rank, 1);
  attrs.groups = call.integer("group", 1);
  const Ints pads = call.list_or("pads", 2 * rank, 0);
  attrs.pre_padding.assign(pads.begin(), pads.begin() + static_cast<int64_t>(rank));
  attrs.post_padding.assign(pads.begin() + static_cast<int64_t>(rank), pads.end());
  const std::string mode = call.text("auto_pad", "NOTSET");
  if (mode == "SAME_UPPER") attrs.padding_mode = ir::PaddingMode::kSameUpper;
  if (mode == "SAME_LOWER") attrs.padding_mode = ir::PaddingMode::kSameLower;
  y.extents = {x.extents[0], w.extents[0]};
  for (size_t d = 0; d < rank; ++d) {
    if (attrs.stride[d] < 1 || attrs.dilation[d] < 1)
      return make_error(ErrorCode::kInvalidArgument, "{}: a stride or dilation below 1",
                        call.op_type());
    const ir::Window window =
        ir::resolve_window(attrs.padding_mode, x.extents[d + 2], attrs.kernel[d], attrs.stride[d],
                           attrs.dilation[d], attrs.pre_padding[d], attrs.post_padding[d]);
    if (window.output < 0)
      return make_error(ErrorCode::kInvalidArgument, "{}: the kernel exceeds the input",
                        call.op_type());
    y.extents.push_back(window.output);
  }
  ir::Layer layer;
  layer.kind = ir::LayerKind::kConvolution;
  layer.attrs = attrs;
  return run_layer(call, layer, x, w, y);
}

// round(value * multiplier) + zero point, saturated.
Ints requantized(const Dense& y, const std::vector<double>& multipliers, int64_t axis,
                 double zero_point, DataType type) {
  const Lines lines = y.extents.empty() ? Lines{1, 1, 1} : lines_of(y.extents, axis);
  const auto low = static_cast<double>(lowest(type)), high = static_cast<double>(highest(type));
  Ints result;
  result.reserve(y.values.size());
  for (size_t k = 0; k < y.values.size(); ++k) {
    const double factor =
        multipliers[multipliers.size() == 1 ? 0
                                            : static_cast<int64_t>(k) / lines.inner % lines.count];
    result.push_back(static_cast<int64_t>(
        std::clamp(std::nearbyint(y.values[k] * factor) + zero_point, low, high)));
  }
  return result;
}

// a, b, a zero point, b zero point → int32.
Status matmul_integer(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(2));
  CAMSHAFT_ASSIGN(Dense a, centered(call.in(0), call.in(2), std::max(call.in(0).rank - 2, 0)));
  CAMSHAFT_ASSIGN(Dense b, centered(call.in(1), call.in(3), std::max(call.in(1).rank - 1, 0)));
  Dense y;
  CAMSHAFT_TRY(multiply(call, a, b, y));
  outputs.push_back(produce(DataType::kInt32, y.extents, y.values));
  return ok_status();
}

// a, a scale, a zero point, b, b scale, b zero point, y scale, y zero point.
Status qlinear_matmul(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(8));
  CAMSHAFT_ASSIGN(Dense a, centered(call.in(0), call.in(2), std::max(call.in(0).rank - 2, 0)));
  CAMSHAFT_ASSIGN(Dense b, centered(call.in(3), call.in(5), std::max(call.in(3).rank - 1, 0)));
  std::vector<double> multipliers = call.doubles(4);
  const double a_scale = call.scalar(1, 1), y_scale = call.scalar(6, 1);
  for (double& multiplier : multipliers) multiplier *= a_scale / y_scale;
  Dense y;
  CAMSHAFT_TRY(multiply(call, a, b, y));
  const auto last = static_cast<int64_t>(y.extents.size()) - 1;
  if (multipliers.size() != 1 &&
      (last < 0 || static_cast<int64_t>(multipliers.size()) != y.extents.back()))
    return make_error(ErrorCode::kUnsupported, "QLinearMatMul with {} scales", multipliers.size());
  const DataType type = call.in(7).type;
  outputs.push_back(
      produce(type, y.extents,
              requantized(y, multipliers, std::max<int64_t>(last, 0), call.scalar(7, 0), type)));
  return ok_status();
}

// x, w, x zero point, w zero point → int32.
Status conv_integer(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(2));
  CAMSHAFT_ASSIGN(Dense x, centered(call.in(0), call.in(2), 0));
  CAMSHAFT_ASSIGN(Dense w, centered(call.in(1), call.in(3), 0));
  Dense y;
  CAMSHAFT_TRY(convolve(call, x, w, y));
  outputs.push_back(produce(DataType::kInt32, y.extents, y.values));
  return ok_status();
}

// x, x scale, x zero point, w, w scale, w zero point, y scale, y zero point, bias.
Status qlinear_conv(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(8));
  CAMSHAFT_ASSIGN(Dense x, centered(call.in(0), call.in(2), 0));
  CAMSHAFT_ASSIGN(Dense w, centered(call.in(3), call.in(5), 0));
  std::vector<double> multipliers = call.doubles(4);
  const double x_scale = call.scalar(1, 1), y_scale = call.scalar(6, 1);
  for (double& multiplier : multipliers) multiplier *= x_scale / y_scale;
  Dense y;
  CAMSHAFT_TRY(convolve(call, x, w, y));
  const Lines lines = lines_of(y.extents, 1);
  const std::vector<double> bias = call.doubles(8);
  if ((!bias.empty() && static_cast<int64_t>(bias.size()) != lines.count) ||
      (multipliers.size() != 1 && static_cast<int64_t>(multipliers.size()) != lines.count))
    return make_error(ErrorCode::kInvalidArgument,
                      "QLinearConv: {} scales, {} biases for {} channels", multipliers.size(),
                      bias.size(), lines.count);
  for (size_t k = 0; k < y.values.size() && !bias.empty(); ++k)
    y.values[k] += bias[static_cast<int64_t>(k) / lines.inner % lines.count];
  const DataType type = call.in(7).type;
  outputs.push_back(
      produce(type, y.extents, requantized(y, multipliers, 1, call.scalar(7, 0), type)));
  return ok_status();
}

// x → y uint8, scale, zero point; in float, as the scale's rounding decides halfway cases.
Status dynamic_quantize(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(1));
  const std::vector<float> x = load<float>(call.in(0));
  const DynamicGrid grid(x);
  Ints q;
  for (float value : x) q.push_back(static_cast<int64_t>(grid.code(value)));
  outputs.push_back(produce(DataType::kUInt8, call.extents(0), q));
  outputs.push_back(produce(DataType::kFloat, {}, std::vector<float>{grid.scale}));
  outputs.push_back(produce(DataType::kUInt8, {}, std::vector<float>{grid.zero_point}));
  return ok_status();
}

}  // namespace

std::span<const GenericRow> generic_quantized_operators() {
  static constexpr GenericRow kRows[] = {
      {"MatMulInteger", {nullptr, appending<matmul_integer>}},
      {"QLinearMatMul", {nullptr, appending<qlinear_matmul>}},
      {"ConvInteger", {nullptr, appending<conv_integer>}},
      {"QLinearConv", {nullptr, appending<qlinear_conv>}},
      {"DynamicQuantizeLinear", {nullptr, appending<dynamic_quantize>}},
  };
  return kRows;
}

}  // namespace camshaft::kernels::reference
