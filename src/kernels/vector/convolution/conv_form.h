// SPDX-License-Identifier: Apache-2.0
// What the dense convolution tactics are made of: a row of their tables is a Form. Included by the
// sources that hold the tables.
#pragma once

#include "kernels/packed/packed_records.h"
#include "kernels/simd/tiles.h"
#include "kernels/vector/convolution/bound_form.h"
#include "kernels/vector/convolution/conv_gemm.h"
#include "kernels/vector/gemm/gemm_amx.h"
#include "kernels/vector/gemm/gemm_bf16.h"
#include "kernels/vector/gemm/gemm_byte_kernels.h"
#include "kernels/vector/gemm/gemm_cost.h"
#include "kernels/vector/gemm/gemm_fold.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::conv_form {

enum class Reading { kDirect, kCopied, kLinear, kWindows };

inline const ir::ConvolutionAttrs& attrs_of(const Problem& problem) {
  return problem.layer->as<ir::ConvolutionAttrs>();
}

inline bool shape_of(const Problem& problem, ConvShape& shape) {
  return conv_shape(attrs_of(problem), problem.inputs[0].extents, problem.inputs[1].extents,
                    problem.outputs[0].extents, shape);
}

// What a row of the table is made of.
struct Form {
  int vecs;
  Reading reading;
  Numeric numeric = Numeric::kFloat;
  int fold = 1;
  bool by_parts = false;  // of K
  SparseIndex sparse = SparseIndex::kNone;
  bool in_matrices = false;  // of AMX
};

// Why the weights do not fit the sparse tile.
inline std::string refuse_zeros(const Problem& problem, const ConvShape& shape, SparseIndex index) {
  if (index == SparseIndex::kNone) return {};
  if (index == SparseIndex::kPicks && (shape.group_ic() == 0 || shape.group_ic() % kQuadRows != 0))
    return "the number of input channels is no multiple of four";
  if (index != SparseIndex::kPicks && shape.group_ic() < kSparseStep)
    return "fewer than eight input channels in a group";
  return refuse_sparse(problem, index);
}

inline int64_t steps_of_tap(const ConvShape& s, Numeric numeric) {
  return ceil_div(s.group_ic(), elements_per_step(numeric));
}

// Copies of windows are rows of a product, as long as they like: an image's rows of 7 pixels are
// tiles of 4 and 3, or 6 and 1. 512 to 1,024 channels, 3x3, stride 2, 14x14 on Zen 3: 8.6 ms, so
// 5.9; 3 to 384, 16x16: 1.96 and 1.61. Where every pixel begins a window it is copied too often
// (17x17, 1x7: 1.41 and 1.37, 7x1: 1.63 and 1.72; 35x35, 5x5: 2.42 and 2.72).
inline std::string refuse_windows(const Form& form, const ConvShape& shape) {
  if (shape.groups != 1) return "groups";
  if (shape.sh * shape.sw == 1) return "a window at every pixel";
  if (shape.ic % elements_per_step(form.numeric) != 0) return "steps of two taps";
  if (max_rows(form.numeric, form.vecs) < 4) return "tiles of few rows";
  return "";
}

inline std::string refusal(const Form& form, const Problem& problem) {
  ConvShape shape;
  const bool any_zero_point = form.sparse == SparseIndex::kNone && !form.in_matrices;
  if (std::string reason =
          refuse_conv(problem, form.numeric, shape_of(problem, shape), true, any_zero_point);
      !reason.empty())
    return reason;
  if (form.numeric == Numeric::kWord && uses(Feature::kVnni))
    return "VNNI multiplies bytes as they are";
  if (form.fold == 1 && form.vecs > 1 && shape.group_oc() <= (form.vecs - 1) * kLanes)
    return "fewer output channels than the tile has";
  if (form.in_matrices && steps_of_tap(shape, form.numeric) * shape.kw < kLeastAmxSteps)
    return "too few channels for matrix registers";
  if (form.fold > 1 && !folding_helps(shape, form.fold)) return "folding K saves no lanes";
  const int64_t pixel_bytes = shape.sw * shape.ic * element_bytes(form.numeric);
  const bool narrows = form.numeric == Numeric::kBf16 && problem.inputs[0].type == DataType::kFloat;
  if (form.reading == Reading::kCopied && (narrows || conv_needs_copy(shape)))
    return "it copies its input anyway";
  if (form.reading == Reading::kCopied && shape.kh * shape.kw > 1 && pixel_bytes % 4096 != 0)
    return "pixels do not collide in the cache";
  const int64_t k = shape.group_ic() * shape.kh * shape.kw;
  if (form.by_parts && !has_parts(shape.oh * shape.ow, k, form.vecs))
    return "its panels stay in L1";
  if (form.reading == Reading::kWindows)
    if (std::string reason = refuse_windows(form, shape); !reason.empty()) return reason;
  if (form.reading == Reading::kLinear && shape.ic > 16)
    return "more than 16 channels to interleave";
  if (form.reading == Reading::kLinear && is_quantized(form.numeric))
    for (size_t k = kFirstConvOperand; k < problem.inputs.size(); ++k)
      if (problem.inputs[k].extents == problem.outputs[0].extents) return "a residual operand";
  return refuse_zeros(problem, shape, form.sparse);
}

// Padding holds the zero point.
inline int64_t x_maximum(const ir::ConvolutionAttrs& attrs) {
  return attrs.x_maximum > attrs.zero_point ? attrs.x_maximum : attrs.zero_point;
}

inline double amx_tiles_us(const ConvShape& s, Numeric numeric, int64_t rows, int64_t strip,
                           int vecs) {
  return amx_cost_us(rows, strip, s.group_oc(), s.kh, s.kw * steps_of_tap(s, numeric), vecs) *
         static_cast<double>(s.groups);
}

inline double cost_us(const Form& form, const Problem& problem) {
  ConvShape s;
  if (!shape_of(problem, s)) return 1e12;
  const double element = static_cast<double>(element_bytes(form.numeric));
  const bool copies = form.reading != Reading::kDirect || form.numeric == Numeric::kWord;
  const bool narrows = form.numeric == Numeric::kBf16 && problem.inputs[0].type == DataType::kFloat;
  const bool by_windows = form.reading == Reading::kWindows;
  const bool merges = (s.kh == 1 && s.kw == 1 && s.sh == 1 && s.sw == 1) || by_windows;
  const int64_t rows = merges ? s.batch : s.batch * s.oh, strip = merges ? s.oh * s.ow : s.ow;
  double us = form.in_matrices ? amx_tiles_us(s, form.numeric, rows, strip, form.vecs)
              : form.sparse == SparseIndex::kPicks
                  ? pick_tiles_us(conv_tiles_us(s, form.numeric, rows, strip, form.vecs, 1))
              : form.sparse == SparseIndex::kNone
                  ? conv_tiles_us(s, form.numeric, rows, strip, form.vecs, form.fold)
                  : sparse_tile_cost_us(rows, strip, sparse_panels(s, form.vecs, form.sparse),
                                        form.sparse) *
                        static_cast<double>(s.groups);
  // Few steps of vpmaddubsw can be proved where codes are large.
  if (kIsa == Isa::kAvx2 && form.numeric == Numeric::kByte && !uses(Feature::kVnni) &&
      x_maximum(attrs_of(problem)) > 127)
    us *= 1.4;
  const double input_bytes = element * static_cast<double>(s.batch * s.ih * s.iw * s.ic);
  if (by_windows)
    us += element * static_cast<double>(s.batch * s.oh * s.ow * s.kh * s.kw * s.ic) / 10e3;
  else if (copies || narrows || conv_needs_copy(s))
    us += input_bytes / 40e3;
  if (form.reading == Reading::kLinear) us += input_bytes / element * 4 / 10e3;
  // Twelve rows in one set of L1 is one too many.
  const bool aliases = s.sw * s.ic * element_bytes(form.numeric) % 4096 == 0 &&
                       (form.in_matrices || max_rows(form.numeric, form.vecs) > 8) && strip > 8;
  if (aliases && form.reading == Reading::kDirect && !form.by_parts && !conv_needs_copy(s))
    us *= 1.3;
  if (form.by_parts) us *= part_cost(s.group_oc(), s.group_ic() * s.kh * s.kw);
  us /= problem.threads;
  const double weight_bytes = element * static_cast<double>(s.oc * s.kh * s.kw * s.group_ic());
  const double stream_us = weight_bytes / 30e3;
  return us > stream_us ? us : stream_us;
}

inline size_t lane_bytes(int64_t lanes) {
  return static_cast<size_t>(lanes * kLaneBytes);
}

inline size_t packed_bytes(const Form& form, const Problem& problem) {
  ConvShape s;
  if (!shape_of(problem, s)) return 0;
  const size_t epilogue = !is_quantized(form.numeric)
                              ? 0
                              : packed_epilogue_bytes(problem, attrs_of(problem).epilogue,
                                                      kFirstConvOperand, conv_channels(problem, s));
  const int64_t filter = form.sparse == SparseIndex::kPicks ? s.groups * pick_panels(s, 1).lanes()
                         : form.sparse == SparseIndex::kNone
                             ? packed_filter_lanes(s, form.numeric, form.fold)
                             : s.groups * sparse_panels(s, 1, form.sparse).lanes();
  return epilogue + lane_bytes(packed_bias_lanes(s) + filter);
}

inline void pack_floats(const Form& form, const Problem& problem, const ConvShape& s,
                        std::byte* packed) {
  pack_bias(s, has_bias(problem) ? constant_floats(problem.inputs[2]) : nullptr,
            reinterpret_cast<float*>(packed));
  const Filter<float> filter = conv_filter(s, constant_floats(problem.inputs[1]));
  packed += lane_bytes(packed_bias_lanes(s));
  if (form.sparse == SparseIndex::kPicks) return pack_pick_filter(s, filter, form.vecs, 1, packed);
  pack_filter(s, filter, tile_vecs(s, form.vecs, form.fold), form.fold, packed);
}

// How weights are packed: uint8 less 128, which their zero point follows.
inline int64_t packed_zero_point(const ir::ConvolutionAttrs& attrs, DataType weights) {
  return attrs.w_zero_point - (weights == DataType::kUInt8 ? 128 : 0);
}

inline void pack_byte_filter(const Form& form, const ConvShape& s, const Filter<int8_t>& filter,
                             int64_t zero_point, int64_t largest_code, std::byte* packed) {
  const int vecs = tile_vecs(s, form.vecs, form.fold);
  if (form.sparse != SparseIndex::kNone)
    return pack_sparse_filter(s, filter, vecs, form.sparse, largest_code, packed);
  if (form.numeric == Numeric::kByte)
    return pack_filter(s, filter, vecs, form.fold, packed, largest_code);
  const int64_t count = s.oc * s.group_ic() * s.kh * s.kw;
  uint16_t* words = new uint16_t[static_cast<size_t>(count)];
  for (int64_t k = 0; k < count; ++k) words[k] = static_cast<uint16_t>(filter.data[k] - zero_point);
  pack_filter(s, conv_filter<uint16_t>(s, words), vecs, form.fold, packed);
  delete[] words;
}

inline void pack_bytes(const Form& form, const Problem& problem, const ConvShape& s,
                       std::byte* packed) {
  pack_epilogue(problem, attrs_of(problem).epilogue, kFirstConvOperand, conv_channels(problem, s),
                packed);
  packed += packed_epilogue_bytes(packed);
  const ir::ConvolutionAttrs& attrs = attrs_of(problem);
  const ProblemTensor& weights = problem.inputs[1];
  const int64_t count = s.oc * s.group_ic() * s.kh * s.kw,
                zero_point = packed_zero_point(attrs, weights.type);
  const int8_t* codes = constant_values<int8_t>(weights);
  int8_t* flipped = nullptr;
  if (weights.type == DataType::kUInt8) {
    flipped = new int8_t[static_cast<size_t>(count)];
    for (int64_t k = 0; k < count; ++k) flipped[k] = static_cast<int8_t>(codes[k] ^ 0x80);
    codes = flipped;
  }
  const Filter<int8_t> filter = conv_filter(s, codes);
  pack_byte_bias(s, has_bias(problem) ? constant_values<int32_t>(problem.inputs[2]) : nullptr,
                 filter, attrs.zero_point, zero_point, reinterpret_cast<int32_t*>(packed));
  pack_byte_filter(form, s, filter, zero_point, x_maximum(attrs),
                   packed + lane_bytes(packed_bias_lanes(s)));
  delete[] flipped;
}

inline std::string product_shares(const Problem& problem, const std::byte* packed, int vecs,
                                  SparseIndex sparse) {
  ConvShape s;
  if (!shape_of(problem, s)) return {};
  packed += packed_epilogue_bytes(packed);
  ProductShares shares;
  if (sparse != SparseIndex::kNone) {
    count_sparse_products(s, vecs, sparse, packed + lane_bytes(packed_bias_lanes(s)), shares);
    return "sparse " + shares.text();
  }
  count_filter_products(s, vecs, packed + lane_bytes(packed_bias_lanes(s)), shares);
  return shares.text();
}

constexpr bool tells_arithmetic(const Form& form) {
  return is_quantized(form.numeric);
}
inline std::string arithmetic(const Form& form, const Problem& problem, const std::byte* packed) {
  if (form.numeric == Numeric::kByte)
    return product_shares(problem, packed, form.vecs, form.sparse);
  return form.numeric == Numeric::kWord ? "int16 (widened)" : "";
}

inline void pack_pairs(const Form& form, const Problem& problem, const ConvShape& s,
                       std::byte* packed) {
  pack_bias(s, has_bias(problem) ? constant_floats(problem.inputs[2]) : nullptr,
            reinterpret_cast<float*>(packed));
  const int64_t count = s.oc * s.group_ic() * s.kh * s.kw;
  uint16_t* bits = new uint16_t[static_cast<size_t>(count)];
  to_bf16(constant_floats(problem.inputs[1]), count, bits);
  pack_filter(s, conv_filter<uint16_t>(s, bits), tile_vecs(s, form.vecs, form.fold), form.fold,
              packed + lane_bytes(packed_bias_lanes(s)));
  delete[] bits;
}

inline void pack(const Form& form, const Problem& problem, std::byte* packed) {
  ConvShape s;
  if (!shape_of(problem, s)) return;
  form.numeric == Numeric::kFloat  ? pack_floats(form, problem, s, packed)
  : form.numeric == Numeric::kBf16 ? pack_pairs(form, problem, s, packed)
                                   : pack_bytes(form, problem, s, packed);
}

inline bool describe(const Form& form, const KernelArgs& args, ConvRun& run) {
  const auto extents = [](const TensorView& view) {
    return std::span<const int64_t>(view.extents, static_cast<size_t>(view.rank));
  };
  const ir::ConvolutionAttrs& attrs = args.layer->as<ir::ConvolutionAttrs>();
  if (!conv_shape(attrs, extents(args.inputs[0]), extents(args.inputs[1]), extents(args.outputs[0]),
                  run.shape))
    return false;
  run.tile.numeric = form.numeric;
  if (is_quantized(form.numeric)) run.x.padding = static_cast<uint8_t>(attrs.zero_point);
  set_conv_tensors(args, is_quantized(form.numeric) ? args.packed : nullptr, run);
  run.weights.bias = args.packed + run.finish.packed_bytes();
  run.tile.max_vecs = tile_vecs(run.shape, form.vecs, form.fold);
  run.tile.fold = form.fold;
  run.tile.sparse = form.sparse;
  run.tile.in_matrices = form.in_matrices;
  run.wishes.copies = form.reading != Reading::kDirect;
  run.wishes.windows = form.reading == Reading::kWindows;
  run.wishes.parts = form.by_parts;
  if (form.numeric == Numeric::kByte)
    run.weights.zero_point = packed_zero_point(attrs, args.inputs[1].type);
  run.weights.panels = run.weights.bias + lane_bytes(packed_bias_lanes(run.shape));
  return true;
}

inline void prepare(const Form& form, const KernelArgs& args, PreparedKernel& kernel) {
  ConvRun run;
  if (has_output(args, kernel) && describe(form, args, run)) prepare_conv(args, run, kernel);
}

template <Form F>
constexpr Tactic row(const char* name) {
  constexpr bool kIsLinear = F.reading == Reading::kLinear;
  constexpr int kVersion = F.numeric == Numeric::kFloat  ? F.by_parts ? 4 : 3
                           : F.numeric == Numeric::kByte ? F.sparse == SparseIndex::kNone ? 5 : 7
                           : F.numeric == Numeric::kBf16 ? 4
                                                         : 1;
  return bound_form<F>(name, ir::LayerKind::kConvolution,
                       kIsLinear ? FormatRule::kLinearToChannelLast : FormatRule::kChannelLast,
                       kVersion,
                       is_quantized(F.numeric) ? packed_byte_conv_inputs : packed_conv_inputs);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::conv_form
