// SPDX-License-Identifier: Apache-2.0
// Convolutions of float tensors of few channels in the row-major format, groups among them: vectors
// are neighbouring pixels of a row, as many outputs of a group together as registers hold; of one
// output four rows, which share most of their inputs (one channel to one, 5x5: half the time). The
// input rows that an output row needs are kept in L1 as padded lines, of strided layers every
// stride-th pixel in a line of its own.
#include "kernels/vector/depthwise/depthwise_tactics.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::conv_planes {
namespace {

using namespace depthwise;

constexpr int64_t kMostPlaneLines = 512, kMostTaps = 64;  // lines of a tile, taps of a row
constexpr int kTallRows = 4, kTallVecs = kRegisters == 32 ? 4 : 2;  // of one output
constexpr int kSumRegisters = kRegisters == 32 ? 24 : 12;
constexpr int kMostPlaneVecs = 8;
// Vectors of pixels that go with so many outputs.
constexpr int vecs_with(int outputs) {
  const int vecs = kSumRegisters / outputs;
  return vecs > kMostPlaneVecs ? kMostPlaneVecs : vecs > 0 ? vecs : 1;
}
// Outputs that are summed together: 8, 4, 2 or 1 of the `rest`.
int outputs_together(int64_t rest) {
  int outputs = 8;
  while (outputs > rest) outputs /= 2;
  return outputs;
}

struct Planes {
  ConvShape s;
  int64_t inputs, outputs, weights;  // of a group; of an output (rows are short: no divisions)
  int64_t x_image, x_channel, x_row, y_image, y_channel, y_row;  // strides of elements
  // Strips of columns, chunks of rows; kept rows of lines, floats of a line's part (with a vector
  // that stores may reach) and of a line.
  EvenSplit strips, chunks;
  int64_t rows, part, line;
  bool keeps_all, is_tall;  // all rows of a unit; some output by itself, four rows at once
  int64_t taps[kMostTaps];  // where in a line
  int64_t tile_vecs[9];     // vectors of a tile of so many outputs
  Epilogue epilogue;
  const ir::Program* program;
  const CompiledCode* code = nullptr;
  TileSource operands[kMaxOperands];
  int num_operands = 0;
  double predicted_us = 0;
  // Of a call.
  const float *x = nullptr, *packed = nullptr;
  float* y = nullptr;

  int64_t row_floats() const { return inputs * line; }
  size_t bytes() const { return static_cast<size_t>(rows * row_floats()) * sizeof(float); }
  int64_t units() const { return s.batch * s.groups * strips.parts * chunks.parts; }
};

// The lines of an output row or more: of input c, `pitch` of them from number c * pitch on.
struct PlaneLines {
  int64_t pitch;
  const float* at[kMostPlaneLines];
};

struct Unit {
  int64_t image, group, col, cols, row, rows;
};

Unit unit_at(const Planes& p, int64_t index) {
  const int64_t chunk = index % p.chunks.parts;
  index /= p.chunks.parts;
  const int64_t strip = index % p.strips.parts;
  index /= p.strips.parts;
  return {index / p.s.groups,   index % p.s.groups,    p.strips.start(strip),
          p.strips.size(strip), p.chunks.start(chunk), p.chunks.size(chunk)};
}

// Elements [first, last), and up to a vector behind them: short rows are no work for memcpy.
CAMSHAFT_INLINE void clear_to(float* to, int64_t first, int64_t last) {
  F32 nothing = zero();
  keep_in_register(nothing);  // or the compiler calls memset
  for (int64_t k = first; k < last; k += kLanes) store(to + k, nothing);
}
CAMSHAFT_INLINE void copy_to(const float* from, float* to, int64_t first, int64_t last) {
  int64_t k = first;
  for (; k + kLanes <= last; k += kLanes) store(to + k, load(from + k));
  if (k < last) store(to + k, load(from + k, first_n(static_cast<int>(last - k))));
}

// Line of input row `ih` from column `iw` on, `stride` parts of every stride-th pixel.
void fill_line(const Planes& p, const float* row, int64_t iw, float* to) {
  const int64_t stride = p.s.sw;
  for (int64_t part = 0; part < stride; ++part, to += p.part) {
    const int64_t first = iw + part;
    const int64_t most = p.part - kLanes, left = clamp_to(ceil_div(-first, stride), 0, most),
                  right = clamp_to(ceil_div(p.s.iw - first, stride), left, most);
    const float* from = row + first;
    clear_to(to, 0, left);
    if (stride == 1)
      copy_to(from, to, left, right);
    else
      for (int64_t k = left; k < right; ++k) to[k] = from[k * stride];
    clear_to(to, right, most);
  }
}

// Row `ih` of all inputs of a group.
void fill_row(const Planes& p, const Unit& unit, int64_t ih, float* to) {
  const ConvShape& s = p.s;
  if (ih < 0 || ih >= s.ih) return clear_to(to, 0, p.row_floats());
  const float* row =
      p.x + unit.image * p.x_image + unit.group * p.inputs * p.x_channel + ih * p.x_row;
  for (int64_t c = 0; c < p.inputs; ++c, row += p.x_channel, to += p.line)
    fill_line(p, row, unit.col * s.sw - s.pad_left, to);
}

// Rows of vectors of pixels, `pitch` elements apart; `last`: pixels of the last vector.
template <int N, int V>
CAMSHAFT_INLINE void store_plane_sums(const Planes& p, const F32 (&sum)[N][V], float* y,
                                      int64_t pitch, int last) {
  const F32 low = set1(p.epilogue.low), high = set1(p.epilogue.high);
#pragma GCC unroll 8
  for (int n = 0; n < N; ++n, y += pitch)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const F32 value = min(high, max(low, sum[n][v]));
      if (v + 1 < V || last == kLanes)
        store(y + v * kLanes, value);
      else
        store(y + v * kLanes, value, first_n(last));
    }
}

// V vectors of pixels of Q outputs. `row`: of those that `lines` are of; `x`: of the first pixel in
// them.
template <int V, int Q>
void run_plane_tile(const Planes& p, const PlaneLines& lines, int64_t row, int64_t x,
                    const float* bias, const float* w, float* y, int last) {
  F32 sum[Q][V];
#pragma GCC unroll 8
  for (int q = 0; q < Q; ++q)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum[q][v] = set1(bias[q]);
  for (int64_t c = 0; c < p.inputs; ++c)
    for (int64_t kw = 0; kw < p.s.kw; ++kw) {
      const int64_t offset = x + p.taps[kw];
      const float* const* line = lines.at + c * lines.pitch + row;
      for (int64_t kh = 0; kh < p.s.kh; ++kh, w += Q) {
        F32 in[V];
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) in[v] = load(line[kh] + offset + v * kLanes);
#pragma GCC unroll 8
        for (int q = 0; q < Q; ++q) {
          const F32 weight = set1(w[q]);
#pragma GCC unroll 8
          for (int v = 0; v < V; ++v) sum[q][v] = fma(in[v], weight, sum[q][v]);
        }
      }
    }
  store_plane_sums(p, sum, y, p.y_channel, last);
}

// V vectors of pixels of kTallRows rows of one output, by a window of kHeight rows. Products are
// added in the order of run_plane_tile: which rows are taken together changes no bit.
template <int V, int kHeight>
void run_tall_tile(const Planes& p, const PlaneLines& lines, int64_t x, float bias, const float* w,
                   float* y, int last) {
  F32 sum[kTallRows][V];
#pragma GCC unroll 4
  for (int r = 0; r < kTallRows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sum[r][v] = set1(bias);
  for (int64_t c = 0; c < p.inputs; ++c)
    for (int64_t kw = 0; kw < p.s.kw; ++kw, w += kHeight) {
      const int64_t offset = x + p.taps[kw];
      const float* const* line = lines.at + c * lines.pitch;
#pragma GCC unroll 16
      for (int k = 0; k < kHeight + kTallRows - 1; ++k) {
        F32 in[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) in[v] = load(line[k] + offset + v * kLanes);
#pragma GCC unroll 4
        for (int r = 0; r < kTallRows; ++r) {
          if (k < r || k - r >= kHeight) continue;
          const F32 weight = set1(w[k - r]);
#pragma GCC unroll 4
          for (int v = 0; v < V; ++v) sum[r][v] = fma(in[v], weight, sum[r][v]);
        }
      }
    }
  store_plane_sums(p, sum, y, p.y_row, last);
}

using PlaneTile = void (*)(const Planes&, const PlaneLines&, int64_t, int64_t, const float*,
                           const float*, float*, int);
template <int Q>
inline constexpr auto kPlaneTiles = []<int... V>(std::integer_sequence<int, V...>) {
  return std::array<PlaneTile, sizeof...(V)>{run_plane_tile<V + 1, Q>...};
}
(std::make_integer_sequence<int, vecs_with(Q)>());

PlaneTile plane_tile(int outputs, int64_t vecs) {
  const auto k = static_cast<size_t>(vecs - 1);
  return outputs == 8   ? kPlaneTiles<8>[k]
         : outputs == 4 ? kPlaneTiles<4>[k]
         : outputs == 2 ? kPlaneTiles<2>[k]
                        : kPlaneTiles<1>[k];
}

using TallTile = void (*)(const Planes&, const PlaneLines&, int64_t, float, const float*, float*,
                          int);
template <int kHeight>
inline constexpr auto kTallTiles = []<int... V>(std::integer_sequence<int, V...>) {
  return std::array<TallTile, sizeof...(V)>{run_tall_tile<V + 1, kHeight>...};
}
(std::make_integer_sequence<int, kTallVecs>());

TallTile tall_tile(int64_t height, int64_t vecs) {
  const auto k = static_cast<size_t>(vecs - 1);
  return height == 3 ? kTallTiles<3>[k] : height == 5 ? kTallTiles<5>[k] : kTallTiles<7>[k];
}

void run_program(const Planes& p, const Unit& unit, int64_t oh, int64_t channel, int64_t channels,
                 float* y) {
  TileOperand operands[1 + kMaxOperands] = {{y, p.y_channel, 1}};
  for (int k = 0; k < p.num_operands; ++k) {
    const TileSource& source = p.operands[k];
    const int64_t element = source.element();
    operands[k + 1] = {source.at(unit.image, oh, unit.col, channel), source.channel / element,
                       source.pixel / element, source.type};
  }
  run_code(*p.code, operands, TileResult{y, p.y_channel}, channels, unit.cols);
}

// Outputs from the `c`-th of a group on, one after the other in vectors of a row.
void run_tiles(const Planes& p, const Unit& unit, const PlaneLines& lines, int64_t row, int64_t c,
               int outputs, float* y) {
  const int64_t channel = unit.group * p.outputs + c, vectors = ceil_div(unit.cols, kLanes),
                most = p.tile_vecs[outputs];
  const float *bias = p.packed + channel, *w = p.packed + p.s.oc + channel * p.weights;
  for (int64_t v = 0; v < vectors; v += most) {
    const int64_t x = v * kLanes, vecs = smaller(most, vectors - v),
                  rest = unit.cols - x - (vecs - 1) * kLanes;
    plane_tile(outputs, vecs)(p, lines, row, x, bias, w, y + c * p.y_channel + x,
                              static_cast<int>(smaller(rest, kLanes)));
  }
}

void run_tall_tiles(const Planes& p, const Unit& unit, const PlaneLines& lines, int64_t c,
                    float* y) {
  const int64_t channel = unit.group * p.outputs + c, vectors = ceil_div(unit.cols, kLanes);
  const float* w = p.packed + p.s.oc + channel * p.weights;
  for (int64_t v = 0; v < vectors; v += kTallVecs) {
    const int64_t x = v * kLanes, vecs = smaller(kTallVecs, vectors - v),
                  rest = unit.cols - x - (vecs - 1) * kLanes;
    tall_tile(p.s.kh, vecs)(p, lines, x, p.packed[channel], w, y + c * p.y_channel + x,
                            static_cast<int>(smaller(rest, kLanes)));
  }
}

// All outputs of a group in `rows` output rows of a unit, one or kTallRows. Packed weights of a
// block of outputs lie [input][kw][kh][output].
void run_plane_rows(const Planes& p, const Unit& unit, const PlaneLines& lines, int64_t oh,
                    int64_t rows) {
  const int64_t first = unit.group * p.outputs;
  float* y = p.y + unit.image * p.y_image + first * p.y_channel + oh * p.y_row + unit.col;
  for (int64_t c = 0; c < p.outputs;) {
    const int together = outputs_together(p.outputs - c);
    if (together == 1 && rows > 1)
      run_tall_tiles(p, unit, lines, c, y);
    else
      for (int64_t row = 0; row < rows; ++row)
        run_tiles(p, unit, lines, row, c, together, y + row * p.y_row);
    c += together;
  }
  for (int64_t row = 0; row < rows && p.epilogue.is_program; ++row)
    run_program(p, unit, oh + row, first, p.outputs, y + row * p.y_row);
}

void run_plane_unit(const Planes& p, const Unit& unit, float* kept) {
  const ConvShape& s = p.s;
  const int64_t floats = p.row_floats(), window = (s.kh - 1) * s.dh + 1, end = unit.row + unit.rows;
  int64_t copied = unit.row * s.sh - s.pad_top;  // the first input row that is not in the lines
  const int64_t origin = copied;
  PlaneLines lines;
  for (int64_t oh = unit.row, rows = 1; oh < end; oh += rows) {
    rows = p.is_tall && oh + kTallRows <= end ? kTallRows : 1;
    const int64_t top = oh * s.sh - s.pad_top, place = (top - origin) % p.rows,
                  wanted = p.keeps_all ? origin + p.rows : top + window + rows - 1;
    if (copied < top) copied = top;
    for (; copied < wanted; ++copied)
      fill_row(p, unit, copied, kept + (copied - origin) % p.rows * floats);
    lines.pitch = s.kh + rows - 1;
    for (int64_t k = 0; k < lines.pitch; ++k) {
      const int64_t row = place + k * s.dh;
      const float* line = kept + (row < p.rows ? row : row - p.rows) * floats;
      for (int64_t c = 0; c < p.inputs; ++c, line += p.line) lines.at[c * lines.pitch + k] = line;
    }
    run_plane_rows(p, unit, lines, oh, rows);
  }
}

void run(Planes& p, const KernelCall& call) {
  p.x = call.input<const float>(0);
  p.y = call.output<float>(0);
  p.packed = reinterpret_cast<const float*>(call.packed);
  for (int k = 0; k < p.num_operands; ++k)
    p.operands[k].data = call.input<const std::byte>(kFirstOperand + static_cast<size_t>(k));
  split(call.pool, p.units(), p.predicted_us, [&](int worker, int64_t first, int64_t last) {
    float* kept =
        reinterpret_cast<float*>(call.workspace + static_cast<size_t>(worker) * p.bytes());
    for (int64_t unit = first; unit < last; ++unit) run_plane_unit(p, unit_at(p, unit), kept);
  });
}

// --- preparing

constexpr int64_t kPlaneBytes = 24 << 10;  // of lines, in L1

// Strips so narrow that the lines of a window stay in L1; a strip of all rows where those do:
// what has just been stored is not read at once then, at other offsets.
void plan_lines(Planes& p) {
  constexpr int64_t kFewCols = 8 * kLanes;
  const ConvShape& s = p.s;
  const int64_t reach = (s.kw - 1) * s.dw / s.sw + 1;
  const auto set_line = [&](int64_t cols) {
    p.part = round_up(round_up(cols, kLanes) + reach, kLanes) + kLanes;
    p.line = p.part * s.sw;
    return static_cast<int64_t>(p.bytes());
  };
  p.is_tall = p.outputs % 2 != 0 && s.sh == 1 && s.dh == 1 &&
              (s.kh == 3 || s.kh == 5 || s.kh == 7) && s.oh >= kTallRows;
  p.rows = (s.kh - 1) * s.dh + 1 + (p.is_tall ? kTallRows - 1 : 0);
  int64_t cols = s.ow;
  while (set_line(cols) > kPlaneBytes && cols > kFewCols) cols = ceil_div(cols, 2);
  p.strips = split_evenly(s.ow, round_up(cols, kLanes));
  set_line(p.strips.size(0));
}

void plan_planes(int threads, Planes& p) {
  constexpr int64_t kUnits = 4,
                    kRows = 4;  // for each thread; of a chunk, unless threads would wait
  const ConvShape& s = p.s;
  plan_lines(p);
  const int64_t units = s.batch * s.groups * p.strips.parts,
                chunk = ceil_div(s.oh, threads == 1 ? 1 : ceil_div(kUnits * threads, units));
  const int64_t least = units * ceil_div(s.oh, kRows) < kUnits * threads ? 1 : kRows;
  p.chunks = split_evenly(s.oh, larger(chunk, least));
  const int64_t all_rows = (s.kh - 1) * s.dh + 1 + (p.chunks.size(0) - 1) * s.sh;
  p.keeps_all = all_rows * p.row_floats() * 4 <= kPlaneBytes;
  if (p.keeps_all) p.rows = all_rows;
  for (int64_t kw = 0; kw < s.kw; ++kw) p.taps[kw] = kw * s.dw % s.sw * p.part + kw * s.dw / s.sw;
  const int64_t vectors = ceil_div(p.strips.size(0), kLanes);
  for (const int outputs : {1, 2, 4, 8})
    p.tile_vecs[outputs] = ceil_div(vectors, ceil_div(vectors, vecs_with(outputs)));
}

double us_of(const ConvShape& s) {
  const double vectors = static_cast<double>(s.batch * s.oh * ceil_div(s.ow, kLanes)),
               share = s.group_oc() >= 4  ? 0.55
                       : s.group_oc() > 1 ? 0.75
                                          : 1;
  const double products = vectors * static_cast<double>(s.oc * s.group_ic() * s.kh * s.kw) * share,
               copies = static_cast<double>(s.batch * s.ic * s.ih * s.iw) / kLanes * 3;
  return (products + copies + vectors * static_cast<double>(s.oc) * 3) / 3000;
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  Planes p{};
  if (!has_output(args, kernel) || !conv_shape(attrs_of(*args.layer), extents_of(x),
                                               extents_of(args.inputs[1]), extents_of(y), p.s))
    return;
  p.x_image = x.strides[0], p.x_channel = x.strides[1], p.x_row = x.rank == 4 ? x.strides[2] : 0;
  p.y_image = y.strides[0], p.y_channel = y.strides[1], p.y_row = y.rank == 4 ? y.strides[2] : 0;
  for (size_t k = kFirstOperand; k < args.inputs.size(); ++k)
    p.operands[p.num_operands++] = conv_source(args.inputs[k], y);
  p.program = &attrs_of(*args.layer).epilogue;
  p.epilogue = classify_epilogue(*p.program);
  if (!p.epilogue.is_clamp()) p.epilogue = kProgramEpilogue;
  p.inputs = p.s.group_ic(), p.outputs = p.s.group_oc(), p.weights = p.inputs * p.s.kh * p.s.kw;
  const int threads = threads_of(args);
  plan_planes(threads, p);
  p.predicted_us = us_of(p.s);
  Planes& kept = keep_state<run>(kernel, p);
  kernel.workspace_bytes = static_cast<size_t>(threads) * p.bytes();
  if (!p.epilogue.is_program) return;
  TileOperand operands[1 + kMaxOperands] = {{nullptr, 0, 1}};
  for (int k = 0; k < p.num_operands; ++k)
    operands[k + 1] = {nullptr, 0, p.operands[k].pixel / p.operands[k].element(),
                       p.operands[k].type};
  CompiledCode& code = keep(kernel, CompiledCode());
  compile_code(p.program->code.data(), static_cast<int>(p.program->code.size()),
               p.program->num_inputs, operands, DataType::kFloat, code);
  kept.code = &code;
}

// --- the table

std::string refusal(const Problem& p) {
  ConvShape s;
  if (p.inputs[0].type != DataType::kFloat || p.outputs[0].type != DataType::kFloat)
    return "not float";
  if (std::string reason = refuse_float_constants(p); !reason.empty()) return reason;
  if (!shape_of(p, s)) return "not a 1-D or 2-D convolution";
  if (s.group_ic() > 4 && s.group_oc() > 4) return "more than 4 inputs and outputs in a group";
  if (s.group_oc() > 64) return "more than 64 outputs in a group";
  if (s.group_ic() * (s.kh + kTallRows - 1) > kMostPlaneLines || s.kw > kMostTaps)
    return "a large window";
  return refuse_float_operands(p);
}

double cost_us(const Problem& p) {
  ConvShape s;
  if (!shape_of(p, s)) return 1e12;
  return traffic_us(p) / 4 + us_of(s) / p.threads;
}

size_t packed_bytes(const Problem& p) {
  ConvShape s;
  if (!shape_of(p, s)) return 0;
  return static_cast<size_t>(s.oc * (1 + s.group_ic() * s.kh * s.kw)) * sizeof(float);
}

// All biases, then the blocks of outputs that are summed together.
void pack(const Problem& p, std::byte* packed) {
  ConvShape s;
  if (!shape_of(p, s)) return;
  const float *w = constant_floats_of(p.inputs[1]),
              *bias = has_bias(p) ? constant_floats_of(p.inputs[2]) : nullptr;
  float* to = reinterpret_cast<float*>(packed);
  for (int64_t c = 0; c < s.oc; ++c) *to++ = bias != nullptr ? bias[c] : 0;
  const int64_t taps = s.group_ic() * s.kh * s.kw;
  for (int64_t first = 0; first < s.oc;) {
    const int outputs = outputs_together(s.group_oc() - first % s.group_oc());
    for (int64_t c = 0; c < s.group_ic(); ++c)
      for (int64_t tap = 0; tap < s.kw * s.kh; ++tap)
        for (int q = 0; q < outputs; ++q)
          *to++ = w[(first + q) * taps + (c * s.kh + tap % s.kh) * s.kw + tap / s.kh];
    first += outputs;
  }
}

constexpr Tactic kTactics[] = {{.name = "conv_planes_nchw_f32",
                                .kind = ir::LayerKind::kConvolution,
                                .isa = kIsa,
                                .formats = FormatRule::kLinear,
                                .version = 1,
                                .refusal = refusal,
                                .cost_us = cost_us,
                                .packed_inputs = float_packed_inputs,
                                .packed_bytes = packed_bytes,
                                .pack = pack,
                                .prepare = prepare}};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::conv_planes
