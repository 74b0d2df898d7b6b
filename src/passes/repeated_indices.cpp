// SPDX-License-Identifier: Apache-2.0
// RepeatedIndices: GatherElements and ScatterElements whose indices are the same for all elements
// behind their axis move whole rows, as exporters write x.gather(1, i[..., None].expand(-1, -1, 4))
// and sums over the edges of graphs: an index for each row instead of one for each element. Where
// they are the same before the axis too, there is one list of rows. Bit exact.
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// Of [outer][count][inner] integers: one of each of the `count`, where all others are equal.
Ints first_of_lists(const Ints& values, int64_t count, int64_t inner) {
  Ints first;
  for (size_t k = 0; k < values.size(); ++k) {
    const size_t row = k / static_cast<size_t>(inner) % static_cast<size_t>(count);
    if (row == first.size()) first.push_back(values[k]);
    if (values[k] != first[row]) return {};
  }
  return first;
}

// Whether indices repeat behind their axis, or before it as well.
enum class Repeats { kBehind, kEverywhere };

// The indices without their repetition, of any rank; null: they do not repeat so.
Tensor* expanded_from(const Tensor* indices, size_t axis, Repeats repeats) {
  const Layer* expand = producer_of_kind(indices, LayerKind::kExpand);
  if (!expand || !expand->inputs[0]->has_rank) return nullptr;
  const Shape &from = expand->inputs[0]->shape, &to = indices->shape;
  if (from.size() > to.size()) return nullptr;
  const size_t missing = to.size() - from.size();
  for (size_t d = 0; d < to.size(); ++d) {
    const Dim source = d < missing ? Dim(1) : from[d - missing];
    const bool stays = d == axis || (d < axis && repeats == Repeats::kBehind);
    if (source != (stays ? to[d] : Dim(1))) return nullptr;
  }
  return expand->inputs[0];
}

Tensor* constant_rows(Rewriter& rewriter, const Tensor* indices, size_t axis, Repeats repeats) {
  Extents extents = extents_of(indices->shape);
  int64_t inner = 1;
  for (; extents.size() > axis + 1; extents.pop_back()) inner *= extents.back();
  const Ints values = integers_of(indices);
  const bool everywhere = repeats == Repeats::kEverywhere;
  if (values.empty() || (inner == 1 && !everywhere)) return nullptr;
  const Ints rows = first_of_lists(
      values, everywhere ? extents[axis] : static_cast<int64_t>(values.size()) / inner, inner);
  if (rows.empty()) return nullptr;
  if (everywhere) extents = {extents[axis]};
  const auto* bytes = reinterpret_cast<const std::byte*>(rows.data());
  return rewriter.add_constant(indices->name + " (rows)", DataType::kInt64, extents,
                               {bytes, bytes + rows.size() * sizeof(int64_t)});
}

// One for each row of the data; null: elements of a row go different ways.
Tensor* row_indices(Rewriter& rewriter, const Tensor* indices, size_t axis, Repeats repeats) {
  return indices->is_constant() ? constant_rows(rewriter, indices, axis, repeats)
                                : expanded_from(indices, axis, repeats);
}

// Indices reach all of the data beside `axis`: before it (`batch`: one list each), and behind.
bool covers(const Shape& indices, const Shape& data, size_t axis) {
  if (indices.size() != data.size() || axis + 1 >= data.size()) return false;
  for (size_t d = 0; d < data.size(); ++d)
    if (d != axis && indices[d] != data[d]) return false;
  return true;
}

void told(Rewriter& rewriter, const Layer& layer) {
  rewriter.running(layer);
  rewriter.applied(Action::kConvert, layer,
                   "Converting " + layer.name + " to whole rows: its indices repeat");
}

Shape rows_shape(const Shape& indices, size_t axis) {
  return {indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(axis) + 1};
}

void convert_gather(Rewriter& rewriter, Layer* gather, Tensor* rows, Repeats repeats) {
  GatherAttrs attrs = gather->as<GatherAttrs>();
  const auto axis = static_cast<size_t>(attrs.axis);
  const Shape indices = gather->inputs[1]->shape;
  Shape shape{indices[axis]};
  attrs.mode = GatherMode::kDefault;
  if (repeats == Repeats::kBehind) {
    shape = rows_shape(indices, axis);
    shape.push_back(Dim(1));
    attrs.mode = GatherMode::kNd, attrs.axis = 0, attrs.batch_dims = static_cast<int64_t>(axis);
  }
  told(rewriter, *gather);
  Tensor* list = rewriter.reshaped_before(gather, gather->name + " (rows)", rows, shape, *gather);
  Layer* group[] = {gather};
  rewriter.replace(group, LayerKind::kGather, attrs, {gather->inputs[0], list}, gather->name);
}

void convert_scatter(Rewriter& rewriter, Layer* scatter, Tensor* rows) {
  ScatterAttrs attrs = scatter->as<ScatterAttrs>();
  attrs.mode = ScatterMode::kNd;
  told(rewriter, *scatter);
  Tensor* list =
      rewriter.reshaped_before(scatter, scatter->name + " (rows)", rows,
                               {scatter->inputs[1]->shape[attrs.axis], Dim(1)}, *scatter);
  Layer* group[] = {scatter};
  rewriter.replace(group, LayerKind::kScatter, attrs,
                   {scatter->inputs[0], list, scatter->inputs[2]}, scatter->name);
}

// The axis of elements that are moved; empty: other layers, or what has no rows.
std::optional<size_t> axis_of_elements(const Layer& layer) {
  int64_t axis = 0;
  if (layer.kind == LayerKind::kGather && layer.as<GatherAttrs>().mode == GatherMode::kElements)
    axis = layer.as<GatherAttrs>().axis;
  else if (layer.kind == LayerKind::kScatter &&
           layer.as<ScatterAttrs>().mode == ScatterMode::kElements)
    axis = layer.as<ScatterAttrs>().axis;
  else
    return std::nullopt;
  const Tensor *data = layer.inputs[0], *indices = layer.inputs[1];
  if (!data->has_rank || !indices->has_rank) return std::nullopt;
  if (!covers(indices->shape, data->shape, static_cast<size_t>(axis))) return std::nullopt;
  return static_cast<size_t>(axis);
}

}  // namespace

int repeated_indices(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "RepeatedIndices", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    const std::optional<size_t> axis = axis_of_elements(*layer);
    if (!axis) continue;
    Repeats repeats = Repeats::kEverywhere;
    Tensor* rows = row_indices(rewriter, layer->inputs[1], *axis, repeats);
    const bool is_gather = layer->kind == LayerKind::kGather;
    if (!rows && is_gather)
      rows = row_indices(rewriter, layer->inputs[1], *axis, repeats = Repeats::kBehind);
    if (!rows) continue;
    is_gather ? convert_gather(rewriter, layer, rows, repeats)
              : convert_scatter(rewriter, layer, rows);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
