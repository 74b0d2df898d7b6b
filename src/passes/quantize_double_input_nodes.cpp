// SPDX-License-Identifier: Apache-2.0
// QuantizeDoubleInputNodes: a convolution or matrix product of two Dequantize layers multiplies the
// codes instead: exact int32 accumulators, then an epilogue with one factor
// s_x * s_w[k] per output channel and the bias. What follows in float, and the next Q, join that
// epilogue later. Legal: x has one scale, or one per channel where every output channel reads one
// of them (depthwise convolutions, as NNCF quantizes them); weights one or one per output channel,
// in int8 once their zero point is taken off. Exact up to the rounding of the float arithmetic it
// replaces.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/log.h"
#include "passes/fold.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/quantization.h"
#include "passes/volume_lowering.h"

namespace camshaft::passes {

using namespace ir;

namespace {

struct Operand {
  Layer* dequantizer = nullptr;
  Tensor* codes = nullptr;
  Grid grid;
};

std::optional<Operand> operand_of(const Tensor* tensor) {
  Layer* dequantizer = dequantizer_of(tensor);
  const std::optional<Grid> grid = dequantizer ? grid_of(*dequantizer) : std::nullopt;
  if (!grid || !is_quantized(grid->type)) return std::nullopt;
  return Operand{dequantizer, dequantizer->inputs[0], *grid};
}

// A product about to be quantized; `channels` counts output channels, those of `channel_axis` of
// the weights (per group for a deconvolution).
struct QuantizedProduct {
  Layer* layer;
  Operand x, w;
  int64_t channels = 0;
  int64_t channel_axis = 0;
  bool is_matrix = false;
};

// Scale of output channel k.
double weight_scale(const QuantizedProduct& p, int64_t k) {
  return p.w.grid
      .scale[p.w.grid.per_tensor() ? 0 : k % static_cast<int64_t>(p.w.grid.scale.size())];
}

// Whether output channel k of a convolution reads channel k * channels of x / channels alone.
bool is_depthwise(const QuantizedProduct& p) {
  if (p.layer->kind != LayerKind::kConvolution) return false;
  const Shape &x = p.layer->inputs[0]->shape, &weights = p.layer->inputs[1]->shape;
  return weights[1] == Dim(1) && x.size() > 1 &&
         x[1] == Dim(p.layer->as<ConvolutionAttrs>().groups);
}

// Scale of what output channel k reads.
double input_scale(const QuantizedProduct& p, int64_t k) {
  const auto scales = static_cast<int64_t>(p.x.grid.scale.size());
  return p.x.grid.scale[p.x.grid.per_tensor() ? 0 : k * scales / p.channels];
}

// What the deconvolution kernels of codes do not take: plain loops would cost several times the
// float layer.
Refusal refuse_deconvolution(const Layer& layer) {
  const auto& attrs = layer.as<ConvolutionAttrs>();
  if (attrs.kernel.size() > 2)
    return {Reason::kUnsupported, "the deconvolution kernels of codes are 1-D and 2-D"};
  for (size_t d = 0; d < attrs.kernel.size(); ++d) {
    const int64_t stride = d < attrs.stride.size() ? attrs.stride[d] : 1,
                  dilation = d < attrs.dilation.size() ? attrs.dilation[d] : 1;
    if (stride > 1 && dilation > 1)
      return {Reason::kUnsupported, "a dilated and strided deconvolution"};
    if (attrs.kernel[d] < stride)
      return {Reason::kUnsupported, "a deconvolution with outputs no tap reaches"};
  }
  return {};
}

// Why a product whose input is dequantized cannot be looked at further; empty: it can, or its input
// is not dequantized at all.
Refusal refuse_operands(const Layer& layer) {
  if (!is_product(layer) || layer.outputs[0]->type != DataType::kFloat ||
      !dequantizer_of(layer.inputs[0]))
    return {};
  if (!operand_of(layer.inputs[0]))
    return {Reason::kGrid, "its input has no constant, positive scale of 8-bit codes"};
  if (!dequantizer_of(layer.inputs[1])) return {Reason::kGrid, "its weights are not quantized"};
  if (!operand_of(layer.inputs[1]))
    return {Reason::kGrid, "its weights have no constant, positive scale of 8-bit codes"};
  return {};
}

Refusal codes_refusal(const QuantizedProduct& p) {
  if (p.layer->kind == LayerKind::kDeconvolution)
    if (Refusal refusal = refuse_deconvolution(*p.layer)) return refusal;
  // Volumes of codes have kernels as images alone.
  if (p.layer->kind == LayerKind::kConvolution && p.layer->inputs[0]->shape.size() == kVolumeRank)
    if (Refusal refusal = refuse_volume(*p.layer, true))
      return std::move(refusal).behind("volumes stay float where ");
  const Grid& grid = p.x.grid;
  if (!grid.per_tensor() && !(is_depthwise(p) && grid.axis == 1))
    return {Reason::kGrid, "its input has one scale per channel"};
  if (!all_equal(grid.zero_point))
    return {Reason::kGrid, "its input has one zero point per channel"};
  if (!p.w.grid.per_tensor() && p.w.grid.axis != p.channel_axis)
    return {Reason::kGrid, "its weights have scales along another axis than the output channels"};
  if (!p.is_matrix && !p.w.codes->is_constant())
    return {Reason::kConstant, "its weights are no constant"};
  if (!p.is_matrix && p.layer->as<ConvolutionAttrs>().epilogue.empty() == false)
    return {Reason::kAttribute, "it has an epilogue already"};
  return {};
}

std::optional<QuantizedProduct> product_of(Layer* layer) {
  const bool matrix = layer->kind == LayerKind::kMatrixMultiply;
  if (!matrix && layer->kind != LayerKind::kConvolution && layer->kind != LayerKind::kDeconvolution)
    return std::nullopt;
  const std::optional<Operand> x = operand_of(layer->inputs[0]), w = operand_of(layer->inputs[1]);
  const Tensor *y = layer->outputs[0], *weights = layer->inputs[1];
  if (!x || !w || !y->has_rank || !weights->has_rank || !layer->inputs[0]->has_rank ||
      y->type != DataType::kFloat || layer->inputs.size() > 3)
    return std::nullopt;
  QuantizedProduct p{layer, *x, *w, 0, 0, matrix};
  if (matrix) {
    if (weights->shape.size() < 2 || layer->inputs[0]->shape.size() < 2) return std::nullopt;
    const auto rank = static_cast<int64_t>(weights->shape.size());
    p.channel_axis = layer->as<MatrixMultiplyAttrs>().transpose_b ? rank - 2 : rank - 1;
    const Dim columns = weights->shape[p.channel_axis];
    p.channels = columns.is_known() ? columns.extent() : 0;
    if (p.channels == 0 && !w->grid.per_tensor()) return std::nullopt;
    return p;
  }
  if (!all_known(weights->shape) || weights->shape.size() < 3) return std::nullopt;
  const bool forward = layer->kind == LayerKind::kConvolution;
  p.channel_axis = forward ? 0 : 1;
  p.channels = weights->shape[p.channel_axis].extent() *
               (forward ? 1 : layer->as<ConvolutionAttrs>().groups);
  return p;
}

// The weights as int8 with zero point 0: as they are, or a shifted constant. Null: they do not fit.
Tensor* symmetric_weights(Rewriter& rewriter, const QuantizedProduct& p) {
  Tensor* codes = p.w.codes;
  const auto is_zero = [](int32_t z) { return z == 0; };
  const std::vector<int32_t>& zeros = p.w.grid.zero_point;
  if (codes->type == DataType::kInt8 && std::all_of(zeros.begin(), zeros.end(), is_zero))
    return codes;
  if (!codes->is_constant() || !all_known(codes->shape)) return nullptr;
  const Extents extents = extents_of(codes->shape);
  const int64_t along = zeros.size() == 1 ? 1 : extents[p.w.grid.axis];
  int64_t inner = 1;
  for (size_t k = static_cast<size_t>(p.w.grid.axis) + 1; k < extents.size(); ++k)
    inner *= extents[k];
  std::vector<std::byte> bytes(codes->constant->view.size());
  for (size_t k = 0; k < bytes.size(); ++k) {
    const auto raw = static_cast<uint8_t>(codes->constant->view[k]);
    const int code = codes->type == DataType::kUInt8 ? raw : static_cast<int8_t>(raw);
    const int value = code - zeros[static_cast<int64_t>(k) / inner % along];
    if (value < -128 || value > 127) return nullptr;
    bytes[k] = static_cast<std::byte>(static_cast<int8_t>(value));
  }
  Tensor* made = rewriter.add_constant(codes->name + " (symmetric)", DataType::kInt8, extents,
                                       std::move(bytes));
  Grid grid = p.w.grid;
  grid.type = DataType::kInt8;
  std::fill(grid.zero_point.begin(), grid.zero_point.end(), 0);
  set_grid_facts(rewriter, made, grid);
  return made;
}

// Whether weights that int8 does not hold may keep their zero point.
bool may_have_zero_point(const QuantizedProduct& p) {
  if (!all_equal(p.w.grid.zero_point)) return false;
  return p.is_matrix ||
         (p.layer->kind == LayerKind::kConvolution &&
          multiplies_centered_codes(p.layer->as<ConvolutionAttrs>(), extents_of(p.w.codes->shape)));
}

// The bias in units of the accumulator (`codes`), or in real values (`values`), or neither: zero.
struct Bias {
  bool is_usable = true;
  Tensor* codes = nullptr;
  std::vector<float> values;
};

// An int32 constant with scales s_x * s_w is added to the accumulator as it is.
bool counts_accumulator_units(const QuantizedProduct& p, const Grid& grid) {
  if (grid.type != DataType::kInt32) return false;
  for (int32_t zero : grid.zero_point)
    if (zero != 0) return false;
  for (int64_t k = 0; k < p.channels; ++k) {
    const double wanted = input_scale(p, k) * weight_scale(p, k);
    const double found = grid.scale[grid.per_tensor() ? 0 : k];
    if (std::abs(found - wanted) > 1e-6 * wanted) return false;
  }
  return true;
}

// Of accumulator units, if the bias is dequantized from them.
Tensor* accumulator_bias(const QuantizedProduct& p) {
  const Layer* dequantizer = dequantizer_of(input_at(*p.layer, 2));
  const std::optional<Grid> grid = dequantizer ? grid_of(*dequantizer) : std::nullopt;
  Tensor* codes = dequantizer ? dequantizer->inputs[0] : nullptr;
  const bool fits = grid && codes->is_constant() && codes->shape.size() == 1 &&
                    codes->shape[0] == Dim(p.channels) && counts_accumulator_units(p, *grid);
  return fits ? codes : nullptr;
}

// Any other bias that constants make (8-bit codes with a quantizer of its own, say) is its value.
Bias quantized_bias(Rewriter& rewriter, const QuantizedProduct& p) {
  if (!input_at(*p.layer, 2)) return {};
  if (Tensor* codes = accumulator_bias(p)) return {true, codes, {}};
  const Tensor* bias = evaluate_chain(rewriter, *p.layer, 2);
  if (!bias) return {false, nullptr, {}};
  if (p.is_matrix ? bias->shape.size() > 1 && p.channels == 0 : false) return {false, nullptr, {}};
  Bias found;
  found.values = p.is_matrix ? values_along(bias, p.layer->outputs[0]->shape,
                                            p.layer->outputs[0]->shape.size() - 1, p.channels)
                             : values_along(bias, bias->shape, 0, p.channels);
  found.is_usable = !found.values.empty();
  return found;
}

// [K, 1, 1 …] for convolutions, [N] for products.
Extents factor_extents(const QuantizedProduct& p) {
  if (p.is_matrix) return {p.channels};
  Extents extents(p.layer->outputs[0]->shape.size() - 1, 1);
  extents[0] = p.channels;
  return extents;
}

Program& product_epilogue(Attrs& attrs) {
  if (auto* conv = std::get_if<ConvolutionAttrs>(&attrs)) return conv->epilogue;
  return std::get<MatrixMultiplyAttrs>(attrs).epilogue;
}

// "fma v0 in1 in2", "mul v0 in1", or "mul v0 constant" for a product with a moving right side.
void add_scaling(Rewriter& rewriter, const QuantizedProduct& p, const Bias& bias, double alpha,
                 Attrs& attrs, std::vector<Tensor*>& inputs) {
  Program& epilogue = product_epilogue(attrs);
  epilogue = Program();
  epilogue.num_inputs = 1;
  if (p.channels == 0 || !p.w.codes->is_constant()) {
    const double factor_of_codes =
        static_cast<double>(p.x.grid.scale[0]) * alpha * p.w.grid.scale[0];
    const int factor =
        append(epilogue, PointOp::kConst, -1, -1, -1, static_cast<float>(factor_of_codes));
    append(epilogue, PointOp::kMul, 0, factor);
    return;
  }
  std::vector<float> factors;
  for (int64_t k = 0; k < p.channels;
       ++k)  // a positive float also where the weights are all but zero
    factors.push_back(std::max(static_cast<float>(input_scale(p, k) * alpha * weight_scale(p, k)),
                               std::numeric_limits<float>::min()));
  inputs.resize(3, nullptr);
  const Extents extents = factor_extents(p);
  inputs.push_back(rewriter.add_float_constant(p.layer->name + " scale", extents, factors));
  epilogue.num_inputs = 2;
  if (bias.values.empty()) {
    append(epilogue, PointOp::kMul, 0, 1);
    return;
  }
  inputs.push_back(rewriter.add_float_constant(p.layer->name + " bias", extents, bias.values));
  epilogue.num_inputs = 3;
  append(epilogue, PointOp::kFma, 0, 1, 2);
}

bool quantize(Rewriter& rewriter, Rewriter& weights_into, const QuantizedProduct& p) {
  rewriter.running(*p.layer);
  Refusal refusal = codes_refusal(p);
  const Bias bias = quantized_bias(rewriter, p);
  if (!refusal && !bias.is_usable)
    refusal = {Reason::kConstant, "its bias is not one constant per channel"};
  const bool moves = !p.w.codes->is_constant();
  if (!refusal && moves && (!bias.values.empty() || bias.codes || !p.w.grid.per_tensor()))
    refusal = {Reason::kConstant, "its right side is no constant and has a bias or many scales"};
  Tensor* weights = nullptr;
  if (!refusal) weights = symmetric_weights(rewriter, p);
  if (!refusal && !weights && !may_have_zero_point(p))
    refusal = {Reason::kGrid, p.is_matrix
                                  ? "its right side has many zero points that int8 does not hold"
                                  : "its weights less their zero point do not fit in int8"};
  if (refusal) {
    rewriter.declined(*p.layer, std::move(refusal).behind("not quantized: "));
    return false;
  }
  Attrs attrs = p.layer->attrs;
  std::vector<Tensor*> inputs = {p.x.codes, weights ? weights : p.w.codes};
  if (bias.codes) inputs.push_back(bias.codes);
  double alpha = 1;
  if (auto* matrix = std::get_if<MatrixMultiplyAttrs>(&attrs)) {
    alpha = matrix->alpha;
    matrix->alpha = 1;
    matrix->a_zero_point = p.x.grid.zero_point[0];
    matrix->b_zero_point = weights ? 0 : p.w.grid.zero_point[0];
  } else {
    auto& conv = std::get<ConvolutionAttrs>(attrs);
    conv.zero_point = p.x.grid.zero_point[0];
    conv.w_zero_point = weights ? 0 : p.w.grid.zero_point[0];
  }
  add_scaling(rewriter, p, bias, alpha, attrs, inputs);
  rewriter.applied(Action::kConvert, *p.layer,
                   "fusing (" + p.x.dequantizer->name + " and " + p.w.dequantizer->name +
                       ") into " + p.layer->name);
  const bool constant = p.w.codes->is_constant();
  if (constant) {
    log(Severity::kVerbose, "Running: ConstWeightsFusion on {}", p.w.codes->name);
    weights_into.applied(Action::kFuse, *p.layer,
                         "Fusing " + p.w.codes->name + " with " + p.layer->name);
  }
  const bool names_codes = constant && !is_added(*p.w.dequantizer, *p.layer);
  Layer* group[] = {p.w.dequantizer, p.x.dequantizer, p.layer};
  rewriter.replace(group, p.layer->kind, attrs, inputs,
                   (names_codes ? p.w.codes->name + " + " : "") + p.layer->name);
  return true;
}

}  // namespace

int quantize_double_input_nodes(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "QuantizeDoubleInputNodes", records);
  Rewriter weights_into(graph, "ConstWeightsFusion", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    const std::optional<QuantizedProduct> product = product_of(layer);
    if (Refusal refusal = product ? Refusal() : refuse_operands(*layer))
      rewriter.declined(*layer, std::move(refusal).behind("not quantized: "));
    if (!product) continue;
    const Tensor* y = product->layer->outputs[0];
    if (quantize(rewriter, weights_into, *product)) k = graph.position(y->producer);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
