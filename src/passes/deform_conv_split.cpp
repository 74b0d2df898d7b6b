// SPDX-License-Identifier: Apache-2.0
// DeformConvSplit: a deformable convolution of constant weights as the columns of its moved taps
// (DeformedColumns) and a 1x1 convolution, which has fast kernels, epilogues and all formats. Sums
// are rounded in another order.
#include "ir/deformed_columns.h"
#include "ir/generic_attributes.h"
#include "passes/generic_split.h"
#include "passes/match.h"

namespace camshaft::passes {

using namespace ir;

namespace {

enum DeformConvInput : size_t { kImage, kWeights, kOffset, kBias, kMask };

int64_t groups_of(const Layer& layer) {
  return integer_attribute(layer.as<GenericAttrs>(), "group", 1);
}

Refusal split_refusal(const Layer& layer) {
  const Tensor *x = layer.inputs[kImage], *w = layer.inputs[kWeights],
               *bias = input_at(layer, kBias);
  if (x->type != DataType::kFloat) return {Reason::kType, "it is not of floats"};
  if (!is_float_constant(w) || (bias != nullptr && !is_float_constant(bias)))
    return {Reason::kConstant, "its weights are no constant"};
  if (w->shape.size() != 4 || !x->has_rank || x->shape.size() != 4 ||
      !layer.inputs[kOffset]->has_rank || layer.inputs[kOffset]->shape.size() != 4)
    return {Reason::kShape, "it is not of images"};
  const int64_t groups = groups_of(layer);
  const Extents e = extents_of(w->shape);
  if (groups < 1 || e[0] % groups != 0 || !x->shape[1].is_known() ||
      x->shape[1].extent() != groups * e[1] || e[2] * e[3] == 0)
    return {Reason::kShape, "its groups do not fit"};
  return {};
}

// [K, C/groups, taps] → [K, taps, C/groups].
std::vector<float> columns_of(const Tensor& weights) {
  const Extents e = extents_of(weights.shape);
  const int64_t channels = e[1], taps = e[2] * e[3];
  const auto from = weights.values<float>();
  std::vector<float> to(from.size());
  for (int64_t k = 0; k < e[0]; ++k)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t t = 0; t < taps; ++t)
        to[(k * taps + t) * channels + c] = from[(k * channels + c) * taps + t];
  return to;
}

GenericAttrs columns_attrs(const GenericAttrs& from, const Extents& weights) {
  GenericAttrs attrs{kDeformedColumns, 1, {{"kernel_shape", {weights[2], weights[3]}, {}, ""}}};
  for (const GenericAttribute& attribute : from.attributes)
    if (attribute.name != "kernel_shape") attrs.attributes.push_back(attribute);
  return attrs;
}

void split(Rewriter& rewriter, Layer* layer) {
  const Tensor* weights = layer->inputs[kWeights];
  const Extents e = extents_of(weights->shape);
  const std::string name = layer->name;
  rewriter.applied(Action::kSplit, *layer, "Splitting " + name + " into columns and a product");
  Tensor *x = layer->inputs[kImage], *offset = layer->inputs[kOffset];
  std::vector<Tensor*> inputs = {x, offset};
  if (Tensor* mask = input_at(*layer, kMask)) inputs.push_back(mask);
  const Dim columns = Dim(x->shape[1].extent() * e[2] * e[3]);
  Tensor* made = rewriter.add_tensor(name + " (columns)", DataType::kFloat,
                                     {x->shape[0], columns, offset->shape[2], offset->shape[3]});
  rewriter.insert_before(layer, LayerKind::kGeneric, name + " (columns)",
                         columns_attrs(layer->as<GenericAttrs>(), e), inputs, {made}, {layer});
  ConvolutionAttrs product;
  product.kernel = product.stride = product.dilation = {1, 1};
  product.pre_padding = product.post_padding = {0, 0};
  product.groups = groups_of(*layer);
  Tensor* matrix = rewriter.add_float_constant(
      weights->name + " (columns)", Extents{e[0], e[1] * e[2] * e[3], 1, 1}, columns_of(*weights));
  std::vector<Tensor*> operands = {made, matrix};
  if (Tensor* bias = input_at(*layer, kBias)) operands.push_back(bias);
  Layer* group[] = {layer};
  rewriter.replace(group, LayerKind::kConvolution, product, operands, name);
}

}  // namespace

int deform_conv_split(Graph& graph, Records* records) {
  return split_generic(graph, records, "DeformConvSplit", "DeformConv", split_refusal, split);
}

}  // namespace camshaft::passes
