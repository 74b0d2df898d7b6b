// SPDX-License-Identifier: Apache-2.0
// ConvScaleFusion: a per-channel x*s + b (BatchNormalization's Scale, Mul, Div, Add, Sub by
// constants, Neg) behind or before a convolution, deconvolution or product with constant weights
// goes into its weights and bias. A few ulp.
#include <algorithm>
#include <cmath>

#include "passes/affine.h"
#include "passes/formula.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// A layer with constant weights, seen as runs of elements of one output and one input channel.
struct WeightedLayer {
  Layer* layer;
  Tensor* weights;
  int64_t out_channels, in_channels, groups;
  size_t out_axis, in_axis;  // of y and x
  bool is_product;

  const Program& epilogue() const {
    return is_product ? layer->as<MatrixMultiplyAttrs>().epilogue
                      : layer->as<ConvolutionAttrs>().epilogue;
  }
  Tensor* bias() const { return input_at(*layer, 2); }

  // Calls visit(oc, ic, first, last) for every run. Convolution: w[oc][ic/groups][window];
  // deconvolution: w[ic][oc/groups][window]; product: w[k][n] or w[n][k]. The second dimension
  // counts within a group of the first one's.
  template <class Visit>
  void for_runs(Visit&& visit) const {
    const bool outputs_first = is_product ? layer->as<MatrixMultiplyAttrs>().transpose_b
                                          : layer->kind == LayerKind::kConvolution;
    const int64_t outer = weights->shape[0].extent(), inner = weights->shape[1].extent();
    const int64_t window =
        element_count(extents_of(weights->shape)) / std::max<int64_t>(outer * inner, 1);
    for (int64_t a = 0; a < outer; ++a)
      for (int64_t b = 0; b < inner; ++b) {
        const int64_t over_all = a / (outer / groups) * inner + b, at = (a * inner + b) * window;
        visit(outputs_first ? a : over_all, outputs_first ? over_all : a, at, at + window);
      }
  }
};

std::optional<WeightedLayer> weighted(Layer* layer) {
  const bool product = layer->kind == LayerKind::kMatrixMultiply;
  if (!product && layer->kind != LayerKind::kConvolution &&
      layer->kind != LayerKind::kDeconvolution)
    return std::nullopt;
  Tensor *weights = layer->inputs[1], *y = layer->outputs[0], *x = layer->inputs[0];
  if (!is_float_constant(weights) || !y->has_rank || !x->has_rank) return std::nullopt;
  WeightedLayer found{layer, weights, 0, 0, 1, 1, 1, product};
  if (product) {
    if (weights->shape.size() != 2 || x->shape.size() < 2 ||
        layer->as<MatrixMultiplyAttrs>().transpose_a)
      return std::nullopt;
    const bool transposed = layer->as<MatrixMultiplyAttrs>().transpose_b;
    found.out_channels = weights->shape[transposed ? 0 : 1].extent();
    found.in_channels = weights->shape[transposed ? 1 : 0].extent();
    found.out_axis = y->shape.size() - 1;
    found.in_axis = x->shape.size() - 1;
    return found;
  }
  found.groups = layer->as<ConvolutionAttrs>().groups;
  const bool forward = layer->kind == LayerKind::kConvolution;
  found.out_channels = weights->shape[forward ? 0 : 1].extent() * (forward ? 1 : found.groups);
  found.in_channels = weights->shape[forward ? 1 : 0].extent() * (forward ? found.groups : 1);
  return found;
}

// The bias as one number per output channel, zeros if absent; empty if it is something else.
std::vector<double> bias_values(const WeightedLayer& w) {
  if (!w.bias()) return std::vector<double>(w.out_channels, 0.0);
  const std::vector<float> values =
      w.is_product ? values_along(w.bias(), w.layer->outputs[0]->shape, w.out_axis, w.out_channels)
                   : values_along(w.bias(), w.bias()->shape, 0, w.out_channels);
  return {values.begin(), values.end()};
}

// A copy of the weights to scale, in the form a constant takes over without another copy.
struct Weights {
  explicit Weights(const Tensor& tensor)
      : bytes(tensor.constant->view.begin(), tensor.constant->view.end()) {}
  float* values() { return reinterpret_cast<float*>(bytes.data()); }
  std::vector<std::byte> bytes;
};

void set_weights(Rewriter& rewriter, const WeightedLayer& w, std::vector<std::byte> bytes,
                 const std::vector<double>& bias, const std::string& suffix) {
  const Extents extents = extents_of(w.weights->shape);
  if (!bytes.empty())
    rewriter.set_input(w.layer, 1,
                       rewriter.add_constant(w.weights->name + " + " + suffix, DataType::kFloat,
                                             extents, std::move(bytes)));
  if (bias.empty()) return;  // nothing shifts: a bias that is there stays
  if (!w.bias() && std::all_of(bias.begin(), bias.end(), [](double b) { return b == 0; })) return;
  const std::vector<float> rounded(bias.begin(), bias.end());
  const int64_t count[] = {w.out_channels};
  const std::string name = (w.bias() ? w.bias()->name : w.layer->name + " bias") + " + " + suffix;
  Tensor* constant = rewriter.add_float_constant(name, count, rounded);
  if (w.layer->inputs.size() < 3)
    rewriter.append_input(w.layer, constant);
  else
    rewriter.set_input(w.layer, 2, constant);
}

// Behind: (w·x + bias) * s + b.
bool fuse_behind(Rewriter& rewriter, const WeightedLayer& w) {
  Tensor* y = w.layer->outputs[0];
  Layer* next = only_reader(y);
  if (!next || !w.epilogue().empty()) return false;
  const std::optional<Affine> affine = affine_of(*next, y, w.out_axis, w.out_channels);
  if (!affine) return false;
  rewriter.running(*next);
  std::vector<double> bias = bias_values(w);
  if (bias.empty()) {
    rewriter.declined(*next, {Reason::kConstant,
                              "the bias of " + w.layer->name + " is not one constant per channel"});
    return false;
  }
  std::vector<std::byte> scaled;
  if (std::any_of(affine->scale.begin(), affine->scale.end(), [](float s) { return s != 1; })) {
    Weights weights(*w.weights);
    float* values = weights.values();
    w.for_runs([&](int64_t oc, int64_t, int64_t first, int64_t last) {
      for (int64_t k = first; k < last; ++k) values[k] *= affine->scale[oc];
    });
    scaled = std::move(weights.bytes);
  }
  for (int64_t k = 0; k < w.out_channels; ++k)
    bias[k] = bias[k] * affine->scale[k] + affine->shift[k];
  rewriter.fused(*w.layer, *next);
  set_weights(rewriter, w, std::move(scaled), bias, next->name);
  rewriter.absorb(w.layer, next);
  return true;
}

bool pads_or_spreads(const Layer& layer) {
  const auto* a = std::get_if<ConvolutionAttrs>(&layer.attrs);
  return a && (layer.kind == LayerKind::kDeconvolution || pads_images(*a));
}

// The 0.5 of a GELU, the 1/6 of a hard swish: with `scale`, what comes before it is one operator.
bool completes_activation(const Layer& scale, Tensor* x) {
  const std::optional<Expression> bare = gather(x, {}), scaled = gather(scale.outputs[0], {});
  return bare && scaled &&
         simplify(scaled->program).code.size() < simplify(bare->program).code.size();
}

// Whether a normalization, whose results are about 1, subtracts far more: they would be what is
// left of much larger products in the sum. With 340 a result was 1e-5 of the largest off, otherwise
// 1e-6.
bool cancels(const Layer& scale, const Affine& affine) {
  constexpr float kMostShift = 16;  // 4 of 24 bits
  return scale.kind == LayerKind::kScale &&
         std::any_of(affine.shift.begin(), affine.shift.end(),
                     [](float shift) { return std::abs(shift) > kMostShift; });
}

// Before: w·(x * s + b) + bias. What is padded with zeros must not be shifted.
bool fuse_before(Rewriter& rewriter, const WeightedLayer& w) {
  Layer* before = w.layer->inputs[0]->producer;
  if (!before || only_reader(w.layer->inputs[0]) != w.layer || before->inputs.empty()) return false;
  Tensor* x = before->inputs[0] && !before->inputs[0]->is_constant() ? before->inputs[0]
                                                                     : input_at(*before, 1);
  if (!x || !same_shape(x, w.layer->inputs[0])) return false;
  const std::optional<Affine> affine = affine_of(*before, x, w.in_axis, w.in_channels);
  if (!affine) return false;
  rewriter.running(*before);
  const bool shifts =
      std::any_of(affine->shift.begin(), affine->shift.end(), [](float b) { return b != 0; });
  std::vector<double> bias = bias_values(w);
  if (shifts && (pads_or_spreads(*w.layer) || bias.empty())) {
    rewriter.declined(*before,
                      {Reason::kValue, "it shifts what " + w.layer->name + " pads with zeros"});
    return false;
  }
  if (cancels(*before, *affine)) {
    rewriter.declined(*before, {Reason::kValue,
                                "what it subtracts would cancel in the sums of " + w.layer->name});
    return false;
  }
  if (!shifts && completes_activation(*before, x)) {
    rewriter.declined(*before, {Reason::kOtherPass, "it is the last step of an activation"});
    return false;
  }
  Weights weights(*w.weights);
  float* values = weights.values();
  const double alpha = w.is_product ? w.layer->as<MatrixMultiplyAttrs>().alpha : 1;
  w.for_runs([&](int64_t oc, int64_t ic, int64_t first, int64_t last) {
    for (int64_t k = first; k < last; ++k) {
      if (shifts) bias[oc] += alpha * values[k] * affine->shift[ic];
      values[k] *= affine->scale[ic];
    }
  });
  rewriter.fused(*before, *w.layer);
  if (!shifts) bias.clear();
  set_weights(rewriter, w, std::move(weights.bytes), bias, before->name);
  Layer* group[] = {before, w.layer};
  std::vector<Tensor*> inputs = w.layer->inputs;
  inputs[0] = x;
  rewriter.replace(group, w.layer->kind, w.layer->attrs, inputs);
  return true;
}

}  // namespace

int conv_scale_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "ConvScaleFusion", records);
  for (size_t k = 0; k < graph.layers().size();) {
    const std::optional<WeightedLayer> w = weighted(graph.layers()[k].get());
    const Tensor* y = w ? w->layer->outputs[0] : nullptr;
    const Layer* next = y ? only_reader(y) : nullptr;
    const Tensor* result = next ? next->outputs[0] : nullptr;
    if (w && fuse_behind(rewriter, *w))
      k = graph.position(result->producer);
    else if (w && fuse_before(rewriter, *w))
      k = graph.position(y->producer);
    else
      ++k;
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
