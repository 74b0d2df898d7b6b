// SPDX-License-Identifier: Apache-2.0
// ShortTimeSpectraFusion: convolutions of one signal whose kernels are the windowed waves of a
// Fourier transform, as torchlibrosa, nnAudio, openWakeWord and ConvSTFT write it for exporters
// without one: kernel k of `length / 2 + 1` is window[n] * cos(2π k n / length), or the sines,
// in convolutions of their own or of one, one after the other or in turns. ShortTimeSpectra, a fast
// transform, and what turns its results. Kernels shorter than the transform are zeros from there
// on. Rounded as floats: kernels are equal to 1e-6 of their largest.
#include <algorithm>
#include <cmath>
#include <span>

#include "ir/short_time_spectra.h"
#include "kernels/fourier_length.h"
#include "kernels/fourier_waves.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace camshaft::passes {

using namespace ir;

namespace {

// Shorter ones gain little. From here on even four frames are worth it: silero's of 256 take 0.7 µs
// with what turns them, 3.4 as a product (Zen 5).
constexpr int64_t kShortestWaves = 256, kLongestWaves = 1 << 16;

// A convolution of one channel along dimension `axis` of its input, whose other extents are 1.
struct OneSignal {
  size_t axis;
  int64_t taps, hop, pre, post;
  bool operator==(const OneSignal&) const = default;
};

std::optional<OneSignal> signal_of(const Layer& layer) {
  if (layer.kind != LayerKind::kConvolution || layer.inputs.size() < 2) return {};
  const auto& attrs = layer.as<ConvolutionAttrs>();
  const Tensor *x = layer.inputs[0], *w = layer.inputs[1], *bias = input_at(layer, 2);
  if (x->type != DataType::kFloat || layer.outputs[0]->type != DataType::kFloat || !x->has_rank ||
      !is_float_constant(w) || x->shape.size() != w->shape.size() || x->shape.size() < 3 ||
      layer.inputs.size() > 3 || (bias != nullptr && uniform_value(bias) != 0.0) ||
      attrs.groups != 1 || attrs.padding_mode != PaddingMode::kExplicit ||
      !attrs.epilogue.code.empty() || x->shape[1] != Dim(1))
    return {};
  std::optional<OneSignal> found;
  for (size_t d = 0; d < attrs.kernel.size(); ++d) {
    if (attrs.dilation[d] != 1) return {};
    if (attrs.kernel[d] == 1 && x->shape[d + 2] == Dim(1) && attrs.pre_padding[d] == 0 &&
        attrs.post_padding[d] == 0)
      continue;
    if (found || attrs.pre_padding[d] < 0 || attrs.post_padding[d] < 0) return {};
    found = {d + 2, attrs.kernel[d], attrs.stride[d], attrs.pre_padding[d], attrs.post_padding[d]};
  }
  return found;
}

// Which kernels are waves: cosines are 0, step, 2 * step …, sines imag, imag + step ….
struct WaveOrder {
  int64_t bins, imag, step;                          // imag < 0: cosines only
  int64_t length() const { return 2 * (bins - 1); }  // of the transform
};

// What kernels have in common.
struct WaveTable {
  kernels::FourierWaves waves;
  std::vector<float> window;
  double tolerance = 0;

  WaveTable(int64_t length, std::span<const float> first)
      : waves(length), window(first.begin(), first.end()) {
    for (const float value : window) tolerance = std::max(tolerance, 1e-6 * std::fabs(value));
  }

  bool are(std::span<const float> kernels, int64_t first, const WaveOrder& layout,
           const std::vector<double>& wave, double sign) const {
    const auto taps = static_cast<int64_t>(window.size()), length = layout.length();
    for (int64_t bin = 0; bin < layout.bins; ++bin) {
      const float* kernel = kernels.data() + (first + bin * layout.step) * taps;
      for (int64_t n = 0; n < taps; ++n)
        if (!(std::fabs(kernel[n] - sign * window[n] * wave[bin * n % length]) <= tolerance))
          return false;
    }
    return true;
  }
};

bool is_fast_length(int64_t length, int64_t taps) {
  return length >= kShortestWaves && length <= kLongestWaves && taps <= length &&
         taps > length / 4 && kernels::is_fast_fourier_length(length);
}

// Kernel k.
std::span<const float> wave_kernel(const Layer& layer, int64_t k, int64_t taps) {
  return layer.inputs[1]->values<float>().subspan(static_cast<size_t>(k * taps),
                                                  static_cast<size_t>(taps));
}

struct WaveBasis {
  WaveOrder layout;
  std::vector<float> window;
  bool conjugate = false;
};

// The sign of the sines; nothing: they are none.
std::optional<bool> conjugate_of(const WaveTable& table, std::span<const float> kernels,
                                 const WaveOrder& layout) {
  for (const bool conjugate : {false, true})
    if (table.are(kernels, layout.imag, layout, table.waves.sine, conjugate ? 1 : -1))
      return conjugate;
  return {};
}

// Convolutions that have the cosines, with the sines or without.
std::optional<WaveBasis> real_waves(const Layer& layer, const OneSignal& signal) {
  const int64_t channels = layer.inputs[1]->shape[0].extent(), half = channels / 2;
  const WaveOrder layouts[] = {{channels, -1, 1}, {half, half, 1}, {half, 1, 2}};
  for (const WaveOrder& layout : layouts) {
    if ((layout.imag >= 0 && channels % 2 != 0) || !is_fast_length(layout.length(), signal.taps))
      continue;
    const WaveTable table(layout.length(), wave_kernel(layer, 0, signal.taps));
    const auto kernels = layer.inputs[1]->values<float>();
    if (!(table.tolerance > 0) || !table.are(kernels, 0, layout, table.waves.cosine, 1)) continue;
    WaveBasis found{layout, table.window};
    if (layout.imag < 0) return found;
    if (const auto conjugate = conjugate_of(table, kernels, layout)) {
      found.conjugate = *conjugate;
      return found;
    }
  }
  return {};
}

// Whether a convolution of the same frames has the sines to those cosines: `conjugate` in `found`.
bool has_sines(const Layer& layer, WaveBasis& found) {
  const WaveOrder sines{layer.inputs[1]->shape[0].extent(), 0, 1};
  if (sines.bins != found.layout.bins) return false;
  const WaveTable table(sines.length(), found.window);
  const auto conjugate = conjugate_of(table, layer.inputs[1]->values<float>(), sines);
  if (conjugate) found.conjugate = *conjugate;
  return conjugate.has_value();
}

// Those that become one transform: of the cosines, and of the sines where these are another's.
struct WaveGroup {
  Layer *real, *imag;
  OneSignal signal;
  WaveBasis waves;
};

std::optional<WaveGroup> wave_group(Layer* layer) {
  const auto signal = signal_of(*layer);
  if (!signal) return {};
  const std::vector<Layer*>& readers = layer->inputs[0]->consumers;
  if (auto waves = real_waves(*layer, *signal)) {
    WaveGroup group{layer, nullptr, *signal, std::move(*waves)};
    for (Layer* other : readers)
      if (group.waves.layout.imag < 0 && other != layer && group.imag == nullptr &&
          signal_of(*other) == signal && has_sines(*other, group.waves))
        group.imag = other;
    return group;
  }
  for (Layer* other : readers) {
    if (other == layer || signal_of(*other) != signal) continue;
    auto waves = real_waves(*other, *signal);
    if (waves && waves->layout.imag < 0 && has_sines(*layer, *waves))
      return WaveGroup{other, layer, *signal, std::move(*waves)};
  }
  return {};
}

// The signal as rows of samples, with what is read around it.
Tensor* signal_rows(Rewriter& rewriter, Layer* before, const WaveGroup& group) {
  const std::string& name = group.real->name;
  Tensor* x = group.real->inputs[0];
  const Shape shape = {x->shape[0], x->shape[group.signal.axis]};
  Tensor* rows = rewriter.reshaped_before(before, name + " (signal)", x, shape, *group.real);
  const int64_t pre = group.signal.pre,
                post = group.signal.post + group.waves.layout.length() - group.signal.taps;
  if (pre == 0 && post == 0) return rows;
  PadAttrs pad;
  pad.pre = {0, pre}, pad.post = {0, post};
  Tensor* padded = rewriter.add_tensor(
      name + " (padded)", DataType::kFloat,
      {shape[0], rewriter.symbols().add(shape[1], rewriter.symbols().constant(pre + post))});
  rewriter.insert_before(before, LayerKind::kPad, padded->name, std::move(pad), {rows}, {padded},
                         {group.real});
  return padded;
}

Tensor* spectra_of(Rewriter& rewriter, Layer* before, const WaveGroup& group) {
  const std::string& name = group.real->name;
  Tensor* rows = signal_rows(rewriter, before, group);
  std::vector<float> window = group.waves.window;
  const int64_t extents[] = {group.waves.layout.length()};
  window.resize(static_cast<size_t>(extents[0]), 0.0f);
  Tensor* spectra =
      rewriter.add_tensor(name + " (spectra)", DataType::kFloat,
                          {Dim(2), rows->shape[0], group.real->outputs[0]->shape[group.signal.axis],
                           Dim(group.waves.layout.bins)});
  GenericAttrs attrs{kShortTimeSpectra,
                     1,
                     {{"hop", {group.signal.hop}, {}, ""},
                      {"conjugate", {group.waves.conjugate ? 1 : 0}, {}, ""}}};
  std::vector<const Layer*> origins = {group.real};
  if (group.imag != nullptr) origins.push_back(group.imag);
  rewriter.insert_before(before, LayerKind::kGeneric, spectra->name, std::move(attrs),
                         {rows, rewriter.add_float_constant(name + " (window)", extents, window)},
                         {spectra}, origins);
  return spectra;
}

// [parts, N, frames, bins] as the convolution's result.
void turn_spectra(Rewriter& rewriter, Layer* layer, Tensor* parts, Ints order) {
  ShuffleAttrs shuffle;
  shuffle.first_transpose = std::move(order);
  shuffle.has_reshape = true;
  shuffle.reshape = layer->outputs[0]->shape;
  Layer* group[] = {layer};
  rewriter.replace(group, LayerKind::kShuffle, std::move(shuffle), {parts}, layer->name);
}

void take_spectra(Rewriter& rewriter, Layer* layer, Tensor* spectra, int64_t part) {
  Shape shape = spectra->shape;
  shape[0] = Dim(1);
  Tensor* made = rewriter.add_tensor(layer->name + " (part)", DataType::kFloat, shape);
  rewriter.insert_before(layer, LayerKind::kSlice, made->name, slice_along(shape, 0, part),
                         {spectra}, {made}, {layer});
  turn_spectra(rewriter, layer, made, {0, 1, 3, 2});
}

void fuse_waves(Rewriter& rewriter, Layer* first, const WaveGroup& group) {
  const WaveOrder& layout = group.waves.layout;
  rewriter.applied(Action::kConvert, *first,
                   "Turning " + group.real->name +
                       (group.imag ? " and " + group.imag->name : std::string()) +
                       " into Fourier transforms of " + std::to_string(layout.length()));
  Tensor* spectra = spectra_of(rewriter, first, group);
  if (layout.imag >= 0)
    return turn_spectra(rewriter, group.real, spectra,
                        layout.step == 2 ? Ints{1, 3, 0, 2} : Ints{1, 0, 3, 2});
  take_spectra(rewriter, group.real, spectra, 0);
  if (group.imag != nullptr) take_spectra(rewriter, group.imag, spectra, 1);
}

}  // namespace

int short_time_spectra_fusion(Graph& graph, Records* records) {
  Rewriter rewriter(graph, "ShortTimeSpectraFusion", records);
  for (size_t k = 0; k < graph.layers().size(); ++k) {
    Layer* layer = graph.layers()[k].get();
    if (const auto group = wave_group(layer)) fuse_waves(rewriter, layer, *group);
  }
  return rewriter.edits();
}

}  // namespace camshaft::passes
