// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/convolution/deconv_phases.h"

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

void to_phase(TileSource& source, const ConvShape& s, const PhasePair& pair) {
  source.data += pair.h.first_out * source.row + pair.w.first_out * source.pixel;
  source.row *= s.sh;
  source.pixel *= s.sw;
}

}  // namespace

PhasePair phase_pair(const DeconvForm& form, int64_t index) {
  const ConvShape& s = form.s;
  const int64_t column_phases = form.joins_columns ? 1 : s.sw;
  PhasePair pair{phase_of(index / column_phases, s.oh, s.kh, s.sh, s.dh, s.pad_top),
                 phase_of(index % column_phases, s.ow, s.kw, s.sw, s.dw, s.pad_left), s};
  if (form.joins_columns) pair.w = {0, s.iw, 0, 1, 0};
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
