// SPDX-License-Identifier: Apache-2.0
// Sparse tactics of floats: convolutions and matrix products whose weights are mostly zeros, 2:4 or
// any others (gemm_lists.h). `half`, `quarter`: how many weights may be left; that many have room.
#include "kernels/vector/matmul/matmul_run.h"
#include "kernels/vector/sparse/gemm_lists.h"
#include "kernels/weight_zeros.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::sparse_floats {
namespace {

std::string refuse_values(const Problem& problem, int64_t divisor) {
  const std::optional<ir::SparsityCount> zeros = weight_zeros(problem);
  if (!zeros || divisor * zeros->nonzeros <= zeros->weights) return {};
  return divisor == 2 ? "more than half of the weights are not zero"
                      : "more than a quarter of the weights are not zero";
}

double cost_of(const Problem& problem, const ConvShape& shape, int64_t divisor) {
  const std::optional<ir::SparsityCount> zeros = weight_zeros(problem);
  const int64_t weights = shape.oc * shape.group_ic() * shape.kh * shape.kw;
  const double nonzeros = static_cast<double>(zeros ? zeros->nonzeros : weights / divisor);
  return 0.3 + lists_cost_us(shape, nonzeros) / problem.threads;
}

// Convolutions and products differ in where their numbers are.
struct Convolution {
  static constexpr ir::LayerKind kKind = ir::LayerKind::kConvolution;
  static constexpr FormatRule kFormats = FormatRule::kChannelLast;

  static bool shape_of(const Problem& p, ConvShape& shape) {
    return conv_shape(p.layer->as<ir::ConvolutionAttrs>(), p.inputs[0].extents, p.inputs[1].extents,
                      p.outputs[0].extents, shape);
  }
  static std::string refusal(const Problem& p) {
    ConvShape shape;
    return refuse_conv(p, Numeric::kFloat, shape_of(p, shape));
  }
  static uint32_t packed_inputs(const Problem& p) { return packed_conv_inputs(p); }
  static void pack(const Problem& p, const ConvShape& shape, const ListLayout& layout,
                   std::byte* packed) {
    pack_lists(shape, layout, conv_filter(shape, constant_floats(p.inputs[1])), 1,
               has_bias(p) ? constant_floats(p.inputs[2]) : nullptr, packed);
  }
  static bool describe(const KernelArgs& args, ConvRun& run) {
    const auto extents = [](const TensorView& view) {
      return std::span<const int64_t>(view.extents, static_cast<size_t>(view.rank));
    };
    set_conv_tensors(args, nullptr, run);
    return conv_shape(args.layer->as<ir::ConvolutionAttrs>(), extents(args.inputs[0]),
                      extents(args.inputs[1]), extents(args.outputs[0]), run.shape);
  }
};

struct Product {
  static constexpr ir::LayerKind kKind = ir::LayerKind::kMatrixMultiply;
  static constexpr FormatRule kFormats = FormatRule::kLinear;
  static constexpr size_t kMostDimensions = 4;  // two of batches

  static const ir::MatrixMultiplyAttrs& attrs_of(const Problem& p) {
    return p.layer->as<ir::MatrixMultiplyAttrs>();
  }
  static bool shape_of(const Problem& p, ConvShape& shape) {
    int64_t m, n, k;
    if (!matmul_extents(p, m, n, k)) return false;
    const int64_t rows = static_cast<int64_t>(matmul_batch(p)) * m;
    shape = {.ic = k, .iw = rows, .oc = n, .ow = rows};
    return true;
  }
  static std::string refusal(const Problem& p) {
    if (std::string reason = refuse_matmul(p, Numeric::kFloat); !reason.empty()) return reason;
    if (const char* reason = refuse_packing(p)) return reason;
    if (attrs_of(p).transpose_a) return "the left factor is transposed";
    if (p.inputs.size() > 2 && p.inputs[2].present && !has_packed_bias(p))
      return "the bias is not a constant per column";
    if (p.outputs[0].extents.size() > kMostDimensions) return "more than two batch dimensions";
    return {};
  }
  static uint32_t packed_inputs(const Problem& p) { return has_packed_bias(p) ? 6u : 2u; }
  static void pack(const Problem& p, const ConvShape& shape, const ListLayout& layout,
                   std::byte* packed) {
    const bool transposed = attrs_of(p).transpose_b;
    const Filter<float> filter = {constant_floats(p.inputs[1]), 0, transposed ? shape.ic : 1,
                                  transposed ? 1 : shape.oc,    0, 0};
    pack_lists(shape, layout, filter, attrs_of(p).alpha, nullptr, packed);
    pack_column_bias(p, layout.bias_lanes, reinterpret_cast<float*>(packed));
  }
  static bool describe(const KernelArgs& args, ConvRun& run) {
    MatmulRun matmul;
    set_matmul(args, nullptr, matmul);
    set_conv(args, matmul, run);
    return true;
  }
};

template <class Of, int64_t kDivisor>
std::string refusal(const Problem& problem) {
  if (std::string reason = Of::refusal(problem); !reason.empty()) return reason;
  ConvShape shape;
  // Sums are stored with the first block of K.
  if (Of::shape_of(problem, shape) && shape.group_ic() * shape.kh * shape.kw == 0)
    return "nothing to multiply";
  return refuse_values(problem, kDivisor);
}

template <class Of, int64_t kDivisor>
double cost_us(const Problem& problem) {
  ConvShape shape;
  return Of::shape_of(problem, shape) ? cost_of(problem, shape, kDivisor) : 1e12;
}

template <class Of, int64_t kDivisor>
size_t packed_bytes(const Problem& problem) {
  ConvShape shape;
  if (!Of::shape_of(problem, shape)) return 0;
  return static_cast<size_t>(ListLayout(shape, kDivisor).bytes);
}

template <class Of, int64_t kDivisor>
void pack(const Problem& problem, std::byte* packed) {
  ConvShape shape;
  if (Of::shape_of(problem, shape)) Of::pack(problem, shape, ListLayout(shape, kDivisor), packed);
}

template <class Of, int64_t kDivisor>
void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  ConvRun run;
  if (has_output(args, kernel) && Of::describe(args, run))
    prepare_lists(args, run, ListLayout(run.shape, kDivisor), kernel);
}

template <class Of, int64_t kDivisor>
constexpr Tactic row(const char* name) {
  return {.name = name,
          .kind = Of::kKind,
          .isa = kIsa,
          .formats = Of::kFormats,
          .version = 1,
          .refusal = refusal<Of, kDivisor>,
          .cost_us = cost_us<Of, kDivisor>,
          .packed_inputs = Of::packed_inputs,
          .packed_bytes = packed_bytes<Of, kDivisor>,
          .pack = pack<Of, kDivisor>,
          .prepare = prepare<Of, kDivisor>};
}

// The same kernel: the smaller comes first, for it reads less.
constexpr Tactic kTactics[] = {
    row<Convolution, 4>("conv_sparse_quarter_nhwc_f32"),
    row<Convolution, 2>("conv_sparse_half_nhwc_f32"),
    row<Product, 4>("matmul_sparse_quarter_f32"),
    row<Product, 2>("matmul_sparse_half_f32"),
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::sparse_floats
