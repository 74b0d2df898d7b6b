// SPDX-License-Identifier: Apache-2.0
// What the dense convolution tactics share around conv_gemm: packing, refusals, tensors.
#include "kernels/vector/conv_gemm.h"
#include "kernels/vector/gemm_cost.h"
#include "kernels/vector/gemm_fold.h"
#include "kernels/vector/program_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

Filter conv_filter(const ConvShape& s, const float* weights) {
  const int64_t taps = s.kh * s.kw, filter = s.group_ic() * taps;
  return {weights, s.group_oc() * filter, filter, taps, s.kw, 1};
}

ConvRuns conv_runs(const ConvShape& s, int fold) {
  const bool whole_rows = s.dw == 1 && s.groups == 1;
  const int64_t runs = whole_rows ? 1 : s.kw, length = whole_rows ? s.kw * s.ic : s.group_ic();
  return {runs, length, folded_rows(length, fold)};
}

Panels conv_panels(const ConvShape& s, int max_vecs, int fold) {
  const ConvRuns runs = conv_runs(s, fold);
  return Panels(s.group_oc(), s.kh * runs.runs * runs.rows, max_vecs, fold);
}

namespace {

int64_t lanes_for(int64_t channels, int64_t unit) {
  return (channels + unit - 1) / unit * unit;
}

}  // namespace

bool folding_helps(const ConvShape& s, int fold) {
  const int64_t unit = kLanes / fold, n = s.group_oc();
  const int64_t most = (fold > 4 ? 1 : 2 * kMaxFoldVecs) * unit;
  return lanes_for(n, unit) < lanes_for(n, 2 * unit) && n <= most &&
         conv_runs(s, fold).length >= fold;
}

int tile_vecs(const ConvShape& s, int most, int fold) {
  if (fold == 1) return most;
  const int64_t unit = kLanes / fold, wanted = (s.group_oc() + unit - 1) / unit,
                limit = fold > 4 ? 1 : kMaxFoldVecs;
  return static_cast<int>(wanted < limit ? wanted : limit);
}

double conv_tiles_us(const ConvShape& s, int64_t rows, int64_t strip, int max_vecs, int fold) {
  const int vecs = tile_vecs(s, max_vecs, fold);
  const Panels panels = conv_panels(s, vecs, fold);
  const int64_t lanes = panels.k == 0 ? kLanes : panels.floats() / panels.k;
  double us = tile_cost_us(rows, strip, lanes, panels.k, vecs);
  if (fold > 1)  // the lanes of a column are added, results stored one row at a time
    us += static_cast<double>(rows * strip) * (6 + 3 * static_cast<double>(lanes / kLanes)) / 4000;
  return us * static_cast<double>(s.groups);
}

int64_t group_bias_floats(const ConvShape& s) {
  return Panels(s.group_oc(), 0, 1).padded_n();
}

int64_t packed_bias_floats(const ConvShape& s) {
  return s.groups * group_bias_floats(s);
}

int64_t packed_filter_floats(const ConvShape& s, int fold) {
  return s.groups * conv_panels(s, 1, fold).floats();
}

void pack_bias(const ConvShape& s, const float* bias, float* packed) {
  const int64_t n = s.group_oc(), padded = group_bias_floats(s);
  for (int64_t group = 0; group < s.groups; ++group)
    for (int64_t c = 0; c < padded; ++c)
      packed[group * padded + c] = bias && c < n ? bias[group * n + c] : 0;
}

namespace {

// One packed row: steps [k, k + count) of a run, for `cols` columns of `fold` lanes; the other
// lanes are 0.
struct PackedRow {
  const ConvShape& s;
  const Filter& f;
  int64_t fold, width, cols;

  void fill(const float* filter, int64_t first_tap, int64_t k, int64_t count, float* to) const {
    for (int64_t lane = 0; lane < width; ++lane) to[lane] = 0;
    for (int64_t col = 0; col < cols; ++col)
      for (int64_t step = 0; step < count; ++step) {
        const int64_t kw = first_tap + (k + step) / s.group_ic(), c = (k + step) % s.group_ic();
        to[col * fold + step] = filter[col * f.n + c * f.c + kw * f.w];
      }
  }
};

}  // namespace

namespace {

// Reads every filter once, in its order; a packed row is written whole.
void pack_unfolded(const ConvShape& s, const Filter& f, const float* from, int64_t width,
                   int64_t cols, float* to) {
  const int64_t ic = s.group_ic();
  for (int64_t c = 0; c < ic; ++c)
    for (int64_t kh = 0; kh < s.kh; ++kh)
      for (int64_t kw = 0; kw < s.kw; ++kw) {
        const float* filter = from + c * f.c + kh * f.h + kw * f.w;
        float* row = to + ((kh * s.kw + kw) * ic + c) * width;
        for (int64_t col = 0; col < cols; ++col) row[col] = filter[col * f.n];
        for (int64_t col = cols; col < width; ++col) row[col] = 0;
      }
}

}  // namespace

void pack_filter(const ConvShape& s, const Filter& f, int max_vecs, int fold, float* packed) {
  const ConvRuns runs = conv_runs(s, fold);
  const Panels panels = conv_panels(s, max_vecs, fold);
  for (int64_t group = 0; group < s.groups; ++group)
    for (int64_t panel = 0; panel < panels.count(); ++panel) {
      const PackedRow row{s, f, fold, panels.vecs_of(panel) * kLanes, panels.cols_of(panel)};
      const float* from = f.data + group * f.group + panels.first_col(panel) * f.n;
      float* to = packed + group * panels.floats() + panels.offset(panel);
      if (fold == 1) {
        pack_unfolded(s, f, from, row.width, row.cols, to);
        continue;
      }
      for (int64_t kh = 0; kh < s.kh; ++kh)
        for (int64_t run = 0; run < runs.runs; ++run)
          for (int64_t k = 0; k < runs.length; to += row.width) {
            const int64_t count = k + fold <= runs.length ? fold : 1;
            row.fill(from + kh * f.h, run, k, count, to);
            k += count;
          }
    }
}

std::string refuse_conv(const Problem& problem, bool has_shape) {
  const ProblemTensor &x = problem.inputs[0], &w = problem.inputs[1], &y = problem.outputs[0];
  if (x.type != DataType::kFloat || y.type != DataType::kFloat) return "not float";
  if (w.type != DataType::kFloat) return "weights are not float";
  if (!w.constant) return "weights are not constant";
  if (has_bias(problem) &&
      (!problem.inputs[2].constant || problem.inputs[2].type != DataType::kFloat))
    return "the bias is not a float constant";
  if (!has_shape) return "not 1-D or 2-D";
  if (problem.inputs.size() > kFirstConvOperand + kMaxOperands) return "too many epilogue operands";
  if (!program_fits(problem.layer->as<ir::ConvolutionAttrs>().epilogue))
    return "the epilogue is too long";
  return refuse_operands(problem, kFirstConvOperand);
}

uint32_t packed_conv_inputs(const Problem& problem) {
  return has_bias(problem) ? 6u : 2u;
}

void set_conv_tensors(const KernelArgs& args, ConvRun& run) {
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const int last = x.rank - 1;
  run.x = x.as<const float>();
  run.x_image = x.strides[0];
  run.x_channel = x.extents[1] == 1 ? 1 : x.strides[1];
  run.x_pixel = x.strides[last];
  run.x_row = x.rank == 4 ? x.strides[2] : x.extents[last] * x.strides[last];
  run.finish =
      tile_finish(args, args.layer->as<ir::ConvolutionAttrs>().epilogue, kFirstConvOperand);
  run.finish.out = {y.as<float>(), y.strides[0],
                    y.rank == 4 ? y.strides[2] : y.extents[last] * y.strides[last],
                    y.strides[last]};
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
