// SPDX-License-Identifier: Apache-2.0
#include "passes/strided_view.h"
#include "ir/extents.h"

#include <algorithm>

#include "passes/match.h"

namespace camshaft::passes {

using namespace ir;

namespace {

using Axis = StridedView::Axis;

StridedView dense(Tensor* root) {
  SymbolTable& symbols = root->graph->symbols();
  StridedView view;
  view.root = root;
  view.axes.resize(root->shape.size());
  Dim stride = 1;
  for (size_t k = root->shape.size(); k-- > 0;) {
    view.axes[k] = {root->shape[k], stride};
    stride = symbols.mul(stride, root->shape[k]);
  }
  return view;
}

bool apply_transpose(StridedView& view, const Ints& order) {
  if (order.empty()) return true;
  std::vector<Axis> axes;
  for (int64_t axis : order) axes.push_back(view.axes[axis]);
  view.axes = std::move(axes);
  return true;
}

// Groups of old axes that are contiguous within are split into new ones of the same number of
// elements.
bool apply_reshape(StridedView& view, const Shape& shape, SymbolTable& symbols) {
  std::vector<Axis> old_axes, axes;
  for (const Axis& axis : view.axes)
    if (axis.extent != Dim(1)) old_axes.push_back(axis);
  size_t next = 0;
  for (size_t k = 0; k < shape.size();) {
    if (shape[k] == Dim(1)) {
      axes.push_back({1, 0});
      ++k;
      continue;
    }
    if (next == old_axes.size()) return false;
    // Grow both sides until they hold the same number of elements.
    size_t old_end = next + 1, new_end = k + 1;
    Dim old_count = old_axes[next].extent, new_count = shape[k];
    while (old_count != new_count) {
      const bool known = old_count.is_known() && new_count.is_known();
      const bool grow_new =
          known ? new_count.extent() < old_count.extent()
                : new_end < shape.size() && symbols.mod(old_count, new_count) == Dim(0);
      if (grow_new && new_end < shape.size())
        new_count = symbols.mul(new_count, shape[new_end++]);
      else if (!grow_new && old_end < old_axes.size())
        old_count = symbols.mul(old_count, old_axes[old_end++].extent);
      else
        return false;
    }
    for (size_t n = next; n + 1 < old_end; ++n)  // the old axes of the group lie like one
      if (old_axes[n].negative || old_axes[n + 1].negative ||
          old_axes[n].stride != symbols.mul(old_axes[n + 1].stride, old_axes[n + 1].extent))
        return false;
    const Axis& last = old_axes[old_end - 1];
    if (last.negative && new_end - k > 1) return false;
    Dim stride = last.stride;
    std::vector<Axis> made(new_end - k);
    for (size_t n = new_end; n-- > k;) {
      made[n - k] = {shape[n], stride, last.negative};
      stride = symbols.mul(stride, shape[n]);
    }
    axes.insert(axes.end(), made.begin(), made.end());
    next = old_end;
    k = new_end;
  }
  if (next != old_axes.size()) return false;
  view.axes = std::move(axes);
  return true;
}

bool apply_shuffle(StridedView& view, const Layer& layer, SymbolTable& symbols) {
  const auto& a = layer.as<ShuffleAttrs>();
  if (input_at(layer, 1)) return false;
  return apply_transpose(view, a.first_transpose) &&
         (!a.has_reshape || apply_reshape(view, a.reshape, symbols)) &&
         apply_transpose(view, a.second_transpose);
}

bool apply_slice(StridedView& view, const Layer& layer, SymbolTable& symbols) {
  const auto& a = layer.as<SliceAttrs>();
  if (layer.inputs.size() > 1 || a.size.size() != view.axes.size()) return false;
  for (size_t k = 0; k < view.axes.size(); ++k) {
    Axis& axis = view.axes[k];
    if (a.start[k] == Dim(0) && a.step[k] == 1) {
      axis.extent = a.size[k];
      continue;
    }
    if (axis.negative) return false;
    view.offset = symbols.add(view.offset, symbols.mul(a.start[k], axis.stride));
    axis.stride = symbols.mul(axis.stride, Dim(std::abs(a.step[k])));
    axis.negative = a.step[k] < 0;
    axis.extent = a.size[k];
  }
  return true;
}

// Of one index that is constant, of any rank: axes of extent 1 take the place of the gathered one.
bool apply_gather(StridedView& view, const Layer& layer, SymbolTable& symbols) {
  const auto& a = layer.as<GatherAttrs>();
  const Tensor* indices = layer.inputs[1];
  if (a.mode != GatherMode::kDefault || !indices->is_constant() || !all_ones(indices->shape))
    return false;
  int64_t index = indices->type == DataType::kInt64 ? indices->values<int64_t>()[0]
                                                    : indices->values<int32_t>()[0];
  const Axis axis = view.axes[a.axis];
  if (index < 0 && !axis.extent.is_known()) return false;
  if (index < 0) index += axis.extent.extent();
  if (axis.negative) return false;
  view.offset = symbols.add(view.offset, symbols.mul(Dim(index), axis.stride));
  const auto place = view.axes.erase(view.axes.begin() + a.axis);
  view.axes.insert(place, indices->shape.size(), Axis{Dim(1), axis.stride});
  return true;
}

bool apply(StridedView& view, const Layer& layer, SymbolTable& symbols) {
  switch (layer.kind) {
    case LayerKind::kShuffle:
      return apply_shuffle(view, layer, symbols);
    case LayerKind::kSlice:
      return apply_slice(view, layer, symbols);
    case LayerKind::kGather:
      return apply_gather(view, layer, symbols);
    default:
      return false;
  }
}

bool is_unit(const Axis& axis) {
  return axis.extent == Dim(1);
}

// A step along `axis` is a whole number of steps along the root's axis, and does not leave it.
bool lies_within(const Axis& axis, const Axis& root) {
  if (axis.stride == root.stride) return true;
  const bool known = axis.stride.is_known() && root.stride.is_known() && root.extent.is_known() &&
                     root.stride.extent() > 0;
  return known && axis.stride.extent() % root.stride.extent() == 0 &&
         axis.stride.extent() < root.stride.extent() * root.extent.extent();
}

// `outer` goes on where `inner` ends.
bool continues(const Axis& outer, const Axis& inner) {
  return !outer.negative && !inner.negative && outer.extent.is_known() && inner.extent.is_known() &&
         outer.stride.is_known() && inner.stride.is_known() &&
         outer.stride.extent() == inner.stride.extent() * inner.extent.extent();
}

bool stays_inside(const SliceAttrs& slice, size_t k, Dim extent) {
  if (slice.start[k] == Dim(0) && slice.step[k] == 1 && slice.size[k] == extent) return true;
  if (!slice.size[k].is_known() || !extent.is_known())
    return slice.step[k] == 1 && slice.start[k] == Dim(0);
  const int64_t last = slice.start[k].extent() + (slice.size[k].extent() - 1) * slice.step[k];
  return last >= 0 && last < extent.extent();
}

// Where an extent of the slice or of the root is no number, nobody knows that the slice stays
// within its axis of the root: it may run on into an axis outside of it, unless the view has that
// one, too.
bool may_run_over(const SliceAttrs& slice, const std::vector<Axis>& root) {
  bool leaves_axes = false;
  for (size_t k = 0; k < root.size(); ++k) {
    const bool begins = slice.start[k] == Dim(0) && slice.step[k] == 1;
    const bool inside = begins && (slice.size[k] == root[k].extent || slice.size[k] == Dim(1));
    const bool known = slice.size[k].is_known() && root[k].extent.is_known();
    if (leaves_axes && !inside && !known) return true;
    leaves_axes |= !is_unit(root[k]) && slice.size[k] == Dim(1);
  }
  return false;
}

// The view as one Slice of the root: non-unit axes in the root's order, strides multiples of the
// root's.
std::optional<SliceAttrs> as_slice(const StridedView& view) {
  const std::vector<Axis> root = dense(view.root).axes;
  SliceAttrs slice;
  slice.start = Shape(root.size(), Dim(0));
  slice.size = Shape(root.size(), Dim(1));
  slice.step = Ints(root.size(), 1);
  // Where the offset lies: only extents that are numbers can be started into.
  if (!view.offset.is_known()) return std::nullopt;
  int64_t rest = view.offset.extent();
  for (size_t k = 0; k < root.size(); ++k) {
    if (!root[k].stride.is_known())
      continue;  // more elements than the offset, or the offset would not be a number
    slice.start[k] = rest / std::max<int64_t>(root[k].stride.extent(), 1);
    rest %= std::max<int64_t>(root[k].stride.extent(), 1);
  }
  // From the innermost axis on: each root axis takes the view's axes that lie within it and like
  // one.
  std::vector<Axis> axes;
  for (const Axis& axis : view.axes)
    if (!is_unit(axis)) axes.push_back(axis);
  for (size_t k = root.size(); k-- > 0 && !axes.empty();) {
    if (is_unit(root[k]) || !lies_within(axes.back(), root[k])) continue;
    Axis axis = axes.back();
    axes.pop_back();
    while (!axes.empty() && continues(axes.back(), axis) && lies_within(axes.back(), root[k])) {
      axis.extent = axis.extent.extent() * axes.back().extent.extent();
      axes.pop_back();
    }
    slice.size[k] = axis.extent;
    slice.step[k] =
        axis.stride == root[k].stride ? 1 : axis.stride.extent() / root[k].stride.extent();
    if (axis.negative) slice.step[k] = -slice.step[k];
    if (!stays_inside(slice, k, root[k].extent)) return std::nullopt;
  }
  if (!axes.empty() || may_run_over(slice, root)) return std::nullopt;
  return slice;
}

// The view as a permutation of all of the root's axes that are not 1.
std::optional<Ints> as_permutation(const StridedView& view) {
  if (view.offset != Dim(0)) return std::nullopt;
  const std::vector<Axis> root = dense(view.root).axes;
  Ints order;
  for (const Axis& axis : view.axes) {
    if (is_unit(axis)) continue;
    const auto at = std::find_if(root.begin(), root.end(), [&](const Axis& r) {
      return !is_unit(r) && !axis.negative && r.stride == axis.stride && r.extent == axis.extent;
    });
    if (at == root.end()) return std::nullopt;
    order.push_back(at - root.begin());
  }
  for (size_t k = 0; k < root.size(); ++k)
    if (is_unit(root[k])) order.insert(order.begin(), static_cast<int64_t>(k));
  Ints sorted = order;
  std::sort(sorted.begin(), sorted.end());
  return sorted.size() == root.size() && is_identity_order(sorted) ? std::optional(order)
                                                                   : std::nullopt;
}

// The view's axes, in some order, tile the root: a reshape to them in that order, then a transpose.
std::optional<ShuffleAttrs> as_split_permutation(const StridedView& view) {
  if (view.offset != Dim(0)) return std::nullopt;
  SymbolTable& symbols = view.root->graph->symbols();
  Dim covered = 1, total = 1;
  for (Dim extent : view.root->shape) total = symbols.mul(total, extent);
  Ints inner_to_outer;
  for (size_t round = 0; round < view.axes.size(); ++round) {
    bool found = false;
    for (size_t k = 0; k < view.axes.size() && !found; ++k) {
      const bool used = std::find(inner_to_outer.begin(), inner_to_outer.end(),
                                  static_cast<int64_t>(k)) != inner_to_outer.end();
      if (used || is_unit(view.axes[k]) || view.axes[k].negative || view.axes[k].stride != covered)
        continue;
      covered = symbols.mul(covered, view.axes[k].extent);
      inner_to_outer.push_back(static_cast<int64_t>(k));
      found = true;
    }
    if (!found) break;
  }
  if (covered != total) return std::nullopt;
  for (size_t k = 0; k < view.axes.size(); ++k)
    if (is_unit(view.axes[k])) inner_to_outer.push_back(static_cast<int64_t>(k));
  if (inner_to_outer.size() != view.axes.size()) return std::nullopt;
  ShuffleAttrs shuffle;
  shuffle.has_reshape = true;
  shuffle.second_transpose.resize(view.axes.size());
  for (size_t k = 0; k < view.axes.size(); ++k) {
    const int64_t axis = inner_to_outer[view.axes.size() - 1 - k];
    shuffle.reshape.push_back(view.axes[axis].extent);
    shuffle.second_transpose[axis] = static_cast<int64_t>(k);
  }
  return shuffle;
}

}  // namespace

StridedView view_of_layer(const Layer& layer) {
  if (!layer.inputs[0]->has_rank) return StridedView();
  StridedView view = dense(layer.inputs[0]);
  view.layers = apply(view, layer, layer.inputs[0]->graph->symbols());
  return view;
}

StridedView strided_view(Tensor* tensor) {
  const Layer* layer = tensor->producer;
  const bool moves = layer && tensor->has_rank &&
                     (layer->kind == LayerKind::kShuffle || layer->kind == LayerKind::kSlice ||
                      layer->kind == LayerKind::kGather);
  if (!moves || !layer->inputs[0]->has_rank || layer->inputs[0]->is_constant())
    return dense(tensor);
  StridedView view = strided_view(layer->inputs[0]);
  if (!apply(view, *layer, tensor->graph->symbols())) {
    view = dense(layer->inputs[0]);
    if (!apply(view, *layer, tensor->graph->symbols())) return dense(tensor);
    view.layers = 0;
  }
  ++view.layers;
  return view;
}

std::optional<Movement> movement_of(const StridedView& view, const Shape& shape) {
  Movement movement;
  // What holds nothing has strides of 0, which say nothing of where its axes lie.
  for (Dim extent : view.root->shape)
    if (extent == Dim(0)) return std::nullopt;
  for (const StridedView::Axis& axis : view.axes)
    if (axis.extent == Dim(0)) return std::nullopt;
  if (const std::optional<Ints> order = as_permutation(view)) {
    ShuffleAttrs shuffle;
    if (!is_identity_order(*order)) shuffle.first_transpose = *order;
    Shape permuted;
    for (int64_t axis : *order) permuted.push_back(view.root->shape[axis]);
    shuffle.has_reshape = permuted != shape;
    if (shuffle.has_reshape) shuffle.reshape = shape;
    if (!shuffle.first_transpose.empty() || shuffle.has_reshape) movement.shuffle = shuffle;
    return movement;
  }
  movement.shuffle = as_split_permutation(view);
  if (movement.shuffle) return movement;
  movement.slice = as_slice(view);
  if (!movement.slice) return std::nullopt;
  movement.sliced = movement.slice->size;
  if (movement.sliced != shape) {
    movement.shuffle.emplace();
    movement.shuffle->has_reshape = true;
    movement.shuffle->reshape = shape;
  }
  return movement;
}

}  // namespace camshaft::passes
