// SPDX-License-Identifier: Apache-2.0
// VolumeLowering: a convolution of volumes [N, C, D, H, W] as one of images, for which there are
// fast kernels (the reference kernel's 1 GMAC/s is what it had):
// - a window over depth only, without padding or steps elsewhere: of [N, C, D, H*W];
// - else of [N*D', KD*C, H, W]: the KD slices of x that a window reads, shifted against each other,
//   side by side as channels. KD = 1: nothing is put together, x is seen as N*D images;
// - of groups, whose channels would not stay together so: the sum of KD convolutions, one for each
//   of those slices.
// A transposed one likewise, a deconvolution of images per depth modulo the stride: each depth gets
// every stride-th tap, whose slices of x are its channels. Depths of one residue lie side by side
// as channels until a reshape puts them between each other. The same products; their sums are in
// another order. Convolutions of codes likewise, but of groups: their depths are padded with the
// code of zero, and their sums are exact.
#include "passes/volume_lowering.h"

#include <algorithm>

#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

const Ints kDepthFirst = {0, 2, 1, 3, 4};  // swaps channels and depth; its own inverse

// Windows of one row and column that touch every pixel.
bool is_depth_only(const ConvolutionAttrs& a) {
  for (size_t d = 1; d < 3; ++d)
    if (a.kernel[d] != 1 || a.stride[d] != 1 || a.pre_padding[d] != 0 || a.post_padding[d] != 0)
      return false;
  return true;
}

// The channels of a group would not stay together: a convolution for each depth of the window.
bool sums_depths(const ConvolutionAttrs& a) {
  return a.groups > 1 && a.kernel[0] > 1 && !is_depth_only(a);
}

Refusal lowering_refusal(const Layer& conv) {
  if (conv.inputs.size() < 2 || !conv.inputs[1]->is_constant() ||
      (conv.inputs[1]->type != DataType::kFloat && bits_of(conv.inputs[1]->type) != 8))
    return {Reason::kConstant, "its weights are no constant floats or codes"};
  return refuse_volume(conv, conv.inputs[0]->type != DataType::kFloat);
}

// Of a window over depth and space.
Refusal transposed_refusal(const Layer& conv) {
  const auto& a = conv.as<ConvolutionAttrs>();
  if (!a.output_shape.empty()) return {Reason::kAttribute, "its output shape is given"};
  if (a.groups > 1 && a.kernel[0] > 1)
    return {Reason::kUnsupported, "groups of windows over depth and space"};
  if (a.stride[0] > 1 && a.dilation[0] > 1)
    return {Reason::kUnsupported, "dilated and strided over depth"};
  if (a.kernel[0] < a.stride[0]) return {Reason::kUnsupported, "depths without taps"};
  if (conv.outputs[0]->shape[2].extent() % a.stride[0] != 0)
    return {Reason::kAttribute, "its depth is no multiple of the stride"};
  return {};
}

// Why the epilogue's operands cannot follow; empty: they can.
Refusal operand_refusal(const Layer& conv) {
  for (size_t k = 3; k < conv.inputs.size(); ++k) {
    const Shape& shape = conv.inputs[k]->shape;
    const bool whole = same_shape(conv.inputs[k], conv.outputs[0]);
    const bool along_channels =
        shape.size() <= kVolumeRank && std::all_of(shape.begin(), shape.end(), [&](const Dim& dim) {
          const size_t axis = kVolumeRank - shape.size() + static_cast<size_t>(&dim - shape.data());
          return dim == Dim(1) || axis == 1;
        });
    if (!whole && !along_channels)
      return {Reason::kShape, "an operand of its epilogue is a part of the volume"};
  }
  return {};
}

// The steps around the convolutions of images that replace one of volumes.
class VolumeLowering {
 public:
  VolumeLowering(Rewriter& rewriter, Layer* conv) : rewriter_(rewriter), conv_(conv) {}

 protected:
  Tensor* add(Tensor* x, LayerKind kind, const std::string& what, Attrs attrs, const Shape& shape,
              std::vector<Tensor*> inputs = {}) {
    if (inputs.empty()) inputs = {x};
    Tensor* y = rewriter_.add_tensor(x->name + " (" + what + ")", x->type, shape);
    rewriter_.insert_before(conv_, kind, conv_->name + " (" + what + ")", std::move(attrs), inputs,
                            {y}, {conv_});
    return y;
  }

  // [N, C, D, H, W] → [N, D, C, H, W], with depths of zeros (of codes: what stands for
  // zero) before and behind.
  Tensor* depth_first(Tensor* x, int64_t pre, int64_t post) {
    ShuffleAttrs turn;
    turn.first_transpose = kDepthFirst;
    Shape shape = x->shape;
    std::swap(shape[1], shape[2]);
    x = add(x, LayerKind::kShuffle, "depth first", turn, shape);
    if (pre == 0 && post == 0) return x;
    PadAttrs pad;
    pad.pre = {0, pre, 0, 0, 0};
    pad.post = {0, post, 0, 0, 0};
    if (x->type != DataType::kFloat)
      pad.value = static_cast<float>(conv_->as<ConvolutionAttrs>().zero_point);
    shape[1] = Dim(shape[1].extent() + pre + post);
    return add(x, LayerKind::kPad, "padded", pad, shape);
  }

  struct Depths {
    int64_t first, step, count;
  };
  Tensor* slice(Tensor* x, const Depths& depths, const std::string& what) {
    SliceAttrs slice;
    slice.start = {Dim(0), Dim(depths.first), Dim(0), Dim(0), Dim(0)};
    slice.size = x->shape;
    slice.size[1] = Dim(depths.count);
    slice.step = {1, depths.step, 1, 1, 1};
    const Shape shape = slice.size;
    return add(x, LayerKind::kSlice, what, slice, shape);
  }

  // Slices side by side as channels, seen as images: [N, D, C, H, W] each → [N*D, k*C, H, W].
  Tensor* stack(const std::vector<Tensor*>& parts, const std::string& what) {
    Tensor* x = parts[0];
    Shape shape = x->shape;
    if (parts.size() > 1) {
      shape[2] = Dim(shape[2].extent() * static_cast<int64_t>(parts.size()));
      x = add(x, LayerKind::kConcatenation, "stacked", AxisAttrs{2}, shape, parts);
    }
    ShuffleAttrs flat;
    flat.has_reshape = true;
    flat.reshape = {rewriter_.symbols().mul(shape[0], shape[1]), shape[2], shape[3], shape[4]};
    return add(x, LayerKind::kShuffle, what, flat, flat.reshape);
  }

  // An operand of the epilogue that lies along the channels.
  Tensor* channel_operand(Tensor* t) {
    if (t->shape.size() < 4) return t;  // no channels: all extents are one
    ShuffleAttrs attrs;
    attrs.has_reshape = true;
    const Dim channels = t->shape[t->shape.size() - 4];
    attrs.reshape = {Dim(1), channels, Dim(1), Dim(1)};
    return add(t, LayerKind::kShuffle, "operand", attrs, attrs.reshape);
  }

  // The weights' elements in another order: move(copy) calls copy(from, count, to) for runs of
  // them.
  template <class Move>
  Tensor* rearranged(const std::string& name, std::initializer_list<int64_t> extents,
                     const Move& move) {
    const Tensor* w = conv_->inputs[1];
    const auto element = static_cast<int64_t>(bits_of(w->type) / 8);
    std::vector<std::byte> bytes(static_cast<size_t>(element_count(extents) * element));
    move([&](int64_t from, int64_t count, int64_t to) {
      std::copy_n(w->constant->view.begin() + from * element, count * element,
                  bytes.begin() + to * element);
    });
    const std::vector<int64_t> shape(extents);
    return rewriter_.add_constant(name, w->type, shape, std::move(bytes));
  }

  Rewriter& rewriter_;
  Layer* conv_;
};

class ConvolutionLowering : VolumeLowering {
 public:
  using VolumeLowering::VolumeLowering;

  void run() {
    const auto& a = conv_->as<ConvolutionAttrs>();
    depth_only_ = is_depth_only(a);
    replace(sums_depths(a) ? summed() : one());
  }

 private:
  ConvolutionAttrs image_attrs() const {
    ConvolutionAttrs attrs = conv_->as<ConvolutionAttrs>();
    for (Ints* list :
         {&attrs.kernel, &attrs.stride, &attrs.dilation, &attrs.pre_padding, &attrs.post_padding})
      list->erase(list->begin() + (depth_only_ ? 2 : 0));
    return attrs;
  }

  // One convolution of images.
  Tensor* one() {
    std::vector<Tensor*> inputs = conv_->inputs;
    inputs[0] = depth_only_ ? reshaped(inputs[0], "as images") : stacked(inputs[0]);
    inputs[1] = weights();
    for (size_t k = 3; k < inputs.size(); ++k) inputs[k] = operand(inputs[k]);
    Tensor* y = conv_->outputs[0];
    return add(y, LayerKind::kConvolution, "images", image_attrs(), image_shape(y->shape), inputs);
  }

  // A convolution for each slice that the window reads; what follows the sum is a layer again.
  Tensor* summed() {
    const auto& a = conv_->as<ConvolutionAttrs>();
    Tensor* y = conv_->outputs[0];
    const Shape shape = image_shape(y->shape);
    ConvolutionAttrs attrs = image_attrs();
    attrs.epilogue = Program();
    Tensor *padded = depth_first(conv_->inputs[0], a.pre_padding[0], a.post_padding[0]),
           *sum = nullptr;
    for (int64_t z = 0; z < a.kernel[0]; ++z) {
      const std::string what = fmt::format("depth {}", z);
      const Depths depths{z * a.dilation[0], a.stride[0], y->shape[2].extent()};
      std::vector<Tensor*> inputs = {stack({slice(padded, depths, what)}, "images of " + what),
                                     weights_of(z)};
      if (Tensor* bias = input_at(*conv_, 2); bias && z == 0) inputs.push_back(bias);
      Tensor* part = add(y, LayerKind::kConvolution, "images of " + what, attrs, shape, inputs);
      sum = z == 0 ? part
                   : add(y, LayerKind::kElementWise, fmt::format("sum of {}", z + 1),
                         PointOpAttrs{PointOp::kAdd}, shape, {sum, part});
    }
    if (a.epilogue.empty()) return sum;
    std::vector<Tensor*> operands = {sum};
    for (size_t k = 3; k < conv_->inputs.size(); ++k) operands.push_back(operand(conv_->inputs[k]));
    return add(y, LayerKind::kPointWise, "epilogue", PointWiseAttrs{a.epilogue}, shape, operands);
  }

  // The volume that `images` are.
  void replace(Tensor* images) {
    ShuffleAttrs back;
    back.has_reshape = true;
    back.reshape = conv_->outputs[0]->shape;
    if (!depth_only_) {
      std::swap(back.reshape[1], back.reshape[2]);
      back.second_transpose = kDepthFirst;
    }
    Layer* group[] = {conv_};
    rewriter_.replace(group, LayerKind::kShuffle, back, {images}, conv_->name);
  }

  // [N, C, D, H, W] → [N, C, D, H*W], or [N*D, C, H, W].
  Shape image_shape(const Shape& volume) {
    SymbolTable& symbols = rewriter_.symbols();
    if (depth_only_) return {volume[0], volume[1], volume[2], symbols.mul(volume[3], volume[4])};
    return {symbols.mul(volume[0], volume[2]), volume[1], volume[3], volume[4]};
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
    x = depth_first(x, a.pre_padding[0], a.post_padding[0]);
    std::vector<Tensor*> parts;
    for (int64_t k = 0; k < count; ++k)
      parts.push_back(
          slice(x, {k * a.dilation[0], a.stride[0], depth}, fmt::format("depth {}", k)));
    return stack(parts, "as images");
  }

  // w[k][c][z][…] → w[k][z * C + c][…]; over depth only, as it is.
  Tensor* weights() {
    const Tensor* w = conv_->inputs[1];
    const auto& s = w->shape;
    const int64_t out = s[0].extent(), channels = s[1].extent(), depth = s[2].extent(),
                  area = s[3].extent() * s[4].extent();
    if (depth_only_)
      return rearranged(w->name + " (image)", {out, channels, depth, 1},
                        [&](const auto& copy) { copy(0, out * channels * depth, 0); });
    return rearranged(w->name + " (image)", {out, depth * channels, s[3].extent(), s[4].extent()},
                      [&](const auto& copy) {
                        for (int64_t k = 0; k < out; ++k)
                          for (int64_t c = 0; c < channels; ++c)
                            for (int64_t z = 0; z < depth; ++z)
                              copy(((k * channels + c) * depth + z) * area, area,
                                   ((k * depth + z) * channels + c) * area);
                      });
  }

  // w[…][z][h][w] of one z.
  Tensor* weights_of(int64_t z) {
    const Tensor* w = conv_->inputs[1];
    const auto& s = w->shape;
    const int64_t out = s[0].extent(), channels = s[1].extent(), depth = s[2].extent(),
                  area = s[3].extent() * s[4].extent();
    return rearranged(fmt::format("{} (depth {})", w->name, z),
                      {out, channels, s[3].extent(), s[4].extent()}, [&](const auto& copy) {
                        for (int64_t k = 0; k < out * channels; ++k)
                          copy((k * depth + z) * area, area, k * area);
                      });
  }

  // An operand of the epilogue: the whole volume, or along its channels.
  Tensor* operand(Tensor* t) {
    return same_shape(t, conv_->outputs[0]) ? reshaped(t, "operand") : channel_operand(t);
  }

  bool depth_only_ = false;
};

class DeconvolutionLowering : VolumeLowering {
 public:
  using VolumeLowering::VolumeLowering;

  void run() {
    const auto& a = conv_->as<ConvolutionAttrs>();
    stride_ = a.stride[0];
    depth_ = conv_->outputs[0]->shape[2].extent() / stride_;
    ConvolutionAttrs attrs = a;
    for (Ints* list : {&attrs.kernel, &attrs.stride, &attrs.dilation, &attrs.pre_padding,
                       &attrs.post_padding, &attrs.output_padding})
      if (!list->empty()) list->erase(list->begin());
    const Tensor* y = conv_->outputs[0];
    const Shape shape = {rewriter_.symbols().mul(y->shape[0], Dim(depth_)), y->shape[1],
                         y->shape[3], y->shape[4]};
    set_padded();
    std::vector<Tensor*> images;
    for (int64_t residue = 0; residue < stride_; ++residue) {
      std::vector<Tensor*> inputs = conv_->inputs;
      inputs[0] = stacked(residue);
      inputs[1] = weights(residue);
      for (size_t k = 3; k < inputs.size(); ++k) inputs[k] = operand(inputs[k], residue);
      const std::string what = fmt::format(" (depths {})", residue);
      images.push_back(rewriter_.add_tensor(y->name + what, y->type, shape));
      rewriter_.insert_before(conv_, LayerKind::kDeconvolution, conv_->name + what, attrs, inputs,
                              {images.back()}, {conv_});
    }
    Layer* group[] = {conv_};
    rewriter_.replace(group, LayerKind::kShuffle, back(), {side_by_side(images)}, conv_->name);
  }

 private:
  // Output depth o gets tap t from x's depth (o + crop - t * dilation) / stride.
  int64_t first_tap(int64_t residue) const {
    return (residue + conv_->as<ConvolutionAttrs>().pre_padding[0]) % stride_;
  }
  int64_t taps(int64_t residue) const {
    const int64_t kernel = conv_->as<ConvolutionAttrs>().kernel[0];
    return (kernel - first_tap(residue) + stride_ - 1) / stride_;
  }
  // The depth of x that the first output of the residue gets through its tap `index`.
  int64_t source(int64_t residue, int64_t index) const {
    const auto& a = conv_->as<ConvolutionAttrs>();
    const int64_t tap = first_tap(residue) + index * stride_;
    // Whole: the tap is of that residue.
    return (residue + a.pre_padding[0] - tap * a.dilation[0]) / stride_;
  }

  // x with all depths that any tap asks for; as it is where that is x itself.
  void set_padded() {
    Tensor* x = conv_->inputs[0];
    const int64_t depth = x->shape[2].extent();
    int64_t first = 0, end = depth;
    for (int64_t residue = 0; residue < stride_; ++residue)
      for (int64_t index = 0; index < taps(residue); ++index) {
        first = std::min(first, source(residue, index));
        end = std::max(end, source(residue, index) + depth_);
      }
    before_ = -first;
    padded_ = depth_first(x, before_, end - depth);
  }

  Tensor* stacked(int64_t residue) {
    std::vector<Tensor*> parts;
    for (int64_t index = 0; index < taps(residue); ++index)
      parts.push_back(slice(padded_, {before_ + source(residue, index), 1, depth_},
                            fmt::format("tap {} of depths {}", index, residue)));
    return stack(parts, fmt::format("as images of depths {}", residue));
  }

  // w[c][k][z][…] → w[index * C + c][k][…] of the taps z of a residue.
  Tensor* weights(int64_t residue) {
    const Tensor* w = conv_->inputs[1];
    const auto& s = w->shape;
    const int64_t channels = s[0].extent(), out = s[1].extent(), depth = s[2].extent(),
                  area = s[3].extent() * s[4].extent(), count = taps(residue);
    return rearranged(
        fmt::format("{} (depths {})", w->name, residue),
        {count * channels, out, s[3].extent(), s[4].extent()}, [&](const auto& copy) {
          for (int64_t index = 0; index < count; ++index)
            for (int64_t c = 0; c < channels; ++c)
              for (int64_t k = 0; k < out; ++k)
                copy(((c * out + k) * depth + first_tap(residue) + index * stride_) * area, area,
                     ((index * channels + c) * out + k) * area);
        });
  }

  Tensor* operand(Tensor* t, int64_t residue) {
    if (!same_shape(t, conv_->outputs[0])) return channel_operand(t);
    Tensor* turned = depth_first(t, 0, 0);
    const std::string what = fmt::format("depths {}", residue);
    return stack({slice(turned, {residue, stride_, depth_}, what)}, "operand, " + what);
  }

  Tensor* side_by_side(const std::vector<Tensor*>& images) {
    if (images.size() == 1) return images[0];
    Shape shape = images[0]->shape;
    shape[1] = Dim(shape[1].extent() * stride_);
    return add(images[0], LayerKind::kConcatenation, "all depths", AxisAttrs{1}, shape, images);
  }

  // [N*D/s, s*C, H, W] → [N, C, D, H, W].
  ShuffleAttrs back() {
    ShuffleAttrs attrs;
    attrs.has_reshape = true;
    attrs.reshape = conv_->outputs[0]->shape;
    std::swap(attrs.reshape[1], attrs.reshape[2]);
    attrs.second_transpose = kDepthFirst;
    return attrs;
  }

  int64_t stride_ = 1, depth_ = 0;  // of the output, depths of a residue
  int64_t before_ = 0;
  Tensor* padded_ = nullptr;
};

Refusal refusal_of(const Layer& conv) {
  if (Refusal refusal = lowering_refusal(conv)) return refusal;
  if (Refusal refusal = operand_refusal(conv)) return refusal;
  return conv.kind == LayerKind::kDeconvolution ? transposed_refusal(conv) : Refusal();
}

}  // namespace

Refusal refuse_volume(const Layer& conv, bool of_codes) {
  const auto& a = conv.as<ConvolutionAttrs>();
  if (of_codes && sums_depths(a))
    return {Reason::kUnsupported, "its groups have windows over depth and space"};
  if (a.padding_mode != PaddingMode::kExplicit) return {Reason::kExtent, "it pads by mode"};
  const Shape &x = conv.inputs[0]->shape, &y = conv.outputs[0]->shape;
  for (size_t d = 1; d < kVolumeRank; ++d)
    if (!x[d].is_known() || !y[d].is_known())
      return {Reason::kExtent, "only running can tell its extents"};
  return {};
}

int volume_lowering(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "VolumeLowering", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* conv = graph.layers()[k].get();
    const bool transposed = conv->kind == LayerKind::kDeconvolution;
    if ((!transposed && conv->kind != LayerKind::kConvolution) || !conv->inputs[0]->has_rank ||
        conv->inputs[0]->shape.size() != kVolumeRank ||
        (conv->inputs[0]->type != DataType::kFloat && bits_of(conv->inputs[0]->type) != 8))
      continue;
    rewriter.running(*conv);
    if (Refusal refusal = refusal_of(*conv)) {
      rewriter.declined(*conv, std::move(refusal).behind("stays a convolution of volumes: "));
      continue;
    }
    rewriter.applied(Action::kConvert, *conv,
                     "Lowering " + conv->name + " to a convolution of images");
    if (transposed)
      DeconvolutionLowering(rewriter, conv).run();
    else
      ConvolutionLowering(rewriter, conv).run();
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
