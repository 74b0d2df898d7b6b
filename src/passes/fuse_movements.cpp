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
  const StridedView view = strided_view(output);
  const bool gathers = last->kind == LayerKind::kGather;
  if (view.layers < 1 || (view.layers == 1 && !gathers)) return false;
  const std::optional<Movement> movement = movement_of(view, output->shape);
  if (!movement) return false;
  // A slice and the reshape behind it are as short as it gets, and what two layers may become once:
  // a slice, then a reshape.
  const bool is_short = view.layers == 2 && last->kind == LayerKind::kShuffle;
  if (movement->layers() == 2 && !gathers && is_short) return false;
  std::vector<Layer*> group;
  for (const Tensor* t = output; t != view.root; t = t->producer->inputs[0])
    group.insert(group.begin(), t->producer);
  rewriter.running(*last);
  if (movement->layers() == 0) {
    if (!rewriter.can_replace(output, view.root)) return false;
    rewriter.replace_uses(output, view.root);
    rewriter.applied(*last, "Removing " + last->name + ": with what is before it, it gives " +
                                view.root->name + " again");
    rewriter.remove(last);
    return true;
  }
  rewriter.applied(*last, "Fusing " + group.front()->name + " with " + last->name);
  if (!movement->slice) {
    rewriter.replace(group, LayerKind::kShuffle, *movement->shuffle, {view.root});
    return true;
  }
  if (!movement->shuffle) {
    rewriter.replace(group, LayerKind::kSlice, *movement->slice, {view.root});
    return true;
  }
  Tensor* sliced =
      rewriter.graph().add_tensor(output->name + " (slice)", output->type, movement->sliced);
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
  rewriter.applied(*gather, "Converting " + gather->name + " to a slice");
  Layer* group[] = {gather};
  rewriter.replace(group, LayerKind::kSlice, slice, {gather->inputs[0]});
  return true;
}

// Concat of x[k], x[k-1] … along the axis they were cut on.
bool reversed_slices(Rewriter& rewriter, Layer* concat) {
  const auto axis = static_cast<size_t>(concat->as<AxisAttrs>().axis);
  const size_t count = concat->inputs.size();
  SliceAttrs whole;
  Tensor* root = nullptr;
  for (size_t k = 0; k < count; ++k) {
    const Layer* slice = producer_of_kind(concat->inputs[k], LayerKind::kSlice);
    if (!slice || slice->inputs.size() > 1 || (root && slice->inputs[0] != root)) return false;
    root = slice->inputs[0];
    SliceAttrs part = slice->as<SliceAttrs>();
    if (part.size[axis] != Dim(1) || !part.start[axis].is_known()) return false;
    if (k == 0) {
      whole = part;
      continue;
    }
    if (part.start[axis].extent() != whole.start[axis].extent() - static_cast<int64_t>(k))
      return false;
    part.start[axis] = whole.start[axis];
    part.step[axis] = whole.step[axis];
    if (part.start != whole.start || part.size != whole.size || part.step != whole.step)
      return false;
  }
  if (count < 2) return false;
  whole.size[axis] = static_cast<int64_t>(count);
  whole.step[axis] = -1;
  rewriter.running(*concat);
  std::vector<Layer*> group;
  for (const Tensor* input : concat->inputs) group.push_back(input->producer);
  group.push_back(concat);
  rewriter.applied(*concat, "Fusing the slices before " + concat->name + " into one in reverse");
  rewriter.replace(group, LayerKind::kSlice, whole, {root});
  return true;
}

}  // namespace

int fuse_movements(Graph& graph, Records* records) {
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
        changed = reversed_slices(rewriter, layer);
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
