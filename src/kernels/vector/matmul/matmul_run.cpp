// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/matmul/matmul_run.h"

#include "kernels/vector/program/program_tile.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

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

// Where item `outer` of the dimensions of `output` before its last `inner` starts in `view`.
int64_t outer_offset(const TensorView& view, const TensorView& output, int inner, int64_t outer) {
  int64_t offset = 0;
  for (int back = inner; back < output.rank; ++back) {
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
  k = attrs_of(problem).transpose_b ? b[b.size() - 1] : b[b.size() - 2];
  return k == (attrs_of(problem).transpose_a ? a[a.size() - 2] : a[a.size() - 1]);
}

double matmul_batch(const Problem& problem) {
  const ir::Extents& y = problem.outputs[0].extents;
  double batch = 1;
  for (size_t d = 0; d + 2 < y.size(); ++d) batch *= static_cast<double>(y[d]);
  return batch;
}

int64_t matrices_of(std::span<const int64_t> extents) {
  int64_t matrices = 1;
  for (size_t d = 0; d + 2 < extents.size(); ++d) matrices *= extents[d];
  return matrices;
}

int64_t matrices_of(const TensorView& b) {
  return matrices_of({b.extents, static_cast<size_t>(b.rank)});
}

void set_result(const KernelArgs& args, const ir::Program& epilogue, const std::byte* packed,
                MatmulRun& run) {
  const TensorView& y = args.outputs[0];
  run.m = extent_at(y, 1);
  run.n = extent_at(y, 0);
  run.rows = run.inner > 2 ? extent_at(y, 2) : 1;
  run.images = run.inner > 2 ? extent_at(y, 3) : 1;
  run.outer = 1;
  for (int back = run.inner; back < y.rank; ++back) run.outer *= extent_at(y, back);
  set_epilogue(epilogue, args.inputs, kFirstMatmulOperand, y, matrix_source, packed, run.finish);
  TileOutput& out = run.finish.out;
  out.data = y.as<std::byte>();
  out.image = stride_at(y, 3) * out.channel();
  out.row = stride_at(y, 2) * out.channel();
  out.pixel = inner_stride(y, 1) * out.channel();
}

Factor left_factor(const TensorView& a, bool transposed) {
  const int64_t size = bytes_of(a.type);
  return {.data = a.as<const std::byte>(),
          .image = stride_at(a, 3) * size,
          .row = stride_at(a, 2) * size,
          .m = inner_stride(a, transposed ? 0 : 1) * size,
          .n = 0,
          .k = inner_stride(a, transposed ? 1 : 0) * size};
}

void set_matmul(const KernelArgs& args, const std::byte* packed, MatmulRun& run) {
  const ir::MatrixMultiplyAttrs& attrs = args.layer->as<ir::MatrixMultiplyAttrs>();
  const TensorView &a = args.inputs[0], &b = args.inputs[1];
  set_result(args, attrs.epilogue, packed, run);
  run.k = extent_at(a, attrs.transpose_a ? 1 : 0);
  const int64_t size = bytes_of(b.type);
  run.a = left_factor(a, attrs.transpose_a);
  run.b = {.data = b.as<const std::byte>(),
           .image = stride_at(b, 3) * size,
           .row = stride_at(b, 2) * size,
           .m = 0,
           .n = inner_stride(b, attrs.transpose_b ? 1 : 0) * size,
           .k = inner_stride(b, attrs.transpose_b ? 0 : 1) * size};
  run.alpha = attrs.alpha;
}

void set_conv(const KernelArgs& args, const MatmulRun& matmul, ConvRun& run) {
  run.shape = {.batch = matmul.images,
               .ic = matmul.k,
               .ih = matmul.rows,
               .iw = matmul.m,
               .oc = matmul.n,
               .oh = matmul.rows,
               .ow = matmul.m};
  run.x.data = matmul.a.data;
  run.x.image = matmul.a.image;
  run.x.row = matmul.a.row;
  run.x.pixel = matmul.a.m;
  run.x.channel = matmul.a.k;
  run.x.type = args.inputs[0].type;
  run.finish = matmul.finish;
}

void move_outer(const KernelArgs& args, int64_t outer, MatmulRun& run) {
  const TensorView& y = args.outputs[0];
  const auto moved = [&](const TensorView& view, int64_t size) {
    return view.as<const std::byte>() + outer_offset(view, y, run.inner, outer) * size;
  };
  run.a.data = moved(args.inputs[0], bytes_of(args.inputs[0].type));
  if (run.b.data) run.b.data = moved(args.inputs[1], bytes_of(args.inputs[1].type));
  run.finish.out.data =
      y.as<std::byte>() + outer_offset(y, y, run.inner, outer) * run.finish.out.channel();
  if (run.finish.has_initial) run.finish.initial.data = moved(args.inputs[2], 4);
  for (int k = 0; k < run.finish.num_operands; ++k) {
    const TensorView& operand = args.inputs[kFirstMatmulOperand + static_cast<size_t>(k)];
    if (operand.data)
      run.finish.operands[k].data = moved(operand, run.finish.operands[k].element());
  }
}

int64_t matrix_of(const KernelArgs& args, int64_t outer) {
  const TensorView &b = args.inputs[1], &y = args.outputs[0];
  int64_t matrix = 0, pitch = 1;
  for (int back = 2; back < y.rank; ++back) {
    const int64_t extent = extent_at(y, back), own = extent_at(b, back);
    if (own > 1) matrix += outer % extent * pitch;
    pitch *= own;
    outer /= extent;
  }
  return matrix;
}

void set_addresses(const KernelCall& call, MatmulRun& run) {
  run.a.data = call.input<const std::byte>(0);
  run.b.data = call.input<const std::byte>(1);
  set_addresses(call, kFirstMatmulOperand, run.finish);
}

namespace {

// Batches of A with one B are one matrix when their rows lie evenly.
void merge_batches(MatmulRun& run) {
  const auto joins = [&run](const TileSource& t) { return t.row == run.m * t.pixel; };
  if (run.rows == 1 || run.b.row != 0 || run.a.row != run.m * run.a.m ||
      run.finish.out.row != run.m * run.finish.out.pixel)
    return;
  for (int k = 0; k < run.finish.num_operands; ++k)
    if (!joins(run.finish.operands[k])) return;
  if (run.finish.has_initial && !joins(run.finish.initial)) return;
  run.m *= run.rows;
  run.rows = 1;
}

}  // namespace

MatmulRun dynamic_product(const KernelArgs& args) {
  MatmulRun run;
  set_matmul(args, nullptr, run);
  if (args.inputs.size() > 2 && args.inputs[2].present()) {
    run.finish.has_initial = true;
    run.finish.initial = matrix_source(args.inputs[2], args.outputs[0]);
  }
  merge_batches(run);
  return run;
}

double macs_of(const MatmulRun& run) {
  return static_cast<double>(run.images * run.rows * run.m) * static_cast<double>(run.n * run.k);
}

OuterItems outer_items(const KernelArgs& args, const MatmulRun& run, PreparedKernel& kernel) {
  OuterItems items{run.outer};
  if (run.outer > 1) items.views = keep_views(args, kernel);
  return items;
}

namespace {

const char* refuse_types(const Problem& problem, Numeric numeric) {
  const DataType a = problem.inputs[0].type, b = problem.inputs[1].type,
                 y = problem.outputs[0].type;
  const auto fits = [](DataType t) { return t == DataType::kFloat || t == DataType::kBFloat16; };
  if (numeric == Numeric::kBf16) {
    if (!fits(a) || !fits(y)) return "neither float nor bfloat16";
    return b == DataType::kFloat ? nullptr : "the right factor is not float";
  }
  if (numeric == Numeric::kFloat)
    return a == DataType::kFloat && b == DataType::kFloat && y == DataType::kFloat ? nullptr
                                                                                   : "not float";
  const ir::MatrixMultiplyAttrs& attrs = attrs_of(problem);
  if (a != DataType::kUInt8) return "the left factor is not uint8";
  if (b != DataType::kUInt8 && b != DataType::kInt8) return "the right factor is not 8-bit";
  if (attrs.alpha != 1) return "alpha of bytes is not 1";
  if (y == DataType::kInt32) return attrs.epilogue.empty() ? nullptr : "int32 with an epilogue";
  return y == DataType::kFloat || y == DataType::kUInt8
             ? nullptr
             : "the output is neither uint8 nor float nor int32";
}

}  // namespace

std::string refuse_matmul(const Problem& problem, Numeric numeric) {
  int64_t m, n, k;
  const bool of_bytes = is_quantized(numeric);
  if (const char* reason = refuse_types(problem, numeric)) return reason;
  if (!matmul_extents(problem, m, n, k)) return "a vector, a scalar, or factors that do not match";
  if (problem.inputs.size() > 2 && problem.inputs[2].present &&
      problem.inputs[2].type != (of_bytes ? DataType::kInt32 : DataType::kFloat))
    return of_bytes ? "the bias is not int32" : "the bias is not float";
  if (of_bytes && problem.inputs.size() > 2 && problem.inputs[2].present &&
      !has_packed_bias(problem))
    return "the bias of bytes is not a constant per column";
  if (problem.inputs.size() > kFirstMatmulOperand + kMaxOperands)
    return "too many epilogue operands";
  if (!program_fits(attrs_of(problem).epilogue)) return "the epilogue is too long";
  return refuse_operands(problem, kFirstMatmulOperand,
                         of_bytes                    ? DataType::kUInt8
                         : numeric == Numeric::kBf16 ? DataType::kBFloat16
                                                     : DataType::kFloat);
}

const char* refuse_packing(const Problem& problem, bool batches) {
  if (!problem.inputs[1].constant) return "the right factor is not constant";
  return batches || matrices_of(problem.inputs[1].extents) == 1 ? nullptr
                                                                : "the right factor is a batch";
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
