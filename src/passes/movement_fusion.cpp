// SPDX-License-Identifier: Apache-2.0
// MovementFusion: chains of shuffles, slices and gathers of one index become one shuffle, or one
// slice (and a reshape that moves nothing); a gather of a constant index, or of indices in even
// steps, becomes a slice; slices that put a tensor together again in reverse become one slice. Bit
// exact.
#include <algorithm>

#include "passes/match.h"
#include "passes/passes.h"
#include "passes/strided_view.h"

namespace camshaft::passes {

using namespace ir;

namespace {

bool rewrite_chain(Rewriter& rewriter, Layer* last) {
  Tensor* output = last->outputs[0];
  const StridedView view =
      last->kind == LayerKind::kGather ? view_of_layer(*last) : strided_view(output);
  const bool gathers = last->kind == LayerKind::kGather;
  if (view.layers < 1 || (view.layers == 1 && !gathers)) return false;
  const std::optional<Movement> movement = movement_of(view, output->shape);
  if (!movement) return false;
  if (movement->layers() >= view.layers && !gathers) return false;
  std::vector<Layer*> group;
  for (const Tensor* t = output; t != view.root; t = t->producer->inputs[0])
    group.insert(group.begin(), t->producer);
  rewriter.running(*last);
  if (movement->layers() == 0) {
    if (!rewriter.can_replace(output, view.root)) return false;
    rewriter.replace_uses(output, view.root);
    rewriter.applied(Action::kRemove, *last,
                     "Removing " + last->name + ": with what is before it, it gives " +
                         view.root->name + " again");
    rewriter.remove(last);
    return true;
  }
  rewriter.applied(Action::kFuse, *last, "Fusing " + group.front()->name + " with " + last->name);
  if (!movement->slice) {
    rewriter.replace(group, LayerKind::kShuffle, *movement->shuffle, {view.root});
    return true;
  }
  if (!movement->shuffle) {
    rewriter.replace(group, LayerKind::kSlice, *movement->slice, {view.root});
    return true;
  }
  Tensor* sliced = rewriter.add_tensor(output->name + " (slice)", output->type, movement->sliced);
  rewriter.insert_before(last, LayerKind::kSlice, last->name + " (slice)", *movement->slice,
                         {view.root}, {sliced}, {group.begin(), group.end()});
  rewriter.replace(group, LayerKind::kShuffle, *movement->shuffle, {sliced});
  return true;
}

// Indices start, start + step … as a Slice.
bool gather_to_slice(Rewriter& rewriter, Layer* gather) {
  const auto& a = gather->as<GatherAttrs>();
  const Tensor *data = gather->inputs[0], *indices = gather->inputs[1];
  if (a.mode != GatherMode::kDefault || !indices->is_constant() || indices->shape.size() != 1 ||
      !data->has_rank)
    return false;
  if (!data->shape[a.axis].is_known() || indices->shape[0].extent() < 1) return false;
  const int64_t extent = data->shape[a.axis].extent();
  Ints values;
  for (int64_t k = 0; k < indices->shape[0].extent(); ++k) {
    const int64_t v = indices->type == DataType::kInt64 ? indices->values<int64_t>()[k]
                                                        : indices->values<int32_t>()[k];
    values.push_back(v < 0 ? v + extent : v);
    if (values.back() < 0 || values.back() >= extent) return false;
  }
  const int64_t step = values.size() > 1 ? values[1] - values[0] : 1;
  for (size_t k = 1; k < values.size(); ++k)
    if (step == 0 || values[k] - values[k - 1] != step) return false;
  SliceAttrs slice;
  slice.start = Shape(data->shape.size(), Dim(0));
  slice.size = data->shape;
  slice.step = Ints(data->shape.size(), 1);
  slice.start[a.axis] = values[0];
  slice.size[a.axis] = static_cast<int64_t>(values.size());
  slice.step[a.axis] = step;
  rewriter.running(*gather);
  rewriter.applied(Action::kConvert, *gather, "Converting " + gather->name + " to a slice");
  Layer* group[] = {gather};
  rewriter.replace(group, LayerKind::kSlice, slice, {gather->inputs[0]});
  return true;
}

// Parts that lie in one tensor at even distances: put together they are a view of it.
std::optional<StridedView> joined_view(const Layer& concat) {
  const auto axis = static_cast<size_t>(concat.as<AxisAttrs>().axis);
  StridedView whole = strided_view(concat.inputs[0]);
  if (whole.layers == 0 || concat.inputs.size() < 2 || !whole.offset.is_known())
    return std::nullopt;
  const StridedView::Axis part = whole.axes[axis];
  std::optional<int64_t> distance;
  for (size_t k = 1; k < concat.inputs.size(); ++k) {
    const StridedView next = strided_view(concat.inputs[k]);
    if (next.root != whole.root || next.layers == 0 || next.axes != whole.axes ||
        !next.offset.is_known())
      return std::nullopt;
    const int64_t step = next.offset.extent() - whole.offset.extent();
    if (!distance) distance = step / static_cast<int64_t>(k);
    if (step != *distance * static_cast<int64_t>(k)) return std::nullopt;
    whole.layers = std::max(whole.layers, next.layers);
  }
  if (!part.extent.is_known() || *distance == 0) return std::nullopt;
  const auto count = static_cast<int64_t>(concat.inputs.size());
  if (part.extent == Dim(1)) {
    whole.axes[axis] = {count, std::abs(*distance), *distance < 0};
  } else {
    if (part.negative || !part.stride.is_known() ||
        *distance != part.extent.extent() * part.stride.extent())
      return std::nullopt;
    whole.axes[axis].extent = count * part.extent.extent();
  }
  ++whole.layers;
  return whole;
}

bool join_parts(Rewriter& rewriter, Layer* concat) {
  for (const Tensor* input : concat->inputs)
    if (!input->has_rank || input->is_constant()) return false;
  const std::optional<StridedView> view = joined_view(*concat);
  if (!view || !concat->outputs[0]->has_rank) return false;
  const std::optional<Movement> movement = movement_of(*view, concat->outputs[0]->shape);
  if (!movement || movement->layers() > 1) return false;
  std::vector<Layer*> group;
  for (const Tensor* input : concat->inputs)
    for (const Tensor* t = input; t != view->root; t = t->producer->inputs[0])
      if (std::find(group.begin(), group.end(), t->producer) == group.end())
        group.push_back(t->producer);
  sort_by_position(group);
  group.push_back(concat);
  rewriter.running(*concat);
  const std::string text =
      "Fusing the parts of " + view->root->name + " that " + concat->name + " puts together";
  if (movement->layers() == 0) {
    if (!rewriter.can_replace(concat->outputs[0], view->root)) return false;
    rewriter.replace_uses(concat->outputs[0], view->root);
    rewriter.applied(Action::kFuse, *concat, text);
    rewriter.remove(concat);
    return true;
  }
  rewriter.applied(Action::kFuse, *concat, text);
  if (movement->slice)
    rewriter.replace(group, LayerKind::kSlice, *movement->slice, {view->root});
  else
    rewriter.replace(group, LayerKind::kShuffle, *movement->shuffle, {view->root});
  return true;
}

// Concatenations of concatenations along one axis.
bool flatten(Rewriter& rewriter, Layer* concat) {
  for (Tensor* input : concat->inputs) {
    Layer* inner = producer_of_kind(input, LayerKind::kConcatenation);
    if (!inner || only_reader(input) != concat || !equal(inner->attrs, concat->attrs)) continue;
    std::vector<Tensor*> inputs;
    for (Tensor* part : concat->inputs) {
      if (part == input)
        inputs.insert(inputs.end(), inner->inputs.begin(), inner->inputs.end());
      else
        inputs.push_back(part);
    }
    rewriter.running(*concat);
    rewriter.fused(*inner, *concat);
    Layer* group[] = {inner, concat};
    rewriter.replace(group, LayerKind::kConcatenation, concat->attrs, inputs);
    return true;
  }
  return false;
}

}  // namespace

int movement_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "MovementFusion", records);
  for (size_t k = 0; k < graph.layers().size();) {
    Layer* layer = graph.layers()[k].get();
    bool changed = false;
    const Tensor* output = layer->outputs.empty() ? nullptr : layer->outputs[0];
    const size_t count = graph.layers().size();
    switch (layer->kind) {
      case LayerKind::kGather:
        changed = gather_to_slice(rewriter, layer) ||
                  (output->has_rank && rewrite_chain(rewriter, layer));
        break;
      case LayerKind::kSlice:
      case LayerKind::kShuffle:
        changed = output->has_rank && rewrite_chain(rewriter, layer);
        break;
      case LayerKind::kConcatenation:
        changed = flatten(rewriter, layer) || join_parts(rewriter, layer);
        break;
      default:
        break;
    }
    if (!changed)
      ++k;
    else
      k -= std::min(k, count - std::min(count, graph.layers().size()));
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
