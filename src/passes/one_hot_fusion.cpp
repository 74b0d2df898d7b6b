// SPDX-License-Identifier: Apache-2.0
// OneHotFusion: the product of a one-hot encoding (one_hot.h) with constant weights, on either
// side, or as a 1x1 convolution, is a look-up of rows; so is that of rows of a constant table. What
// is computed from each row alone is computed for the table now, reshapes of the rows become
// reshapes of the indices. Indices outside find what an encoding without a one gives: zeros. Bit
// exact where the encoding is of ones and zeros.
#include <algorithm>

#include "passes/formula.h"
#include "passes/match.h"
#include "passes/one_hot.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// A vocabulary of tens of thousands of rows is not worth computing for the few that are looked up.
constexpr int64_t kMostTableElements = 1 << 17;

// A product with constant weights, seen from the operand that may be looked up.
struct Contraction {
  Layer* layer;
  Tensor* operand;
  int64_t axis;        // of the operand, which the product sums over
  int64_t width_axis;  // of the result
  int64_t depth = 0, width = 0;
  double alpha = 1;
  std::vector<float> weights;  // [depth][width]
  std::vector<float> bias;     // empty: none
};

bool has_plain_window(const ConvolutionAttrs& a) {
  const auto all = [](const Ints& list, int64_t value) {
    return std::all_of(list.begin(), list.end(), [&](int64_t v) { return v == value; });
  };
  return a.groups == 1 && all(a.kernel, 1) && all(a.stride, 1) && all(a.pre_padding, 0) &&
         all(a.post_padding, 0);
}

// Weights that are stored [width][depth] where `transposed`.
void take_weights(Contraction& c, const Tensor* weights, bool transposed) {
  const auto values = weights->values<float>();
  c.depth = weights->shape[transposed ? 1 : 0].extent();
  c.width = weights->shape[transposed ? 0 : 1].extent();
  c.weights.resize(values.size());
  for (int64_t d = 0; d < c.depth; ++d)
    for (int64_t n = 0; n < c.width; ++n)
      c.weights[d * c.width + n] = values[transposed ? n * c.depth + d : d * c.width + n];
}

std::optional<Contraction> contraction_of(Layer* layer, size_t operand) {
  Contraction c{layer, layer->inputs[operand], 0, 0, 0, 0, 1, {}, {}};
  const Tensor *weights = layer->inputs[1 - operand], *y = layer->outputs[0];
  if (!is_float_constant(weights) || weights->values<float>().empty() || !c.operand->has_rank ||
      !y->has_rank)
    return std::nullopt;
  const auto rank = static_cast<int64_t>(c.operand->shape.size());
  if (rank < 2 || rank != static_cast<int64_t>(y->shape.size())) return std::nullopt;
  bool transposed = true;
  if (layer->kind == LayerKind::kConvolution) {
    const auto& a = layer->as<ConvolutionAttrs>();
    if (operand != 0 || !a.epilogue.empty() || !has_plain_window(a)) return std::nullopt;
    c.axis = c.width_axis = 1;
  } else {
    const auto& a = layer->as<MatrixMultiplyAttrs>();
    if (!a.epilogue.empty() || weights->shape.size() != 2) return std::nullopt;
    const bool swapped = operand == 0 ? a.transpose_a : a.transpose_b;
    transposed = operand == 0 ? a.transpose_b : !a.transpose_a;
    c.axis = swapped == (operand == 0) ? rank - 2 : rank - 1;
    c.width_axis = operand == 0 ? rank - 1 : rank - 2;
    c.alpha = a.alpha;
  }
  // Before the weights are copied: only where there is something to look up.
  const std::optional<OneHot> code = one_hot_of(c.operand);
  const Layer* rows = producer_of_kind(c.operand, LayerKind::kGather);
  if (!rows && (!code || code->axis != c.axis)) return std::nullopt;
  take_weights(c, weights, transposed);
  if (const Tensor* bias = input_at(*layer, 2)) {
    c.bias = layer->kind == LayerKind::kConvolution
                 ? values_along(bias, bias->shape, 0, c.width)
                 : values_along(bias, y->shape, c.width_axis, c.width);
    if (c.bias.empty()) return std::nullopt;
  }
  return c;
}

// The product becomes a look-up in [rows][width] values, which lie along the result's last axis.
void look_up(Rewriter& rewriter, const Contraction& c, const std::vector<float>& values,
             Tensor* rows) {
  rewriter.running(*c.layer);
  rewriter.applied(Action::kConvert, *c.layer,
                   "Converting the one-hot product " + c.layer->name + " to a look-up");
  const std::string name = c.layer->name;
  const int64_t extents[] = {static_cast<int64_t>(values.size()) / c.width, c.width};
  const Tensor* weights = c.layer->inputs[c.layer->inputs[0] == c.operand ? 1 : 0];
  Tensor* table = rewriter.add_float_constant(weights->name + " (rows)", extents, values);
  const auto last = static_cast<int64_t>(c.layer->outputs[0]->shape.size()) - 1;
  Layer* group[] = {c.layer};
  if (c.width_axis == last) {
    rewriter.replace(group, LayerKind::kGather, GatherAttrs(), {table, rows}, name);
    return;
  }
  Shape shape = rows->shape;
  shape.push_back(c.width);
  Tensor* found = rewriter.add_tensor(name + " (rows)", DataType::kFloat, shape);
  Layer* gather = rewriter.insert_before(c.layer, LayerKind::kGather, name, GatherAttrs(),
                                         {table, rows}, {found}, {c.layer});
  ShuffleAttrs order;
  for (int64_t k = 0; k <= last; ++k)
    order.first_transpose.push_back(k == c.width_axis ? last : k > c.width_axis ? k - 1 : k);
  rewriter.replace(group, LayerKind::kShuffle, order, {found}, name + " (order)");
  rewriter.rename(gather, name);
}

bool look_up_one_hot(Rewriter& rewriter, const Contraction& c) {
  const std::optional<OneHot> code = one_hot_of(c.operand);
  if (!code || code->axis != c.axis || code->depth != c.depth) return false;
  // The weights' rows, with that of no one behind them, which is also row -1.
  std::vector<float> values((c.depth + 1) * c.width);
  for (int64_t n = 0; n < c.width; ++n) {
    double sum = 0;
    for (int64_t d = 0; code->off != 0 && d < c.depth; ++d) sum += c.weights[d * c.width + n];
    for (int64_t d = 0; d <= c.depth; ++d) {
      const double one = d < c.depth ? (code->on - code->off) * c.weights[d * c.width + n] : 0;
      const double bias = c.bias.empty() ? 0 : c.bias[n];
      values[d * c.width + n] = static_cast<float>(c.alpha * (one + code->off * sum) + bias);
    }
  }
  look_up(rewriter, c, values, rows_of(rewriter, *code, c.layer));
  return true;
}

// (rows of a constant table) · weights: rows of their product.
bool look_up_product(Rewriter& rewriter, const Contraction& c) {
  const Layer* gather = producer_of_kind(c.operand, LayerKind::kGather);
  if (!gather || gather->as<GatherAttrs>().mode != GatherMode::kDefault ||
      gather->as<GatherAttrs>().axis != 0)
    return false;
  const Tensor* table = gather->inputs[0];
  if (!is_float_constant(table) || table->shape.size() != 2 || table->shape[1] != Dim(c.depth) ||
      c.axis + 1 != static_cast<int64_t>(c.operand->shape.size()))
    return false;
  const int64_t rows = table->shape[0].extent();
  // One product over the table must not cost more than a few runs, nor the table grow by much.
  if (rows * std::max(c.width, c.depth) > kMostTableElements) return false;
  const auto from = table->values<float>();
  std::vector<float> values(rows * c.width);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t n = 0; n < c.width; ++n) {
      double sum = 0;
      for (int64_t d = 0; d < c.depth; ++d)
        sum += static_cast<double>(from[r * c.depth + d]) * c.weights[d * c.width + n];
      values[r * c.width + n] =
          static_cast<float>(c.alpha * sum + (c.bias.empty() ? 0 : c.bias[n]));
    }
  look_up(rewriter, c, values, gather->inputs[1]);
  return true;
}

bool to_look_up(Rewriter& rewriter, Layer* product) {
  for (size_t operand : {size_t{0}, size_t{1}}) {
    const std::optional<Contraction> c = contraction_of(product, operand);
    if (c && (look_up_one_hot(rewriter, *c) || look_up_product(rewriter, *c))) return true;
  }
  return false;
}

// A reshape behind a look-up that keeps rows whole: of the indices.
bool reshape_indices(Rewriter& rewriter, Layer* gather) {
  Tensor *indices = gather->inputs[1], *table = gather->inputs[0];
  Layer* shuffle = only_reader(gather->outputs[0]);
  if (!looks_up_rows(*gather) || !shuffle || shuffle->kind != LayerKind::kShuffle ||
      input_at(*shuffle, 1) || !indices->has_rank)
    return false;
  const auto& a = shuffle->as<ShuffleAttrs>();
  if (!a.has_reshape || !a.first_transpose.empty() || !a.second_transpose.empty() ||
      a.reshape.empty() || a.reshape.back() != table->shape[1] || indices->is_constant())
    return false;
  rewriter.running(*shuffle);
  rewriter.swapped(*gather, *shuffle);
  ShuffleAttrs flat;
  flat.has_reshape = true;
  flat.reshape = Shape(a.reshape.begin(), a.reshape.end() - 1);
  Tensor* shaped = rewriter.add_tensor(indices->name + " (shaped)", indices->type, flat.reshape);
  rewriter.insert_before(gather, LayerKind::kShuffle, shuffle->name, flat, {indices}, {shaped},
                         {shuffle});
  rewriter.set_input(gather, 1, shaped);
  rewriter.absorb(gather, shuffle, gather->name);
  return true;
}

// A pointwise layer behind a look-up in a constant table that reads besides only constants along
// the rows: applied to the table.
bool into_table(Rewriter& rewriter, Layer* gather) {
  Tensor *table = gather->inputs[0], *y = gather->outputs[0];
  Layer* next = only_reader(y);
  if (!looks_up_rows(*gather)) return false;
  if (!next || !is_pointwise(*next) || !same_shape(y, next->outputs[0]) ||
      next->outputs[0]->type != DataType::kFloat)
    return false;
  if (static_cast<int64_t>(table->values<float>().size()) > kMostTableElements) return false;
  const Expression expression = expression_of(*next);
  for (const Tensor* input : expression.inputs)
    if (input != y &&
        values_along(input, y->shape, y->shape.size() - 1, table->shape[1].extent()).empty())
      return false;
  rewriter.running(*next);
  const int64_t rows = table->shape[0].extent(), width = table->shape[1].extent();
  std::vector<float> values(static_cast<size_t>(rows * width));
  std::vector<double> operands(expression.inputs.size());
  std::vector<std::vector<float>> along;
  for (const Tensor* input : expression.inputs)
    along.push_back(input == y ? std::vector<float>()
                               : values_along(input, y->shape, y->shape.size() - 1, width));
  for (int64_t k = 0; k < rows * width; ++k) {
    for (size_t n = 0; n < operands.size(); ++n)
      operands[n] = along[n].empty() ? table->values<float>()[k] : along[n][k % width];
    values[k] = static_cast<float>(evaluate(expression.program, operands));
  }
  rewriter.applied(Action::kFuse, *next,
                   "Fusing " + next->name + " into the table of " + gather->name);
  const int64_t extents[] = {rows, width};
  rewriter.set_input(
      gather, 0, rewriter.add_float_constant(table->name + " + " + next->name, extents, values));
  rewriter.absorb(gather, next);
  return true;
}

}  // namespace

int one_hot_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "OneHotFusion", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    if (layer->kind == LayerKind::kMatrixMultiply || layer->kind == LayerKind::kConvolution)
      to_look_up(rewriter, layer);
    else if (layer->kind == LayerKind::kGather)
      reshape_indices(rewriter, layer) || into_table(rewriter, layer);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
