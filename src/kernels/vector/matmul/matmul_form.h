// SPDX-License-Identifier: Apache-2.0
// What the tactics of products with a packed right factor are made of: a row of their tables is a
// Form. Such products run as 1x1 convolutions whose pixels are the rows of A, so blocking, threads,
// epilogues and the copy of a transposed A are those of conv_gemm. Included by the sources that
// hold the tables.
#pragma once

#include "ir/narrow_floats.h"
#include "kernels/packed/packed_records.h"
#include "kernels/simd/float16.h"
#include "kernels/simd/tiles.h"
#include "kernels/vector/convolution/bound_form.h"
#include "kernels/vector/convolution/conv_gemm.h"
#include "kernels/vector/gemm/gemm_amx.h"
#include "kernels/vector/gemm/gemm_bf16.h"
#include "kernels/vector/gemm/gemm_cost.h"
#include "kernels/vector/gemm/gemm_pack.h"
#include "kernels/vector/matmul/matmul_run.h"
#include "kernels/weight_zeros.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::matmul_form {

inline const ir::MatrixMultiplyAttrs& attrs_of(const Problem& problem) {
  return problem.layer->as<ir::MatrixMultiplyAttrs>();
}

// What a row of the table is made of.
struct Form {
  int vecs;
  Numeric numeric;
  bool by_parts = false;  // of K
  SparseIndex sparse = SparseIndex::kNone;
  bool in_matrices = false;  // of AMX
  Stored stored = Stored::kFloat;
  bool fetches = true;  // weights that one tile of rows passes, far ahead

  // Whether right factors may be batches, each matrix of which is packed by itself.
  constexpr bool takes_batches() const {
    return !is_quantized(numeric) && sparse == SparseIndex::kNone && !in_matrices;
  }
};

// A right factor as the filter of a 1x1 convolution.
inline ConvShape shape_of(int64_t n, int64_t k) {
  return {.ic = k, .oc = n};
}
template <class T>
Filter<T> sparse_filter(const Problem& problem, int64_t n, int64_t k) {
  const bool transposed = attrs_of(problem).transpose_b;
  return {constant_values<T>(problem.inputs[1]), 0, transposed ? k : 1, transposed ? 1 : n, 0, 0};
}

// The right factor of bytes is int8 with zero point 0.
inline bool is_symmetric(const Problem& problem) {
  return problem.inputs[1].type == DataType::kInt8 && attrs_of(problem).b_zero_point == 0;
}
// How it is packed: uint8 less 128, which its zero point follows.
inline uint8_t flip_of(DataType type) {
  return type == DataType::kUInt8 ? 0x80 : 0;
}
inline int64_t packed_zero_point(const ir::MatrixMultiplyAttrs& attrs, DataType type) {
  return attrs.b_zero_point - (type == DataType::kUInt8 ? 128 : 0);
}

// Why the weights do not fit the sparse tile.
inline std::string refuse_zeros(const Problem& problem, SparseIndex index) {
  int64_t m, n, k;
  if (index == SparseIndex::kNone || !matmul_extents(problem, m, n, k)) return {};
  const bool in_fours = index == SparseIndex::kQuads || index == SparseIndex::kPicks;
  if (in_fours && (k == 0 || k % kQuadRows != 0))
    return "the right factor's rows are no multiple of four";
  if (!in_fours && k < kSparseStep) return "fewer than eight rows in the right factor";
  return refuse_sparse(problem, index);
}

// Whether the right factor is a batch.
inline bool has_matrices(const Problem& problem) {
  return matrices_of(problem.inputs[1].extents) > 1;
}
// Rows that one matrix is multiplied with at once.
inline int64_t rows_together(const Problem& problem, int64_t m) {
  return has_matrices(problem) ? m : static_cast<int64_t>(matmul_batch(problem)) * m;
}

// Why the right factor is not kept in 16 bits.
inline const char* refuse_narrow(const Problem& problem, Stored stored) {
  if (attrs_of(problem).alpha != 1) return "alpha is not 1";
  if (!has_values(problem.inputs[1])) return nullptr;
  const ir::NarrowTypes types = ir::narrow_types_of(*problem.inputs[1].constant);
  return (stored == Stored::kHalf ? types.half : types.bfloat16)
             ? nullptr
             : "the right factor's values have more bits";
}

inline int64_t steps_of(Numeric numeric, int64_t k) {
  const int64_t per_step = elements_per_step(numeric);
  return (k + per_step - 1) / per_step;
}

inline std::string refusal(const Form& form, const Problem& problem) {
  if (std::string reason = refuse_matmul(problem, form.numeric); !reason.empty()) return reason;
  if (const char* reason = refuse_packing(problem, form.takes_batches())) return reason;
  if ((form.sparse != SparseIndex::kNone || form.in_matrices) && form.numeric == Numeric::kByte &&
      !is_symmetric(problem))
    return "the right factor is not symmetric int8";
  if (form.numeric == Numeric::kWord && uses(Feature::kVnni))
    return "VNNI multiplies bytes as they are";
  if (form.vecs > 1 && problem.outputs[0].extents.back() <= (form.vecs - 1) * kLanes)
    return "fewer columns than the tile has";
  if (form.stored != Stored::kFloat)
    if (const char* reason = refuse_narrow(problem, form.stored)) return reason;
  if (form.by_parts) {
    int64_t m, n, k;
    matmul_extents(problem, m, n, k);
    if (!has_parts(rows_together(problem, m), k, form.vecs)) return "its panels stay in L1";
  }
  if (!form.fetches) {
    int64_t m, n, k;
    matmul_extents(problem, m, n, k);
    if (rows_together(problem, m) > max_rows(form.numeric, form.vecs) ||
        !comes_from_afar(n * k * kLaneBytes))
      return "its weights are not fetched far ahead";
  }
  if (form.in_matrices) {
    int64_t m, n, k;
    matmul_extents(problem, m, n, k);
    if (steps_of(form.numeric, k) < kLeastAmxSteps) return "too few columns for matrix registers";
  }
  return refuse_zeros(problem, form.sparse);
}

inline Panels panels_of(Numeric numeric, int64_t n, int64_t k, int max_vecs,
                        SparseIndex sparse = SparseIndex::kNone, Stored stored = Stored::kFloat) {
  if (stored != Stored::kFloat) return narrow_panels(n, k, max_vecs);
  if (sparse == SparseIndex::kQuads) return quad_panels(n, k, max_vecs);
  if (sparse == SparseIndex::kPicks) return pick_panels(shape_of(n, k), max_vecs);
  if (sparse != SparseIndex::kNone) return sparse_panels(shape_of(n, k), max_vecs, sparse);
  const int64_t steps = steps_of(numeric, k);
  return numeric == Numeric::kByte ? byte_panels(n, {1, steps}, max_vecs)
                                   : Panels(n, steps, max_vecs);
}

// Beside the dense tile: as long for rows of their own, 0.56 of it where it waits for weights.
inline double quads_cost_us(int64_t rows, int64_t n, int64_t k, int vecs) {
  const double tiles = static_cast<double>(ceil_div(rows, quad_max_rows(vecs)));
  const double one_us = tile_cost_us(Numeric::kBf16, 1, 1, n, k / 2, vecs);
  return 0.6 * tiles * one_us + 0.1 * static_cast<double>(rows) * one_us;
}

inline double cost_us(const Form& form, const Problem& problem) {
  int64_t m, n, k;
  if (!matmul_extents(problem, m, n, k)) return 1e12;
  const double rows = static_cast<double>(rows_together(problem, m));
  const double tiles_us =
      form.in_matrices
          ? amx_cost_us(1, static_cast<int64_t>(rows), n, 1, steps_of(form.numeric, k), form.vecs)
      : form.sparse == SparseIndex::kQuads
          ? quads_cost_us(static_cast<int64_t>(rows), n, k, form.vecs)
      : form.sparse == SparseIndex::kPicks
          ? pick_tiles_us(
                tile_cost_us(form.numeric, 1, static_cast<int64_t>(rows), n, k, form.vecs))
      : form.sparse == SparseIndex::kNone
          ? tile_cost_us(form.numeric, 1, static_cast<int64_t>(rows), n, steps_of(form.numeric, k),
                         form.vecs)
          : sparse_tile_cost_us(1, static_cast<int64_t>(rows),
                                panels_of(form.numeric, n, k, form.vecs, form.sparse), form.sparse);
  const double widened_bytes =
      form.numeric == Numeric::kWord ? 2 * rows * static_cast<double>(k) : 0;
  double us = 0.15 + (tiles_us + widened_bytes / 40e3) / problem.threads;
  if (form.by_parts) us *= part_cost(n, k);
  if (form.stored != Stored::kFloat) us *= 1.1;
  if (!form.fetches) us *= 1.05;
  const bool halved = form.sparse == SparseIndex::kQuads || form.sparse == SparseIndex::kPicks;
  const double share = halved ? 0.56 : form.stored != Stored::kFloat ? 0.5 : 1;
  const double stream_us = share * static_cast<double>(element_bytes(form.numeric)) *
                           static_cast<double>(n) * static_cast<double>(k) / 60e3;
  const double products = has_matrices(problem) ? matmul_batch(problem) : 1;
  return products * (us > stream_us ? us : stream_us);
}

inline uint32_t packed_inputs(Numeric numeric, const Problem& problem) {
  const uint32_t factors = has_packed_bias(problem) ? 6u : 2u;
  if (!is_quantized(numeric)) return factors;
  return factors | packed_operands(problem, kFirstMatmulOperand, 0);
}

inline ChannelLayout columns_of(const Panels& panels) {
  return {1, panels.n, panels.padded_n(), 0, panels.n};
}

// Of a bias and the panels. Of several matrices, each begins on a line of its own.
inline int64_t matrix_bytes(const Panels& panels, int64_t matrices) {
  const int64_t bytes = (panels.padded_n() + panels.lanes()) * kLaneBytes;
  return matrices > 1 ? round_up(bytes, kCacheLine) : bytes;
}

inline size_t packed_bytes(const Form& form, const Problem& problem) {
  int64_t m, n, k;
  if (!matmul_extents(problem, m, n, k)) return 0;
  const Panels panels = panels_of(form.numeric, n, k, 1, form.sparse, form.stored);
  const int64_t matrices = matrices_of(problem.inputs[1].extents);
  const size_t epilogue = !is_quantized(form.numeric)
                              ? 0
                              : packed_epilogue_bytes(problem, attrs_of(problem).epilogue,
                                                      kFirstMatmulOperand, columns_of(panels));
  return epilogue + static_cast<size_t>(matrices * matrix_bytes(panels, matrices));
}

inline void pack_pairs(const Form& form, const Problem& problem, const Panels& panels,
                       const float* b, int64_t k, int64_t k_stride, int64_t n_stride,
                       std::byte* packed) {
  float* bias = reinterpret_cast<float*>(packed);
  pack_column_bias(problem, panels.padded_n(), bias);
  for (int64_t panel = 0; panel < panels.count(); ++panel)
    if (form.sparse == SparseIndex::kQuads)
      pack_quad_panel(
          b + panels.first_col(panel) * n_stride, k_stride, n_stride, k, panels.cols_of(panel),
          panels.vecs_of(panel) * kLanes, attrs_of(problem).alpha,
          reinterpret_cast<std::byte*>(bias + panels.padded_n() + panels.offset(panel)));
    else
      pack_pair_panel(b + panels.first_col(panel) * n_stride, k_stride, n_stride, k,
                      panels.cols_of(panel), panels.vecs_of(panel) * kLanes,
                      attrs_of(problem).alpha,
                      reinterpret_cast<uint16_t*>(bias + panels.padded_n() + panels.offset(panel)));
}

// A panel in 16 bits, rows by rows.
inline void pack_narrow_panel(Stored stored, const float* b, int64_t k_stride, int64_t n_stride,
                              int64_t k, int64_t cols, int64_t width, std::byte* to) {
  constexpr int64_t kTogether = 64;
  float natural[kTogether * kMaxVecs * kLanes];
  for (int64_t row = 0; row < k; row += kTogether) {
    const int64_t rows = smaller(kTogether, k - row), count = rows * width;
    pack_panel(b + row * k_stride, k_stride, n_stride, rows, cols, width, 1, natural);
    if (stored == Stored::kHalf)
      convert_row(natural, reinterpret_cast<Half*>(to) + row * width, count);
    else
      convert_row(natural, reinterpret_cast<Bf16*>(to) + row * width, count);
  }
}

inline void pack_floats(const Form& form, const Problem& problem, const Panels& panels,
                        const float* b, int64_t k_stride, int64_t n_stride, std::byte* packed) {
  float* bias = reinterpret_cast<float*>(packed);
  pack_column_bias(problem, panels.padded_n(), bias);
  if (form.sparse == SparseIndex::kPicks) {
    const int64_t k = panels.k * kChannelsPerPick;
    return pack_pick_filter(shape_of(panels.n, k), {b, 0, n_stride, k_stride, 0, 0}, form.vecs,
                            attrs_of(problem).alpha,
                            reinterpret_cast<std::byte*>(bias + panels.padded_n()));
  }
  for (int64_t panel = 0; panel < panels.count(); ++panel) {
    const float* first = b + panels.first_col(panel) * n_stride;
    float* to = bias + panels.padded_n() + panels.offset(panel);
    const int64_t cols = panels.cols_of(panel), width = panels.vecs_of(panel) * kLanes;
    if (form.stored != Stored::kFloat)
      pack_narrow_panel(form.stored, first, k_stride, n_stride, panels.k, cols, width,
                        reinterpret_cast<std::byte*>(to));
    else
      pack_panel(first, k_stride, n_stride, panels.k, cols, width, attrs_of(problem).alpha, to);
  }
}

// The bias of bytes: less a's zero point times the column's sum of b less its own, so that tiles
// may multiply the codes of a.
inline void pack_byte_bias(const Problem& problem, const Panels& panels, int64_t k,
                           int64_t k_stride, int64_t n_stride, int32_t* bias) {
  const ir::MatrixMultiplyAttrs& attrs = attrs_of(problem);
  const bool is_unsigned = problem.inputs[1].type == DataType::kUInt8;
  const uint8_t* b = constant_values<uint8_t>(problem.inputs[1]);
  pack_column_bias(problem, panels.padded_n(), bias);
  for (int64_t col = 0; col < panels.n; ++col) {
    // Wraps, as the accumulators do.
    uint32_t sum = static_cast<uint32_t>(-k * attrs.b_zero_point);
    for (int64_t row = 0; row < k; ++row) {
      const uint8_t code = b[row * k_stride + col * n_stride];
      sum += is_unsigned ? code : static_cast<uint32_t>(static_cast<int8_t>(code));
    }
    bias[col] = static_cast<int32_t>(static_cast<uint32_t>(bias[col]) -
                                     static_cast<uint32_t>(attrs.a_zero_point) * sum);
  }
}

inline void pack_bytes(const Form& form, const Problem& problem, const Panels& panels, int64_t k,
                       int64_t k_stride, int64_t n_stride, std::byte* packed) {
  pack_epilogue(problem, attrs_of(problem).epilogue, kFirstMatmulOperand, columns_of(panels),
                packed);
  packed += packed_epilogue_bytes(packed);
  int32_t* bias = reinterpret_cast<int32_t*>(packed);
  pack_byte_bias(problem, panels, k, k_stride, n_stride, bias);
  const DataType type = problem.inputs[1].type;
  const std::byte* b = constant_values<std::byte>(problem.inputs[1]);
  std::byte* weights = reinterpret_cast<std::byte*>(bias + panels.padded_n());
  if (form.numeric == Numeric::kWord) {
    for (int64_t panel = 0; panel < panels.count(); ++panel)
      pack_word_panel(b + panels.first_col(panel) * n_stride, type == DataType::kUInt8,
                      attrs_of(problem).b_zero_point, k_stride, n_stride, k, panels.cols_of(panel),
                      panels.vecs_of(panel) * kLanes,
                      reinterpret_cast<int16_t*>(weights + panels.offset(panel) * kLaneBytes));
    return;
  }
  if (form.sparse != SparseIndex::kNone)
    return pack_sparse_filter(shape_of(panels.n, k), sparse_filter<int8_t>(problem, panels.n, k),
                              form.vecs, form.sparse, attrs_of(problem).a_maximum, weights);
  std::byte* natural =
      new std::byte[static_cast<size_t>(panels.k * kMaxVecs * kLanes * kLaneBytes)];
  for (int64_t panel = 0; panel < panels.count(); ++panel) {
    const int64_t width = panels.vecs_of(panel) * kLanes;
    pack_byte_panel(b + panels.first_col(panel) * n_stride, k_stride, n_stride, k,
                    panels.cols_of(panel), width, flip_of(type), natural);
    pack_byte_steps(natural, {1, panels.k}, width, attrs_of(problem).a_maximum,
                    weights + panels.offset(panel) * kLaneBytes);
  }
  delete[] natural;
}

inline std::string product_shares(const Problem& problem, const std::byte* packed, int vecs,
                                  SparseIndex sparse) {
  int64_t m, n, k;
  if (!matmul_extents(problem, m, n, k)) return {};
  const Panels panels = panels_of(Numeric::kByte, n, k, vecs, sparse);
  packed += packed_epilogue_bytes(packed) + panels.padded_n() * kLaneBytes;
  ProductShares shares;
  if (sparse != SparseIndex::kNone) {
    count_sparse_products(shape_of(n, k), vecs, sparse, packed, shares);
    return "sparse " + shares.text();
  }
  for (int64_t panel = 0; panel < panels.count(); ++panel)
    count_products(packed + panels.offset(panel) * kLaneBytes, {1, panels.k},
                   panels.vecs_of(panel) * kLanes, shares);
  return shares.text();
}

constexpr bool tells_arithmetic(const Form& form) {
  return is_quantized(form.numeric) || form.stored != Stored::kFloat;
}
inline std::string arithmetic(const Form& form, const Problem& problem, const std::byte* packed) {
  if (form.numeric == Numeric::kByte)
    return product_shares(problem, packed, form.vecs, form.sparse);
  if (form.numeric == Numeric::kWord) return "int16 (widened)";
  return form.stored == Stored::kHalf ? "floats, weights stored as float16"
                                      : "floats, weights stored as bfloat16";
}

inline void pack(const Form& form, const Problem& problem, std::byte* packed) {
  int64_t m, n, k;
  if (!matmul_extents(problem, m, n, k)) return;
  const Panels panels = panels_of(form.numeric, n, k, form.vecs, form.sparse, form.stored);
  const bool transposed = attrs_of(problem).transpose_b;
  const int64_t k_stride = transposed ? 1 : n, n_stride = transposed ? k : 1;
  if (is_quantized(form.numeric))
    return pack_bytes(form, problem, panels, k, k_stride, n_stride, packed);
  const float* b = constant_floats(problem.inputs[1]);
  const int64_t matrices = matrices_of(problem.inputs[1].extents);
  for (int64_t matrix = 0; matrix < matrices; ++matrix, b += k * n) {
    if (form.numeric == Numeric::kFloat)
      pack_floats(form, problem, panels, b, k_stride, n_stride, packed);
    else
      pack_pairs(form, problem, panels, b, k, k_stride, n_stride, packed);
    packed += matrix_bytes(panels, matrices);
  }
}

inline void describe(const Form& form, const KernelArgs& args, MatmulRun& matmul, ConvRun& run) {
  run.tile.numeric = form.numeric;
  if (matrices_of(args.inputs[1]) > 1) matmul.inner = 2;
  set_matmul(args, is_quantized(form.numeric) ? args.packed : nullptr, matmul);
  run.weights.bias = args.packed + matmul.finish.packed_bytes();
  if (args.inputs.size() > 2 && args.inputs[2].present() && args.inputs[2].data) {
    matmul.finish.has_initial = true;
    matmul.finish.initial = matrix_source(args.inputs[2], args.outputs[0]);
  }
  set_conv(args, matmul, run);
  run.tile.max_vecs = form.vecs;
  run.wishes.parts = form.by_parts;
  run.wishes.fetches = form.fetches;
  run.tile.sparse = form.sparse;
  run.tile.in_matrices = form.in_matrices;
  run.tile.stored = form.stored;
  if (form.numeric == Numeric::kByte)
    run.weights.zero_point =
        packed_zero_point(args.layer->as<ir::MatrixMultiplyAttrs>(), args.inputs[1].type);
  run.weights.panels = run.weights.bias + run.tile.panels(run.shape).padded_n() * kLaneBytes;
}

// Batches of more than two dimensions, or of matrices: one convolution after another.
struct BatchKernel {
  ConvKernel conv;
  MatmulRun matmul;
  int64_t matrix_bytes;  // from one packed matrix to the next
  KeptViews views;       // where each of them is
};

inline void run_batch(BatchKernel& kernel, const KernelCall& call) {
  MatmulRun& matmul = kernel.matmul;
  ConvRun& run = kernel.conv.run;
  const KernelArgs& args = kernel.views.at(call);
  set_addresses(call, kernel.conv);
  for (int64_t outer = 0; outer < matmul.outer; ++outer) {
    move_outer(args, outer, matmul);  // pointers only: plan_conv() has joined dimensions
    run.x.data = matmul.a.data;
    run.finish.out.data = matmul.finish.out.data;
    run.finish.initial.data = matmul.finish.initial.data;
    const int64_t skipped = matrix_of(args, outer) * kernel.matrix_bytes;
    run.weights.bias = call.packed + kernel.conv.bias_at + skipped;
    run.weights.panels = call.packed + kernel.conv.weights_at + skipped;
    for (int k = 0; k < run.finish.num_operands; ++k)
      run.finish.operands[k].data = matmul.finish.operands[k].data;
    run_conv(run, call.workspace, call.pool);
  }
}

inline void prepare(const Form& form, const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  MatmulRun matmul;
  ConvRun run;
  describe(form, args, matmul, run);
  prepare_conv(args, run, kernel);
  if (matmul.outer == 1) return;
  const ConvKernel conv = *static_cast<ConvKernel*>(kernel.state);
  const int64_t bytes = matrix_bytes(run.tile.panels(run.shape), matrices_of(args.inputs[1]));
  keep_state<run_batch>(kernel, BatchKernel{conv, matmul, bytes, keep_views(args, kernel)});
}

template <Form F>
constexpr Tactic row(const char* name) {
  constexpr int kVersion = F.numeric == Numeric::kFloat  ? F.by_parts ? 5 : 4
                           : F.numeric == Numeric::kByte ? F.sparse == SparseIndex::kNone ? 5 : 6
                                                         : 4;
  return bound_form<F>(name, ir::LayerKind::kMatrixMultiply, FormatRule::kLinear, kVersion,
                       [](const Problem& problem) { return packed_inputs(F.numeric, problem); });
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::matmul_form
