// SPDX-License-Identifier: Apache-2.0
// DFT as a product with a constant matrix, STFT as a convolution whose kernels are the windowed
// waves: for floats and lengths known while importing, as long as the matrix stays moderate. What
// is left stays with the Generic operators, so does a DFT that has a fast kernel.
#include "kernels/fourier_length.h"
#include "kernels/fourier_waves.h"
#include "onnx/node.h"

namespace camshaft::onnx_import {
namespace {

using kernels::FourierWaves;

// 16 MB: a real transform of 2048, one-sided.
constexpr int64_t kMostMatrixElements = 1 << 22;

struct Transform {
  int64_t given = 0, length = 0, bins = 0;  // elements of a line, of the transform, of the result
  int64_t parts = 1, out_parts = 2;         // 1: real
  bool inverse = false;
};

// [given * parts, bins * out_parts]. What a real result reads of a half spectrum, its mirror image
// adds once more, but for the ends.
std::vector<float> matrix_of(const Transform& t) {
  const FourierWaves waves(t.length);
  const int64_t columns = t.bins * t.out_parts;
  std::vector<float> matrix(static_cast<size_t>(t.given * t.parts * columns));
  const double scale = t.inverse ? 1 / static_cast<double>(t.length) : 1;
  const bool mirrors = t.out_parts == 1;
  const int64_t rows = mirrors ? std::min(t.given, t.length / 2 + 1) : std::min(t.given, t.length);
  for (int64_t k = 0; k < rows; ++k) {
    const bool is_end = k == 0 || 2 * k == t.length;
    const double weight = scale * (mirrors && !is_end ? 2 : 1);
    for (int64_t bin = 0; bin < t.bins; ++bin) {
      const auto angle = static_cast<size_t>(bin * k % t.length);
      const double real = weight * waves.cosine[angle],
                   imaginary = weight * (t.inverse ? waves.sine[angle] : -waves.sine[angle]);
      float* of_real = matrix.data() + k * t.parts * columns + bin * t.out_parts;
      of_real[0] = static_cast<float>(real);
      if (t.out_parts == 2) of_real[1] = static_cast<float>(imaginary);
      if (t.parts == 1) continue;
      float* of_imaginary = of_real + columns;
      of_imaginary[0] = static_cast<float>(mirrors && is_end ? 0 : -imaginary);
      if (t.out_parts == 2) of_imaginary[1] = static_cast<float>(real);
    }
  }
  return matrix;
}

// One number of input k, the fallback where it is absent; nothing where only running can tell.
std::optional<int64_t> one_number(Node& node, size_t k, int64_t fallback) {
  if (!node.has(k)) return fallback;
  const std::optional<Ints> list = node.numbers(k);
  return list && list->size() == 1 ? std::optional((*list)[0]) : std::nullopt;
}

// 16 bits become floats: kernels are of those.
bool is_float(const Tensor* x) {
  return x->has_rank && computes_in_float(x->type);
}

// The dimensions of [..., axis, ..., parts] with the axis last but one; its own inverse is the
// other way round.
Ints axis_to_end(size_t rank, size_t axis, bool back) {
  Ints order;
  for (size_t d = 0; d + 1 < rank; ++d)
    if (d != axis) order.push_back(static_cast<int64_t>(d));
  order.push_back(static_cast<int64_t>(axis));
  order.push_back(static_cast<int64_t>(rank) - 1);
  if (!back) return order;
  Ints inverse(rank);
  for (size_t d = 0; d < rank; ++d)
    inverse[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
  return inverse;
}

bool is_fast(const Transform& t) {
  const bool is_whole = t.given == (t.out_parts == 1 ? t.length / 2 + 1 : t.length);
  return kernels::is_fast_fourier_length(t.length) && is_whole &&
         (t.out_parts == 2 || (t.length % 2 == 0 && t.parts == 2));
}

// [..., given, parts] to [..., bins, out_parts].
Result<Tensor*> fast_spectra(Node& node, Tensor* lines, const Transform& t) {
  ir::GenericAttrs attrs{"DFT", 20, {}};
  attrs.attributes.push_back({"inverse", {t.inverse ? 1 : 0}, {}, ""});
  attrs.attributes.push_back({"onesided", {t.bins < t.length || t.out_parts == 1 ? 1 : 0}, {}, ""});
  return node.add("spectra", LayerKind::kGeneric, std::move(attrs), {lines});
}

// The same as a product.
Result<Tensor*> product_spectra(Node& node, Tensor* lines, const Transform& t) {
  Shape flat(lines->shape.begin(), lines->shape.end() - 2);
  flat.push_back(t.given * t.parts);
  CAMSHAFT_ASSIGN(Tensor* const rows, node.reshape("rows", lines, flat));
  const int64_t extents[] = {t.given * t.parts, t.bins * t.out_parts};
  return node.add("spectra", LayerKind::kMatrixMultiply, ir::MatrixMultiplyAttrs{},
                  {rows, node.float_constant("waves", extents, matrix_of(t))});
}

Status import_dft(Node& node) {
  CAMSHAFT_TRY(node.require(1, 3));
  Tensor* const x = node.input(0);
  if (!is_float(x) || x->shape.size() < 2) return import_generic(node);
  const size_t rank = x->shape.size();
  const auto stated =
      node.has(2) ? one_number(node, 2, -2) : node.integer("axis", node.opset() >= 20 ? -2 : 1);
  if (!stated) return import_generic(node);
  CAMSHAFT_ASSIGN(const int64_t axis, node.axis(*stated, rank));
  const Dim extent = x->shape[static_cast<size_t>(axis)], parts = x->shape[rank - 1];
  Transform t;
  t.inverse = node.flag("inverse", false);
  const bool onesided = node.flag("onesided", false), to_real = t.inverse && onesided;
  if (!extent.is_known() || !parts.is_known() || axis + 1 == static_cast<int64_t>(rank))
    return import_generic(node);
  t.given = extent.extent(), t.parts = parts.extent(), t.out_parts = to_real ? 1 : 2;
  const auto length = one_number(node, 1, to_real ? 2 * (t.given - 1) : t.given);
  if (!length || *length < 1 || *length > kMostMatrixElements || t.given > kMostMatrixElements ||
      (t.parts != 1 && t.parts != 2))
    return import_generic(node);
  t.length = *length;
  t.bins = onesided && !t.inverse ? t.length / 2 + 1 : t.length;
  const bool fast = is_fast(t);
  if (!fast && t.given * t.parts > kMostMatrixElements / (t.bins * t.out_parts))
    return import_generic(node);

  const bool moves = axis + 2 != static_cast<int64_t>(rank);
  CAMSHAFT_ASSIGN(Tensor * lines, node.cast("signal", x, DataType::kFloat));
  if (moves) {
    CAMSHAFT_ASSIGN(
        lines, node.transpose("lines", lines, axis_to_end(rank, static_cast<size_t>(axis), false)));
  }
  Shape shape(lines->shape.begin(), lines->shape.end() - 2);
  shape.push_back(t.bins);
  shape.push_back(t.out_parts);
  CAMSHAFT_ASSIGN(Tensor* const spectra,
                  fast ? fast_spectra(node, lines, t) : product_spectra(node, lines, t));
  ir::ShuffleAttrs back;
  back.has_reshape = true;
  back.reshape = shape;
  if (moves) back.second_transpose = axis_to_end(rank, static_cast<size_t>(axis), true);
  return node.emit_as(node.input(0)->type, "made", LayerKind::kShuffle, std::move(back), {spectra});
}

// The windowed waves of an STFT: kernels [2 bins, 1, length].
std::vector<float> wave_kernels(int64_t length, int64_t bins,
                                const std::optional<std::vector<double>>& window) {
  const FourierWaves waves(length);
  std::vector<float> kernels(static_cast<size_t>(2 * bins * length));
  for (int64_t bin = 0; bin < bins; ++bin)
    for (int64_t k = 0; k < length; ++k) {
      const auto angle = static_cast<size_t>(bin * k % length);
      const double factor = !window ? 1
                            : k < static_cast<int64_t>(window->size())
                                ? (*window)[static_cast<size_t>(k)]
                                : 0;
      kernels[(2 * bin) * length + k] = static_cast<float>(factor * waves.cosine[angle]);
      kernels[(2 * bin + 1) * length + k] = static_cast<float>(-factor * waves.sine[angle]);
    }
  return kernels;
}

// The operator as its fast kernel takes it: with a window, whose length is that of the frames.
Status emit_fast_stft(Node& node, int64_t step, int64_t length, bool onesided) {
  Tensor *signal = node.input(0), *window = node.input(2);
  CAMSHAFT_ASSIGN(signal, node.cast("signal", signal, DataType::kFloat));
  if (window != nullptr) {
    CAMSHAFT_ASSIGN(window, node.cast("window", window, DataType::kFloat));
  }
  const int64_t extents[] = {length}, steps[] = {step};
  if (window == nullptr)
    window = node.float_constant("window", extents,
                                 std::vector<float>(static_cast<size_t>(length), 1.0f));
  const ir::GenericAttrs attrs{"STFT", 17, {{"onesided", {onesided ? 1 : 0}, {}, ""}}};
  return node.emit_as(node.input(0)->type, "made", LayerKind::kGeneric, attrs,
                      {signal, node.int_constant("step", {}, steps), window});
}

// signal [batch, samples, 1], frame_step, window, frame_length → [batch, frames, bins, 2].
Status import_stft(Node& node) {
  CAMSHAFT_TRY(node.require(2, 4));
  Tensor *const x = node.input(0), *const window = node.input(2);
  const auto step = one_number(node, 1, 0);
  const bool onesided = node.flag("onesided", true);
  const bool has_size = window == nullptr || (is_float(window) && window->shape.size() == 1 &&
                                              window->shape[0].is_known());
  if (!is_float(x) || (x->shape.size() != 2 && !(x->shape.size() == 3 && x->shape[2] == Dim(1))) ||
      !step || *step < 1 || !has_size)
    return import_generic(node);
  const int64_t samples = x->shape[1].is_known() ? x->shape[1].extent() : 0,
                size = window != nullptr ? window->shape[0].extent() : samples;
  const auto length = one_number(node, 3, size);
  if (!length || *length < 1 || *length > 1 << 16 || (samples > 0 && *length > samples))
    return import_generic(node);
  if (kernels::is_fast_fourier_length(*length) && (window == nullptr || size == *length))
    return emit_fast_stft(node, *step, *length, onesided);
  const int64_t bins = onesided ? *length / 2 + 1 : *length;
  const auto factors = node.has(2) ? node.reals(2) : std::nullopt;
  if (*length > kMostMatrixElements / (2 * bins) || (window != nullptr && !factors))
    return import_generic(node);
  const std::vector<float> kernels = wave_kernels(*length, bins, factors);
  CAMSHAFT_ASSIGN(Tensor * signal, node.cast("floats", x, DataType::kFloat));
  CAMSHAFT_ASSIGN(signal, node.reshape("signal", signal, {x->shape[0], Dim(1), x->shape[1]}));
  ir::ConvolutionAttrs attrs;
  attrs.kernel = {*length};
  attrs.stride = {*step};
  attrs.dilation = {1};
  attrs.pre_padding = attrs.post_padding = {0};
  const int64_t extents[] = {2 * bins, 1, *length};
  CAMSHAFT_ASSIGN(Tensor* const spectra,
                  node.add("spectra", LayerKind::kConvolution, std::move(attrs),
                           {signal, node.float_constant("waves", extents, kernels)}));
  ir::ShuffleAttrs frames;
  frames.first_transpose = {0, 2, 1};
  frames.has_reshape = true;
  frames.reshape = {spectra->shape[0], spectra->shape[2], Dim(bins), Dim(2)};
  return node.emit_as(node.input(0)->type, "made", LayerKind::kShuffle, std::move(frames),
                      {spectra});
}

}  // namespace

std::span<const OperatorRow> signal_operators() {
  static constexpr OperatorRow kOperators[] = {
      {"DFT", import_dft},
      {"STFT", import_stft},
  };
  return kOperators;
}

}  // namespace camshaft::onnx_import
