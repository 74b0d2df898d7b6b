// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/convolution/deconv_phases.h"

#include "kernels/vector/counts.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

// Output o gets tap t from input (o + crop - t * dilation) / stride. Dilation is 1 where stride is
// not.
Phase phase_of(int64_t phase, int64_t out, int64_t kernel, int64_t stride, int64_t dilation,
               int64_t crop) {
  Phase p;
  p.first_tap = phase;
  p.taps = phase < kernel ? (kernel - phase + stride - 1) / stride : 0;
  p.first_out = ((phase - crop) % stride + stride) % stride;
  p.outs = p.first_out < out ? (out - p.first_out + stride - 1) / stride : 0;
  const int64_t newest =
      (p.first_out + crop - phase) / stride;  // input of the first output's first tap
  p.pad = (p.taps - 1) * dilation - newest;
  return p;
}

int64_t floor_div(int64_t a, int64_t b) {
  return a >= 0 ? a / b : -((b - 1 - a) / b);
}

// What a step of `channels` output channels costs, in lanes. Folding K fills the lanes that few
// channels leave, at the price of sums across them: a quarter of a vector is what it comes to.
int64_t lanes_taken(int64_t channels) {
  constexpr int64_t kLeast = kLanes / 4 > 0 ? kLanes / 4 : 1;
  if (channels >= kLanes) return ceil_div(channels, kLanes) * kLanes;
  return channels > kLeast ? channels : kLeast;
}

// Whether every row has a multiple of the stride of outputs, whatever the input's width; `crop`:
// what is cut off before them.
bool has_whole_rows(const ir::ConvolutionAttrs& attrs, const ConvShape& s, int64_t& crop) {
  if (!attrs.output_shape.empty()) return false;
  const size_t last = attrs.stride.size() - 1;
  const auto at = [&](const ir::Ints& values) { return last < values.size() ? values[last] : 0; };
  const int64_t reach = s.kw + at(attrs.output_padding);
  if (attrs.padding_mode == ir::PaddingMode::kExplicit) {
    crop = at(attrs.pre_padding);
    return (reach - crop - at(attrs.post_padding)) % s.sw == 0;
  }
  const int64_t total = reach > s.sw ? reach - s.sw : 0;
  crop = attrs.padding_mode == ir::PaddingMode::kSameUpper ? total / 2 : total - total / 2;
  return reach >= s.sw;
}

void to_phase(TileSource& source, const ConvShape& s, const PhasePair& pair) {
  source.data += pair.h.first_out * source.row + pair.w.first_out * source.pixel;
  source.row *= s.sh;
  source.pixel *= s.sw;
}

}  // namespace

DeconvForm best_form(const ir::ConvolutionAttrs& attrs, const ConvShape& s) {
  DeconvForm form{s};
  int64_t crop = 0;
  if (s.sw <= 1 || s.dw != 1 || s.groups != 1 || !has_whole_rows(attrs, s, crop)) return form;
  const int64_t first = -floor_div(s.kw - 1 - crop, s.sw), last = floor_div(s.sw - 1 + crop, s.sw);
  form.joined = {crop, first, last - first + 1};
  form.joins_columns = form.joined.taps * lanes_taken(s.oc * s.sw) <= s.kw * lanes_taken(s.oc);
  return form;
}

PhasePair phase_pair(const DeconvForm& form, int64_t index) {
  const ConvShape& s = form.s;
  const int64_t column_phases = form.joins_columns ? 1 : s.sw;
  PhasePair pair{phase_of(index / column_phases, s.oh, s.kh, s.sh, s.dh, s.pad_top),
                 phase_of(index % column_phases, s.ow, s.kw, s.sw, s.dw, s.pad_left), s};
  if (form.joins_columns) {
    pair.w = {0, s.ow / s.sw, 0, form.joined.taps, -form.joined.first};
  }
  ConvShape& c = pair.shape;
  if (form.joins_columns) c.oc = s.oc * s.sw;
  c.oh = pair.h.outs;
  c.ow = pair.w.outs;
  c.kh = pair.h.taps;
  c.kw = pair.w.taps;
  c.sh = c.sw = 1;
  c.pad_top = pair.h.pad;
  c.pad_left = pair.w.pad;
  if (c.kh == 0 || c.kw == 0) c.kh = c.kw = 0;
  return pair;
}

ConvRun phase_run(const ConvRun& layer, const PhasePair& pair) {
  const ConvShape& s = layer.shape;
  ConvRun run = layer;
  run.shape = pair.shape;
  TileOutput& out = run.finish.out;
  out.data += pair.h.first_out * out.row + pair.w.first_out * out.pixel;
  out.row *= s.sh;
  out.pixel *= s.sw;
  for (int k = 0; k < run.finish.num_operands; ++k) to_phase(run.finish.operands[k], s, pair);
  return run;
}

PhaseOffsets phase_offsets(const TileFinish& layer, const TileFinish& phase) {
  PhaseOffsets offsets{phase.out.data - layer.out.data, {}};
  for (int k = 0; k < layer.num_operands; ++k)
    offsets.operands[k] = phase.operands[k].data - layer.operands[k].data;
  return offsets;
}

void shift_addresses(const PhaseOffsets& offsets, TileFinish& finish) {
  finish.out.data += offsets.out;
  for (int k = 0; k < finish.num_operands; ++k) finish.operands[k].data += offsets.operands[k];
}

std::string refuse_phases(const ConvShape& s) {
  return (s.sh > 1 && s.dh > 1) || (s.sw > 1 && s.dw > 1) ? "dilated and strided" : "";
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
