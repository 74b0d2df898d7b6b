// SPDX-License-Identifier: Apache-2.0
// VolumeLowering: a convolution of volumes [N, C, D, H, W] as one of images, for which there are
// fast kernels (the reference kernel's 1 GMAC/s is what it had):
// - a window over depth only, without padding or steps elsewhere: of [N, C, D, H*W];
// - else of [N*D', KD*C, H, W]: the KD slices of x that a window reads, shifted against each other,
//   side by side as channels. KD = 1: nothing is put together, x is seen as N*D images.
// The same products; their sums are in another order.
#include <algorithm>

#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

constexpr size_t kRank = 5;
const Ints kDepthFirst = {0, 2, 1, 3, 4};  // swaps channels and depth; its own inverse

std::string refusal(const Layer& conv) {
  const auto& a = conv.as<ConvolutionAttrs>();
  if (!is_float_constant(conv.inputs[1])) return "its weights are no constant floats";
  if (a.padding_mode != PaddingMode::kExplicit) return "it pads by mode";
  const Shape &x = conv.inputs[0]->shape, &y = conv.outputs[0]->shape;
  for (size_t d = 1; d < kRank; ++d)
    if (!x[d].is_known() || !y[d].is_known()) return "only running can tell its extents";
  return "";
}

// Windows of one row and column that touch every pixel.
bool is_depth_only(const ConvolutionAttrs& a) {
  for (size_t d = 1; d < 3; ++d)
    if (a.kernel[d] != 1 || a.stride[d] != 1 || a.pre_padding[d] != 0 || a.post_padding[d] != 0)
      return false;
  return true;
}

class Lowering {
 public:
  Lowering(Rewriter& rewriter, Layer* conv)
      : rewriter_(rewriter), graph_(rewriter.graph()), conv_(conv) {}

  // Why the epilogue's operands cannot follow; empty: they can.
  std::string operand_refusal() const {
    for (size_t k = 3; k < conv_->inputs.size(); ++k) {
      const Shape& shape = conv_->inputs[k]->shape;
      const bool whole = same_shape(conv_->inputs[k], conv_->outputs[0]);
      const bool along_channels =
          shape.size() <= kRank && std::all_of(shape.begin(), shape.end(), [&](const Dim& dim) {
            const size_t axis = kRank - shape.size() + static_cast<size_t>(&dim - shape.data());
            return dim == Dim(1) || axis == 1;
          });
      if (!whole && !along_channels) return "an operand of its epilogue is a part of the volume";
    }
    return "";
  }

  void run() {
    const auto& a = conv_->as<ConvolutionAttrs>();
    depth_only_ = is_depth_only(a);
    std::vector<Tensor*> inputs = conv_->inputs;
    if (inputs.size() < 2) return;
    ConvolutionAttrs attrs = a;
    const auto drop = [&](Ints& list) { list.erase(list.begin() + (depth_only_ ? 2 : 0)); };
    for (Ints* list :
         {&attrs.kernel, &attrs.stride, &attrs.dilation, &attrs.pre_padding, &attrs.post_padding})
      drop(*list);
    inputs[0] = depth_only_ ? reshaped(inputs[0], "as images") : stacked(inputs[0]);
    inputs[1] = weights();
    for (size_t k = 3; k < inputs.size(); ++k) inputs[k] = operand(inputs[k]);
    Tensor* y = conv_->outputs[0];
    Tensor* images = graph_.add_tensor(y->name + " (images)", y->type, image_shape(y->shape));
    rewriter_.insert_before(conv_, LayerKind::kConvolution, conv_->name + " (images)", attrs,
                            inputs, {images}, {conv_});
    ShuffleAttrs back;
    back.has_reshape = true;
    back.reshape = y->shape;
    if (!depth_only_) {
      std::swap(back.reshape[1], back.reshape[2]);
      back.second_transpose = kDepthFirst;
    }
    Layer* group[] = {conv_};
    rewriter_.replace(group, LayerKind::kShuffle, back, {images}, conv_->name);
  }

 private:
  // [N, C, D, H, W] → [N, C, D, H*W], or [N*D, C, H, W].
  Shape image_shape(const Shape& volume) {
    SymbolTable& symbols = graph_.symbols();
    if (depth_only_) return {volume[0], volume[1], volume[2], symbols.mul(volume[3], volume[4])};
    return {symbols.mul(volume[0], volume[2]), volume[1], volume[3], volume[4]};
  }

  Tensor* add(Tensor* x, LayerKind kind, const std::string& what, Attrs attrs, const Shape& shape,
              std::vector<Tensor*> inputs = {}) {
    if (inputs.empty()) inputs = {x};
    Tensor* y = graph_.add_tensor(x->name + " (" + what + ")", x->type, shape);
    rewriter_.insert_before(conv_, kind, conv_->name + " (" + what + ")", std::move(attrs), inputs,
                            {y}, {conv_});
    return y;
  }

  // A whole volume as images.
  Tensor* reshaped(Tensor* x, const std::string& what) {
    ShuffleAttrs attrs;
    if (!depth_only_) attrs.first_transpose = kDepthFirst;
    attrs.has_reshape = true;
    attrs.reshape = image_shape(x->shape);
    return add(x, LayerKind::kShuffle, what, attrs, attrs.reshape);
  }

  // The slices of x that the window reads, as channels: those of the first depth, of the second …
  Tensor* stacked(Tensor* x) {
    const auto& a = conv_->as<ConvolutionAttrs>();
    const int64_t count = a.kernel[0], depth = conv_->outputs[0]->shape[2].extent();
    const bool whole = a.stride[0] == 1 && a.pre_padding[0] == 0 && a.post_padding[0] == 0;
    if (count == 1 && whole) return reshaped(x, "as images");
    ShuffleAttrs turn;
    turn.first_transpose = kDepthFirst;
    Shape shape = x->shape;
    std::swap(shape[1], shape[2]);
    x = add(x, LayerKind::kShuffle, "depth first", turn, shape);
    if (a.pre_padding[0] != 0 || a.post_padding[0] != 0) {
      PadAttrs pad;
      pad.pre = {0, a.pre_padding[0], 0, 0, 0};
      pad.post = {0, a.post_padding[0], 0, 0, 0};
      shape[1] = Dim(shape[1].extent() + a.pre_padding[0] + a.post_padding[0]);
      x = add(x, LayerKind::kPad, "padded", pad, shape);
    }
    shape[1] = Dim(depth);
    std::vector<Tensor*> parts;
    for (int64_t k = 0; k < count; ++k) {
      SliceAttrs slice;
      slice.start = {Dim(0), Dim(k * a.dilation[0]), Dim(0), Dim(0), Dim(0)};
      slice.size = shape;
      slice.step = {1, a.stride[0], 1, 1, 1};
      parts.push_back(add(x, LayerKind::kSlice, fmt::format("depth {}", k), slice, shape));
    }
    if (count > 1) {
      shape[2] = Dim(shape[2].extent() * count);
      x = add(x, LayerKind::kConcatenation, "stacked", AxisAttrs{2}, shape, parts);
    } else {
      x = parts[0];
    }
    ShuffleAttrs flat;
    flat.has_reshape = true;
    flat.reshape = {graph_.symbols().mul(shape[0], shape[1]), shape[2], shape[3], shape[4]};
    return add(x, LayerKind::kShuffle, "as images", flat, flat.reshape);
  }

  // w[k][c][z][…] → w[k][z * C + c][…]; over depth only, as it is.
  Tensor* weights() {
    const Tensor* w = conv_->inputs[1];
    const auto& s = w->shape;
    const int64_t out = s[0].extent(), channels = s[1].extent(), depth = s[2].extent(),
                  area = s[3].extent() * s[4].extent();
    const auto values = w->values<float>();
    if (depth_only_) {
      const int64_t extents[] = {out, channels, depth, 1};
      return rewriter_.add_float_constant(w->name + " (image)", extents, values);
    }
    std::vector<float> moved(values.size());
    for (int64_t k = 0; k < out; ++k)
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t z = 0; z < depth; ++z)
          std::copy_n(values.begin() + ((k * channels + c) * depth + z) * area, area,
                      moved.begin() + ((k * depth + z) * channels + c) * area);
    const int64_t extents[] = {out, depth * channels, s[3].extent(), s[4].extent()};
    return rewriter_.add_float_constant(w->name + " (image)", extents, moved);
  }

  // An operand of the epilogue: the whole volume, or along its channels.
  Tensor* operand(Tensor* t) {
    if (same_shape(t, conv_->outputs[0])) return reshaped(t, "operand");
    if (t->shape.size() < 4) return t;  // no channels: all extents are one
    ShuffleAttrs attrs;
    attrs.has_reshape = true;
    const Dim channels = t->shape[t->shape.size() - 4];
    attrs.reshape = {Dim(1), channels, Dim(1), Dim(1)};
    return add(t, LayerKind::kShuffle, "operand", attrs, attrs.reshape);
  }

  Rewriter& rewriter_;
  Graph& graph_;
  Layer* conv_;
  bool depth_only_ = false;
};

}  // namespace

int lower_volumes(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "VolumeLowering", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* conv = graph.layers()[k].get();
    if (conv->kind != LayerKind::kConvolution || !conv->inputs[0]->has_rank ||
        conv->inputs[0]->shape.size() != kRank || conv->inputs[0]->type != DataType::kFloat)
      continue;
    const auto& a = conv->as<ConvolutionAttrs>();
    rewriter.running(*conv);
    Lowering lowering(rewriter, conv);
    std::string reason = refusal(*conv);
    if (reason.empty()) reason = lowering.operand_refusal();
    if (reason.empty() && a.groups > 1 && a.kernel[0] > 1 && !is_depth_only(a))
      reason = "groups of windows over depth and space";
    if (!reason.empty()) {
      rewriter.declined(*conv, "stays a convolution of volumes: " + reason);
      continue;
    }
    rewriter.applied(*conv, "Lowering " + conv->name + " to a convolution of images");
    lowering.run();
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
