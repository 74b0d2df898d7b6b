// SPDX-License-Identifier: Apache-2.0
// What turns the sums of a recurrence's gates into its next state: the functions ONNX has for them,
// peepholes, limits. The default functions have loops of their own, which read each gate once.
#pragma once

#include "kernels/gate_functions.h"
#include "kernels/vector/math.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// values[k] = op(values[k]).
template <class Op>
CAMSHAFT_INLINE void map_gate(float* values, int64_t count, const Op& op) {
  for (int64_t k = 0; k < count; k += kLanes) {
    const M32 mask = first_n(static_cast<int>(count - k));
    store(values + k, op(load(values + k, mask)), mask);
  }
}

static inline void apply_function(const GateFunction& function, float* values, int64_t count) {
  const F32 a = set1(static_cast<float>(function.alpha)),
            b = set1(static_cast<float>(function.beta));
  switch (function.op) {
    case GateOp::kRelu:
      return map_gate(values, count, [](F32 v) { return max(zero(), v); });
    case GateOp::kTanh:
      return map_gate(values, count, [](F32 v) { return tanh(v); });
    case GateOp::kSigmoid:
      return map_gate(values, count, [](F32 v) { return sigmoid(v); });
    case GateOp::kAffine:
      return map_gate(values, count, [=](F32 v) { return fma(a, v, b); });
    case GateOp::kLeakyRelu:
      return map_gate(values, count, [=](F32 v) { return select(less(v, zero()), a * v, v); });
    case GateOp::kThresholdedRelu:
      return map_gate(values, count, [=](F32 v) { return select(less(v, a), zero(), v); });
    case GateOp::kScaledTanh:
      return map_gate(values, count, [=](F32 v) { return a * tanh(b * v); });
    case GateOp::kHardSigmoid:
      return map_gate(values, count, [=](F32 v) { return hard_sigmoid(v, a, b); });
    case GateOp::kElu:
      return map_gate(values, count,
                      [=](F32 v) { return select(less(v, zero()), a * expm1(v), v); });
    case GateOp::kSoftsign:
      return map_gate(values, count, [](F32 v) { return v / (set1(1) + abs(v)); });
    case GateOp::kSoftplus:
      return map_gate(values, count, [](F32 v) { return softplus(v); });
  }
}

// h = o * tanh(c), c = f * c + i * g; gates i, o, f, g as ONNX orders them.
static inline void default_lstm(const float* gates, int64_t hidden, float* h, float* c) {
  for (int64_t k = 0; k < hidden; k += kLanes) {
    const M32 mask = first_n(static_cast<int>(hidden - k));
    const F32 i = sigmoid(load(gates + k, mask)), o = sigmoid(load(gates + hidden + k, mask));
    const F32 f = sigmoid(load(gates + 2 * hidden + k, mask)),
              g = tanh(load(gates + 3 * hidden + k, mask));
    const F32 cell = fma(f, load(c + k, mask), i * g);
    store(c + k, cell, mask);
    store(h + k, o * tanh(cell), mask);
  }
}

// h = (1 - z) * tanh(candidate) + z * h.
static inline void default_gru(const float* z, const float* candidate, int64_t hidden, float* h) {
  for (int64_t k = 0; k < hidden; k += kLanes) {
    const M32 mask = first_n(static_cast<int>(hidden - k));
    const F32 update = sigmoid(load(z + k, mask)), value = tanh(load(candidate + k, mask));
    store(h + k, fma(update, load(h + k, mask) - value, value), mask);
  }
}

static inline void default_rnn(const float* sums, int64_t hidden, float* h) {
  for (int64_t k = 0; k < hidden; k += kLanes) {
    const M32 mask = first_n(static_cast<int>(hidden - k));
    store(h + k, tanh(load(sums + k, mask)), mask);
  }
}

// Of one direction. Sums are overwritten.
struct Gates {
  GateFunction f, g, h;
  float clip = 0;  // 0: none
  bool is_default = true, couples = false;

  // The clipped sums through `function`.
  void activate(const GateFunction& function, float* sums, int64_t count) const {
    if (clip > 0) {
      const F32 low = set1(-clip), high = set1(clip);
      map_gate(sums, count, [=](F32 v) { return min(high, max(low, v)); });
    }
    apply_function(function, sums, count);
  }

  // sums += weights * c.
  static void add_peephole(const float* weights, const float* c, int64_t hidden, float* sums) {
    if (weights == nullptr) return;
    for (int64_t k = 0; k < hidden; k += kLanes) {
      const M32 mask = first_n(static_cast<int>(hidden - k));
      store(sums + k, fma(load(weights + k, mask), load(c + k, mask), load(sums + k, mask)), mask);
    }
  }

  // `peepholes`: of i, o and f, or null.
  void lstm(float* sums, const float* peepholes, int64_t hidden, float* state, float* c) const {
    if (is_default && peepholes == nullptr) return default_lstm(sums, hidden, state, c);
    float *i = sums, *o = sums + hidden, *forget = sums + 2 * hidden, *candidate = forget + hidden;
    add_peephole(peepholes, c, hidden, i);
    activate(f, i, hidden);
    if (!couples) {
      add_peephole(peepholes ? peepholes + 2 * hidden : nullptr, c, hidden, forget);
      activate(f, forget, hidden);
    }
    activate(g, candidate, hidden);
    for (int64_t k = 0; k < hidden; k += kLanes) {
      const M32 mask = first_n(static_cast<int>(hidden - k));
      const F32 in = load(i + k, mask), kept = couples ? set1(1) - in : load(forget + k, mask);
      const F32 cell = fma(kept, load(c + k, mask), in * load(candidate + k, mask));
      store(c + k, cell, mask);
      store(state + k, cell, mask);
    }
    add_peephole(peepholes ? peepholes + hidden : nullptr, c, hidden, o);
    activate(f, o, hidden);
    apply_function(h, state, hidden);
    for (int64_t k = 0; k < hidden; k += kLanes) {
      const M32 mask = first_n(static_cast<int>(hidden - k));
      store(state + k, load(state + k, mask) * load(o + k, mask), mask);
    }
  }

  // out = f(r) * value (+ added); r is overwritten.
  void reset(float* r, const float* value, const float* added, int64_t hidden, float* out) const {
    if (!is_default) activate(f, r, hidden);
    for (int64_t k = 0; k < hidden; k += kLanes) {
      const M32 mask = first_n(static_cast<int>(hidden - k));
      const F32 sum = load(r + k, mask), share = is_default ? sigmoid(sum) : sum;
      const F32 more = added ? load(added + k, mask) : zero();
      store(out + k, fma(share, load(value + k, mask), more), mask);
    }
  }

  // state = (1 - z) * candidate + z * state.
  void gru(float* z, float* candidate, int64_t hidden, float* state) const {
    if (is_default) return default_gru(z, candidate, hidden, state);
    activate(f, z, hidden);
    activate(g, candidate, hidden);
    for (int64_t k = 0; k < hidden; k += kLanes) {
      const M32 mask = first_n(static_cast<int>(hidden - k));
      const F32 value = load(candidate + k, mask);
      store(state + k, fma(load(z + k, mask), load(state + k, mask) - value, value), mask);
    }
  }

  void rnn(float* sums, int64_t hidden, float* state) const {
    if (is_default) return default_rnn(sums, hidden, state);
    activate(f, sums, hidden);
    __builtin_memcpy(state, sums, static_cast<size_t>(hidden) * sizeof(float));
  }
};

static inline Gates gates_of_direction(const ir::RnnAttrs& attrs, const GateFunctions& functions,
                                       int64_t direction) {
  const GateFunction* of = functions.of[direction];
  return {of[0],
          of[1],
          of[2],
          attrs.clip,
          functions.are_default && attrs.clip <= 0 && !attrs.input_forget,
          attrs.input_forget};
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
