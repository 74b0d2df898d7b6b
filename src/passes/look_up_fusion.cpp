// SPDX-License-Identifier: Apache-2.0
// LookUpFusion: rows of a constant table at indices that are known but for how many they are. One
// row only (token types that are all zero) is that row, repeated, which what adds it broadcasts;
// rows at a slice of constant indices (positions up to a length) are a slice of their rows. Bit
// exact.
#include <algorithm>

#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

constexpr size_t kMostRowBytes = 16 << 20;

bool looks_up_known_rows(const Layer& layer) {
  return looks_up_rows(layer) && layer.outputs[0]->has_rank && !layer.inputs[1]->is_constant();
}

// Row `index` of the table, counted from its end if negative; empty: there is none.
std::span<const float> row_of(const Tensor* table, int64_t index) {
  const int64_t rows = table->shape[0].extent(), width = table->shape[1].extent();
  if (index < 0) index += rows;
  if (index < 0 || index >= rows) return {};
  return table->values<float>().subspan(static_cast<size_t>(index * width),
                                        static_cast<size_t>(width));
}

bool repeat_row(Rewriter& rewriter, Layer* gather) {
  const std::optional<double> index = uniform_value(gather->inputs[1]);
  const Tensor *table = gather->inputs[0], *y = gather->outputs[0];
  const auto row = index ? row_of(table, static_cast<int64_t>(*index)) : std::span<const float>();
  if (row.empty()) return false;
  rewriter.running(*gather);
  rewriter.applied(Action::kConvert, *gather,
                   "Converting " + gather->name + " to an expansion of one row");
  Extents extents(y->shape.size(), 1);
  extents[y->shape.size() - 1] = static_cast<int64_t>(row.size());
  Tensor* constant = rewriter.add_float_constant(table->name + " (row)", extents, row);
  ShapeAttrs attrs;
  attrs.shape = y->shape;
  Layer* group[] = {gather};
  rewriter.replace(group, LayerKind::kExpand, attrs, {constant}, gather->name);
  return true;
}

bool slice_rows(Rewriter& rewriter, Layer* gather) {
  const Layer* slice = producer_of_kind(gather->inputs[1], LayerKind::kSlice);
  const Tensor* table = gather->inputs[0];
  if (!slice || slice->inputs.size() > 1 || !slice->inputs[0]->is_constant()) return false;
  const Ints indices = integers_of(slice->inputs[0]);
  const auto width = static_cast<size_t>(table->shape[1].extent());
  if (indices.empty() || indices.size() * width * sizeof(float) > kMostRowBytes) return false;
  std::vector<float> values;
  values.reserve(indices.size() * width);
  for (int64_t index : indices) {
    const auto row = row_of(table, index);
    if (row.empty()) return false;
    values.insert(values.end(), row.begin(), row.end());
  }
  rewriter.running(*gather);
  rewriter.applied(Action::kConvert, *gather,
                   "Converting " + gather->name + " to a slice of its rows");
  Extents extents = extents_of(slice->inputs[0]->shape);
  extents.push_back(static_cast<int64_t>(width));
  Tensor* rows = rewriter.add_float_constant(table->name + " (rows)", extents, values);
  SliceAttrs attrs = slice->as<SliceAttrs>();
  attrs.start.push_back(0);
  attrs.size.push_back(table->shape[1]);
  attrs.step.push_back(1);
  Layer* group[] = {gather};
  rewriter.replace(group, LayerKind::kSlice, attrs, {rows}, gather->name);
  return true;
}

}  // namespace

int look_up_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "LookUpFusion", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    if (looks_up_known_rows(*layer) && !repeat_row(rewriter, layer)) slice_rows(rewriter, layer);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
