// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/matmul_run.h"

#include "kernels/vector/program_tile.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

constexpr size_t kFirstOperand = 3;  // after a, b, bias

const ir::MatrixMultiplyAttrs& attrs_of(const Problem& problem) {
  return problem.layer->as<ir::MatrixMultiplyAttrs>();
}

// Stride of the dimension `back` from the last; 0 where the tensor has none or is broadcast along
// it.
int64_t stride_at(const TensorView& view, int back) {
  if (view.rank <= back) return 0;
  const int dim = view.rank - 1 - back;
  return view.extents[dim] == 1 ? 0 : view.strides[dim];
}

int64_t extent_at(const TensorView& view, int back) {
  return view.rank > back ? view.extents[view.rank - 1 - back] : 1;
}

// A stride of a dimension of extent 1 never matters: 1 lets fast paths see it as contiguous.
int64_t inner_stride(const TensorView& view, int back) {
  return extent_at(view, back) == 1 ? 1 : view.strides[view.rank - 1 - back];
}

// Where item `outer` of the dimensions of `output` before its last four starts in `view`.
int64_t outer_offset(const TensorView& view, const TensorView& output, int64_t outer) {
  int64_t offset = 0;
  for (int back = 4; back < output.rank; ++back) {
    const int64_t extent = extent_at(output, back);
    offset += outer % extent * stride_at(view, back);
    outer /= extent;
  }
  return offset;
}

}  // namespace

bool matmul_extents(const Problem& problem, int64_t& m, int64_t& n, int64_t& k) {
  const ir::Extents &a = problem.inputs[0].extents, &b = problem.inputs[1].extents,
                    &y = problem.outputs[0].extents;
  if (a.size() < 2 || b.size() < 2 || y.size() < 2) return false;
  m = y[y.size() - 2];
  n = y[y.size() - 1];
  k = attrs_of(problem).transpose_a ? a[a.size() - 2] : a[a.size() - 1];
  return true;
}

double matmul_batch(const Problem& problem) {
  const ir::Extents& y = problem.outputs[0].extents;
  double batch = 1;
  for (size_t d = 0; d + 2 < y.size(); ++d) batch *= static_cast<double>(y[d]);
  return batch;
}

void set_matmul(const KernelArgs& args, MatmulRun& run) {
  const ir::MatrixMultiplyAttrs& attrs = args.layer->as<ir::MatrixMultiplyAttrs>();
  const TensorView &a = args.inputs[0], &b = args.inputs[1], &y = args.outputs[0];
  run.m = extent_at(y, 1);
  run.n = extent_at(y, 0);
  run.k = extent_at(a, attrs.transpose_a ? 1 : 0);
  run.rows = extent_at(y, 2);
  run.images = extent_at(y, 3);
  run.outer = 1;
  for (int back = 4; back < y.rank; ++back) run.outer *= extent_at(y, back);
  run.a = {.data = a.as<const float>(),
           .image = stride_at(a, 3),
           .row = stride_at(a, 2),
           .m = inner_stride(a, attrs.transpose_a ? 0 : 1),
           .n = 0,
           .k = inner_stride(a, attrs.transpose_a ? 1 : 0)};
  run.b = {.data = b.as<const float>(),
           .image = stride_at(b, 3),
           .row = stride_at(b, 2),
           .m = 0,
           .n = inner_stride(b, attrs.transpose_b ? 1 : 0),
           .k = inner_stride(b, attrs.transpose_b ? 0 : 1)};
  run.alpha = attrs.alpha;
  run.finish.out = {y.as<float>(), stride_at(y, 3), stride_at(y, 2), inner_stride(y, 1)};
  set_epilogue(attrs.epilogue, args.inputs, kFirstOperand, y, matrix_source, run.finish);
}

void move_outer(const KernelArgs& args, int64_t outer, MatmulRun& run) {
  const TensorView& y = args.outputs[0];
  run.a.data = args.inputs[0].as<const float>() + outer_offset(args.inputs[0], y, outer);
  if (run.b.data)
    run.b.data = args.inputs[1].as<const float>() + outer_offset(args.inputs[1], y, outer);
  run.finish.out.data = y.as<float>() + outer_offset(y, y, outer);
  if (run.finish.has_initial)
    run.finish.initial.data =
        args.inputs[2].as<const float>() + outer_offset(args.inputs[2], y, outer);
  for (int k = 0; k < run.finish.num_operands; ++k) {
    const TensorView& operand = args.inputs[kFirstOperand + static_cast<size_t>(k)];
    run.finish.operands[k].data = operand.as<const float>() + outer_offset(operand, y, outer);
  }
}

std::string refuse_matmul(const Problem& problem) {
  int64_t m, n, k;
  for (size_t input = 0; input < 2; ++input)
    if (problem.inputs[input].type != DataType::kFloat) return "not float";
  if (problem.outputs[0].type != DataType::kFloat) return "not float";
  if (!matmul_extents(problem, m, n, k)) return "a vector or a scalar";
  if (problem.inputs.size() > 2 && problem.inputs[2].present &&
      problem.inputs[2].type != DataType::kFloat)
    return "the bias is not float";
  if (problem.inputs.size() > kFirstOperand + kMaxOperands) return "too many epilogue operands";
  if (!program_fits(attrs_of(problem).epilogue)) return "the epilogue is too long";
  return refuse_operands(problem, kFirstOperand);
}

bool has_packed_bias(const Problem& problem) {
  if (problem.inputs.size() < 3 || !problem.inputs[2].present || !problem.inputs[2].constant)
    return false;
  const ir::Extents& bias = problem.inputs[2].extents;
  const ir::Extents& y = problem.outputs[0].extents;
  for (size_t d = 0; d + 1 < bias.size(); ++d)
    if (bias[d] != 1) return false;
  return bias.empty() || bias[bias.size() - 1] == y[y.size() - 1] || bias[bias.size() - 1] == 1;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
