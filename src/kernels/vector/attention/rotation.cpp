// SPDX-License-Identifier: Apache-2.0
// Rotation: pairs turned by angles, a row at a time, wherever rows lie; what is read and written
// passes registers once.
#include "ir/rotation.h"
#include "kernels/nest.h"
#include "kernels/simd/bytes.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::rotation {
namespace {

struct State {
  Nest nest;  // of rows: the output, x, cosines, sines
  int64_t half = 0, rest = 0;
  int64_t other = 0;  // where factors of the second half begin
  double predicted_us = 0;
};

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
  for_tiles(s.nest, call.pool, s.predicted_us,
            [&](const int64_t* offsets, int64_t rows, int64_t cols) {
              for (int64_t r = 0; r < rows; ++r)
                for (int64_t c = 0; c < cols; ++c) {
                  const auto at = [&](int t) {
                    return offsets[t] + r * s.nest.row_stride(t) + c * s.nest.col_stride(t);
                  };
                  turn_row(s, call.input<const float>(0) + at(1),
                           call.input<const float>(ir::kRotationCosine) + at(2),
                           call.input<const float>(ir::kRotationSine) + at(3),
                           call.output<float>(0) + at(0));
                }
            });
}

// A row's first element stands for all of it.
void add_rows(TensorView view, Nest& nest) {
  view.extents[view.rank - 1] = 1;
  add_tensor(nest, view);
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView& y = args.outputs[0];
  const TensorView& cosine = args.inputs[ir::kRotationCosine];
  State s;
  s.half = ir::rotated_half(*args.layer);
  s.rest = y.extents[y.rank - 1] - 2 * s.half;
  s.other = cosine.extents[cosine.rank - 1] == s.half ? 0 : s.half;
  s.predicted_us = static_cast<double>(count_of(y) * 8) / kBytesPerUs;
  s.nest = make_nest(y);
  for (const TensorView& input : args.inputs) add_rows(input, s.nest);
  s.nest.extents[y.rank - 1] = 1;
  collapse(s.nest);
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

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::rotation
