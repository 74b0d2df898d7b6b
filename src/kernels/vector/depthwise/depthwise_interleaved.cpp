// SPDX-License-Identifier: Apache-2.0
// Quantized depthwise convolution, channel last. Input rows are interleaved so that a dword holds
// vertical neighbours of one channel: with AVX-512 VNNI four bytes, whose taps one vpdpbusd adds
// for 16 channels; with AVX2 two words, for vpmaddwd and 8 channels. With unit vertical stride the
// same dwords serve two output rows: the second row's weights are shifted by one element. Sums are
// exact int32; they start at bias - zero_point * Σ w. One file: packing, interleaving and the tiles
// agree on one order of elements.
#include "kernels/packed/packed_records.h"
#include "kernels/simd/rows.h"
#include "kernels/vector/depthwise/depthwise_tactics.h"

#include <cstring>

namespace camshaft::kernels::CAMSHAFT_TARGET::depthwise_interleaved {

#if defined(CAMSHAFT_HAS_INTERLEAVED_ROWS)
namespace {

using namespace depthwise;

constexpr bool kHasBytes = sizeof(Element) == 1;  // four rows in a dword, else two

constexpr int64_t kGroup = 4 / sizeof(Element);  // input rows interleaved
constexpr int64_t kUnits = 4;                    // of kLanes channels in a block
constexpr int64_t kBlock = kUnits * kLanes;      // channels of a step
constexpr int64_t kLineBytes = sizeof(Line);
constexpr int64_t kLine = 32;     // output pixels whose columns are interleaved at a time
constexpr int64_t kUnitHead = 3;  // vectors before a unit's weights: start, multiplier, addend
constexpr int kMaxRows = 16;      // of input in one step

// How a window is cut: `out_rows` output rows share `groups` times kGroup input rows.
struct Cut {
  int64_t out_rows, in_rows, groups;
};
Cut cut_of(const ConvShape& s) {
  const int64_t out_rows = s.sh == 1 && s.dh == 1 ? 2 : 1, in_rows = s.kh + out_rows - 1;
  return {out_rows, in_rows, (in_rows + kGroup - 1) / kGroup};
}

int64_t unit_bytes(const ConvShape& s) {
  const Cut cut = cut_of(s);
  return kLineBytes * (kUnitHead + cut.groups * cut.out_rows * s.kw);
}

struct Run {
  ConvShape s;
  Cut cut;
  const uint8_t* x;
  int64_t x_image, x_row, x_pixel;
  std::byte* y;
  DataType y_type;
  int64_t y_image, y_row, y_pixel;
  const std::byte* units;
  FoldedHeader header;
  const ir::Program* program;
  const CompiledCode* code = nullptr;  // of it
  double predicted_us = 0;
  TileSource operands[kMaxOperands];
  int num_operands = 0;
  alignas(64) uint8_t padding[kBlock];

  bool stores_codes() const { return header.is_folded != 0 && y_type == DataType::kUInt8; }
};

// --- interleaving

// Rows of a step: those outside the image repeat the padding.
struct InputRows {
  const uint8_t* row[kMaxRows];
  int64_t pixel[kMaxRows];  // stride
};

InputRows input_rows(const Run& run, int64_t n, int64_t oh, int64_t channel) {
  const ConvShape& s = run.s;
  InputRows rows;
  for (int64_t k = 0; k < kGroup * run.cut.groups; ++k) {
    const int64_t ih = oh * s.sh - s.pad_top + k * s.dh;
    const bool inside = k < run.cut.in_rows && ih >= 0 && ih < s.ih;
    rows.row[k] = inside ? run.x + n * run.x_image + ih * run.x_row + channel : run.padding;
    rows.pixel[k] = inside ? run.x_pixel : 0;
  }
  return rows;
}

// Columns [first, first + cols) of `channels` channels: lines[unit * step + column].
void interleave(const Run& run, const uint8_t* const* row, const int64_t* pixel, int64_t first,
                int64_t cols, int64_t channels, Line* lines, int64_t step) {
  const int64_t begin = clamp_to(-first, 0, cols), end = clamp_to(run.s.iw - first, begin, cols);
  const Line outside = outside_line(run.padding[0]);
  for (int64_t unit = 0; unit < kUnits; ++unit) {
    for (int64_t col = 0; col < begin; ++col) lines[unit * step + col] = outside;
    for (int64_t col = end; col < cols; ++col) lines[unit * step + col] = outside;
  }
  for (int64_t c = 0; c < channels; c += kTogether, lines += kTogether / kLanes * step) {
    const uint8_t* rows[kGroup];
    for (int64_t k = 0; k < kGroup; ++k) rows[k] = row[k] + (pixel[k] != 0 ? c : 0);
    const auto inside =
        channels - c >= kTogether ? interleave_inside<true> : interleave_inside<false>;
    inside(rows, pixel, first + begin, first + end, channels - c, lines + begin, step);
  }
}

// --- sums

// What a unit of kLanes channels works on.
struct Unit {
  const std::byte* packed;  // head, then weights by group, output row, column
  const Line* lines;        // of the first pixel's first column; groups are group_step apart
  int64_t group_step, groups;
  int64_t kw, sw, dw;
  std::byte* y[2];  // the unit's first channel of the first pixel, per output row
  int64_t y_pixel;  // bytes
  bool codes;       // y is uint8, else float
  int channels;
  F32 low, high;
  I32 after;
  int32_t offset;
  uint8_t code_min, code_max;
  const FoldedHeader* gated;  // or null
};

// A row of `kWidth` taps, kStride apart, undilated; kWidth 0: any.
template <int kWidth, int kStride, int kRows>
struct Window {
  static constexpr int kOutRows = kRows;
  static bool fits(const ConvShape& s) {
    if (cut_of(s).out_rows != kRows) return false;
    return kWidth == 0 || (s.kw == kWidth && s.sw == kStride && s.dw == 1);
  }

  template <int P>
  CAMSHAFT_INLINE void add(const Unit& u, const Line* lines, Line (&sum)[kRows][P]) {
    const std::byte* w = u.packed + kUnitHead * kLineBytes;
    const auto weight_at = [&w](int64_t k) __attribute__((always_inline)) {
      return load_line(w + k * kLineBytes);
    };
    for (int64_t group = 0; group < u.groups; ++group, lines += u.group_step) {
      if constexpr (kWidth == 0) {
        for (int64_t kw = 0; kw < u.kw; ++kw)
#pragma GCC unroll 8
          for (int p = 0; p < P; ++p)
#pragma GCC unroll 2
            for (int r = 0; r < kRows; ++r)
              add_products(sum[r][p], lines[p * u.sw + kw * u.dw], weight_at(r * u.kw + kw));
        w += kRows * u.kw * kLineBytes;
      } else {
        Line weight[kRows][kWidth];
#pragma GCC unroll 16
        for (int k = 0; k < kRows * kWidth; ++k) weight[k / kWidth][k % kWidth] = weight_at(k);
#pragma GCC unroll 32
        for (int col = 0; col < (P - 1) * kStride + kWidth; ++col) {
          const Line x = lines[col];
#pragma GCC unroll 8
          for (int p = 0; p < P; ++p) {
            const int kw = col - p * kStride;
            if (kw < 0 || kw >= kWidth) continue;
#pragma GCC unroll 2
            for (int r = 0; r < kRows; ++r) add_products(sum[r][p], x, weight[r][kw]);
          }
        }
        w += kRows * kWidth * kLineBytes;
      }
    }
  }
};

// Of P neighbouring pixels.
template <int P>
CAMSHAFT_INLINE void scale_sums(const Unit& u, const Line (&sum)[P], F32 (&v)[P]) {
  const float* head = reinterpret_cast<const float*>(u.packed);
  const F32 multiplier = load(head + kLanes), addend = load(head + 2 * kLanes);
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p) v[p] = fma(to_float(I32{sum[p]}), multiplier, addend);
  if (!u.gated) return;
  const F32 scale = set1(u.gated->scale), shift = set1(u.gated->shift);
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p) v[p] = fma(v[p] * gate_of(u.gated->gate, v[p]), scale, shift);
}

// Whole vectors to uint8.
#if !defined(CAMSHAFT_HAS_CODE_PACKING)
template <int P>
CAMSHAFT_INLINE void store_pixels(const Unit& u, const F32 (&v)[P], uint8_t* y) {
  const int64_t y_pixel = u.y_pixel;
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p, y += y_pixel)
    store_codes(y, to_int(min(u.high, max(u.low, v[p]))) + u.after);
}
#else
template <int P>
CAMSHAFT_INLINE void store_pixels(const Unit& u, const F32 (&v)[P], uint8_t* y) {
  const int64_t y_pixel = u.y_pixel;
  const CodePacking packing(u.offset, u.code_min, u.code_max);
  const auto code = [&u, &v ](int p) __attribute__((always_inline)) {
    return to_int(min(u.high, v[p < P ? p : P - 1]));
  };
#pragma GCC unroll 2
  for (int p = 0; p < P; p += 4, y += 4 * y_pixel) {
    const PackedCodes codes = packing.pack(code(p), code(p + 1), code(p + 2), code(p + 3));
    codes.store_quarter<0>(y);
    if (p + 1 < P) codes.store_quarter<1>(y + y_pixel);
    if (p + 2 < P) codes.store_quarter<2>(y + 2 * y_pixel);
    if (p + 3 < P) codes.store_quarter<3>(y + 3 * y_pixel);
  }
}
#endif

template <bool kWholeCodes, int P>
CAMSHAFT_INLINE void finish(const Unit& u, const Line (&sum)[P], std::byte* y) {
  F32 v[P];
  scale_sums(u, sum, v);
  if constexpr (kWholeCodes) return store_pixels(u, v, reinterpret_cast<uint8_t*>(y));
  const int64_t y_pixel = u.y_pixel;
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p, y += y_pixel) {
    const F32 clamped = min(u.high, max(u.low, v[p]));
    if (u.codes)
      store_codes(reinterpret_cast<uint8_t*>(y), to_int(clamped) + u.after, u.channels);
    else
      store(reinterpret_cast<float*>(y), clamped, first_n(u.channels));
  }
}

// P neighbouring pixels from ow on.
template <class W, bool kWholeCodes, int P>
void run_tile(const Unit& u, int64_t ow, int64_t rows) {
  Line sum[W::kOutRows][P];
  const Line start = load_line(u.packed);
#pragma GCC unroll 2
  for (auto& row : sum)
#pragma GCC unroll 8
    for (auto& s : row) s = start;
  W::template add<P>(u, u.lines + ow * u.sw, sum);
  finish<kWholeCodes, P>(u, sum[0], u.y[0] + ow * u.y_pixel);
  if constexpr (W::kOutRows == 2)
    if (rows == 2) finish<kWholeCodes, P>(u, sum[1], u.y[1] + ow * u.y_pixel);
}

// Output pixels [0, pixels) in tiles of P; the last may overlap the one before.
template <class W, bool kWholeCodes, int P>
void run_tiles(const Unit& u, int64_t pixels, int64_t rows) {
  for (int64_t ow = 0; ow < pixels; ow += P)
    run_tile<W, kWholeCodes, P>(u, ow + P <= pixels ? ow : pixels - P, rows);
}

template <class W, bool kWholeCodes>
void run_unit(const Unit& u, int64_t pixels, int64_t rows) {
  const auto waste = [pixels](int64_t p) { return (pixels + p - 1) / p * p - pixels; };
  if constexpr (kRegisters == 16 && W::kOutRows == 2) {
    if (pixels >= 4 && waste(4) <= waste(3))
      run_tiles<W, kWholeCodes, 4>(u, pixels, rows);
    else if (pixels >= 3)
      run_tiles<W, kWholeCodes, 3>(u, pixels, rows);
    else
      run_tiles<W, kWholeCodes, 1>(u, pixels, rows);
    return;
  }
  if (pixels >= 8 && waste(8) <= waste(7))
    run_tiles<W, kWholeCodes, 8>(u, pixels, rows);
  else if (pixels >= 7)
    run_tiles<W, kWholeCodes, 7>(u, pixels, rows);
  else if (pixels >= 4)
    run_tiles<W, kWholeCodes, 4>(u, pixels, rows);
  else
    run_tiles<W, kWholeCodes, 1>(u, pixels, rows);
}

// --- steps: one or two output rows of a block of channels

int64_t line_columns(const ConvShape& s) {
  return (kLine - 1) * s.sw + (s.kw - 1) * s.dw + 1;
}
int64_t lines_bytes(const ConvShape& s) {
  return line_columns(s) * cut_of(s).groups * kUnits * kLineBytes;
}
// Floats on the way to a program.
constexpr int64_t kSumsBytes = 2 * kLine * kBlock * static_cast<int64_t>(sizeof(float));

struct Step {
  int64_t n, oh, rows;  // output rows
  int64_t ow, pixels;
  int64_t block, channels;  // first channel, how many
};

void run_epilogue(const Run& run, const Step& step, const float* sums) {
  for (int64_t r = 0; r < step.rows; ++r) {
    const int64_t oh = step.oh + r;
    TileOperand operands[1 + kMaxOperands] = {{sums + r * kLine * kBlock, kBlock, 1}};
    for (int k = 0; k < run.num_operands; ++k)
      operands[k + 1] = operand_at(run.operands[k], {step.n, oh, step.ow, step.pixels}, step.block);
    const int64_t to = step.n * run.y_image + oh * run.y_row + step.ow * run.y_pixel + step.block;
    run_code(*run.code, operands, {run.y + to * bytes_of(run.y_type), run.y_pixel, run.y_type},
             step.pixels, step.channels);
  }
}

void look_up(const Run& run, const Step& step) {
  const auto* table = reinterpret_cast<const uint8_t*>(run.units) - kTableBytes;
  for (int64_t r = 0; r < step.rows; ++r)
    look_up_codes(table,
                  reinterpret_cast<uint8_t*>(run.y) + step.n * run.y_image +
                      (step.oh + r) * run.y_row + step.ow * run.y_pixel + step.block,
                  step.pixels, step.channels, run.y_pixel);
}

template <class W>
void run_step(const Run& run, const Step& step, Line* lines, float* sums) {
  const ConvShape& s = run.s;
  const int64_t columns = line_columns(s), step_of_unit = columns * run.cut.groups;
  const InputRows rows = input_rows(run, step.n, step.oh, step.block);
  const int64_t used = (step.pixels - 1) * s.sw + (s.kw - 1) * s.dw + 1;
  for (int64_t group = 0; group < run.cut.groups; ++group)
    interleave(run, rows.row + kGroup * group, rows.pixel + kGroup * group,
               step.ow * s.sw - s.pad_left, used, step.channels, lines + group * columns,
               step_of_unit);

  const bool is_folded = run.header.is_folded != 0;
  const int64_t element = is_folded ? bytes_of(run.y_type) : static_cast<int64_t>(sizeof(float));
  const int64_t size = unit_bytes(s);
  const bool packs = run.header.after >= -kLargestOffset && run.header.after <= kLargestOffset;
  Unit u{nullptr,
         nullptr,
         columns,
         run.cut.groups,
         s.kw,
         s.sw,
         s.dw,
         {},
         (is_folded ? run.y_pixel : kBlock) * element,
         run.stores_codes(),
         0,
         set1(run.header.low),
         set1(run.header.high),
         iset1(run.header.after),
         run.header.after,
         code_of(run.header.low, run.header.after),
         code_of(run.header.high, run.header.after),
         run.header.is_gated != 0 ? &run.header : nullptr};
  for (int64_t c = 0; c < step.channels; c += kLanes) {
    const int64_t unit = c / kLanes, rest = step.channels - c;
    u.packed = run.units + (step.block / kLanes + unit) * size;
    u.lines = lines + unit * step_of_unit;
    u.channels = static_cast<int>(rest < kLanes ? rest : kLanes);
    for (int64_t r = 0; r < 2; ++r) {
      const int64_t place =
          step.n * run.y_image + (step.oh + r) * run.y_row + step.ow * run.y_pixel + step.block + c;
      u.y[r] = is_folded ? run.y + place * element
                         : reinterpret_cast<std::byte*>(sums + r * kLine * kBlock + c);
    }
    u.codes&& rest >= kLanes&& packs ? run_unit<W, true>(u, step.pixels, step.rows)
                                     : run_unit<W, false>(u, step.pixels, step.rows);
  }
  if (!is_folded) run_epilogue(run, step, sums);
  if (run.header.has_table != 0) look_up(run, step);
}

// --- the tactic

template <class W>
std::string refusal(const Problem& p) {
  if (std::string reason = refuse_quantized(p, Bias::kInSum); !reason.empty()) return reason;
  if (kHasBytes && !has_symmetric_weights(p)) return "the weights are no symmetric int8";
  ConvShape s;
  shape_of(p, s);
  if (!W::fits(s)) return "another window width, stride or dilation";
  if (kGroup * cut_of(s).groups > kMaxRows) return "the window is too high";
  if (s.kw * s.dw > 256) return "the window is too wide";
  return "";
}

// AVX-512: per 64 channels and column 12 shuffles a group; per 16 channels and output: its
// products, two a cycle, and 6 instructions. AVX2: 4 and 2 stores per 16 channels; products are two
// operations.
template <class W>
double cost_us(const Problem& p) {
  ConvShape s;
  if (!shape_of(p, s)) return 1e12;
  const Cut cut = cut_of(s);
  const double units = static_cast<double>((s.oc + kLanes - 1) / kLanes),
               rows = static_cast<double>(s.batch * ((s.oh + cut.out_rows - 1) / cut.out_rows));
  const bool is_wide = kIsa == Isa::kAvx512;
  const double columns = static_cast<double>(s.ow * s.sw + s.kw * s.dw) *
                         static_cast<double>(cut.groups) * (is_wide ? 6 : 4);
  const double products = static_cast<double>(s.ow * cut.out_rows) *
                          (static_cast<double>(cut.groups * s.kw) * (is_wide ? 0.5 : 0.65) + 2.5);
  return traffic_us(p) / 4 + rows * units * (columns / 4 + products) / 3300 / p.threads;
}

size_t packed_bytes(const Problem& p) {
  ConvShape s;
  if (!shape_of(p, s)) return 0;
  return folded_bytes() + static_cast<size_t>((s.oc + kLanes - 1) / kLanes * unit_bytes(s));
}

// Weight of `tap` (input row) for output row r and column kw; 0 outside the window.
int16_t weight_at(const ConvShape& s, const CenteredWeights& w, int64_t c, int64_t input_row,
                  int64_t r, int64_t kw) {
  const int64_t kh = input_row - r;
  return kh < 0 || kh >= s.kh ? int16_t{0} : w[(c * s.kh + kh) * s.kw + kw];
}

void pack(const Problem& p, std::byte* packed) {
  ConvShape s;
  if (!shape_of(p, s)) return;
  const Cut cut = cut_of(s);
  FoldedEpilogue folded;
  fold_epilogue(p, Bias::kInSum, folded);
  store_folded(folded, packed);
  std::byte* units = packed + folded_bytes();
  std::memset(units, 0, packed_bytes(p) - folded_bytes());
  const CenteredWeights w(p);
  const int32_t* bias =
      has_bias(p) ? reinterpret_cast<const int32_t*>(p.inputs[2].constant->view.data()) : nullptr;
  const auto zero_point = static_cast<uint32_t>(attrs_of(*p.layer).zero_point);
  for (int64_t c = 0; c < s.oc; ++c) {
    std::byte* unit = units + c / kLanes * unit_bytes(s);
    const int64_t lane = c % kLanes;
    uint32_t start = bias == nullptr ? 0 : static_cast<uint32_t>(bias[c]);
    for (int64_t tap = 0; tap < s.kh * s.kw; ++tap)
      start -= zero_point * static_cast<uint32_t>(w[c * s.kh * s.kw + tap]);
    reinterpret_cast<uint32_t*>(unit)[lane] = start;
    reinterpret_cast<float*>(unit)[kLanes + lane] = folded.multipliers[static_cast<size_t>(c)];
    reinterpret_cast<float*>(unit)[2 * kLanes + lane] = folded.addends[static_cast<size_t>(c)];
    Element* to = reinterpret_cast<Element*>(unit + kLineBytes * kUnitHead) + kGroup * lane;
    for (int64_t group = 0; group < cut.groups; ++group)
      for (int64_t r = 0; r < cut.out_rows; ++r)
        for (int64_t kw = 0; kw < s.kw; ++kw, to += kGroup * kLanes)
          for (int64_t k = 0; k < kGroup; ++k)
            to[k] = static_cast<Element>(weight_at(s, w, c, kGroup * group + k, r, kw));
  }
}

bool shape_of(const KernelArgs& args, ConvShape& s) {
  const auto extents = [](const TensorView& view) {
    return std::span<const int64_t>(view.extents, static_cast<size_t>(view.rank));
  };
  return conv_shape(attrs_of(*args.layer), extents(args.inputs[0]), extents(args.inputs[1]),
                    extents(args.outputs[0]), s);
}

bool describe(const KernelArgs& args, Run& run) {
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  if (!shape_of(args, run.s)) return false;
  run.cut = cut_of(run.s);
  const int last = x.rank - 1;
  run.x = x.as<const uint8_t>();
  run.x_image = x.strides[0], run.x_row = x.rank == 4 ? x.strides[2] : 0,
  run.x_pixel = x.strides[last];
  run.y = y.as<std::byte>();
  run.y_type = y.type;
  run.y_image = y.strides[0], run.y_row = y.rank == 4 ? y.strides[2] : 0,
  run.y_pixel = y.strides[last];
  read_record(args.packed, run.header);
  run.program = &attrs_of(*args.layer).epilogue;
  std::memset(run.padding, static_cast<int>(attrs_of(*args.layer).zero_point), kBlock);
  if (run.header.is_folded != 0) return true;
  for (size_t k = kFirstOperand; k < args.inputs.size(); ++k)
    run.operands[run.num_operands++] = conv_source(args.inputs[k], y);
  return true;
}

void set_addresses(const KernelCall& call, Run& run) {
  run.x = call.input<const uint8_t>(0);
  run.y = call.output<std::byte>(0);
  run.units = call.packed + folded_bytes();
  for (int k = 0; k < run.num_operands; ++k)
    run.operands[k].data = call.input<const std::byte>(kFirstOperand + static_cast<size_t>(k));
}

template <class W>
void run_pairs(Run& run, const KernelCall& call) {
  set_addresses(call, run);
  const ConvShape& s = run.s;
  const int64_t own = lines_bytes(s) + kSumsBytes, pairs = (s.oh + W::kOutRows - 1) / W::kOutRows;
  split(call.pool, s.batch * pairs, run.predicted_us, [&](int worker, int64_t first, int64_t last) {
    std::byte* memory = call.workspace + worker * own;
    float* sums = reinterpret_cast<float*>(memory + lines_bytes(s));
    for (int64_t pair = first; pair < last; ++pair) {
      Step step{pair / pairs, pair % pairs * W::kOutRows, W::kOutRows, 0, 0, 0, 0};
      if (step.oh + step.rows > s.oh) step.rows = s.oh - step.oh;
      for (; step.ow < s.ow; step.ow += step.pixels) {
        step.pixels = s.ow - step.ow < kLine ? s.ow - step.ow : kLine;
        for (step.block = 0; step.block < s.oc; step.block += kBlock) {
          step.channels = s.oc - step.block < kBlock ? s.oc - step.block : kBlock;
          run_step<W>(run, step, reinterpret_cast<Line*>(memory), sums);
        }
      }
    }
  });
}

// What is not folded: a program on blocks of sums.
void compile_epilogue(Run& run, PreparedKernel& kernel) {
  if (run.header.is_folded != 0) return;
  TileOperand operands[1 + kMaxOperands] = {{nullptr, 0, 1}};
  for (int k = 0; k < run.num_operands; ++k) operands[k + 1] = operand_at(run.operands[k], {}, 0);
  CompiledCode& code = keep(kernel, CompiledCode());
  compile_code(run.program->code.data(), static_cast<int>(run.program->code.size()),
               run.program->num_inputs, operands, run.y_type, code);
  run.code = &code;
}

template <class W>
void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  Run described;
  if (!has_output(args, kernel) || !describe(args, described)) return;
  Run& run = keep_state<run_pairs<W>>(kernel, described);
  const ConvShape& s = run.s;
  run.predicted_us = static_cast<double>(count_of(args.outputs[0]) * s.kh * s.kw) / 64 / 6000;
  compile_epilogue(run, kernel);
  kernel.workspace_bytes = static_cast<size_t>(threads_of(args) * (lines_bytes(s) + kSumsBytes));
}

template <class W>
constexpr Tactic row(const char* name) {
  return {.name = name,
          .kind = ir::LayerKind::kConvolution,
          .isa = kIsa,
          .formats = FormatRule::kChannelLast,
          .version = 3,
          .refusal = refusal<W>,
          .cost_us = cost_us<W>,
          .packed_inputs = quantized_packed_inputs,
          .packed_bytes = packed_bytes,
          .pack = pack,
          .prepare = prepare<W>,
          // AVX2 multiplies 16-bit pairs.
          .needs = kHasBytes ? Features{Feature::kVnni} : Features{}};
}

constexpr Tactic kTactics[] = {
    row<Window<3, 1, 2>>(kHasBytes ? "depthwise_nhwc_i8_vnni_w3_s1"
                                   : "depthwise_nhwc_i8_words_w3_s1"),
    row<Window<3, 2, 1>>(kHasBytes ? "depthwise_nhwc_i8_vnni_w3_s2"
                                   : "depthwise_nhwc_i8_words_w3_s2"),
    row<Window<5, 1, 2>>(kHasBytes ? "depthwise_nhwc_i8_vnni_w5_s1"
                                   : "depthwise_nhwc_i8_words_w5_s1"),
    row<Window<5, 2, 1>>(kHasBytes ? "depthwise_nhwc_i8_vnni_w5_s2"
                                   : "depthwise_nhwc_i8_words_w5_s2"),
    row<Window<0, 0, 2>>(kHasBytes ? "depthwise_nhwc_i8_vnni_2rows"
                                   : "depthwise_nhwc_i8_words_2rows"),
    row<Window<0, 0, 1>>(kHasBytes ? "depthwise_nhwc_i8_vnni" : "depthwise_nhwc_i8_words"),
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}
#else
std::span<const Tactic> tactics() {
  return {};
}
#endif

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::depthwise_interleaved
