// SPDX-License-Identifier: Apache-2.0
// What the dense convolution tactics share around conv_gemm: packing, refusals, tensors.
#include "kernels/vector/conv_gemm.h"
#include "kernels/vector/program_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

Filter conv_filter(const ConvShape& s, const float* weights) {
  const int64_t taps = s.kh * s.kw, filter = s.group_ic() * taps;
  return {weights, s.group_oc() * filter, filter, taps, s.kw, 1};
}

int64_t packed_bias_floats(const ConvShape& s) {
  return s.groups * Panels(s.group_oc(), 0, 1).padded_n();
}

int64_t packed_filter_floats(const ConvShape& s) {
  return s.groups * Panels(s.group_oc(), s.kh * s.kw * s.group_ic(), 1).floats();
}

void pack_bias(const ConvShape& s, const float* bias, float* packed) {
  const int64_t n = s.group_oc(), padded = Panels(n, 0, 1).padded_n();
  for (int64_t group = 0; group < s.groups; ++group)
    for (int64_t c = 0; c < padded; ++c)
      packed[group * padded + c] = bias && c < n ? bias[group * n + c] : 0;
}

void pack_filter(const ConvShape& s, const Filter& f, int max_vecs, float* packed) {
  const Panels panels(s.group_oc(), s.kh * s.kw * s.group_ic(), max_vecs);
  for (int64_t group = 0; group < s.groups; ++group)
    for (int64_t panel = 0; panel < panels.count(); ++panel) {
      const int64_t width = panels.vecs_of(panel) * kLanes, cols = panels.cols_of(panel);
      const float* from = f.data + group * f.group + panels.first_col(panel) * f.n;
      float* to = packed + group * panels.floats() + panels.offset(panel);
      for (int64_t kh = 0; kh < s.kh; ++kh)
        for (int64_t kw = 0; kw < s.kw; ++kw)
          for (int64_t c = 0; c < s.group_ic(); ++c, to += width)
            for (int64_t col = 0; col < width; ++col)
              to[col] = col < cols ? from[col * f.n + c * f.c + kh * f.h + kw * f.w] : 0;
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
