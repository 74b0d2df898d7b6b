// SPDX-License-Identifier: Apache-2.0
// LocalResponseSplit: local response normalization (LRN of floats) as squares, an average pooling
// along the channels and what is done with the mean: x / (bias + alpha * mean)^beta. Roots for the
// exponents that networks have, else a power. Rounded as floats.
#include "ir/generic_attributes.h"
#include "passes/generic_split.h"
#include "passes/match.h"

namespace camshaft::passes {

using namespace ir;

namespace {

struct LocalResponse {
  int64_t size;
  float alpha, beta, bias;
};

LocalResponse response_of(const GenericAttrs& attrs) {
  const auto read = [&attrs](std::string_view name, double fallback) {
    return static_cast<float>(real_attribute(attrs, name, fallback));
  };
  return {integer_attribute(attrs, "size", 0), read("alpha", 1e-4), read("beta", 0.75),
          read("bias", 1)};
}

Refusal split_refusal(const Layer& layer) {
  const Tensor* x = layer.inputs[0];
  if (x->type != DataType::kFloat) return {Reason::kType, "it is not of floats"};
  if (!x->has_rank || x->shape.size() < 2) return {Reason::kShape, "its rank is not known"};
  const LocalResponse response = response_of(layer.as<GenericAttrs>());
  if (response.size < 1 || response.size > 1024) return {Reason::kAttribute, "its size"};
  return {};
}

// Of x and the mean of squares around it.
Program normalizing(const LocalResponse& response) {
  Program program{2, {}};
  const int alpha = append(program, PointOp::kConst, -1, -1, -1, response.alpha),
            bias = append(program, PointOp::kConst, -1, -1, -1, response.bias),
            sum = append(program, PointOp::kFma, 1, alpha, bias);
  int root = sum;
  if (response.beta == 0.5f) {
    root = append(program, PointOp::kSqrt, sum);
  } else if (response.beta == 0.75f) {
    const int half = append(program, PointOp::kSqrt, sum);
    root = append(program, PointOp::kMul, half, append(program, PointOp::kSqrt, half));
  } else if (response.beta != 1) {
    root = append(program, PointOp::kPow, sum,
                  append(program, PointOp::kConst, -1, -1, -1, response.beta));
  }
  append(program, PointOp::kDiv, 0, root);
  return program;
}

// Along dimension 2 of [N, 1, C, pixels].
PoolingAttrs means_of(int64_t size) {
  PoolingAttrs pooling;
  pooling.type = PoolingType::kAverage;
  pooling.kernel = {size, 1};
  pooling.stride = pooling.dilation = {1, 1};
  pooling.pre_padding = {(size - 1) / 2, 0};
  pooling.post_padding = {size - 1 - (size - 1) / 2, 0};
  pooling.count_includes_padding = true;
  return pooling;
}

void split(Rewriter& rewriter, Layer* layer) {
  const LocalResponse response = response_of(layer->as<GenericAttrs>());
  const std::string name = layer->name;
  const Shape shape = layer->inputs[0]->shape;
  rewriter.applied(Action::kSplit, *layer,
                   "Splitting " + name + " into squares, means and a quotient");
  Dim pixels(1);
  for (size_t d = 2; d < shape.size(); ++d) pixels = rewriter.symbols().mul(pixels, shape[d]);
  const Shape rows = {shape[0], Dim(1), shape[1], pixels};
  rewriter.rename(layer, name + " (shape)");
  Tensor* x = rewriter.reshaped_before(layer, name + " (rows)", layer->inputs[0], rows, *layer);
  const auto add = [&](LayerKind kind, const char* what, Attrs attrs, std::vector<Tensor*> inputs) {
    Tensor* made = rewriter.add_tensor(name + what, DataType::kFloat, rows);
    rewriter.insert_before(layer, kind, name + what, std::move(attrs), std::move(inputs), {made},
                           {layer});
    return made;
  };
  Program square{1, {}};
  append(square, PointOp::kMul, 0, 0);
  Tensor* squares = add(LayerKind::kPointWise, " (squares)", PointWiseAttrs{square, {}}, {x});
  Tensor* means = add(LayerKind::kPooling, " (means)", means_of(response.size), {squares});
  Tensor* result = add(LayerKind::kPointWise, " (quotient)",
                       PointWiseAttrs{normalizing(response), {}}, {x, means});
  ShuffleAttrs back;
  back.has_reshape = true;
  back.reshape = layer->outputs[0]->shape;
  Layer* group[] = {layer};
  rewriter.replace(group, LayerKind::kShuffle, back, {result}, name + " (shape)");
}

}  // namespace

int local_response_split(Graph& graph, Records* records) {
  return split_generic(graph, records, "LocalResponseSplit", "LRN", split_refusal, split);
}

}  // namespace camshaft::passes
