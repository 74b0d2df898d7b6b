// SPDX-License-Identifier: Apache-2.0
// Quantized depthwise convolution with VNNI, channel last. Four input rows are interleaved so that
// a dword holds four vertical neighbours of one channel; one vpdpbusd then adds four taps of 16
// channels. With unit vertical stride the same dwords serve two output rows: the second row's
// weights are shifted by one byte. Sums are exact int32; they start at bias - zero_point * Σ w.
#include "kernels/vector/depthwise_rows.h"

#include <cstring>

namespace camshaft::kernels::CAMSHAFT_TARGET {

#if defined(CAMSHAFT_TARGET_avx512)
namespace {

using namespace depthwise;

constexpr int64_t kBlock = 64;    // channels interleaved together
constexpr int64_t kUnits = 4;     // of kLanes channels in a block
constexpr int64_t kLine = 32;     // output pixels whose columns are interleaved at a time
constexpr int64_t kUnitHead = 3;  // vectors before a unit's weights: start, multiplier, addend
constexpr int kMaxRows = 16;      // of input in one step

// How a window is cut: `out_rows` output rows share `quads` times four input rows.
struct Cut {
  int64_t out_rows, in_rows, quads;
};
Cut cut_of(const ConvShape& s) {
  const int64_t out_rows = s.sh == 1 && s.dh == 1 ? 2 : 1, in_rows = s.kh + out_rows - 1;
  return {out_rows, in_rows, (in_rows + 3) / 4};
}

int64_t unit_bytes(const ConvShape& s) {
  const Cut cut = cut_of(s);
  return 64 * (kUnitHead + cut.quads * cut.out_rows * s.kw);
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
  Operand operands[kMaxOperands];
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
  for (int64_t k = 0; k < 4 * run.cut.quads; ++k) {
    const int64_t ih = oh * s.sh - s.pad_top + k * s.dh;
    const bool inside = k < run.cut.in_rows && ih >= 0 && ih < s.ih;
    rows.row[k] = inside ? run.x + n * run.x_image + ih * run.x_row + channel : run.padding;
    rows.pixel[k] = inside ? run.x_pixel : 0;
  }
  return rows;
}

// Dword 4 i + j of a register becomes dword 4 j + i: unpacking then leaves channels in order.
template <bool kWhole>
CAMSHAFT_INLINE __m512i load_block(const uint8_t* p, __mmask64 channels) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i block = kWhole ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi8(channels, p);
  return _mm512_permutexvar_epi32(order, block);
}

// Columns [first, last), inside the image, of four rows: lines[unit * step + column].
template <bool kWhole>
void interleave_inside(const uint8_t* const* row, const int64_t* pixel, int64_t first, int64_t last,
                       __mmask64 channels, __m512i* line, int64_t step) {
  const int64_t pixel_a = pixel[0], pixel_b = pixel[1], pixel_c = pixel[2], pixel_d = pixel[3];
  const uint8_t *at_a = row[0] + first * pixel_a, *at_b = row[1] + first * pixel_b,
                *at_c = row[2] + first * pixel_c, *at_d = row[3] + first * pixel_d;
  for (int64_t col = first; col < last; ++col, ++line) {
    const __m512i a = load_block<kWhole>(at_a, channels), b = load_block<kWhole>(at_b, channels),
                  c = load_block<kWhole>(at_c, channels), d = load_block<kWhole>(at_d, channels);
    at_a += pixel_a, at_b += pixel_b, at_c += pixel_c, at_d += pixel_d;
    const __m512i ab_low = _mm512_unpacklo_epi8(a, b), ab_high = _mm512_unpackhi_epi8(a, b),
                  cd_low = _mm512_unpacklo_epi8(c, d), cd_high = _mm512_unpackhi_epi8(c, d);
    line[0] = _mm512_unpacklo_epi16(ab_low, cd_low);
    line[step] = _mm512_unpackhi_epi16(ab_low, cd_low);
    line[2 * step] = _mm512_unpacklo_epi16(ab_high, cd_high);
    line[3 * step] = _mm512_unpackhi_epi16(ab_high, cd_high);
  }
}

// Columns [first, first + cols): lines[unit * step + column], 16 channels x 4 rows each.
void interleave(const Run& run, const uint8_t* const* row, const int64_t* pixel, int64_t first,
                int64_t cols, __mmask64 channels, __m512i* lines, int64_t step) {
  const int64_t begin = clamp_to(-first, 0, cols), end = clamp_to(run.s.iw - first, begin, cols);
  const __m512i outside = _mm512_set1_epi8(static_cast<char>(run.padding[0]));
  for (int64_t unit = 0; unit < kUnits; ++unit) {
    for (int64_t col = 0; col < begin; ++col) lines[unit * step + col] = outside;
    for (int64_t col = end; col < cols; ++col) lines[unit * step + col] = outside;
  }
  const auto inside = ~channels == 0 ? interleave_inside<true> : interleave_inside<false>;
  inside(row, pixel, first + begin, first + end, channels, lines + begin, step);
}

// --- sums

CAMSHAFT_INLINE void add_products(__m512i& sum, __m512i x, __m512i w) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w));
}

// What a unit of 16 channels works on.
struct Unit {
  const std::byte* packed;  // head, then weights by quad, output row, column
  const __m512i* lines;     // of the first pixel's first column; quads are quad_step apart
  int64_t quad_step, quads;
  int64_t kw, sw, dw;
  std::byte* y[2];  // the unit's first channel of the first pixel, per output row
  int64_t y_pixel;  // bytes
  bool codes;       // y is uint8, else float
  __mmask16 channels;
  F32 low, high;
  I32 after;
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
  CAMSHAFT_INLINE void add(const Unit& u, const __m512i* lines, __m512i (&sum)[kRows][P]) {
    const __m512i* w = reinterpret_cast<const __m512i*>(u.packed) + kUnitHead;
    for (int64_t quad = 0; quad < u.quads; ++quad, lines += u.quad_step) {
      if constexpr (kWidth == 0) {
        for (int64_t kw = 0; kw < u.kw; ++kw)
#pragma GCC unroll 8
          for (int p = 0; p < P; ++p)
#pragma GCC unroll 2
            for (int r = 0; r < kRows; ++r)
              add_products(sum[r][p], lines[p * u.sw + kw * u.dw], w[r * u.kw + kw]);
        w += kRows * u.kw;
      } else {
        __m512i weight[kRows][kWidth];
#pragma GCC unroll 16
        for (int k = 0; k < kRows * kWidth; ++k) weight[k / kWidth][k % kWidth] = w[k];
#pragma GCC unroll 32
        for (int col = 0; col < (P - 1) * kStride + kWidth; ++col) {
          const __m512i x = lines[col];
#pragma GCC unroll 8
          for (int p = 0; p < P; ++p) {
            const int kw = col - p * kStride;
            if (kw < 0 || kw >= kWidth) continue;
#pragma GCC unroll 2
            for (int r = 0; r < kRows; ++r) add_products(sum[r][p], x, weight[r][kw]);
          }
        }
        w += kRows * kWidth;
      }
    }
  }
};

// Masked stores of bytes are slow.
CAMSHAFT_INLINE void store_codes(std::byte* to, I32 codes, __mmask16 channels) {
  const __m128i bytes = _mm512_cvtepi32_epi8(codes.v);
  if (channels == 0xffff)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
  else
    _mm_mask_storeu_epi8(to, channels, bytes);
}

// kWholeCodes: 16 channels to uint8.
template <bool kWholeCodes, int P>
CAMSHAFT_INLINE void finish(const Unit& u, const __m512i (&sum)[P], std::byte* y) {
  const float* head = reinterpret_cast<const float*>(u.packed);
  const F32 multiplier = load(head + kLanes), addend = load(head + 2 * kLanes);
  const int64_t y_pixel = u.y_pixel;
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p, y += y_pixel) {
    F32 v = fma(to_float(I32{sum[p]}), multiplier, addend);
    if (u.gated) v = fma(v * gate_of(u.gated->gate, v), set1(u.gated->scale), set1(u.gated->shift));
    v = min(u.high, max(u.low, v));
    if (kWholeCodes)
      store_codes(y, to_int(v) + u.after, 0xffff);
    else if (u.codes)
      store_codes(y, to_int(v) + u.after, u.channels);
    else
      store(reinterpret_cast<float*>(y), v, M32{u.channels});
  }
}

// P neighbouring pixels from ow on.
template <class W, bool kWholeCodes, int P>
void run_tile(const Unit& u, int64_t ow, int64_t rows) {
  __m512i sum[W::kOutRows][P];
  const __m512i start = _mm512_loadu_si512(u.packed);
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
  return line_columns(s) * cut_of(s).quads * kUnits * 64;
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
    for (int k = 0; k < run.num_operands; ++k) {
      const Operand& o = run.operands[k];
      operands[k + 1] = {o.at(step.n, oh, step.block) + step.ow * o.pixel * bytes_of(o.type),
                         o.pixel, o.channel, o.type};
    }
    const int64_t to = step.n * run.y_image + oh * run.y_row + step.ow * run.y_pixel + step.block;
    run_program(*run.program, operands,
                {run.y + to * bytes_of(run.y_type), run.y_pixel, run.y_type}, step.pixels,
                step.channels);
  }
}

template <class W>
void run_step(const Run& run, const Step& step, __m512i* lines, float* sums) {
  const ConvShape& s = run.s;
  const int64_t columns = line_columns(s), step_of_unit = columns * run.cut.quads;
  const __mmask64 mask =
      step.channels >= kBlock ? ~uint64_t{0} : (uint64_t{1} << step.channels) - 1;
  const InputRows rows = input_rows(run, step.n, step.oh, step.block);
  const int64_t used = (step.pixels - 1) * s.sw + (s.kw - 1) * s.dw + 1;
  for (int64_t quad = 0; quad < run.cut.quads; ++quad)
    interleave(run, rows.row + 4 * quad, rows.pixel + 4 * quad, step.ow * s.sw - s.pad_left, used,
               mask, lines + quad * columns, step_of_unit);

  const bool is_folded = run.header.is_folded != 0;
  const int64_t element = is_folded ? bytes_of(run.y_type) : static_cast<int64_t>(sizeof(float));
  const int64_t size = unit_bytes(s);
  Unit u{nullptr,
         nullptr,
         columns,
         run.cut.quads,
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
         run.header.is_gated != 0 ? &run.header : nullptr};
  for (int64_t c = 0; c < step.channels; c += kLanes) {
    const int64_t unit = c / kLanes, rest = step.channels - c;
    u.packed = run.units + (step.block / kLanes + unit) * size;
    u.lines = lines + unit * step_of_unit;
    u.channels = first_n(static_cast<int>(rest < kLanes ? rest : kLanes)).m;
    for (int64_t r = 0; r < 2; ++r) {
      const int64_t place =
          step.n * run.y_image + (step.oh + r) * run.y_row + step.ow * run.y_pixel + step.block + c;
      u.y[r] = is_folded ? run.y + place * element
                         : reinterpret_cast<std::byte*>(sums + r * kLine * kBlock + c);
    }
    u.codes&& rest >= kLanes ? run_unit<W, true>(u, step.pixels, step.rows)
                             : run_unit<W, false>(u, step.pixels, step.rows);
  }
  if (!is_folded) run_epilogue(run, step, sums);
}

// --- the tactic

bool has_vnni() {
  return cpu_info().has_vnni;
}

template <class W>
std::string refusal(const Problem& p) {
  if (!has_vnni()) return "no VNNI";
  if (std::string reason = refuse_quantized(p, Bias::kInSum); !reason.empty()) return reason;
  ConvShape s;
  shape_of(p, s);
  if (!W::fits(s)) return "another window width, stride or dilation";
  if (4 * cut_of(s).quads > kMaxRows) return "the window is too high";
  if (s.kw * s.dw > 256) return "the window is too wide";
  return "";
}

// Per 64 channels and column: 12 shuffles a quad; per 16 channels and output: its products, two a
// cycle, and 6 instructions.
template <class W>
double cost_us(const Problem& p) {
  ConvShape s;
  if (!shape_of(p, s)) return 1e12;
  const Cut cut = cut_of(s);
  const double units = static_cast<double>((s.oc + kLanes - 1) / kLanes),
               rows = static_cast<double>(s.batch * ((s.oh + cut.out_rows - 1) / cut.out_rows));
  const double columns =
      static_cast<double>(s.ow * s.sw + s.kw * s.dw) * static_cast<double>(cut.quads) * 6;
  const double products = static_cast<double>(s.ow * cut.out_rows) *
                          (static_cast<double>(cut.quads * s.kw) * 0.5 + 2.5);
  return traffic_us(p) / 4 + rows * units * (columns / 4 + products) / 3300 / p.threads;
}

size_t packed_bytes(const Problem& p) {
  ConvShape s;
  if (!shape_of(p, s)) return 0;
  return sizeof(FoldedHeader) + static_cast<size_t>((s.oc + kLanes - 1) / kLanes * unit_bytes(s));
}

// Weight of `tap` (input row) for output row r and column kw; 0 outside the window.
int8_t weight_at(const ConvShape& s, const int8_t* w, int64_t c, int64_t input_row, int64_t r,
                 int64_t kw) {
  const int64_t kh = input_row - r;
  return kh < 0 || kh >= s.kh ? int8_t{0} : w[(c * s.kh + kh) * s.kw + kw];
}

void pack(const Problem& p, std::byte* packed) {
  ConvShape s;
  if (!shape_of(p, s)) return;
  const Cut cut = cut_of(s);
  FoldedEpilogue folded;
  fold_epilogue(p, Bias::kInSum, folded);
  std::memcpy(packed, &folded.header, sizeof(FoldedHeader));
  std::memset(packed + sizeof(FoldedHeader), 0, packed_bytes(p) - sizeof(FoldedHeader));
  const int8_t* w = reinterpret_cast<const int8_t*>(p.inputs[1].constant->view.data());
  const int32_t* bias =
      has_bias(p) ? reinterpret_cast<const int32_t*>(p.inputs[2].constant->view.data()) : nullptr;
  const auto zero_point = static_cast<uint32_t>(attrs_of(*p.layer).zero_point);
  for (int64_t c = 0; c < s.oc; ++c) {
    std::byte* unit = packed + sizeof(FoldedHeader) + c / kLanes * unit_bytes(s);
    const int64_t lane = c % kLanes;
    uint32_t start = bias == nullptr ? 0 : static_cast<uint32_t>(bias[c]);
    for (int64_t tap = 0; tap < s.kh * s.kw; ++tap)
      start -= zero_point * static_cast<uint32_t>(w[c * s.kh * s.kw + tap]);
    reinterpret_cast<uint32_t*>(unit)[lane] = start;
    reinterpret_cast<float*>(unit)[kLanes + lane] = folded.multipliers[static_cast<size_t>(c)];
    reinterpret_cast<float*>(unit)[2 * kLanes + lane] = folded.addends[static_cast<size_t>(c)];
    int8_t* to = reinterpret_cast<int8_t*>(unit + 64 * kUnitHead) + 4 * lane;
    for (int64_t quad = 0; quad < cut.quads; ++quad)
      for (int64_t r = 0; r < cut.out_rows; ++r)
        for (int64_t kw = 0; kw < s.kw; ++kw, to += 64)
          for (int64_t k = 0; k < 4; ++k) to[k] = weight_at(s, w, c, 4 * quad + k, r, kw);
  }
}

bool shape_of(const KernelArgs& args, ConvShape& s) {
  const auto extents = [](const TensorView& view) {
    return std::span<const int64_t>(view.extents, static_cast<size_t>(view.rank));
  };
  return conv_shape(attrs_of(*args.layer), extents(args.inputs[0]), extents(args.inputs[1]),
                    extents(args.outputs[0]), s);
}

size_t workspace_bytes(const KernelArgs& args) {
  ConvShape s;
  if (!shape_of(args, s)) return 0;
  const int threads = args.pool != nullptr ? args.pool->threads() : 1;
  return static_cast<size_t>(threads * (lines_bytes(s) + kSumsBytes));
}

bool prepare(const KernelArgs& args, Run& run) {
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
  std::memcpy(&run.header, args.packed, sizeof(FoldedHeader));
  run.units = args.packed + sizeof(FoldedHeader);
  run.program = &attrs_of(*args.layer).epilogue;
  std::memset(run.padding, static_cast<int>(attrs_of(*args.layer).zero_point), kBlock);
  if (run.header.is_folded != 0) return true;
  for (size_t k = kFirstOperand; k < args.inputs.size(); ++k)
    run.operands[run.num_operands++] = operand_of(args.inputs[k], y);
  return true;
}

template <class W>
void run(const KernelArgs& args) {
  Run run;
  if (count_of(args.outputs[0]) == 0 || !prepare(args, run)) return;
  const ConvShape& s = run.s;
  const int64_t own = lines_bytes(s) + kSumsBytes, pairs = (s.oh + W::kOutRows - 1) / W::kOutRows;
  const double us = static_cast<double>(count_of(args.outputs[0]) * s.kh * s.kw) / 64 / 6000;
  split(args.pool, s.batch * pairs, us, [&](int worker, int64_t first, int64_t last) {
    std::byte* memory = args.workspace + worker * own;
    float* sums = reinterpret_cast<float*>(memory + lines_bytes(s));
    for (int64_t pair = first; pair < last; ++pair) {
      Step step{pair / pairs, pair % pairs * W::kOutRows, W::kOutRows, 0, 0, 0, 0};
      if (step.oh + step.rows > s.oh) step.rows = s.oh - step.oh;
      for (; step.ow < s.ow; step.ow += step.pixels) {
        step.pixels = s.ow - step.ow < kLine ? s.ow - step.ow : kLine;
        for (step.block = 0; step.block < s.oc; step.block += kBlock) {
          step.channels = s.oc - step.block < kBlock ? s.oc - step.block : kBlock;
          run_step<W>(run, step, reinterpret_cast<__m512i*>(memory), sums);
        }
      }
    }
  });
}

template <class W>
constexpr Tactic row(const char* name) {
  return {name,
          ir::LayerKind::kConvolution,
          kIsa,
          FormatRule::kChannelLast,
          2,
          refusal<W>,
          cost_us<W>,
          quantized_packed_inputs,
          packed_bytes,
          pack,
          workspace_bytes,
          run<W>};
}

constexpr Tactic kTactics[] = {
    row<Window<3, 1, 2>>("depthwise_nhwc_i8_vnni_w3_s1"),
    row<Window<3, 2, 1>>("depthwise_nhwc_i8_vnni_w3_s2"),
    row<Window<5, 1, 2>>("depthwise_nhwc_i8_vnni_w5_s1"),
    row<Window<5, 2, 1>>("depthwise_nhwc_i8_vnni_w5_s2"),
    row<Window<0, 0, 2>>("depthwise_nhwc_i8_vnni_2rows"),
    row<Window<0, 0, 1>>("depthwise_nhwc_i8_vnni"),
};

}  // namespace

std::span<const Tactic> depthwise_vnni_tactics() {
  return kTactics;
}
#else
std::span<const Tactic> depthwise_vnni_tactics() {
  return {};
}
#endif

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
