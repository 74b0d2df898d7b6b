// SPDX-License-Identifier: Apache-2.0
// Matrix products with a constant right factor, packed while building: linear layers. They run as
// 1x1 convolutions whose pixels are the rows of A, so blocking, threads, epilogues and the copy of
// a transposed A are those of conv_gemm.
#include "kernels/vector/conv_gemm.h"
#include "kernels/vector/gemm_cost.h"
#include "kernels/vector/gemm_pack.h"
#include "kernels/vector/gemm_tiles.h"
#include "kernels/vector/matmul_run.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

namespace {

const ir::MatrixMultiplyAttrs& attrs_of(const Problem& problem) {
  return problem.layer->as<ir::MatrixMultiplyAttrs>();
}

template <int kVecs>
std::string refusal(const Problem& problem) {
  if (std::string reason = refuse_matmul(problem); !reason.empty()) return reason;
  if (!problem.inputs[1].constant) return "the right factor is not constant";
  const ir::Extents& b = problem.inputs[1].extents;
  for (size_t d = 0; d + 2 < b.size(); ++d)
    if (b[d] != 1) return "the right factor is a batch";
  if (kVecs > 1 && problem.outputs[0].extents.back() <= (kVecs - 1) * kLanes)
    return "fewer columns than the tile has";
  return {};
}

template <int kVecs>
double cost_us(const Problem& problem) {
  int64_t m, n, k;
  if (!matmul_extents(problem, m, n, k)) return 1e12;
  const double rows = matmul_batch(problem) * static_cast<double>(m);
  const double us =
      0.15 + tile_cost_us(1, static_cast<int64_t>(rows), n, k, kVecs) / problem.threads;
  const double stream_us = 4.0 * static_cast<double>(n) * static_cast<double>(k) / 60e3;
  return us > stream_us ? us : stream_us;
}

uint32_t packed_inputs(const Problem& problem) {
  return has_packed_bias(problem) ? 6u : 2u;
}

size_t packed_bytes(const Problem& problem) {
  int64_t m, n, k;
  if (!matmul_extents(problem, m, n, k)) return 0;
  const Panels panels(n, k, 1);
  return static_cast<size_t>(panels.padded_n() + panels.floats()) * sizeof(float);
}

template <int kVecs>
void pack(const Problem& problem, std::byte* packed) {
  int64_t m, n, k;
  if (!matmul_extents(problem, m, n, k)) return;
  const Panels panels(n, k, kVecs);
  float* bias = reinterpret_cast<float*>(packed);
  for (int64_t col = 0; col < panels.padded_n(); ++col) bias[col] = 0;
  if (has_packed_bias(problem)) {
    const ProblemTensor& values = problem.inputs[2];
    const bool scalar = values.extents.empty() || values.extents.back() == 1;
    for (int64_t col = 0; col < n; ++col) bias[col] = constant_floats(values)[scalar ? 0 : col];
  }
  const bool transposed = attrs_of(problem).transpose_b;
  const int64_t k_stride = transposed ? 1 : n, n_stride = transposed ? k : 1;
  const float* b = constant_floats(problem.inputs[1]);
  for (int64_t panel = 0; panel < panels.count(); ++panel)
    pack_panel(b + panels.first_col(panel) * n_stride, k_stride, n_stride, k, panels.cols_of(panel),
               panels.vecs_of(panel) * kLanes, attrs_of(problem).alpha,
               bias + panels.padded_n() + panels.offset(panel));
}

template <int kVecs>
void prepare(const KernelArgs& args, MatmulRun& matmul, ConvRun& run) {
  set_matmul(args, matmul);
  if (args.inputs.size() > 2 && args.inputs[2].present() && args.inputs[2].data) {
    matmul.finish.has_initial = true;
    matmul.finish.initial = matrix_source(args.inputs[2], args.outputs[0]);
  }
  run.shape = {.batch = matmul.images,
               .ic = matmul.k,
               .ih = matmul.rows,
               .iw = matmul.m,
               .oc = matmul.n,
               .oh = matmul.rows,
               .ow = matmul.m};
  run.x = matmul.a.data;
  run.x_image = matmul.a.image;
  run.x_row = matmul.a.row;
  run.x_pixel = matmul.a.m;
  run.x_channel = matmul.a.k;
  run.max_vecs = kVecs;
  run.bias = reinterpret_cast<const float*>(args.packed);
  run.weights = run.bias + run.panels().padded_n();
  run.finish = matmul.finish;
}

template <int kVecs>
size_t workspace_bytes(const KernelArgs& args) {
  MatmulRun matmul;
  ConvRun run;
  prepare<kVecs>(args, matmul, run);
  return plan_conv(run, threads_of(args));
}

template <int kVecs>
void run(const KernelArgs& args) {
  if (args.outputs[0].elements() == 0) return;
  MatmulRun matmul;
  ConvRun run;
  prepare<kVecs>(args, matmul, run);
  plan_conv(run, threads_of(args));
  for (int64_t outer = 0; outer < matmul.outer; ++outer) {
    if (matmul.outer > 1) {
      move_outer(args, outer, matmul);
      run.x = matmul.a.data;
      run.finish = matmul.finish;
    }
    run_conv(run, args.workspace, args.pool);
  }
}

template <int kVecs>
constexpr Tactic row(const char* name) {
  return {.name = name,
          .kind = ir::LayerKind::kMatrixMultiply,
          .isa = kIsa,
          .formats = FormatRule::kLinear,
          .version = 1,
          .refusal = refusal<kVecs>,
          .cost_us = cost_us<kVecs>,
          .packed_inputs = packed_inputs,
          .packed_bytes = packed_bytes,
          .pack = pack<kVecs>,
          .workspace_bytes = workspace_bytes<kVecs>,
          .run = run<kVecs>};
}

#define CAMSHAFT_MATMUL_ROW(vecs, tile) row<vecs>("matmul_packed_f32_" tile),

constexpr Tactic kTactics[] = {CAMSHAFT_GEMM_TILES(CAMSHAFT_MATMUL_ROW)};

}  // namespace

std::span<const Tactic> matmul_tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
