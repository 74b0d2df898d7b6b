// SPDX-License-Identifier: Apache-2.0
// Rotation: pairs turned by angles, a row at a time, wherever rows lie; what is read and written
// passes registers once. Pairs of neighbours change places in a register.
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
  bool has_pairs = false;  // of neighbours
  bool has_each = false;   // factors of each element, not of pairs
  double predicted_us = 0;
};

void turn_row(const State& s, const float* x, const float* cosine, const float* sine, float* y) {
  const int64_t other = s.has_each ? s.half : 0;  // where factors of the second half begin
  const float *second_cosine = cosine + other, *second_sine = sine + other;
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

// Neighbours that change places; the factors of pairs for both of them, of a vector's first and
// last pairs; the signs of sines.
struct Neighbours {
  I32 swapped, first, last;
  F32 signs;

  Neighbours() {
    alignas(64) int32_t others[kLanes], low[kLanes], high[kLanes];
    alignas(64) float minus_plus[kLanes];
    for (int k = 0; k < kLanes; ++k) {
      others[k] = k ^ 1, low[k] = k / 2, high[k] = kLanes / 2 + k / 2;
      minus_plus[k] = k % 2 == 0 ? -1.0f : 1.0f;
    }
    swapped = iload(others), first = iload(low), last = iload(high), signs = load(minus_plus);
  }

  F32 turned(F32 v, F32 cosine, F32 sine) const {
    return fma(permute(v, swapped), sine * signs, v * cosine);
  }
};

void turn_neighbours(const State& s, const Neighbours& n, const float* x, const float* cosine,
                     const float* sine, float* y) {
  const int64_t length = 2 * s.half;
  int64_t k = 0;
  if (s.has_each)
    for (; k + kLanes <= length; k += kLanes)
      store(y + k, n.turned(load(x + k), load(cosine + k), load(sine + k)));
  else
    for (; k + 2 * kLanes <= length; k += 2 * kLanes) {
      const F32 c = load(cosine + k / 2), t = load(sine + k / 2);
      const F32 low = load(x + k), high = load(x + k + kLanes);
      store(y + k, n.turned(low, permute(c, n.first), permute(t, n.first)));
      store(y + k + kLanes, n.turned(high, permute(c, n.last), permute(t, n.last)));
    }
  for (; k < length; k += kLanes) {
    const int count = static_cast<int>(length - k < kLanes ? length - k : kLanes);
    const M32 lanes = first_n(count), pairs = first_n(count / 2);
    const auto factors = [&](const float* values) {
      return s.has_each ? load(values + k, lanes) : permute(load(values + k / 2, pairs), n.first);
    };
    store_first(y + k, n.turned(load(x + k, lanes), factors(cosine), factors(sine)), count);
  }
  for (k = length; k < length + s.rest; ++k) y[k] = x[k];
}

void run(State& s, const KernelCall& call) {
  const Neighbours neighbours;
  for_tiles(s.nest, call.pool, s.predicted_us,
            [&](const int64_t* offsets, int64_t rows, int64_t cols) {
              for (int64_t r = 0; r < rows; ++r)
                for (int64_t c = 0; c < cols; ++c) {
                  const auto at = [&](int t) {
                    return offsets[t] + r * s.nest.row_stride(t) + c * s.nest.col_stride(t);
                  };
                  const float *x = call.input<const float>(0) + at(1),
                              *cosine = call.input<const float>(ir::kRotationCosine) + at(2),
                              *sine = call.input<const float>(ir::kRotationSine) + at(3);
                  float* y = call.output<float>(0) + at(0);
                  if (s.has_pairs)
                    turn_neighbours(s, neighbours, x, cosine, sine, y);
                  else
                    turn_row(s, x, cosine, sine, y);
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
  s.has_each = cosine.extents[cosine.rank - 1] != s.half;
  s.has_pairs = ir::turns_neighbours(*args.layer);
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
