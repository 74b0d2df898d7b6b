// SPDX-License-Identifier: Apache-2.0
// OneHotFusion: the product of a one-hot encoding (indices == 0 … depth-1, cast to float) with
// constant weights is a look-up of rows; what is computed from each row alone is computed for the
// table now. Indices outside find a row of zeros. Bit exact.
#include <algorithm>
#include <cstring>

#include "passes/formula.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// indices [..., 1] == constant 0 … depth-1, as float: gives the tensor of indices.
Tensor* one_hot_indices(const Tensor* encoded, int64_t depth) {
  const Layer* cast = producer_of_kind(encoded, LayerKind::kCast);
  if (!cast || cast->as<CastAttrs>().to != DataType::kFloat) return nullptr;
  const Layer* compare = producer_of_kind(cast->inputs[0], LayerKind::kElementWise);
  if (!compare || compare->as<PointOpAttrs>().op != PointOp::kEqual) return nullptr;
  for (size_t k : {size_t{0}, size_t{1}}) {
    const Tensor* range = compare->inputs[k];
    Tensor* indices = compare->inputs[1 - k];
    if (!range->is_constant() || range->type != DataType::kInt32 || !indices->has_rank ||
        indices->shape.empty())
      continue;
    const auto values = range->values<int32_t>();
    bool counts = static_cast<int64_t>(values.size()) == depth && !range->shape.empty() &&
                  range->shape[range->shape.size() - 1] == Dim(depth);
    for (size_t n = 0; counts && n < values.size(); ++n)
      counts = values[n] == static_cast<int32_t>(n);
    if (counts && indices->shape[indices->shape.size() - 1] == Dim(1) &&
        indices->shape.size() >= range->shape.size())
      return indices;
  }
  return nullptr;
}

Tensor* add_scalar(Rewriter& rewriter, const std::string& name, int32_t value) {
  std::vector<std::byte> bytes(sizeof(value));
  std::memcpy(bytes.data(), &value, sizeof(value));
  return rewriter.add_constant(name, DataType::kInt32, {}, std::move(bytes));
}

bool to_look_up(Rewriter& rewriter, Layer* product) {
  const auto& a = product->as<MatrixMultiplyAttrs>();
  Tensor *encoded = product->inputs[0], *table = product->inputs[1];
  if (!is_float_constant(table) || table->shape.size() != 2 || a.transpose_a || a.transpose_b ||
      a.alpha != 1)
    return false;
  if (input_at(*product, 2) || !a.epilogue.empty() || !encoded->has_rank) return false;
  const int64_t depth = table->shape[0].extent(), width = table->shape[1].extent();
  Tensor* indices = one_hot_indices(encoded, depth);
  if (!indices) return false;
  rewriter.running(*product);
  rewriter.applied(*product, "Converting the one-hot product " + product->name + " to a look-up");
  // The table with a row of zeros behind it, which is also row -1.
  const auto values = table->values<float>();
  std::vector<float> rows(values.begin(), values.end());
  rows.resize(rows.size() + static_cast<size_t>(width), 0.0f);
  const int64_t extents[] = {depth + 1, width};
  Tensor* padded = rewriter.add_float_constant(table->name + " (with zeros)", extents, rows);
  Graph& graph = rewriter.graph();
  const Shape flat(indices->shape.begin(), indices->shape.end() - 1);
  const std::string name = product->name;
  PointOpAttrs low, high;
  low.op = PointOp::kMax;
  high.op = PointOp::kMin;
  Tensor* above = graph.add_tensor(indices->name + " (from -1)", indices->type, indices->shape);
  Tensor* inside = graph.add_tensor(indices->name + " (clamped)", indices->type, indices->shape);
  Tensor* flattened = graph.add_tensor(indices->name + " (flat)", indices->type, flat);
  rewriter.insert_before(product, LayerKind::kElementWise, name + " (from -1)", low,
                         {indices, add_scalar(rewriter, name + " -1", -1)}, {above}, {product});
  rewriter.insert_before(
      product, LayerKind::kElementWise, name + " (clamp)", high,
      {above, add_scalar(rewriter, name + " depth", static_cast<int32_t>(depth))}, {inside},
      {product});
  ShuffleAttrs squeeze;
  squeeze.has_reshape = true;
  squeeze.reshape = flat;
  rewriter.insert_before(product, LayerKind::kShuffle, name + " (flat)", squeeze, {inside},
                         {flattened}, {product});
  Layer* group[] = {product};
  rewriter.replace(group, LayerKind::kGather, GatherAttrs(), {padded, flattened}, name);
  return true;
}

// A vocabulary of tens of thousands of rows is not worth computing for the few that are looked up.
constexpr int64_t kMostTableElements = 1 << 17;

// A pointwise layer behind a look-up in a constant table that reads besides only constants along
// the rows: applied to the table.
bool into_table(Rewriter& rewriter, Layer* gather) {
  const auto& a = gather->as<GatherAttrs>();
  Tensor *table = gather->inputs[0], *y = gather->outputs[0];
  Layer* next = only_reader(y);
  if (!is_float_constant(table) || table->shape.size() != 2 || a.mode != GatherMode::kDefault ||
      a.axis != 0)
    return false;
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
  rewriter.applied(*next, "Fusing " + next->name + " into the table of " + gather->name);
  const int64_t extents[] = {rows, width};
  rewriter.set_input(
      gather, 0, rewriter.add_float_constant(table->name + " + " + next->name, extents, values));
  rewriter.absorb(gather, next);
  return true;
}

}  // namespace

int fuse_one_hot(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "OneHotFusion", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    if (layer->kind == LayerKind::kMatrixMultiply)
      to_look_up(rewriter, layer);
    else if (layer->kind == LayerKind::kGather)
      into_table(rewriter, layer);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
