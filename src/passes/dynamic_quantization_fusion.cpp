// SPDX-License-Identifier: Apache-2.0
// DynamicQuantizationFusion: networks quantized at run time, as ONNX Runtime's quantize_dynamic
// writes them, in layers that have fast kernels.
//   DynamicQuantizeLinear         the least and the largest element, from them scale and zero point
//                                 (layers of one element), codes: exact
//   MatMulInteger → Cast          a product of codes with zero point 0, less a_zero * Σ_k b[k, n];
//                                 where weights less their zero point do not fit in int8, the
//                                 layer keeps it; of many such zero points: a product of floats
//   ConvInteger → Cast            the same; with padding, which is the zero point's code and not 0,
//                                 a convolution of floats
// with constant weights and a zero point that only running tells. Sums of codes are exact in int32;
// those less the zero point's share, and products of floats, are rounded where they exceed 2^24.
#include <algorithm>
#include <map>
#include <optional>

#include "ir/extents.h"
#include "ir/generic_attributes.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/quantization.h"

namespace camshaft::passes {

using namespace ir;

namespace {

bool is_generic(const Layer& layer, std::string_view op) {
  return layer.kind == LayerKind::kGeneric && layer.as<GenericAttrs>().op_type == op;
}

bool is_scalar(const Tensor& tensor) {
  return tensor.has_rank && all_ones(tensor.shape);
}

Ints list_of(const GenericAttrs& attrs, std::string_view name, size_t count, int64_t otherwise) {
  const Ints& given = integers_attribute(attrs, name);
  return given.empty() ? Ints(count, otherwise) : given;
}

ConvolutionAttrs convolution_attrs(const GenericAttrs& from, const Extents& weights) {
  ConvolutionAttrs attrs;
  const size_t rank = weights.size() - 2;
  attrs.kernel.assign(weights.begin() + 2, weights.end());
  attrs.stride = list_of(from, "strides", rank, 1);
  attrs.dilation = list_of(from, "dilations", rank, 1);
  attrs.groups = list_of(from, "group", 1, 1)[0];
  const Ints pads = list_of(from, "pads", 2 * rank, 0);
  attrs.pre_padding.assign(pads.begin(), pads.begin() + static_cast<int64_t>(rank));
  attrs.post_padding.assign(pads.begin() + static_cast<int64_t>(rank), pads.end());
  const std::string_view mode = text_attribute(from, "auto_pad", "");
  if (mode == "SAME_UPPER") attrs.padding_mode = PaddingMode::kSameUpper;
  if (mode == "SAME_LOWER") attrs.padding_mode = PaddingMode::kSameLower;
  return attrs;
}

bool pads(const Attrs& attrs) {
  const auto* conv = std::get_if<ConvolutionAttrs>(&attrs);
  return conv != nullptr && pads_images(*conv);
}

// An integer product whose only reader makes floats of it.
struct DynamicProduct {
  Layer* layer;
  Layer* cast;
  Tensor *x, *w, *x_zero;    // x_zero: one element, or null
  std::vector<int> weights;  // less their zero points
  Extents extents;
  std::optional<int> w_zero;  // of all codes as they are stored, where int8 lacks `weights`
};

std::vector<int> codes_of(const Tensor& tensor) {
  std::vector<int> codes;
  if (tensor.type == DataType::kInt8)
    for (const int8_t code : tensor.values<int8_t>()) codes.push_back(code);
  else
    for (const uint8_t code : tensor.values<uint8_t>()) codes.push_back(code);
  return codes;
}

Refusal product_refusal(const DynamicProduct& p, const Tensor* w_zero) {
  if (p.cast == nullptr || p.cast->kind != LayerKind::kCast ||
      p.cast->as<CastAttrs>().to != DataType::kFloat)
    return {Reason::kReader, "its sums are read as integers"};
  if (!is_quantized(p.x->type) || !p.x->has_rank || p.x->shape.size() < 2)
    return {Reason::kType, "its left side is no tensor of codes"};
  if (!p.w->is_constant() || !is_quantized(p.w->type))
    return {Reason::kConstant, "its weights are no constant"};
  if (p.x_zero != nullptr && !is_scalar(*p.x_zero))
    return {Reason::kGrid, "its left side has many zero points"};
  if (w_zero != nullptr && !w_zero->is_constant())
    return {Reason::kConstant, "the zero points of its weights move"};
  return {};
}

// The zero point that all columns share; empty: they do not.
std::optional<int> shared_zero(const Tensor* zero) {
  const std::vector<int> zeros = zero ? codes_of(*zero) : std::vector<int>{0};
  if (zeros.empty() || !all_equal(zeros)) return std::nullopt;
  return zeros[0];
}

// One of `columns` zero points is that of every element (k / inner) % columns.
bool subtract(std::vector<int>& codes, const Tensor* zero, int64_t inner, int64_t columns) {
  if (zero == nullptr) return true;
  const std::vector<int> zeros = codes_of(*zero);
  if (zeros.size() != 1 && static_cast<int64_t>(zeros.size()) != columns) return false;
  for (size_t k = 0; k < codes.size(); ++k)
    codes[k] -=
        zeros[zeros.size() == 1 ? 0
                                : static_cast<size_t>(static_cast<int64_t>(k) / inner % columns)];
  return true;
}

class ProductLowering {
 public:
  ProductLowering(Graph& graph, Records* records)
      : graph_(graph), rewriter_(graph, "DynamicQuantizationFusion", records) {}

  int run() {
    for (size_t k = 0; k < graph_.layers().size(); ++k) {
      Layer* layer = graph_.layers()[k].get();
      if (is_generic(*layer, "DynamicQuantizeLinear"))
        lower_quantization(layer);
      else if (is_generic(*layer, "MatMulInteger"))
        lower_product(layer, true);
      else if (is_generic(*layer, "ConvInteger"))
        lower_product(layer, false);
    }
    return rewriter_.edits();
  }

 private:
  Tensor* add(const Layer* before, LayerKind kind, const std::string& name, Attrs attrs,
              std::vector<Tensor*> inputs, DataType type, const Shape& shape) {
    Tensor* result = rewriter_.add_tensor(name, type, shape);
    rewriter_.insert_before(before, kind, name, std::move(attrs), std::move(inputs), {result},
                            {before});
    return result;
  }

  Tensor* add_reduction(const Layer* before, ReduceOp op, const std::string& name, Tensor* x) {
    ReduceAttrs attrs;
    attrs.op = op;
    attrs.keep_dims = false;
    for (size_t d = 0; d < x->shape.size(); ++d) attrs.axes.push_back(static_cast<int64_t>(d));
    return add(before, LayerKind::kReduce, name, attrs, {x}, DataType::kFloat, {});
  }

  Tensor* add_program(const Layer* before, const std::string& name, Program program,
                      std::vector<Tensor*> inputs, DataType type, const Shape& shape) {
    PointWiseAttrs attrs;
    attrs.program = std::move(program);
    if (type != DataType::kFloat) attrs.type = type;
    return add(before, LayerKind::kPointWise, name, attrs, std::move(inputs), type, shape);
  }

  void lower_quantization(Layer* layer) {
    Tensor* x = layer->inputs[0];
    if (x->type != DataType::kFloat || !x->has_rank || x->shape.empty()) return;
    rewriter_.running(*layer);
    const std::string name = layer->name;
    Tensor* low = add_reduction(layer, ReduceOp::kMin, name + " (minimum)", x);
    Tensor* high = add_reduction(layer, ReduceOp::kMax, name + " (maximum)", x);
    Tensor* scale =
        add_program(layer, name + " (scale)", scale_program(), {low, high}, DataType::kFloat, {});
    Tensor* zero_float = add_program(layer, name + " (zero point)", zero_point_program(),
                                     {low, scale}, DataType::kFloat, {});
    Tensor* zero = add_program(layer, name + " (code of zero)", identity(), {zero_float},
                               DataType::kUInt8, {});
    float_zeros_[zero] = zero_float;
    Tensor* codes = add_program(layer, name + " (codes)", codes_program(), {x, scale, zero_float},
                                DataType::kUInt8, x->shape);
    Tensor* made[] = {codes, scale, zero};
    for (size_t k = 0; k < layer->outputs.size() && k < std::size(made); ++k)
      if (layer->outputs[k] != nullptr) rewriter_.replace_uses(layer->outputs[k], made[k]);
    rewriter_.applied(Action::kConvert, *layer, "Converting " + name);
    rewriter_.remove(layer);
  }

  // (max(high, 0) - min(low, 0)) / 255, 1 where that is nothing.
  static Program scale_program() {
    Program p;
    p.num_inputs = 2;
    const int none = append(p, PointOp::kConst, -1, -1, -1, 0);
    const int low = append(p, PointOp::kMin, 0, none), high = append(p, PointOp::kMax, 1, none);
    const int range = append(p, PointOp::kSub, high, low);
    const int step = append(p, PointOp::kDiv, range, append(p, PointOp::kConst, -1, -1, -1, 255));
    const int one = append(p, PointOp::kConst, -1, -1, -1, 1);
    append(p, PointOp::kSelect, append(p, PointOp::kEqual, high, low), one, step);
    return p;
  }
  static Program zero_point_program() {
    Program p;
    p.num_inputs = 2;
    const int low = append(p, PointOp::kMin, 0, append(p, PointOp::kConst, -1, -1, -1, 0));
    const int code =
        append(p, PointOp::kRound, append(p, PointOp::kDiv, append(p, PointOp::kNeg, low), 1));
    append(p, PointOp::kClip, code, -1, -1, 0, 255);
    return p;
  }
  static Program identity() {
    Program p;
    p.num_inputs = 1;
    append(p, PointOp::kIdentity, 0);
    return p;
  }
  static Program codes_program() {
    Program p;
    p.num_inputs = 3;
    append(p, PointOp::kAdd, append(p, PointOp::kRound, append(p, PointOp::kDiv, 0, 1)), 2);
    return p;
  }

  void lower_product(Layer* layer, bool is_matrix) {
    DynamicProduct p{layer,
                     only_reader(layer->outputs[0]),
                     layer->inputs[0],
                     layer->inputs[1],
                     input_at(*layer, 2),
                     {},
                     {},
                     std::nullopt};
    const Tensor* w_zero = input_at(*layer, 3);
    if (const auto found = float_zeros_.find(p.x_zero); found != float_zeros_.end())
      p.x_zero = found->second;
    rewriter_.running(*layer);
    Refusal refusal = product_refusal(p, w_zero);
    const size_t rank = p.w->shape.size();
    if (!refusal && (is_matrix ? rank != 2 : rank < 3))
      refusal = {Reason::kShape, "its weights are a batch"};
    if (!refusal) {
      p.extents = extents_of(p.w->shape);
      p.weights = codes_of(*p.w);
      const auto count = static_cast<int64_t>(p.weights.size());
      const int64_t columns = is_matrix ? p.extents[1] : p.extents[0];
      const int64_t inner = is_matrix || columns == 0 ? 1 : count / columns;
      if (!subtract(p.weights, w_zero, inner, columns))
        refusal = {Reason::kGrid, "the zero points of its weights do not fit"};
    }
    if (refusal) return rewriter_.declined(*layer, std::move(refusal).behind("not fused: "));
    const auto [least, largest] = std::minmax_element(p.weights.begin(), p.weights.end());
    const bool fits = p.weights.empty() || (*least >= -128 && *largest <= 127);
    Attrs attrs = MatrixMultiplyAttrs{};
    if (!is_matrix) attrs = convolution_attrs(layer->as<GenericAttrs>(), p.extents);
    const std::optional<int> kept = shared_zero(w_zero);
    const bool may_keep = kept && (is_matrix || multiplies_centered_codes(
                                                    std::get<ConvolutionAttrs>(attrs), p.extents));
    if (!fits && may_keep) p.w_zero = kept;
    if ((fits || p.w_zero) && !pads(attrs))
      multiply_codes(p, std::move(attrs));
    else
      multiply_floats(p, attrs);
  }

  void replace(const DynamicProduct& p, LayerKind kind, const Attrs& attrs,
               const std::vector<Tensor*>& inputs) {
    rewriter_.fused(*p.layer, *p.cast);
    Layer* group[] = {p.layer, p.cast};
    rewriter_.replace(group, kind, attrs, inputs, p.w->name + " + " + p.layer->name);
  }

  // The weights of every output channel, summed up, with extents that broadcast to the output.
  Tensor* add_sums(const DynamicProduct& p, bool is_matrix) {
    Extents extents(is_matrix ? 1 : p.extents.size() - 1, 1);
    const int64_t channels = extents[0] = p.extents[is_matrix ? 1 : 0];
    std::vector<float> sums(static_cast<size_t>(channels));
    const size_t count = p.weights.size(), each = channels == 0 ? 0 : count / sums.size();
    for (size_t k = 0; k < count; ++k)
      sums[is_matrix ? k % sums.size() : k / each] += static_cast<float>(p.weights[k]);
    return rewriter_.add_float_constant(p.w->name + " (sums)", extents, sums);
  }

  Tensor* add_codes(const DynamicProduct& p) {
    if (p.w_zero || (p.w->type == DataType::kInt8 && codes_of(*p.w) == p.weights)) return p.w;
    std::vector<std::byte> bytes;
    for (const int code : p.weights)
      bytes.push_back(static_cast<std::byte>(static_cast<int8_t>(code)));
    return rewriter_.add_constant(p.w->name + " (symmetric)", DataType::kInt8, p.extents,
                                  std::move(bytes));
  }

  void multiply_codes(const DynamicProduct& p, Attrs attrs) {
    std::vector<Tensor*> inputs = {p.x, add_codes(p)};
    auto* matrix = std::get_if<MatrixMultiplyAttrs>(&attrs);
    const LayerKind kind = matrix ? LayerKind::kMatrixMultiply : LayerKind::kConvolution;
    (matrix ? matrix->b_zero_point : std::get<ConvolutionAttrs>(attrs).w_zero_point) =
        p.w_zero.value_or(0);
    if (p.x_zero != nullptr) {
      Program share;
      share.num_inputs = 2;
      append(share, PointOp::kMul, 0, 1);
      Tensor* sums = add_sums(p, matrix != nullptr);
      inputs.insert(inputs.end(),
                    {nullptr, add_program(p.layer, p.layer->name + " (zero point)", share,
                                          {p.x_zero, sums}, DataType::kFloat, sums->shape)});
      Program& epilogue = matrix ? matrix->epilogue : std::get<ConvolutionAttrs>(attrs).epilogue;
      epilogue.num_inputs = 2;
      append(epilogue, PointOp::kSub, 0, 1);
    }
    replace(p, kind, attrs, inputs);
  }

  void multiply_floats(const DynamicProduct& p, const Attrs& attrs) {
    Program centre;
    centre.num_inputs = p.x_zero != nullptr ? 2 : 1;
    if (p.x_zero != nullptr)
      append(centre, PointOp::kSub, 0, 1);
    else
      append(centre, PointOp::kIdentity, 0);
    std::vector<Tensor*> operands = {p.x};
    if (p.x_zero != nullptr) operands.push_back(p.x_zero);
    Tensor* x = add_program(p.layer, p.layer->name + " (floats)", centre, operands,
                            DataType::kFloat, p.x->shape);
    const std::vector<float> values(p.weights.begin(), p.weights.end());
    Tensor* w = rewriter_.add_float_constant(p.w->name + " (floats)", p.extents, values);
    const bool is_matrix = std::holds_alternative<MatrixMultiplyAttrs>(attrs);
    replace(p, is_matrix ? LayerKind::kMatrixMultiply : LayerKind::kConvolution, attrs, {x, w});
  }

  Graph& graph_;
  Rewriter rewriter_;
  std::map<const Tensor*, Tensor*> float_zeros_;  // of zero points as codes
};

}  // namespace

int dynamic_quantization_fusion(Graph& graph, Records* records) {
  return ProductLowering(graph, records).run();
}

}  // namespace camshaft::passes
