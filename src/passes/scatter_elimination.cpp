// SPDX-License-Identifier: Apache-2.0
// ScatterElimination: a Scatter whose indices count up along each dimension puts a block into the
// data, as exporters write x[..., a:b, c:d] = updates. Where the block is all of the data, nothing
// of them is left; else they are slices around the block, if it is at least half of them (a smaller
// one is put in place). Bit exact.
#include <algorithm>

#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// The numbers of a tensor: `start` plus the index along `axis`; without an axis, `start` alone.
struct Ramp {
  int64_t start = 0;
  int64_t axis = -1;
};

constexpr int kLongestRamp = 12;  // layers

// Of integers [outer][inner] strides apart: every value is start + its index along one dimension.
std::optional<Ramp> ramp_in(const Ints& values, const Extents& extents, int64_t first,
                            int64_t step) {
  const int64_t count = element_count(extents);
  if (count == 0) return std::nullopt;
  Ramp ramp{values[first], -1};
  int64_t stride = count;
  std::vector<int64_t> strides;
  for (const int64_t extent : extents) strides.push_back(stride /= extent);
  for (size_t d = 0; d < extents.size() && ramp.axis < 0; ++d)
    if (extents[d] > 1 && values[first + strides[d] * step] != ramp.start)
      ramp.axis = static_cast<int64_t>(d);
  for (int64_t k = 0; k < count; ++k) {
    const int64_t index = ramp.axis < 0 ? 0 : k / strides[ramp.axis] % extents[ramp.axis];
    if (values[first + k * step] != ramp.start + index) return std::nullopt;
  }
  return ramp;
}

std::optional<Ramp> ramp_of(const Tensor* tensor, int most_layers);

std::optional<Ramp> range_ramp(const Layer& range) {
  const Ints start = integers_of(range.inputs[0]), delta = integers_of(range.inputs[2]);
  if (start.size() != 1 || delta.size() != 1 || delta[0] != 1) return std::nullopt;
  return Ramp{start[0], 0};
}

std::optional<Ramp> ramp_expanded(Ramp ramp, const Shape& from, const Shape& to) {
  if (ramp.axis < 0) return ramp;
  const auto more = static_cast<int64_t>(to.size() - from.size());
  if (from[ramp.axis] != to[ramp.axis + more]) return std::nullopt;
  ramp.axis += more;
  return ramp;
}

std::optional<Ramp> ramp_reshaped(Ramp ramp, const Layer& shuffle) {
  const auto& a = shuffle.as<ShuffleAttrs>();
  const std::optional<Ints> dims =
      unit_reshape(shuffle.inputs[0]->shape, shuffle.outputs[0]->shape);
  if (shuffle.inputs.size() > 1 || !is_identity_order(a.first_transpose) ||
      !is_identity_order(a.second_transpose) || !dims)
    return std::nullopt;
  if (ramp.axis < 0) return ramp;
  const auto at = std::find(dims->begin(), dims->end(), ramp.axis);
  if (at == dims->end()) return std::nullopt;
  return Ramp{ramp.start, at - dims->begin()};
}

std::optional<Ramp> ramp_sliced(Ramp ramp, const Layer& slice) {
  const auto& a = slice.as<SliceAttrs>();
  if (slice.inputs.size() > 1) return std::nullopt;
  if (ramp.axis < 0) return ramp;
  if (a.step[ramp.axis] != 1 || !a.start[ramp.axis].is_known()) return std::nullopt;
  return Ramp{ramp.start + a.start[ramp.axis].extent(), ramp.axis};
}

// By the layers that make it.
std::optional<Ramp> made_ramp(const Layer& layer, int most_layers) {
  if (layer.kind == LayerKind::kRange) return range_ramp(layer);
  if (layer.inputs.empty() || !layer.inputs[0]->has_rank || !layer.outputs[0]->has_rank)
    return std::nullopt;
  const bool passes_on = layer.kind == LayerKind::kCast || layer.kind == LayerKind::kExpand ||
                         layer.kind == LayerKind::kShuffle || layer.kind == LayerKind::kSlice;
  if (!passes_on || most_layers == 0) return std::nullopt;
  const std::optional<Ramp> ramp = ramp_of(layer.inputs[0], most_layers - 1);
  if (!ramp || layer.kind == LayerKind::kCast) return ramp;
  if (layer.kind == LayerKind::kExpand)
    return ramp_expanded(*ramp, layer.inputs[0]->shape, layer.outputs[0]->shape);
  return layer.kind == LayerKind::kShuffle ? ramp_reshaped(*ramp, layer)
                                           : ramp_sliced(*ramp, layer);
}

std::optional<Ramp> ramp_of(const Tensor* tensor, int most_layers) {
  if (tensor->type != DataType::kInt64 && tensor->type != DataType::kInt32) return std::nullopt;
  if (tensor->is_constant()) return ramp_in(integers_of(tensor), extents_of(tensor->shape), 0, 1);
  return tensor->producer ? made_ramp(*tensor->producer, most_layers) : std::nullopt;
}

// Number k of the last dimension of ScatterND's indices, over the others.
std::optional<Ramp> component(const Tensor* indices, int64_t k, int64_t count) {
  if (indices->is_constant()) {
    Extents extents = extents_of(indices->shape);
    extents.pop_back();
    return ramp_in(integers_of(indices), extents, k, count);
  }
  if (count == 1) return ramp_of(indices, kLongestRamp);
  const Layer* concat = producer_of_kind(indices, LayerKind::kConcatenation);
  if (!concat || concat->as<AxisAttrs>().axis + 1 != static_cast<int64_t>(indices->shape.size()) ||
      static_cast<int64_t>(concat->inputs.size()) != count)
    return std::nullopt;
  return ramp_of(concat->inputs[k], kLongestRamp);
}

// Where updates go: along each dimension of the data, from `start` on, `size` of them.
struct Block {
  Ints start;
  Shape size;
};

std::optional<Block> block_of_elements(const Layer& scatter) {
  const Tensor *data = scatter.inputs[0], *indices = scatter.inputs[1];
  const int64_t axis = scatter.as<ScatterAttrs>().axis;
  const std::optional<Ramp> ramp = ramp_of(indices, kLongestRamp);
  if (!ramp || (ramp->axis != axis && (ramp->axis >= 0 || indices->shape[axis] != Dim(1))))
    return std::nullopt;
  Block block{Ints(data->shape.size(), 0), indices->shape};
  block.start[axis] = ramp->start;
  return block;
}

std::optional<Block> block_of_slices(const Layer& scatter) {
  const Tensor *data = scatter.inputs[0], *indices = scatter.inputs[1];
  if (indices->shape.empty() || !indices->shape.back().is_known()) return std::nullopt;
  const int64_t count = indices->shape.back().extent();
  const auto dims = static_cast<int64_t>(indices->shape.size()) - 1;
  Block block{Ints(data->shape.size(), 0), data->shape};
  int64_t next = 0;  // dimension of the indices
  for (int64_t k = 0; k < count; ++k) {
    const std::optional<Ramp> ramp = component(indices, k, count);
    if (!ramp) return std::nullopt;
    block.start[k] = ramp->start;
    block.size[k] = ramp->axis < 0 ? Dim(1) : indices->shape[ramp->axis];
    if (ramp->axis < 0) continue;
    for (; next < ramp->axis; ++next)
      if (indices->shape[next] != Dim(1)) return std::nullopt;
    if (next++ != ramp->axis) return std::nullopt;
  }
  for (; next < dims; ++next)
    if (indices->shape[next] != Dim(1)) return std::nullopt;
  return block;
}

std::optional<Block> block_of(const Layer& scatter) {
  const auto& a = scatter.as<ScatterAttrs>();
  for (const Tensor* tensor : {scatter.inputs[0], scatter.inputs[1], scatter.inputs[2]})
    if (!tensor->has_rank) return std::nullopt;
  if (a.reduction != ScatterReduction::kNone) return std::nullopt;
  if (a.mode == ScatterMode::kNd && a.axis != 0) return std::nullopt;
  return a.mode == ScatterMode::kElements ? block_of_elements(scatter) : block_of_slices(scatter);
}

bool is_whole(const Block& block, const Shape& data, size_t d) {
  return block.start[d] == 0 && block.size[d] == data[d];
}

// A tuple of indices costs a kernel as much as copying this many elements (Zen 3: 15 to 40 ns, and
// it is read from memory itself).
constexpr int64_t kTupleCost = 16;

int64_t known_tuples(const Layer& scatter) {
  if (scatter.as<ScatterAttrs>().mode == ScatterMode::kElements) return 0;
  int64_t tuples = 1;
  const Shape& indices = scatter.inputs[1]->shape;
  for (size_t d = 0; d + 1 < indices.size(); ++d)
    if (indices[d].is_known()) tuples *= indices[d].extent();
  return tuples;
}

// Negative numbers count from the end. Why the block cannot stand in the data; empty: it can.
Refusal fit(Block& block, const Shape& data, int64_t tuples) {
  bool is_all = true;
  int64_t elements = 1, all = 1;
  for (size_t d = 0; d < data.size(); ++d) {
    const bool whole = is_whole(block, data, d);
    is_all = is_all && whole;
    if (!data[d].is_known() || !block.size[d].is_known()) {
      if (!whole) return {Reason::kExtent, "only running tells where the block ends"};
      continue;
    }
    const int64_t extent = data[d].extent(), size = block.size[d].extent();
    if (block.start[d] < 0) block.start[d] += extent;
    if (block.start[d] < 0 || block.start[d] + size > extent)
      return {Reason::kValue, "indices lie outside"};
    elements *= size;
    all *= extent;
  }
  if (is_all || 2 * elements + kTupleCost * tuples >= all) return {};
  return {Reason::kCost, "it replaces less than half of the data"};
}

struct Builder {
  Rewriter& rewriter;
  Layer* scatter;
  int made = 0;

  std::string name() { return scatter->name + " (part " + std::to_string(++made) + ")"; }
  Tensor* add(LayerKind kind, Attrs attrs, std::vector<Tensor*> inputs, const Shape& shape) {
    const std::string called = name();
    Tensor* result = rewriter.add_tensor(called, scatter->outputs[0]->type, shape);
    rewriter.insert_before(scatter, kind, called, std::move(attrs), std::move(inputs), {result},
                           {scatter});
    return result;
  }
  // Of the data: `first` to `end` along `axis`, the block along the dimensions before it.
  Tensor* rest(const Block& block, size_t axis, int64_t first, int64_t end) {
    Tensor* data = scatter->inputs[0];
    SliceAttrs a;
    for (size_t d = 0; d < data->shape.size(); ++d) {
      a.start.push_back(d < axis ? Dim(block.start[d]) : Dim(d == axis ? first : 0));
      a.size.push_back(d < axis ? block.size[d] : d == axis ? Dim(end - first) : data->shape[d]);
      a.step.push_back(1);
    }
    return add(LayerKind::kSlice, a, {data}, a.size);
  }
  // The block among what the data hold beside it along `axis`.
  std::vector<Tensor*> beside(const Block& block, size_t axis, Tensor* inner) {
    const int64_t first = block.start[axis], end = first + block.size[axis].extent(),
                  extent = scatter->inputs[0]->shape[axis].extent();
    std::vector<Tensor*> parts;
    if (first > 0) parts.push_back(rest(block, axis, 0, first));
    parts.push_back(inner);
    if (end < extent) parts.push_back(rest(block, axis, end, extent));
    return parts;
  }
};

void replace_scatter(Rewriter& rewriter, Layer* scatter, const Block& block) {
  const Shape data = scatter->inputs[0]->shape;
  Builder builder{rewriter, scatter};
  Layer* group[] = {scatter};
  std::vector<size_t> cut;  // dimensions that the block does not fill
  for (size_t d = 0; d < data.size(); ++d)
    if (!is_whole(block, data, d)) cut.push_back(d);
  ShuffleAttrs reshape;
  reshape.has_reshape = true;
  reshape.reshape = block.size;
  if (cut.empty()) {
    rewriter.replace(group, LayerKind::kShuffle, reshape, {scatter->inputs[2]});
    return;
  }
  Tensor* inner = builder.add(LayerKind::kShuffle, reshape, {scatter->inputs[2]}, block.size);
  Shape shape = block.size;
  for (; cut.size() > 1; cut.pop_back()) {
    shape[cut.back()] = data[cut.back()];
    inner = builder.add(LayerKind::kConcatenation, AxisAttrs{static_cast<int64_t>(cut.back())},
                        builder.beside(block, cut.back(), inner), shape);
  }
  rewriter.replace(group, LayerKind::kConcatenation, AxisAttrs{static_cast<int64_t>(cut[0])},
                   builder.beside(block, cut[0], inner));
}

bool eliminate(Rewriter& rewriter, Layer* scatter) {
  std::optional<Block> block = block_of(*scatter);
  if (!block) return false;
  rewriter.running(*scatter);
  if (Refusal refusal = fit(*block, scatter->inputs[0]->shape, known_tuples(*scatter))) {
    rewriter.declined(*scatter, std::move(refusal));
    return false;
  }
  rewriter.applied(
      Action::kConvert, *scatter,
      "Converting " + scatter->name + " to what its indices, which count up, put beside the data");
  replace_scatter(rewriter, scatter, *block);
  return true;
}

}  // namespace

int scatter_elimination(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "ScatterElimination", records);
  for (size_t k = 0; k < graph.layers().size(); ++k)
    if (Layer* layer = graph.layers()[k].get(); layer->kind == LayerKind::kScatter)
      eliminate(rewriter, layer);
  return rewriter.edits();
}

}  // namespace camshaft::passes
