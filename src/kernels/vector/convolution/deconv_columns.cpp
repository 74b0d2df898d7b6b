// SPDX-License-Identifier: Apache-2.0
// Transposed convolution to few channels (the last layer of decoders), channel last: a product
// gives what every input pixel adds to all outputs it reaches, a column per tap and channel. A
// phase for itself has a column per channel alone, and leaves most of a vector empty. The columns
// of an input row, turned, are lines of pixels; a line is added to the outputs of its phase, and
// outputs of all phases are put together when a block of rows is there.
#include "kernels/conv_shape.h"
#include "kernels/nest.h"
#include "kernels/vector/convolution/conv_gemm.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/gemm/panel_product.h"
#include "kernels/vector/movement/transpose_tile.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/program/result_epilogue.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::deconv_columns {
namespace {

constexpr int64_t kMostChannels = kLanes / 2;

const ir::ConvolutionAttrs& attrs_of(const ir::Layer& layer) {
  return *std::get_if<ir::ConvolutionAttrs>(&layer.attrs);
}

bool shape_of(const Problem& p, ConvShape& shape) {
  return deconv_shape(attrs_of(*p.layer), p.inputs[0].extents, p.inputs[1].extents,
                      p.outputs[0].extents, shape);
}

int64_t columns_of(const ConvShape& s) {
  return s.oc * s.kh * s.kw;
}

// Input rows whose outputs are kept together. Neighbouring blocks both compute the rows between.
constexpr int64_t kBlockRows = 32;

std::string refusal(const Problem& p) {
  ConvShape s;
  if (std::string reason = refuse_conv(p, Numeric::kFloat, shape_of(p, s)); !reason.empty())
    return reason;
  if (s.groups != 1) return "groups";
  if (s.oc > kMostChannels) return "more than a few output channels";
  if (s.kh * s.kw == 1) return "a single tap";
  if (p.outputs[0].type != DataType::kFloat) return "not float";
  return refuse_result_epilogue(p, attrs_of(*p.layer).epilogue, kFirstConvOperand);
}

double product_us(const ConvShape& s) {
  const auto pixels = static_cast<double>(s.batch * s.ih * s.iw);
  const auto columns = static_cast<double>(round_up(columns_of(s), kLanes));
  return pixels * columns * (static_cast<double>(s.ic) / 100e3 + 0.0001);
}

double cost_us(const Problem& p) {
  ConvShape s;
  if (!shape_of(p, s)) return 1e12;
  return 0.5 + (product_us(s) + static_cast<double>(count_of(p.outputs[0])) * 0.0007) / p.threads;
}

// --- packed: the bias of kMostChannels, then the panels; a column is (row of the filter, column,
// channel)

Panels panels_of(const ConvShape& s) {
  return Panels(columns_of(s), s.ic, kMaxVecs < 4 ? kMaxVecs : 4);
}

size_t packed_bytes(const Problem& p) {
  ConvShape s;
  if (!shape_of(p, s)) return 0;
  return static_cast<size_t>((kMostChannels + panels_of(s).lanes()) * kLaneBytes);
}

void pack(const Problem& p, std::byte* packed) {
  ConvShape s;
  if (!shape_of(p, s)) return;
  float* to = reinterpret_cast<float*>(packed);
  const float* bias = has_bias(p) ? constant_floats(p.inputs[2]) : nullptr;
  for (int64_t c = 0; c < kMostChannels; ++c) to[c] = bias != nullptr && c < s.oc ? bias[c] : 0;
  to += kMostChannels;
  const Panels panels = panels_of(s);
  const float* weights = constant_floats(p.inputs[1]);  // [ic][oc][kh][kw]
  const int64_t taps = s.kh * s.kw;
  for (int64_t panel = 0; panel < panels.count(); ++panel) {
    const int64_t width = panels.vecs_of(panel) * kLanes, first = panels.first_col(panel);
    for (int64_t k = 0; k < s.ic; ++k)
      for (int64_t n = 0; n < width; ++n) {
        const int64_t column = first + n, c = column % s.oc, tap = column / s.oc;
        *to++ = column < panels.n ? weights[(k * s.oc + c) * taps + tap] : 0;
      }
  }
}

// --- one block of output rows

// Where lines of a tap go along a row: outputs phase + q * stride get line[q + offset] for q in
// [first, last).
struct LinePlace {
  int64_t phase, offset, first, last;
};

LinePlace place_of(const ConvShape& s, int64_t tap) {
  const int64_t reach = s.pad_left - tap * s.dw;  // input w reaches output w * stride - reach
  const int64_t phase = (-reach % s.sw + s.sw) % s.sw, offset = (phase + reach) / s.sw,
                outs = ceil_div(s.ow - phase, s.sw);
  return {phase, offset, larger(0, -offset), smaller(outs, s.iw - offset)};
}

struct DeconvColumns {
  ConvShape s;
  TensorView x, y;
  Panels panels{1, 1, 1};
  const LinePlace* places = nullptr;  // of the columns of the filter
  ResultEpilogue epilogue;
  int64_t blocks, block_rows;           // of an image; output rows of a block
  int64_t cuts, cut_pixels;             // of a row of images of one row; of a phase
  int64_t line, phase_line;             // floats of a line of columns, of a phase of a row
  int64_t columns_floats, sums_floats;  // of a worker
  double predicted_us;

  int64_t phase_rows() const { return s.sw * s.oc; }  // lines of an output row
};

// Output rows [first, last) of image n, of them pixels [q, q_end) of every phase.
struct Block {
  int64_t n, first, last, q, q_end;
};

// The input pixels [from, end) that reach a block's.
struct Pixels {
  int64_t from, end;
};
Pixels pixels_of(const DeconvColumns& d, const Block& b) {
  if (d.cuts == 1) return {0, d.s.iw};
  Pixels pixels{d.s.iw, 0};
  for (int64_t kw = 0; kw < d.s.kw; ++kw) {
    const LinePlace& at = d.places[kw];
    const int64_t first = larger(b.q, at.first), last = smaller(b.q_end, at.last);
    if (first >= last) continue;
    pixels.from = smaller(pixels.from, first + at.offset);
    pixels.end = larger(pixels.end, last + at.offset);
  }
  return pixels;
}

// Adds the turned columns of input row `ih` from pixel `from` on to the block's sums, which lie as
// [row][phase][channel][phase_line].
void add_lines(const DeconvColumns& d, const float* lines, int64_t ih, const Block& b, int64_t from,
               float* sums) {
  const ConvShape& s = d.s;
  for (int64_t kh = 0; kh < s.kh; ++kh) {
    const int64_t row = ih * s.sh - s.pad_top + kh * s.dh;
    if (row < b.first || row >= b.last) continue;
    for (int64_t kw = 0; kw < s.kw; ++kw) {
      const LinePlace& at = d.places[kw];
      for (int64_t c = 0; c < s.oc; ++c) {
        const float* line = lines + ((kh * s.kw + kw) * s.oc + c) * d.line + at.offset - from;
        float* sum = sums + (((row - b.first) * s.sw + at.phase) * s.oc + c) * d.phase_line;
        const int64_t last = smaller(b.q_end, at.last);
        for (int64_t q = larger(b.q, at.first); q < last; ++q) sum[q - b.q] += line[q];
      }
    }
  }
}

// Pixels of the phases side by side.
void store_rows(const DeconvColumns& d, const float* sums, const Block& b, float* y) {
  const ConvShape& s = d.s;
  const int64_t row_step = d.y.rank == 4 ? d.y.strides[2] : 0, step = d.y.strides[d.y.rank - 1];
  for (int64_t row = b.first; row < b.last; ++row)
    for (int64_t phase = 0; phase < smaller(s.sw, s.ow); ++phase)
      for (int64_t c = 0; c < s.oc; ++c) {
        const float* from = sums + (((row - b.first) * s.sw + phase) * s.oc + c) * d.phase_line;
        float* to = y + b.n * d.y.strides[0] + row * row_step + phase * step + c * d.y.strides[1];
        const int64_t outs = ceil_div(s.ow - phase, s.sw), apart = s.sw * step;
        const int64_t end = smaller(b.q_end, outs);
        for (int64_t q = b.q; q < end; ++q) to[q * apart] = from[q - b.q];
      }
}

Block block_of(const DeconvColumns& d, int64_t block) {
  const int64_t cut = block % d.cuts, rows = block / d.cuts, first = rows % d.blocks * d.block_rows,
                q = cut * d.cut_pixels;
  return {rows / d.blocks, first, smaller(first + d.block_rows, d.s.oh), q, q + d.cut_pixels};
}

void run_block(const DeconvColumns& d, const KernelCall& call, int64_t block, float* columns) {
  const ConvShape& s = d.s;
  float *lines = columns + s.iw * d.panels.padded_n(), *sums = columns + d.columns_floats;
  const Block b = block_of(d, block);
  const Pixels pixels = pixels_of(d, b);
  const auto* bias = reinterpret_cast<const float*>(call.packed);
  for (int64_t k = 0; k < (b.last - b.first) * d.phase_rows(); ++k)
    for (int64_t q = 0; q < d.phase_line; ++q) sums[k * d.phase_line + q] = bias[k % s.oc];
  const int64_t reach = (s.kh - 1) * s.dh,
                from = larger(0, ceil_div(b.first + s.pad_top - reach, s.sh)),
                end = smaller(s.ih, ceil_div(b.last + s.pad_top, s.sh));
  const int64_t x_row = d.x.rank == 4 ? d.x.strides[2] : 0, x_pixel = d.x.strides[d.x.rank - 1],
                count = pixels.end - pixels.from;
  for (int64_t ih = from; ih < end && count > 0; ++ih) {
    const float* x =
        call.input<const float>(0) + b.n * d.x.strides[0] + ih * x_row + pixels.from * x_pixel;
    multiply_panels(
        {d.panels, bias + kMostChannels, nullptr, x, x_pixel, columns, d.panels.padded_n(), false},
        count, 0, d.panels.count());
    transpose_block(columns, d.panels.padded_n(), lines, d.line, count, columns_of(s));
    add_lines(d, lines, ih, b, pixels.from, sums);
  }
  float* y = call.output<float>(0);
  store_rows(d, sums, b, y);
  if (d.epilogue.present)
    run_unit_epilogue(d.epilogue, call, y, 0, b.n * s.oh + b.first, b.n * s.oh + b.last);
}

void run(DeconvColumns& d, const KernelCall& call) {
  float* workspace = reinterpret_cast<float*>(call.workspace);
  split(call.pool, d.s.batch * d.blocks * d.cuts, d.predicted_us,
        [&](int worker, int64_t first, int64_t last) {
          float* own = workspace + worker * (d.columns_floats + d.sums_floats);
          for (int64_t block = first; block < last; ++block) run_block(d, call, block, own);
        });
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const auto extents = [](const TensorView& view) {
    return std::span<const int64_t>(view.extents, static_cast<size_t>(view.rank));
  };
  const ir::ConvolutionAttrs& attrs = attrs_of(*args.layer);
  DeconvColumns d;
  if (!deconv_shape(attrs, extents(args.inputs[0]), extents(args.inputs[1]),
                    extents(args.outputs[0]), d.s))
    return;
  const ConvShape& s = d.s;
  d.x = args.inputs[0], d.y = args.outputs[0];
  d.panels = panels_of(s);
  LinePlace* places = keep_array<LinePlace>(kernel, s.kw);
  for (int64_t kw = 0; kw < s.kw; ++kw) places[kw] = place_of(s, kw);
  d.places = places;
  constexpr int kFlat[] = {0, 2, 1}, kImage[] = {0, 2, 3, 1};
  const bool flat = d.y.rank == 3;
  d.epilogue = make_unit_epilogue(attrs.epilogue, args, kFirstConvOperand, args.outputs[0],
                                  flat ? kFlat : kImage, flat ? 1 : 2);
  // Every output adds up its taps in the same order, whatever rows are together: blocks may hang on
  // the number of threads.
  d.blocks = larger(ceil_div(s.oh, kBlockRows * s.sh), ceil_div(threads_of(args), s.batch));
  d.block_rows = ceil_div(s.oh, d.blocks);
  d.blocks = ceil_div(s.oh, d.block_rows);
  // What follows takes whole rows.
  const int64_t phase = ceil_div(s.ow, s.sw), shares = ceil_div(threads_of(args), s.batch);
  const bool may_cut = s.oh == 1 && shares > 1 && !d.epilogue.present;
  d.cut_pixels = may_cut ? larger(kLanes, ceil_div(phase, shares)) : phase;
  d.cuts = ceil_div(phase, d.cut_pixels);
  d.line = round_up(s.iw, kLanes);
  d.phase_line = round_up(phase, kLanes);
  d.columns_floats = s.iw * d.panels.padded_n() + columns_of(s) * d.line;
  d.columns_floats = round_up(d.columns_floats, 16);
  d.sums_floats = d.block_rows * d.phase_rows() * d.phase_line;
  d.predicted_us = product_us(s) + static_cast<double>(count_of(args.outputs[0])) * 0.0007;
  kernel.workspace_bytes = static_cast<size_t>(threads_of(args) * kLaneBytes) *
                           static_cast<size_t>(d.columns_floats + d.sums_floats);
  keep_state<run>(kernel, d);
}

constexpr Tactic kTactics[] = {
    {"deconv_columns_nhwc_f32", ir::LayerKind::kDeconvolution, kIsa, FormatRule::kChannelLast, 1,
     refusal, cost_us, packed_conv_inputs, packed_bytes, pack, prepare},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::deconv_columns
