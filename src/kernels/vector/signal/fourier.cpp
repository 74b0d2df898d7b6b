// SPDX-License-Identifier: Apache-2.0
// DFT along the dimension before the complex parts, STFT and ShortTimeSpectra of real signals, of
// lengths with two factors of at least a vector: a line is a matrix [rows][columns]. Transforms of
// its columns, one in a lane, times the roots of unity between the two, turned, then transforms of
// what were rows; bins come out in order. Two lines that are real, or give real results, are the
// parts of one complex line. The inverse is the transform of lines whose parts are exchanged.
#include "ir/short_time_spectra.h"
#include "kernels/nest.h"
#include "kernels/vector/generic.h"
#include "kernels/vector/movement/transpose_tile.h"
#include "kernels/vector/signal/fourier_lanes.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::fourier {
namespace {

enum class Side { kComplex, kReal, kHalfSpectrum };

struct Fourier {
  TensorView x, y;
  int64_t lines = 0, given = 0, length = 0, bins = 0;
  Side from = Side::kComplex, to = Side::kComplex;
  bool inverse = false;
  // Line k is part k % frames of signal k / frames, `step` elements behind the part before it.
  int64_t frames = 1, signal = 0, step = 0;
  int step_input = -1;  // of the step; < 0: it is known
  bool step_is_long = true;
  int window_input = -1;
  const float* window = nullptr;  // of a call
  // Real and imaginary parts each in a tensor of their own, the latter times `sign`.
  bool parts_lie_apart = false;
  float sign = 1;
  int64_t rows = 0, columns = 0;
  LaneTransform of_columns = {}, of_rows = {};
  float *cosines = nullptr, *sines = nullptr;  // [rows][columns]
  double predicted_us = 0;

  bool in_pairs() const { return from != Side::kComplex || to == Side::kReal; }
  int64_t padded() const { return round_up(length, 16); }
  int64_t lane_floats() const { return 2 * kLanes * larger(rows, columns); }
  int64_t worker_floats() const { return 4 * padded() + 3 * lane_floats(); }
};

// A worker's memory: a line, turned, and what passes have between them.
struct Memory {
  float *re, *im, *turned_re, *turned_im;
  LaneRows lanes[3];

  Memory(const Fourier& s, float* at) {
    float** const parts[] = {&re, &im, &turned_re, &turned_im};
    for (float** part : parts) *part = at, at += s.padded();
    for (LaneRows& rows : lanes) rows = {at, at + kLanes, 2 * kLanes}, at += s.lane_floats();
  }
};

// --- the transform of the line in re and im, in place

// Columns [c, c + kLanes) of the lanes' results times the roots, as rows of the turned line.
void turn_columns(const Fourier& s, const LaneRows& lanes, int64_t c, float* re, float* im) {
  alignas(64) float tile_re[kLanes * kLanes], tile_im[kLanes * kLanes];
  for (int64_t row = 0; row < s.rows; row += kLanes) {
    const int64_t first = smaller(row, s.rows - kLanes);
    for (int64_t k = 0; k < kLanes; ++k) {
      const float* from = lanes.re + (first + k) * lanes.pitch;
      const int64_t root = (first + k) * s.columns + c;
      const F32 a = load(from), b = load(from + kLanes), cosine = load(s.cosines + root),
                sine = load(s.sines + root);
      store(tile_re + k * kLanes, fma(cosine, a, sine * b));
      store(tile_im + k * kLanes, fnma(sine, a, cosine * b));
    }
    transpose_full(tile_re, kLanes, re + c * s.rows + first, s.rows);
    transpose_full(tile_im, kLanes, im + c * s.rows + first, s.rows);
  }
}

void transform_line(const Fourier& s, Memory& m) {
  float *re = s.inverse ? m.im : m.re, *im = s.inverse ? m.re : m.im;
  const LaneRows between[2] = {m.lanes[0], m.lanes[1]};
  for (int64_t col = 0; col < s.columns; col += kLanes) {
    const int64_t c = smaller(col, s.columns - kLanes);
    transform_lanes(s.of_columns, {re + c, im + c, s.columns}, m.lanes[2], between);
    turn_columns(s, m.lanes[2], c, m.turned_re, m.turned_im);
  }
  for (int64_t row = 0; row < s.rows; row += kLanes) {
    const int64_t r = smaller(row, s.rows - kLanes);
    transform_lanes(s.of_rows, {m.turned_re + r, m.turned_im + r, s.rows}, {re + r, im + r, s.rows},
                    between);
  }
}

// --- lines in and out

void load_real(const Fourier& s, const float* line, float* to) {
  if (line != nullptr && s.window != nullptr) {
    for (int64_t k = 0; k < s.length; ++k) to[k] = line[k] * s.window[k];
    return;
  }
  const size_t bytes = static_cast<size_t>(s.length) * sizeof(float);
  if (line != nullptr)
    __builtin_memcpy(to, line, bytes);
  else
    __builtin_memset(to, 0, bytes);
}

// a + i b of two half spectra, and what mirrors them.
void load_halves(const Fourier& s, const float* a, const float* b, const Memory& m) {
  for (int64_t k = 0; k < s.given; ++k) {
    const bool is_end = k == 0 || k + 1 == s.given;
    const float a_re = a[2 * k], a_im = is_end ? 0 : a[2 * k + 1];
    const float b_re = b ? b[2 * k] : 0, b_im = b && !is_end ? b[2 * k + 1] : 0;
    m.re[k] = a_re - b_im, m.im[k] = a_im + b_re;
    if (!is_end) m.re[s.length - k] = a_re + b_im, m.im[s.length - k] = b_re - a_im;
  }
}

void store_real(const Fourier& s, const float* from, float* line) {
  if (line == nullptr) return;
  const float scale = s.inverse ? 1 / static_cast<float>(s.length) : 1;
  for (int64_t k = 0; k < s.bins; ++k) line[k] = from[k] * scale;
}

void store_complex(const Fourier& s, const Memory& m, float* line) {
  const F32 scale = set1(s.inverse ? 1 / static_cast<float>(s.length) : 1);
  for (int64_t k = 0; k < s.bins && s.inverse; k += kLanes) {
    const M32 some = first_n(static_cast<int>(s.bins - k));
    store(m.re + k, load(m.re + k, some) * scale, some);
    store(m.im + k, load(m.im + k, some) * scale, some);
  }
  interleave<2>(m.re, m.im - m.re, line, s.bins);
}

// The spectra of the two real lines whose sum a + i b has this one.
void store_halves(const Fourier& s, const Memory& m, float* a, float* b) {
  const float half = 0.5f / static_cast<float>(s.inverse ? s.length : 1);
  for (int64_t k = 0; k < s.bins; ++k) {
    const int64_t mirror = k == 0 ? 0 : s.length - k;
    const float re = m.re[k], im = m.im[k], other_re = m.re[mirror], other_im = m.im[mirror];
    a[2 * k] = (re + other_re) * half, a[2 * k + 1] = (im - other_im) * half;
    if (b != nullptr) b[2 * k] = (im + other_im) * half, b[2 * k + 1] = (other_re - re) * half;
  }
}

// The same with real and imaginary parts apart, of bins 1 to the last but one.
void store_inner_bins(const float* __restrict re, const float* __restrict im, int64_t length,
                      int64_t bins, float half, float* __restrict to_re, float* __restrict to_im) {
  const float *mirrored_re = re + length, *mirrored_im = im + length;
  for (int64_t k = 1; k < bins; ++k) {
    to_re[k] = (re[k] + mirrored_re[-k]) * 0.5f;
    to_im[k] = (im[k] - mirrored_im[-k]) * half;
  }
}

// `plane`: from real parts to imaginary ones. Those of b are the parts of i b exchanged.
void store_parts(const Fourier& s, const Memory& m, int64_t plane, float* a, float* b) {
  const float half = 0.5f * s.sign;
  a[0] = m.re[0], a[plane] = 0;
  store_inner_bins(m.re, m.im, s.length, s.bins, half, a, a + plane);
  if (b == nullptr) return;
  b[0] = m.im[0], b[plane] = 0;
  const float *re = m.re + s.length, *im = m.im + s.length;
  float* const imag = b + plane;
  for (int64_t k = 1; k < s.bins; ++k) b[k] = (m.im[k] + im[-k]) * 0.5f;
  for (int64_t k = 1; k < s.bins; ++k) imag[k] = (re[-k] - m.re[k]) * half;
}

void run_unit(const Fourier& s, const KernelCall& call, int64_t unit, Memory& m) {
  const int64_t per_unit = s.in_pairs() ? 2 : 1, line = unit * per_unit;
  const int64_t y_line = s.parts_lie_apart ? s.bins : s.bins * s.y.extents[s.y.rank - 1];
  const auto line_at = [&](int64_t k) {
    return call.input<const float>(0) + k / s.frames * s.signal + k % s.frames * s.step;
  };
  const bool has_next = s.in_pairs() && line + 1 < s.lines;
  const float *a = line_at(line), *b = has_next ? line_at(line + 1) : nullptr;
  float *to = call.output<float>(0) + line * y_line, *next = has_next ? to + y_line : nullptr;
  switch (s.from) {
    case Side::kComplex:
      deinterleave<2>(a, m.re, m.im - m.re, s.length);
      break;
    case Side::kReal:
      load_real(s, a, m.re);
      load_real(s, b, m.im);
      break;
    case Side::kHalfSpectrum:
      load_halves(s, a, b, m);
  }
  transform_line(s, m);
  if (s.to == Side::kReal) {
    store_real(s, m.re, to);
    store_real(s, m.im, next);
  } else if (s.parts_lie_apart) {
    store_parts(s, m, s.lines * s.bins, to, next);
  } else if (s.from == Side::kReal) {
    store_halves(s, m, to, next);
  } else {
    store_complex(s, m, to);
  }
}

void run(Fourier& s, const KernelCall& call) {
  if (s.step_input >= 0) {
    const auto input = static_cast<size_t>(s.step_input);
    s.step = s.step_is_long ? *call.input<const int64_t>(input) : *call.input<const int32_t>(input);
  }
  if (s.window_input >= 0) s.window = call.input<const float>(static_cast<size_t>(s.window_input));
  split(call.pool, ceil_div(s.lines, s.in_pairs() ? 2 : 1), s.predicted_us,
        [&](int worker, int64_t first, int64_t last) {
          Memory memory(s, reinterpret_cast<float*>(call.workspace) + worker * s.worker_floats());
          for (int64_t unit = first; unit < last; ++unit) run_unit(s, call, unit, memory);
        });
}

// --- the table

bool is_inverse(const ir::Layer& layer) {
  return generic_integer(layer, "inverse", 0) != 0;
}
bool gives_reals(const ir::Layer& layer) {
  return is_inverse(layer) && generic_integer(layer, "onesided", 0) != 0;
}
int64_t length_of(const ir::Layer& layer, int64_t given) {
  return gives_reals(layer) ? 2 * (given - 1) : given;
}
int64_t length_of(const Problem& p) {
  return length_of(*p.layer, p.inputs[0].extents.end()[-2]);
}

// Vectors of lengths whose passes are worth it: flops at 12 a cycle.
double us_of(double lines, double length) {
  return lines * (0.1 + length * 5 * std::log2(length + 1) / (12 * kLanes / 16.0) / 3000);
}

bool is_stft(const Problem& p) {
  return is_operator(p, "STFT");
}

bool is_short_time_spectra(const Problem& p) {
  return is_operator(p, ir::kShortTimeSpectra);
}

int64_t line_length(const Problem& p) {
  if (is_short_time_spectra(p)) return count_of(p.inputs[1]);
  return is_stft(p) ? count_of(p.inputs[2]) : length_of(p);
}

std::string refuse_dft(const Problem& p) {
  const ir::Extents& x = p.inputs[0].extents;
  const auto rank = static_cast<int64_t>(x.size());
  if (rank < 2 || p.outputs[0].extents.size() != x.size()) return "no lines";
  for (size_t k = 1; k < p.inputs.size(); ++k)
    if (p.inputs[k].present) return "a length or an axis of its own";
  if (generic_attrs(*p.layer).opset < 20 && generic_integer(*p.layer, "axis", 1) != rank - 2)
    return "another axis than the last";
  if (x.back() != 1 && x.back() != 2) return "neither real nor complex";
  if (gives_reals(*p.layer) && x.back() == 1) return "a real half spectrum";
  return {};
}

bool is_window(const ProblemTensor& x) {
  return x.present && x.type == DataType::kFloat && x.extents.size() == 1 && x.dense;
}

std::string refuse_stft(const Problem& p) {
  const ir::Extents& x = p.inputs[0].extents;
  if (x.size() != 2 && (x.size() != 3 || x[2] != 1)) return "signals that are not real";
  if (p.inputs.size() < 3 || !is_window(p.inputs[2])) return "no window of floats";
  if (!p.inputs[1].constant || !is_whole_scalar(p.inputs[1])) return "a step that is no constant";
  if (p.inputs.size() > 3 && p.inputs[3].present) return "a length of its own";
  return p.outputs[0].extents.size() == 4 ? "" : "no frames";
}

std::string refuse_short_time_spectra(const Problem& p) {
  if (p.inputs.size() != 2 || p.inputs[0].extents.size() != 2 || !is_window(p.inputs[1]) ||
      p.outputs[0].extents.size() != 4)
    return "no rows of samples or no window of floats";
  return count_of(p.inputs[1]) % 2 == 0 ? "" : "an odd length";
}

std::string refuse_operands(const Problem& p) {
  if (is_short_time_spectra(p)) return refuse_short_time_spectra(p);
  return is_stft(p) ? refuse_stft(p) : refuse_dft(p);
}

std::string refusal(const Problem& p) {
  if (!is_operator(p, "DFT") && !is_stft(p) && !is_short_time_spectra(p)) return "another operator";
  const ProblemTensor &x = p.inputs[0], &y = p.outputs[0];
  if (x.type != DataType::kFloat || y.type != DataType::kFloat) return "not float";
  if (!x.dense || !y.dense) return "a part of a larger tensor";
  if (std::string reason = refuse_operands(p); !reason.empty()) return reason;
  const int64_t length = line_length(p);
  int64_t rows, columns;
  if (!split_fourier_length(length, kLanes, rows, columns) || length > INT32_MAX / 4)
    return "a length without two factors of a vector";
  return {};
}

double cost_us(const Problem& p) {
  const ir::Extents& y = p.outputs[0].extents;
  double lines = 1;
  for (size_t d = 0; d + 2 < y.size(); ++d) lines *= static_cast<double>(y[d]);
  if (is_short_time_spectra(p)) lines = static_cast<double>(y[1] * y[2]);
  return 0.3 + us_of(lines, static_cast<double>(line_length(p))) / p.threads;
}

void keep_roots(Fourier& s, PreparedKernel& kernel) {
  s.cosines = keep_array<float>(kernel, s.length);
  s.sines = keep_array<float>(kernel, s.length);
  for (int64_t row = 0; row < s.rows; ++row)
    for (int64_t col = 0; col < s.columns; ++col) {
      float root[2];
      put_root(row * col, s.length, root);
      s.cosines[row * s.columns + col] = root[0];
      s.sines[row * s.columns + col] = root[1];
    }
}

void describe_dft(const KernelArgs& args, Fourier& s) {
  const TensorView& x = s.x;
  s.given = x.extents[x.rank - 2];
  s.length = length_of(*args.layer, s.given);
  s.inverse = is_inverse(*args.layer);
  s.to = gives_reals(*args.layer) ? Side::kReal : Side::kComplex;
  s.from = x.extents[x.rank - 1] == 1 ? Side::kReal
           : s.to == Side::kReal      ? Side::kHalfSpectrum
                                      : Side::kComplex;
  s.frames = s.lines;
  s.step = s.given * x.extents[x.rank - 1];
}

void describe_stft(const KernelArgs& args, Fourier& s) {
  s.step_input = 1;
  s.step_is_long = args.inputs[1].type == DataType::kInt64;
  s.window_input = 2;
  s.given = s.length = args.inputs[2].extents[0];
  s.from = Side::kReal;
  s.frames = s.y.extents[1];
  s.signal = s.x.extents[1];
}

void describe_short_time_spectra(const KernelArgs& args, Fourier& s) {
  s.window_input = 1;
  s.given = s.length = args.inputs[1].extents[0];
  s.from = Side::kReal;
  s.bins = s.y.extents[3];
  s.frames = s.y.extents[2];
  s.lines = s.y.extents[1] * s.frames;
  s.signal = s.x.extents[1];
  s.step = generic_integer(*args.layer, "hop", 1);
  s.parts_lie_apart = true;
  s.sign = generic_integer(*args.layer, "conjugate", 0) != 0 ? -1.0f : 1.0f;
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  Fourier s{.x = x, .y = y};
  s.bins = y.extents[y.rank - 2];
  s.lines = count_of(y) / (s.bins * y.extents[y.rank - 1]);
  const std::string& op = generic_attrs(*args.layer).op_type;
  if (op == ir::kShortTimeSpectra)
    describe_short_time_spectra(args, s);
  else if (op == "STFT")
    describe_stft(args, s);
  else
    describe_dft(args, s);
  if (!split_fourier_length(s.length, kLanes, s.rows, s.columns)) return;
  s.of_columns = make_lane_transform(s.rows, kernel);
  s.of_rows = make_lane_transform(s.columns, kernel);
  keep_roots(s, kernel);
  s.predicted_us = us_of(static_cast<double>(s.lines), static_cast<double>(s.length));
  keep_state<run>(kernel, s);
  kernel.workspace_bytes =
      static_cast<size_t>(threads_of(args) * s.worker_floats()) * sizeof(float);
}

constexpr Tactic kTactics[] = {
    {"fourier_f32", ir::LayerKind::kGeneric, kIsa, FormatRule::kLinear, 1, refusal, cost_us,
     CAMSHAFT_NOTHING_PACKED, prepare},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::fourier
