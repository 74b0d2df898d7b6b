// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/convolution/conv_tables.h"

#include "kernels/vector/counts.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

// First position ≥ 0 whose input position * stride - pad + tap * dilation is ≥ 0.
int64_t first_inside(int64_t pad, int64_t offset, int64_t stride) {
  return pad > offset ? ceil_div(pad - offset, stride) : 0;
}

// One past the last position < out whose input position * stride - pad + offset is < in.
int64_t end_inside(int64_t in, int64_t pad, int64_t offset, int64_t stride, int64_t out) {
  const int64_t last = in - 1 + pad - offset;
  return last < 0 ? 0 : smaller(out, last / stride + 1);
}

// Cuts a row of outputs where the set of taps inside the image changes.
int64_t make_zones(const ConvShape& s, ConvZone* zones) {
  int64_t count = 0;
  for (int64_t col = 0; col < s.ow;) {
    ConvZone zone{col, s.ow, s.kw, 0};
    for (int64_t kw = 0; kw < s.kw; ++kw) {
      const int64_t from = first_inside(s.pad_left, kw * s.dw, s.sw);
      const int64_t to = end_inside(s.iw, s.pad_left, kw * s.dw, s.sw, s.ow);
      if (from <= col && col < to) {
        zone.first_tap = smaller(zone.first_tap, kw);
        zone.last_tap = kw + 1;
      }
      if (from > col) zone.end = smaller(zone.end, from);
      if (to > col) zone.end = smaller(zone.end, to);
    }
    zones[count++] = zone;
    col = zone.end;
  }
  return count;
}

// From the first step of a kernel row to each of its steps, in bytes of A.
void list_step_offsets(const ConvRun& run, int32_t* offsets) {
  const ConvShape& s = run.shape;
  const ConvRuns runs = conv_runs(s, run.tile.numeric, run.tile.fold);
  const bool by_tap =
      run.tile.is_sparse() || taps_join(s, run.tile.numeric, run.tile.fold) || runs.runs > 1;
  const int64_t steps = run.plan.k.spans.steps, elements = run.tile.step_elements();
  const int64_t tap = by_tap ? ceil_div(s.group_ic(), elements) : steps;
  for (int64_t kw = 0, step = 0; step < steps; ++kw)
    for (int64_t k = 0; k < tap; ++k)
      offsets[step++] =
          static_cast<int32_t>(kw * s.dw * run.plan.a.pixel + k * elements * run.tile.element());
}

}  // namespace

void make_tables(ConvRun& run, std::byte* memory) {
  if (run.plan.k.chained()) {
    run.tables.step_offsets = reinterpret_cast<int32_t*>(memory);
    list_step_offsets(run, run.tables.step_offsets);
  }
  run.tables.zones = reinterpret_cast<ConvZone*>(memory);
  if (run.plan.a.zoned()) run.tables.num_zones = make_zones(run.shape, run.tables.zones);
}

void keep_tables(ConvRun& run, PreparedKernel& kernel) {
  if (run.plan.bytes.tables == 0) return;
  make_tables(run, kernel.allocate(static_cast<size_t>(run.plan.bytes.tables)));
  run.tables.kept = true;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
