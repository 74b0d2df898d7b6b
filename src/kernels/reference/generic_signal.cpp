// SPDX-License-Identifier: Apache-2.0
// DFT, STFT, window functions, MelWeightMatrix. Transforms in double.
#include <algorithm>
#include <numbers>

#include "ir/short_time_spectra.h"
#include "kernels/reference/generic.h"

namespace camshaft::kernels::reference {
namespace {

struct Complex {
  double real = 0, imag = 0;
};

// The transform of x[0], x[step], … (`length` of them) into y, by the smallest divisor of the
// length first: as many transforms of what is left, joined by the definition. roots[k] is that of k
// * step.
void transform(const Complex* x, int64_t step, int64_t length, std::span<const Complex> roots,
               Complex* y) {
  int64_t parts = 2;
  while (parts * parts <= length && length % parts != 0) ++parts;
  if (parts * parts > length) parts = length;
  const int64_t inner = length / parts;
  std::vector<Complex> joined(length);
  for (int64_t part = 0; part < parts && inner > 1; ++part)
    transform(x + part * step, step * parts, inner, roots, y + part * inner);
  const auto count = static_cast<int64_t>(roots.size());
  for (int64_t bin = 0; bin < length; ++bin) {
    Complex sum;
    for (int64_t part = 0; part < parts; ++part) {
      const Complex value = inner > 1 ? y[part * inner + bin % inner] : x[part * step];
      const Complex& root = roots[bin * part % length * (count / length)];
      sum.real += value.real * root.real - value.imag * root.imag;
      sum.imag += value.real * root.imag + value.imag * root.real;
    }
    joined[bin] = sum;
  }
  std::copy(joined.begin(), joined.end(), y);
}

// The transform of `x` (zero padded or cut to `length`), bins [0, bins). The inverse divides by the
// length.
std::vector<Complex> transform(std::vector<Complex> x, int64_t length, int64_t bins, bool inverse) {
  std::vector<Complex> roots(length), result(length);
  for (int64_t k = 0; k < length; ++k) {
    const double angle =
        2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(length);
    roots[k] = {std::cos(angle), inverse ? std::sin(angle) : -std::sin(angle)};
  }
  x.resize(length);
  transform(x.data(), 1, length, roots, result.data());
  if (inverse)
    for (Complex& value : result) {
      value.real /= static_cast<double>(length);
      value.imag /= static_cast<double>(length);
    }
  result.resize(bins);
  return result;
}

// One-sided spectrum → the whole one of a real signal of `length`.
std::vector<Complex> mirrored(const std::vector<Complex>& half, int64_t length) {
  std::vector<Complex> whole(length);
  const auto given = [&](int64_t k) {
    return k < static_cast<int64_t>(half.size()) ? half[k] : Complex{};
  };
  for (int64_t k = 0; k <= length / 2; ++k) whole[k] = given(k);
  for (int64_t k = length / 2 + 1; k < length; ++k)
    whole[k] = {given(length - k).real, -given(length - k).imag};
  whole[0].imag = 0;
  if (length % 2 == 0) whole[length / 2].imag = 0;
  return whole;
}

Status dft(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require_rank(0, 2));
  Extents extents = call.extents(0);
  const auto rank = static_cast<int64_t>(extents.size());
  const int64_t parts = extents.back();
  if (parts != 1 && parts != 2)
    return make_error(ErrorCode::kInvalidArgument, "DFT: the last extent is 1 or 2, not {}", parts);
  const int64_t stated = call.has_input(2) ? call.integer_scalar(2, -2)
                                           : call.integer("axis", call.opset() >= 20 ? -2 : 1);
  CAMSHAFT_ASSIGN(const int64_t axis, normalize_axis(stated, rank));
  if (axis == rank - 1)
    return make_error(ErrorCode::kInvalidArgument, "DFT along the dimension of the complex parts");
  const bool inverse = call.integer("inverse", 0) != 0, onesided = call.integer("onesided", 0) != 0;
  const bool to_real = inverse && onesided;
  const int64_t length = call.integer_scalar(1, to_real ? 2 * (extents[axis] - 1) : extents[axis]);
  if (length < 1) return make_error(ErrorCode::kInvalidArgument, "DFT of length {}", length);
  const std::vector<double> x = call.doubles(0);
  const Lines lines = lines_of(std::span<const int64_t>(extents).first(rank - 1), axis);
  const int64_t bins = onesided && !inverse ? length / 2 + 1 : length, out_parts = to_real ? 1 : 2;
  CAMSHAFT_TRY(check_extents(Extents{lines.outer, bins, lines.inner, out_parts}));
  std::vector<double> y(lines.outer * bins * lines.inner * out_parts);
  for (int64_t o = 0; o < lines.outer; ++o) {
    for (int64_t i = 0; i < lines.inner; ++i) {
      std::vector<Complex> line(lines.count);
      for (int64_t k = 0; k < lines.count; ++k) {
        const double* element = x.data() + ((o * lines.count + k) * lines.inner + i) * parts;
        line[k] = {element[0], parts == 2 ? element[1] : 0};
      }
      if (to_real) line = mirrored(line, length);
      const std::vector<Complex> spectrum = transform(line, length, bins, inverse);
      for (int64_t k = 0; k < bins; ++k) {
        double* element = y.data() + ((o * bins + k) * lines.inner + i) * out_parts;
        element[0] = spectrum[k].real;
        if (!to_real) element[1] = spectrum[k].imag;
      }
    }
  }
  extents[axis] = bins;
  extents.back() = out_parts;
  outputs.push_back(produce(call.in(0).type, extents, y));
  return ok_status();
}

// Bins [0, bins) of the `length` samples from `first` on, of 1 or 2 parts each, times the window
// and zero behind it.
std::vector<Complex> spectrum_of(const double* first, int64_t parts,
                                 const std::vector<double>& window, int64_t length, int64_t bins) {
  std::vector<Complex> frame(length);
  for (int64_t k = 0; k < length && k < static_cast<int64_t>(window.size()); ++k) {
    const double* element = first + k * parts;
    frame[k] = {element[0] * window[k], parts == 2 ? element[1] * window[k] : 0};
  }
  return transform(frame, length, bins, false);
}

// signal [batch, length, 1 or 2] (or [batch, length]), frame_step, window, frame_length → [batch,
// frames, bins, 2].
Status stft(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(2));
  CAMSHAFT_TRY(call.require_rank(0, 2));
  const Extents extents = call.extents(0);
  const int64_t batch = extents[0], samples = extents[1],
                parts = extents.size() > 2 ? extents[2] : 1;
  if (extents.size() > 3 || (parts != 1 && parts != 2))
    return make_error(ErrorCode::kInvalidArgument, "STFT: a signal of rank {} with {} parts",
                      extents.size(), parts);
  std::vector<double> window = call.doubles(2);
  const int64_t step = call.integer_scalar(1, 1);
  const int64_t length =
      call.integer_scalar(3, window.empty() ? samples : static_cast<int64_t>(window.size()));
  if (step < 1 || length < 1 || length > samples)
    return make_error(ErrorCode::kInvalidArgument, "STFT: frames of {} every {} of {} samples",
                      length, step, samples);
  if (window.empty()) window.assign(length, 1.0);
  const int64_t frames = 1 + (samples - length) / step;
  const int64_t bins = call.integer("onesided", 1) ? length / 2 + 1 : length;
  const std::vector<double> x = call.doubles(0);
  std::vector<double> y;
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t f = 0; f < frames; ++f) {
      const double* first = x.data() + (n * samples + f * step) * parts;
      for (const Complex& bin : spectrum_of(first, parts, window, length, bins))
        y.insert(y.end(), {bin.real, bin.imag});
    }
  }
  outputs.push_back(produce(call.in(0).type, {batch, frames, bins, 2}, y));
  return ok_status();
}

// ir/short_time_spectra.h
Status short_time_spectra(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(2));
  const Extents extents = call.extents(0);
  const std::vector<double> x = call.doubles(0), window = call.doubles(1);
  const auto length = static_cast<int64_t>(window.size());
  const int64_t hop = call.integer("hop", 1);
  if (extents.size() != 2 || length < 1 || length > extents[1] || hop < 1)
    return make_error(ErrorCode::kInvalidArgument, "ShortTimeSpectra: no frame in its rows");
  const int64_t frames = 1 + (extents[1] - length) / hop, bins = length / 2 + 1;
  const double sign = call.integer("conjugate", 0) ? -1 : 1;
  std::vector<double> real, imag;
  for (int64_t line = 0; line < extents[0] * frames; ++line) {
    const double* first = x.data() + line / frames * extents[1] + line % frames * hop;
    for (const Complex& bin : spectrum_of(first, 1, window, length, bins)) {
      real.push_back(bin.real);
      imag.push_back(sign * bin.imag);
    }
  }
  real.insert(real.end(), imag.begin(), imag.end());
  outputs.push_back(produce(call.in(0).type, {2, extents[0], frames, bins}, real));
  return ok_status();
}

// w[k] = a - b*cos(2πk/N) + c*cos(4πk/N)
Status cosine_window(const KernelArgs& args, Outputs& outputs, double a, double b, double c) {
  const Call call(args);
  const int64_t size = call.integer_scalar(0, 0);
  CAMSHAFT_TRY(check_extents(Extents{size}));
  const auto period = static_cast<double>(call.integer("periodic", 1) ? size : size - 1);
  std::vector<double> window(size);
  for (int64_t k = 0; k < size; ++k) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(k) / period;
    window[k] = size == 1 ? 1 : a - b * std::cos(angle) + c * std::cos(2 * angle);
  }
  outputs.push_back(produce(from_onnx_type(call.integer("output_datatype", 1)), {size}, window));
  return ok_status();
}

Status hann_window(const KernelArgs& args, Outputs& outputs) {
  return cosine_window(args, outputs, 0.5, 0.5, 0);
}
Status hamming_window(const KernelArgs& args, Outputs& outputs) {
  return cosine_window(args, outputs, 25.0 / 46, 21.0 / 46, 0);
}
Status blackman_window(const KernelArgs& args, Outputs& outputs) {
  return cosine_window(args, outputs, 0.42, 0.5, 0.08);
}

Status mel_weight_matrix(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(5));
  const int64_t mels = call.integer_scalar(0, 0), length = call.integer_scalar(1, 0),
                rate = call.integer_scalar(2, 0);
  const double low_hertz = call.scalar(3, 0), high_hertz = call.scalar(4, 0);
  const int64_t bins = length / 2 + 1;
  if (mels < 1 || length < 1 || rate < 1 || low_hertz < 0 || high_hertz < low_hertz)
    return make_error(ErrorCode::kInvalidArgument, "MelWeightMatrix: parameters out of range");
  CAMSHAFT_TRY(check_extents(Extents{bins, mels}));
  const auto to_mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double step = (to_mel(high_hertz) - to_mel(low_hertz)) / static_cast<double>(mels + 2);
  Ints edges;
  for (int64_t k = 0; k < mels + 2; ++k) {
    const double hertz =
        700 * (std::pow(10.0, (static_cast<double>(k) * step + to_mel(low_hertz)) / 2595) - 1);
    edges.push_back(static_cast<int64_t>(
        std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate))));
    if (edges.back() < 0 || edges.back() > bins)
      return make_error(ErrorCode::kInvalidArgument,
                        "MelWeightMatrix: {} Hz exceeds half the sample rate", hertz);
  }
  std::vector<double> weights(bins * mels);
  const auto set = [&](int64_t bin, int64_t mel, double value) {
    if (bin < bins) weights[bin * mels + mel] = value;
  };
  for (int64_t mel = 0; mel < mels; ++mel) {
    const int64_t left = edges[mel], center = edges[mel + 1], right = edges[mel + 2];
    if (center == left) set(center, mel, 1);
    for (int64_t k = left; center > left && k <= center; ++k)
      set(k, mel, static_cast<double>(k - left) / static_cast<double>(center - left));
    for (int64_t k = center; right > center && k < right; ++k)
      set(k, mel, static_cast<double>(right - k) / static_cast<double>(right - center));
  }
  outputs.push_back(
      produce(from_onnx_type(call.integer("output_datatype", 1)), {bins, mels}, weights));
  return ok_status();
}

}  // namespace

std::span<const GenericRow> generic_signal_operators() {
  static constexpr GenericRow kRows[] = {
      {"DFT", {nullptr, appending<dft>}},
      {"STFT", {nullptr, appending<stft>}},
      {ir::kShortTimeSpectra, {nullptr, appending<short_time_spectra>}},
      {"HannWindow", {nullptr, appending<hann_window>}},
      {"HammingWindow", {nullptr, appending<hamming_window>}},
      {"BlackmanWindow", {nullptr, appending<blackman_window>}},
      {"MelWeightMatrix", {nullptr, appending<mel_weight_matrix>}},
  };
  return kRows;
}

}  // namespace camshaft::kernels::reference
