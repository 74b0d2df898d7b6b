// SPDX-License-Identifier: Apache-2.0
// VolumeSplit: Pooling and Resize of volumes [N, C, D, H, W] as one over space, of images
// [N, C*D, H, W], and one over depth, of [N, C, D, H*W]; what leaves a side as it is is left out.
// The one that makes the volume smaller goes first. A global pooling of codes is one of the image
// [N, C, D, H*W]. Exact for maxima and the nearest element; means and linear interpolation are
// rounded in another order.
#include <array>

#include "ir/kind_traits.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

enum SplitSide { kDepth, kSpace };

Refusal pooling_refusal(const Layer& layer) {
  const auto& a = layer.as<PoolingAttrs>();
  if (a.global && layer.inputs[0]->type == DataType::kFloat)
    return {Reason::kAttribute, "it is global"};
  if (a.type == PoolingType::kLp) return {Reason::kUnsupported, "Lp pooling"};
  if (gives_indices(layer)) return {Reason::kAttribute, "its indices are wanted"};
  if (!a.epilogue.empty()) return {Reason::kAttribute, "it has an epilogue"};
  return {};
}

Refusal resize_refusal(const Layer& layer) {
  const auto& a = layer.as<ResizeAttrs>();
  if (a.mode != ResizeMode::kNearest && layer.inputs[0]->type != DataType::kFloat)
    return {Reason::kType, "it interpolates codes"};
  if (layer.inputs.size() > 1 || a.sizes.empty())
    return {Reason::kExtent, "its extents are known only when running"};
  if (a.mode == ResizeMode::kCubic || a.antialias || a.exclude_outside)
    return {Reason::kUnsupported, "more than two taps"};
  if (a.transform == CoordinateTransform::kTfCropAndResize) return {Reason::kAttribute, "it crops"};
  const Shape &x = layer.inputs[0]->shape, &y = layer.outputs[0]->shape;
  const auto is_scaled = [&](size_t d) {
    return x[d] != y[d] || (d < a.scales.size() && a.scales[d] != 1);
  };
  if (is_scaled(0) || is_scaled(1)) return {Reason::kAttribute, "it resizes batch or channels"};
  return {};
}

Refusal split_refusal(const Layer& layer) {
  const Shape &x = layer.inputs[0]->shape, &y = layer.outputs[0]->shape;
  for (size_t d = 2; d < kVolumeRank; ++d)
    if (!x[d].is_known() || !y[d].is_known())
      return {Reason::kExtent, "only running can tell its extents"};
  return layer.kind == LayerKind::kPooling ? pooling_refusal(layer) : resize_refusal(layer);
}

// [N, C*D, H, W] or [N, C, D, H*W].
Shape seen_as(const Shape& volume, SplitSide side, SymbolTable& symbols) {
  if (side == kSpace) return {volume[0], symbols.mul(volume[1], volume[2]), volume[3], volume[4]};
  return {volume[0], volume[1], volume[2], symbols.mul(volume[3], volume[4])};
}

void keep(Ints& list, SplitSide side, int64_t neutral) {
  if (list.size() != kVolumeRank - 2) return;
  list = side == kDepth ? Ints{list[0], neutral} : Ints{list[1], list[2]};
}

PoolingAttrs pooling_of(const Layer& layer, SplitSide side) {
  PoolingAttrs a = layer.as<PoolingAttrs>();
  for (Ints* list : {&a.kernel, &a.stride, &a.dilation}) keep(*list, side, 1);
  for (Ints* list : {&a.pre_padding, &a.post_padding}) keep(*list, side, 0);
  return a;
}

ResizeAttrs resize_of(const Layer& layer, SplitSide side, const Shape& sizes) {
  ResizeAttrs a = layer.as<ResizeAttrs>();
  a.sizes = sizes;
  if (a.scales.size() == kVolumeRank) {
    const std::vector<float> s = a.scales;
    a.scales =
        side == kDepth ? std::vector<float>{1, 1, s[2], 1} : std::vector<float>{1, 1, s[3], s[4]};
  }
  return a;
}

bool is_idle(const Layer& layer, SplitSide side) {
  const Shape &x = layer.inputs[0]->shape, &y = layer.outputs[0]->shape;
  const size_t first = side == kDepth ? 2 : 3, end = side == kDepth ? 3 : kVolumeRank;
  for (size_t d = first; d < end; ++d) {
    if (x[d] != y[d]) return false;
    if (layer.kind == LayerKind::kResize) {
      const auto& scales = layer.as<ResizeAttrs>().scales;
      if (d < scales.size() && scales[d] != 1) return false;
    } else if (layer.as<PoolingAttrs>().kernel[d - 2] != 1) {
      return false;
    }
  }
  return true;
}

class Split {
 public:
  Split(Rewriter& rewriter, Layer* layer)
      : rewriter_(rewriter), layer_(layer), symbols_(rewriter.symbols()) {}

  void run() {
    if (is_global()) return pool_image();
    const Shape from = layer_->inputs[0]->shape, to = layer_->outputs[0]->shape;
    // Of the two volumes in between, the smaller.
    const int64_t depth_first = to[2].extent() * from[3].extent() * from[4].extent(),
                  space_first = from[2].extent() * to[3].extent() * to[4].extent();
    const bool is_depth_first = depth_first <= space_first;
    Tensor* x = layer_->inputs[0];
    Shape shape = from;
    for (const SplitSide side :
         is_depth_first ? std::array{kDepth, kSpace} : std::array{kSpace, kDepth}) {
      Shape after = shape;
      if (side == kDepth)
        after[2] = to[2];
      else
        after[3] = to[3], after[4] = to[4];
      if (!is_idle(*layer_, side)) x = part(x, side, shape, after);
      shape = after;
    }
    replace(x);
  }

 private:
  bool is_global() const {
    return layer_->kind == LayerKind::kPooling && layer_->as<PoolingAttrs>().global;
  }

  // As one image: of all dimensions at once, in any order.
  void pool_image() {
    Tensor* x = layer_->inputs[0];
    ShuffleAttrs seen;
    seen.has_reshape = true;
    seen.reshape = seen_as(x->shape, kDepth, symbols_);
    x = add(x, LayerKind::kShuffle, "as an image", seen, seen.reshape);
    replace(add(x, LayerKind::kPooling, "image", layer_->attrs, {x->shape[0], x->shape[1], 1, 1}));
  }

  // `x` as the volume that the layer gave.
  void replace(Tensor* x) {
    ShuffleAttrs back;
    back.has_reshape = true;
    back.reshape = layer_->outputs[0]->shape;
    Layer* group[] = {layer_};
    rewriter_.replace(group, LayerKind::kShuffle, back, {x}, layer_->name);
  }

  // Means of codes are floats.
  Tensor* add(Tensor* x, LayerKind kind, const std::string& what, Attrs attrs, const Shape& shape) {
    const DataType type = kind == LayerKind::kShuffle ? x->type : layer_->outputs[0]->type;
    Tensor* y = rewriter_.add_tensor(layer_->outputs[0]->name + " (" + what + ")", type, shape);
    rewriter_.insert_before(layer_, kind, layer_->name + " (" + what + ")", std::move(attrs), {x},
                            {y}, {layer_});
    return y;
  }

  // `x` holds a volume of extents `from`, however it is seen.
  Tensor* part(Tensor* x, SplitSide side, const Shape& from, const Shape& to) {
    const std::string what = side == kDepth ? "depth" : "space";
    ShuffleAttrs seen;
    seen.has_reshape = true;
    seen.reshape = seen_as(from, side, symbols_);
    x = add(x, LayerKind::kShuffle, "before " + what, seen, seen.reshape);
    const Shape shape = seen_as(to, side, symbols_);
    const bool pools = layer_->kind == LayerKind::kPooling;
    Attrs attrs = pools ? Attrs(pooling_of(*layer_, side)) : Attrs(resize_of(*layer_, side, shape));
    return add(x, layer_->kind, what, std::move(attrs), shape);
  }

  Rewriter& rewriter_;
  Layer* layer_;
  SymbolTable& symbols_;
};

}  // namespace

int volume_split(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "VolumeSplit", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    if ((layer->kind != LayerKind::kPooling && layer->kind != LayerKind::kResize) ||
        !layer->inputs[0]->has_rank || layer->inputs[0]->shape.size() != kVolumeRank ||
        (layer->inputs[0]->type != DataType::kFloat && bits_of(layer->inputs[0]->type) != 8) ||
        !layer->outputs[0] || !layer->outputs[0]->has_rank)
      continue;
    rewriter.running(*layer);
    if (Refusal refusal = split_refusal(*layer)) {
      rewriter.declined(*layer, std::move(refusal).behind("stays whole: "));
      continue;
    }
    rewriter.applied(Action::kSplit, *layer, "Splitting " + layer->name + " into depth and space");
    Split(rewriter, layer).run();
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
