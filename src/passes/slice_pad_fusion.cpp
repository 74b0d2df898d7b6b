// SPDX-License-Identifier: Apache-2.0
// SlicePadFusion: a slice behind or before a constant Pad becomes part of its amounts (negative
// ones crop); a slice of a concatenation along another axis is cut from the parts. Bit exact.
#include <algorithm>

#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// What a Slice of steps 1 takes away at the front and at the back; empty where that is not a
// number.
struct Cut {
  Ints front, back;
};
std::optional<Cut> cut_of(const Layer* slice) {
  if (!slice || slice->kind != LayerKind::kSlice || slice->inputs.size() > 1 ||
      !slice->inputs[0]->has_rank)
    return std::nullopt;
  const auto& a = slice->as<SliceAttrs>();
  const Shape& x = slice->inputs[0]->shape;
  Cut cut;
  for (size_t k = 0; k < x.size(); ++k) {
    const bool whole = a.start[k] == Dim(0) && a.size[k] == x[k];
    if (a.step[k] != 1) return std::nullopt;
    if (!whole && (!a.start[k].is_known() || !a.size[k].is_known() || !x[k].is_known()))
      return std::nullopt;
    cut.front.push_back(whole ? 0 : a.start[k].extent());
    cut.back.push_back(whole ? 0 : x[k].extent() - a.start[k].extent() - a.size[k].extent());
  }
  return cut;
}

bool is_static_constant_pad(const Layer* pad) {
  return pad && pad->kind == LayerKind::kPad && pad->inputs.size() == 1 &&
         pad->as<PadAttrs>().mode == PadMode::kConstant && !pad->as<PadAttrs>().pre.empty();
}

// Slice, then Pad: on either side of a dimension only one of the two may do something.
bool slice_then_pad(Rewriter& rewriter, Layer* pad) {
  Layer* slice = producer_of_kind(pad->inputs[0], LayerKind::kSlice);
  const std::optional<Cut> cut = cut_of(slice);
  if (!cut) return false;
  PadAttrs attrs = pad->as<PadAttrs>();
  for (size_t k = 0; k < attrs.pre.size(); ++k) {
    if ((cut->front[k] && attrs.pre[k] > 0) || (cut->back[k] && attrs.post[k] > 0)) return false;
    attrs.pre[k] -= cut->front[k];
    attrs.post[k] -= cut->back[k];
  }
  rewriter.running(*pad);
  rewriter.fused(*slice, *pad);
  Layer* group[] = {slice, pad};
  rewriter.replace(group, LayerKind::kPad, attrs, {slice->inputs[0]});
  return true;
}

bool pad_then_slice(Rewriter& rewriter, Layer* slice) {
  Layer* pad = slice->inputs[0]->producer;
  const std::optional<Cut> cut = cut_of(slice);
  if (!cut || !is_static_constant_pad(pad)) return false;
  PadAttrs attrs = pad->as<PadAttrs>();
  for (size_t k = 0; k < attrs.pre.size(); ++k) {
    attrs.pre[k] -= cut->front[k];
    attrs.post[k] -= cut->back[k];
    // A slice that lies in the padding alone has nothing of x to crop to.
    const Dim extent = pad->inputs[0]->shape[k];
    const bool crops = attrs.pre[k] < 0 || attrs.post[k] < 0;
    if (crops && (!extent.is_known() || extent.extent() + std::min<int64_t>(attrs.pre[k], 0) +
                                                std::min<int64_t>(attrs.post[k], 0) <=
                                            0))
      return false;
  }
  rewriter.running(*slice);
  rewriter.fused(*pad, *slice);
  Layer* group[] = {pad, slice};
  rewriter.replace(group, LayerKind::kPad, attrs, {pad->inputs[0]});
  return true;
}

// Slice of a concatenation along other axes, where most parts are pads that can take it over.
bool slice_parts(Rewriter& rewriter, Layer* slice) {
  Layer* concat = producer_of_kind(slice->inputs[0], LayerKind::kConcatenation);
  const std::optional<Cut> cut = cut_of(slice);
  if (!concat || !cut || only_reader(slice->inputs[0]) != slice) return false;
  const int64_t axis = concat->as<AxisAttrs>().axis;
  if (cut->front[axis] || cut->back[axis]) return false;
  size_t pads = 0;
  for (const Tensor* part : concat->inputs)
    pads += is_static_constant_pad(part->producer) && only_reader(part) == concat;
  if (2 * pads < concat->inputs.size()) return false;
  rewriter.running(*slice);
  rewriter.swapped(*concat, *slice);
  std::vector<Tensor*> parts;
  for (size_t k = 0; k < concat->inputs.size(); ++k) {
    Tensor* part = concat->inputs[k];
    SliceAttrs attrs = slice->as<SliceAttrs>();
    attrs.size[axis] = part->shape[axis];
    Tensor* made = rewriter.add_tensor(part->name + " (cut)", part->type, attrs.size);
    rewriter.insert_before(concat, LayerKind::kSlice, fmt::format("{}_clone_{}", slice->name, k),
                           attrs, {part}, {made}, {slice});
    parts.push_back(made);
  }
  const std::string name = concat->name;
  const Attrs attrs = concat->attrs;
  Layer* group[] = {concat, slice};
  rewriter.rename(rewriter.replace(group, LayerKind::kConcatenation, attrs, parts, name), name);
  return true;
}

// Pad, then a reshape that adds and drops extents of 1: the reshape goes first, so that the Pad
// stands before what can take it over.
bool shuffle_before_pad(Rewriter& rewriter, Layer* shuffle) {
  Layer* pad = producer_of_kind(shuffle->inputs[0], LayerKind::kPad);
  const auto& a = shuffle->as<ShuffleAttrs>();
  if (!pad || pad->inputs.size() != 1 || pad->as<PadAttrs>().pre.empty() ||
      only_reader(shuffle->inputs[0]) != shuffle)
    return false;
  if (input_at(*shuffle, 1) || !a.has_reshape || !a.first_transpose.empty() ||
      !a.second_transpose.empty())
    return false;
  const Tensor *x = pad->inputs[0], *y = shuffle->outputs[0];
  const std::optional<Ints> source = unit_reshape(shuffle->inputs[0]->shape, y->shape);
  if (!source) return false;
  PadAttrs attrs = pad->as<PadAttrs>();
  PadAttrs moved = attrs;
  moved.pre.clear();
  moved.post.clear();
  Shape shape;
  for (int64_t axis : *source) {
    moved.pre.push_back(axis < 0 ? 0 : attrs.pre[axis]);
    moved.post.push_back(axis < 0 ? 0 : attrs.post[axis]);
    shape.push_back(axis < 0 ? Dim(1) : x->shape[axis]);
  }
  for (size_t axis = 0; axis < attrs.pre.size(); ++axis)  // what is dropped is not padded
    if ((attrs.pre[axis] || attrs.post[axis]) &&
        std::find(source->begin(), source->end(), static_cast<int64_t>(axis)) == source->end())
      return false;
  rewriter.running(*shuffle);
  rewriter.swapped(*pad, *shuffle);
  ShuffleAttrs reshape;
  reshape.has_reshape = true;
  reshape.reshape = shape;
  Tensor* made = rewriter.add_tensor(x->name + " (reshaped)", x->type, shape);
  rewriter.insert_before(pad, LayerKind::kShuffle, shuffle->name + " (before the pad)", reshape,
                         {pad->inputs[0]}, {made}, {shuffle});
  const std::string name = pad->name;
  Layer* group[] = {pad, shuffle};
  rewriter.rename(rewriter.replace(group, LayerKind::kPad, moved, {made}, name), name);
  return true;
}

}  // namespace

int slice_pad_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "SlicePadFusion", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    if (is_static_constant_pad(layer))
      slice_then_pad(rewriter, layer);
    else if (layer->kind == LayerKind::kShuffle)
      shuffle_before_pad(rewriter, layer);
    else if (layer->kind == LayerKind::kSlice && !pad_then_slice(rewriter, layer))
      slice_parts(rewriter, layer);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
