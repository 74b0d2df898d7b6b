// SPDX-License-Identifier: Apache-2.0
// Rotation: pairs turned by angles, a row at a time, wherever rows lie; what is read and written
// passes registers once.
#include "ir/rotation.h"
#include "kernels/simd/bytes.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

constexpr int64_t kElementsWorthThreads = 64 * 1024;

// Strides of the dimensions before the last, in elements; 0 where factors are repeated.
struct Rows {
  int64_t strides[ir::kMaxRank] = {};
};

struct State {
  int outer_rank = 0;
  int64_t extents[ir::kMaxRank] = {};
  Rows x, cosine, sine, y;
  int64_t rows = 1, half = 0, rest = 0;
  int64_t other = 0;  // where factors of the second half begin
  bool alone = true;
};

Rows rows_of(const TensorView& view, int outer_rank) {
  Rows rows;
  for (int d = 0; d < outer_rank; ++d) {
    const int of_view = d - (outer_rank + 1 - view.rank);
    const bool repeats = of_view < 0 || view.extents[of_view] == 1;
    rows.strides[d] = repeats ? 0 : view.strides[of_view];
  }
  return rows;
}

int64_t offset_of(const State& s, const Rows& rows, int64_t row) {
  int64_t offset = 0;
  for (int d = s.outer_rank - 1; d >= 0; --d) {
    offset += row % s.extents[d] * rows.strides[d];
    row /= s.extents[d];
  }
  return offset;
}

void turn_row(const State& s, const float* x, const float* cosine, const float* sine, float* y) {
  const float *second_cosine = cosine + s.other, *second_sine = sine + s.other;
  int64_t k = 0;
  for (; k + kLanes <= s.half; k += kLanes) {
    const F32 a = load(x + k), b = load(x + s.half + k);
    store(y + k, fnma(b, load(sine + k), a * load(cosine + k)));
    store(y + s.half + k, fma(a, load(second_sine + k), b * load(second_cosine + k)));
  }
  if (k < s.half) {
    const int rest = static_cast<int>(s.half - k);
    const M32 tail = first_n(rest);
    const F32 a = load(x + k, tail), b = load(x + s.half + k, tail);
    store_first(y + k, fnma(b, load(sine + k, tail), a * load(cosine + k, tail)), rest);
    store_first(y + s.half + k,
                fma(a, load(second_sine + k, tail), b * load(second_cosine + k, tail)), rest);
  }
  for (k = 2 * s.half; k < 2 * s.half + s.rest; ++k) y[k] = x[k];
}

void run(State& s, const KernelCall& call) {
  const auto body = [&](int, int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row)
      turn_row(s, call.input<const float>(0) + offset_of(s, s.x, row),
               call.input<const float>(ir::kRotationCosine) + offset_of(s, s.cosine, row),
               call.input<const float>(ir::kRotationSine) + offset_of(s, s.sine, row),
               call.output<float>(0) + offset_of(s, s.y, row));
  };
  if (s.alone)
    body(0, 0, s.rows);
  else
    call.pool->parallel_ranges(s.rows, body);
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const TensorView& cosine = args.inputs[ir::kRotationCosine];
  State s;
  s.outer_rank = y.rank - 1;
  for (int d = 0; d < s.outer_rank; ++d) {
    s.extents[d] = y.extents[d];
    s.rows *= y.extents[d];
  }
  s.half = ir::rotated_half(*args.layer);
  s.rest = y.extents[s.outer_rank] - 2 * s.half;
  s.other = cosine.extents[cosine.rank - 1] == s.half ? 0 : s.half;
  s.x = rows_of(x, s.outer_rank);
  s.y = rows_of(y, s.outer_rank);
  s.cosine = rows_of(cosine, s.outer_rank);
  s.sine = rows_of(args.inputs[ir::kRotationSine], s.outer_rank);
  s.alone = threads_of(args) == 1 || y.elements() < kElementsWorthThreads;
  keep_state<run>(kernel, s);
}

std::string refusal(const Problem& p) {
  if (ir::rotated_half(*p.layer) == 0) return "another operator";
  return all_float(p) ? "" : "not float";
}

constexpr Tactic kTactics[] = {
    {"rotation_f32", ir::LayerKind::kGeneric, kIsa, FormatRule::kLinear, 1, refusal, traffic_us,
     CAMSHAFT_NOTHING_PACKED, prepare},
};

}  // namespace

std::span<const Tactic> rotation_tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
