// SPDX-License-Identifier: Apache-2.0
#include "passes/float_form.h"

#include "passes/match.h"

namespace camshaft::passes {

using namespace ir;

namespace {

class Maker {
 public:
  Maker(Rewriter& rewriter, Layer& product, FloatForm& form)
      : rewriter_(rewriter), product_(product), form_(form) {}

  void make() {
    Attrs attrs = product_.attrs;
    int64_t x_zero = 0, w_zero = 0;
    if (auto* conv = std::get_if<ConvolutionAttrs>(&attrs)) {
      std::swap(x_zero, conv->zero_point);
      std::swap(w_zero, conv->w_zero_point);
      conv->type = DataType::kUndefined;
    }
    if (auto* matrix = std::get_if<MatrixMultiplyAttrs>(&attrs)) {
      std::swap(x_zero, matrix->a_zero_point);
      std::swap(w_zero, matrix->b_zero_point);
      matrix->type = DataType::kUndefined;
    }
    std::vector<Tensor*> inputs;
    for (size_t k = 0; k < product_.inputs.size(); ++k)
      inputs.push_back(as_floats(product_.inputs[k], k == 0 ? x_zero : k == 1 ? w_zero : 0));
    const DataType type = product_.outputs[0]->type;
    Layer* made = add(product_.kind, product_.name + " in float", attrs, inputs, DataType::kFloat);
    if (type == DataType::kFloat) return;
    PointWiseAttrs store;
    store.program.num_inputs = 1;
    append(store.program, PointOp::kIdentity, 0);
    store.type = type;
    add(LayerKind::kPointWise, product_.name + " (codes)", store, {made->outputs[0]}, type);
  }

 private:
  Layer* add(LayerKind kind, const std::string& name, Attrs attrs, std::vector<Tensor*> inputs,
             DataType type, const Tensor* like = nullptr) {
    const Tensor* model = like ? like : product_.outputs[0];
    Tensor* result = rewriter_.add_tensor_like(*model, name, type);
    form_.layers.push_back(rewriter_.insert_before(&product_, kind, name, std::move(attrs),
                                                   std::move(inputs), {result}, {&product_}));
    return form_.layers.back();
  }

  Tensor* as_floats(Tensor* tensor, int64_t zero_point) {
    if (!tensor || tensor->type == DataType::kFloat) return tensor;
    if (tensor->is_constant()) return constant(*tensor, zero_point);
    PointWiseAttrs attrs;
    attrs.program.num_inputs = 1;
    if (zero_point != 0)
      append(attrs.program, PointOp::kSub, 0,
             append(attrs.program, PointOp::kConst, -1, -1, -1, static_cast<float>(zero_point)));
    else
      append(attrs.program, PointOp::kIdentity, 0);
    return add(LayerKind::kPointWise, tensor->name + " as floats", attrs, {tensor},
               DataType::kFloat, tensor)
        ->outputs[0];
  }

  Tensor* constant(const Tensor& tensor, int64_t zero_point) {
    std::vector<float> values;
    const auto take = [&](auto codes) {
      for (const auto code : codes) values.push_back(static_cast<float>(code - zero_point));
    };
    if (tensor.type == DataType::kInt8) take(tensor.values<int8_t>());
    if (tensor.type == DataType::kUInt8) take(tensor.values<uint8_t>());
    if (tensor.type == DataType::kInt32) take(tensor.values<int32_t>());
    return rewriter_.add_float_constant(tensor.name + " as floats", extents_of(tensor.shape),
                                        values);
  }

  Rewriter& rewriter_;
  Layer& product_;
  FloatForm& form_;
};

Refusal float_form_refusal(const Layer& product) {
  const DataType type = product.outputs[0]->type;
  if (type != DataType::kFloat && !is_quantized(type))
    return {Reason::kType, "its result is of another type"};
  for (const Tensor* input : product.inputs) {
    if (!input || input->type == DataType::kFloat || is_quantized(input->type)) continue;
    if (input->type != DataType::kInt32 || !input->is_constant())
      return {Reason::kConstant, "an operand is no constant"};
  }
  return {};
}

}  // namespace

FloatForm add_float_form(Rewriter& rewriter, Layer& product) {
  FloatForm form;
  form.refusal = float_form_refusal(product);
  if (!form.refusal) Maker(rewriter, product, form).make();
  return form;
}

void take_float_form(Rewriter& rewriter, Layer& product, const FloatForm& form) {
  Layer* last = form.layers.back();
  const Attrs attrs = last->attrs;
  const std::vector<Tensor*> inputs = last->inputs;
  const LayerKind kind = last->kind;
  const std::string name = last->name;
  rewriter.remove(last);
  Layer* group[] = {&product};
  rewriter.replace(group, kind, attrs, inputs, name);
}

void drop_float_form(Rewriter& rewriter, const FloatForm& form) {
  for (size_t k = form.layers.size(); k-- > 0;) rewriter.remove(form.layers[k]);
}

}  // namespace camshaft::passes
