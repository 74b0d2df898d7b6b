// SPDX-License-Identifier: Apache-2.0
// Sparse tactics of bytes with lanes over pixels: convolutions and matrix products whose weights
// are mostly zeros, wherever they are (byte_lists.h). `half`: where no more of the steps of four
// weights are left; else up to three quarters of them. That many have room.
#include "kernels/vector/convolution/conv_form.h"
#include "kernels/vector/matmul/matmul_form.h"
#include "kernels/vector/sparse/byte_lists.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::sparse_bytes {
namespace {

// Convolutions and products differ in where their numbers are.
struct Convolution {
  static constexpr ir::LayerKind kKind = ir::LayerKind::kConvolution;
  static constexpr FormatRule kFormats = FormatRule::kChannelLast;
  static constexpr size_t kFirstOperand = kFirstConvOperand;

  static const ir::Program& epilogue(const Problem& p) { return conv_form::attrs_of(p).epilogue; }
  static bool shape_of(const Problem& p, ConvShape& shape) { return conv_form::shape_of(p, shape); }
  static Filter<int8_t> filter(const Problem& p, const ConvShape& shape) {
    return conv_filter(shape, constant_values<int8_t>(p.inputs[1]));
  }
  static ChannelLayout channels(const Problem& p, const ConvShape& shape) {
    return conv_channels(p, shape);
  }
  static std::string refusal(const Problem& p) {
    ConvShape shape;
    return refuse_conv(p, Numeric::kByte, shape_of(p, shape));
  }
  static uint32_t packed_inputs(const Problem& p) { return packed_byte_conv_inputs(p); }
  static int64_t x_maximum(const Problem& p) {
    return conv_form::x_maximum(conv_form::attrs_of(p));
  }
  static int64_t zero_point(const Problem& p) { return conv_form::attrs_of(p).zero_point; }
  static const int32_t* bias(const Problem& p, int32_t*) {
    return has_bias(p) ? constant_values<int32_t>(p.inputs[2]) : nullptr;
  }
  static bool describe(const KernelArgs& args, ConvRun& run) {
    const auto extents = [](const TensorView& view) {
      return std::span<const int64_t>(view.extents, static_cast<size_t>(view.rank));
    };
    const ir::ConvolutionAttrs& attrs = args.layer->as<ir::ConvolutionAttrs>();
    run.x.padding = static_cast<uint8_t>(attrs.zero_point);
    set_conv_tensors(args, args.packed, run);
    return conv_shape(attrs, extents(args.inputs[0]), extents(args.inputs[1]),
                      extents(args.outputs[0]), run.shape);
  }
};

struct Product {
  static constexpr ir::LayerKind kKind = ir::LayerKind::kMatrixMultiply;
  static constexpr FormatRule kFormats = FormatRule::kLinear;
  static constexpr size_t kFirstOperand = kFirstMatmulOperand;
  static constexpr size_t kMostDimensions = 4;  // two of batches

  static const ir::Program& epilogue(const Problem& p) { return matmul_form::attrs_of(p).epilogue; }
  static bool shape_of(const Problem& p, ConvShape& shape) {
    int64_t m, n, k;
    if (!matmul_extents(p, m, n, k)) return false;
    const int64_t rows = static_cast<int64_t>(matmul_batch(p)) * m;
    shape = {.ic = k, .iw = rows, .oc = n, .ow = rows};
    return true;
  }
  static Filter<int8_t> filter(const Problem& p, const ConvShape& shape) {
    return matmul_form::sparse_filter<int8_t>(p, shape.oc, shape.ic);
  }
  static ChannelLayout channels(const Problem&, const ConvShape& shape) {
    return {1, shape.oc, group_bias_lanes(shape), 0, shape.oc};
  }
  static std::string refusal(const Problem& p) {
    if (std::string reason = refuse_matmul(p, Numeric::kByte); !reason.empty()) return reason;
    if (const char* reason = refuse_packing(p)) return reason;
    if (p.inputs[1].type != DataType::kInt8 || matmul_form::attrs_of(p).b_zero_point != 0)
      return "the right factor is not symmetric int8";
    if (matmul_form::attrs_of(p).transpose_a) return "the left factor is transposed";
    if (p.outputs[0].extents.size() > kMostDimensions) return "more than two batch dimensions";
    return {};
  }
  static uint32_t packed_inputs(const Problem& p) {
    return matmul_form::packed_inputs(Numeric::kByte, p);
  }
  static int64_t x_maximum(const Problem& p) { return matmul_form::attrs_of(p).a_maximum; }
  static int64_t zero_point(const Problem& p) { return matmul_form::attrs_of(p).a_zero_point; }
  static const int32_t* bias(const Problem& p, int32_t* memory) {
    pack_column_bias(p, p.outputs[0].extents.back(), memory);
    return memory;
  }
  static bool describe(const KernelArgs& args, ConvRun& run) {
    MatmulRun matmul;
    set_matmul(args, args.packed, matmul);
    set_conv(args, matmul, run);
    return true;
  }
};

int64_t entries_of(const ir::SparsityCount& zeros) {
  return zeros.groups - zeros.empty_groups;
}

template <class Of, int64_t kShare>
std::string refusal(const Problem& problem) {
  if (std::string reason = Of::refusal(problem); !reason.empty()) return reason;
  ConvShape shape;
  if (!Of::shape_of(problem, shape)) return "extents that do not match";
  if (shape.group_ic() < kSparseStep) return "fewer than eight input channels in a group";
  const std::optional<ir::SparsityCount> zeros = weight_zeros(problem);
  if (!zeros || entries_of(*zeros) <= ByteLists(shape, kShare).most) return {};
  return kShare == 2 ? "more than half of the steps of four weights are not zero"
                     : "more than three quarters of the steps of four weights are not zero";
}

template <class Of, int64_t kShare>
double cost_us(const Problem& problem) {
  ConvShape shape;
  if (!Of::shape_of(problem, shape)) return 1e12;
  const ByteLists lists(shape, kShare);
  const std::optional<ir::SparsityCount> zeros = weight_zeros(problem);
  const double entries = static_cast<double>(zeros ? entries_of(*zeros) : lists.most);
  return 0.3 + byte_lists_cost_us(lists, shape, entries) / problem.threads;
}

template <class Of, int64_t kShare>
size_t packed_bytes(const Problem& problem) {
  ConvShape shape;
  if (!Of::shape_of(problem, shape)) return 0;
  return packed_epilogue_bytes(problem, Of::epilogue(problem), Of::kFirstOperand,
                               Of::channels(problem, shape)) +
         static_cast<size_t>(ByteLists(shape, kShare).bytes);
}

template <class Of, int64_t kShare>
void pack(const Problem& problem, std::byte* packed) {
  ConvShape shape;
  if (!Of::shape_of(problem, shape)) return;
  const ByteLists lists(shape, kShare);
  const Filter<int8_t> filter = Of::filter(problem, shape);
  pack_epilogue(problem, Of::epilogue(problem), Of::kFirstOperand, Of::channels(problem, shape),
                packed);
  packed += packed_epilogue_bytes(packed);
  int32_t* columns = new int32_t[static_cast<size_t>(shape.oc)];
  pack_byte_bias(shape, Of::bias(problem, columns), filter, Of::zero_point(problem), 0,
                 reinterpret_cast<int32_t*>(packed));
  delete[] columns;
  pack_byte_lists(lists, shape, filter, Of::x_maximum(problem), packed);
}

template <class Of, int64_t kShare>
void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  ConvRun run;
  run.tile.numeric = Numeric::kByte;
  if (!has_output(args, kernel) || !Of::describe(args, run)) return;
  run.weights.bias = run.weights.panels = args.packed + run.finish.packed_bytes();
  prepare_byte_lists(args, run, ByteLists(run.shape, kShare), kernel);
}

template <class Of, int64_t kShare>
std::string arithmetic(const Problem& problem, const std::byte* packed) {
  ConvShape shape;
  if (!Of::shape_of(problem, shape)) return {};
  ProductShares shares;
  count_list_products(ByteLists(shape, kShare), packed + packed_epilogue_bytes(packed), shares);
  return "sparse " + shares.text();
}

template <class Of, int64_t kShare>
constexpr Tactic row(const char* name) {
  return {.name = name,
          .kind = Of::kKind,
          .isa = kIsa,
          .formats = Of::kFormats,
          .version = 1,
          .refusal = refusal<Of, kShare>,
          .cost_us = cost_us<Of, kShare>,
          .packed_inputs = Of::packed_inputs,
          .packed_bytes = packed_bytes<Of, kShare>,
          .pack = pack<Of, kShare>,
          .prepare = prepare<Of, kShare>,
          .arithmetic = arithmetic<Of, kShare>};
}

// The same kernel: the smaller comes first, for it reads less.
constexpr Tactic kTactics[] = {
    row<Convolution, 2>("conv_sparse_quads_half_nhwc_u8i8"),
    row<Convolution, 3>("conv_sparse_quads_nhwc_u8i8"),
    row<Product, 2>("matmul_sparse_quads_half_u8i8"),
    row<Product, 3>("matmul_sparse_quads_u8i8"),
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::sparse_bytes
