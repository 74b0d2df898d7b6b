// SPDX-License-Identifier: Apache-2.0
// What turns the sums of a recurrence's gates into its next state: the functions ONNX has for them,
// peepholes, limits. The default functions have loops of their own, which read each gate once.
#pragma once

#include "kernels/gate_functions.h"
#include "kernels/vector/math.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// Vectors of floats, and the first lanes of one: masked stores are slow (Zen 3).
struct WholeVector {
  CAMSHAFT_INLINE_MEMBER F32 load(const float* p) const { return CAMSHAFT_TARGET::load(p); }
  CAMSHAFT_INLINE_MEMBER void store(float* p, F32 v) const { CAMSHAFT_TARGET::store(p, v); }
};
struct FirstLanes {
  M32 mask;
  CAMSHAFT_INLINE_MEMBER F32 load(const float* p) const { return CAMSHAFT_TARGET::load(p, mask); }
  CAMSHAFT_INLINE_MEMBER void store(float* p, F32 v) const { CAMSHAFT_TARGET::store(p, v, mask); }
};

// body(k, lanes) for the vectors of `count` floats, the last of them partial.
template <class Body>
CAMSHAFT_INLINE void for_vectors(int64_t count, const Body& body) {
  int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes) body(k, WholeVector());
  if (k < count) body(k, FirstLanes{first_n(static_cast<int>(count - k))});
}

// values[k] = op(values[k]).
template <class Op>
CAMSHAFT_INLINE void map_gate(float* values, int64_t count, const Op& op) {
  for_vectors(
      count, [&](int64_t k, auto at)
                 __attribute__((always_inline)) { at.store(values + k, op(at.load(values + k))); });
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
  for_vectors(
      hidden, [&](int64_t k, auto at) __attribute__((always_inline)) {
        const F32 i = sigmoid(at.load(gates + k)), o = sigmoid(at.load(gates + hidden + k));
        const F32 f = sigmoid(at.load(gates + 2 * hidden + k)),
                  g = tanh(at.load(gates + 3 * hidden + k));
        const F32 cell = fma(f, at.load(c + k), i * g);
        at.store(c + k, cell);
        at.store(h + k, o * tanh(cell));
      });
}

// h = (1 - z) * tanh(candidate) + z * h.
static inline void default_gru(const float* z, const float* candidate, int64_t hidden, float* h) {
  for_vectors(
      hidden, [&](int64_t k, auto at) __attribute__((always_inline)) {
        const F32 update = sigmoid(at.load(z + k)), value = tanh(at.load(candidate + k));
        at.store(h + k, fma(update, at.load(h + k) - value, value));
      });
}

static inline void default_rnn(const float* sums, int64_t hidden, float* h) {
  for_vectors(
      hidden, [&](int64_t k, auto at)
                  __attribute__((always_inline)) { at.store(h + k, tanh(at.load(sums + k))); });
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
    for_vectors(
        hidden, [&](int64_t k, auto at) __attribute__((always_inline)) {
          at.store(sums + k, fma(at.load(weights + k), at.load(c + k), at.load(sums + k)));
        });
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
    for_vectors(
        hidden, [&](int64_t k, auto at) __attribute__((always_inline)) {
          const F32 in = at.load(i + k), kept = couples ? set1(1) - in : at.load(forget + k);
          const F32 cell = fma(kept, at.load(c + k), in * at.load(candidate + k));
          at.store(c + k, cell);
          at.store(state + k, cell);
        });
    add_peephole(peepholes ? peepholes + hidden : nullptr, c, hidden, o);
    activate(f, o, hidden);
    apply_function(h, state, hidden);
    for_vectors(
        hidden, [&](int64_t k, auto at) __attribute__((always_inline)) {
          at.store(state + k, at.load(state + k) * at.load(o + k));
        });
  }

  // out = f(r) * value (+ added); r is overwritten.
  void reset(float* r, const float* value, const float* added, int64_t hidden, float* out) const {
    if (!is_default) activate(f, r, hidden);
    for_vectors(
        hidden, [&](int64_t k, auto at) __attribute__((always_inline)) {
          const F32 sum = at.load(r + k), share = is_default ? sigmoid(sum) : sum;
          const F32 more = added ? at.load(added + k) : zero();
          at.store(out + k, fma(share, at.load(value + k), more));
        });
  }

  // state = (1 - z) * candidate + z * state.
  void gru(float* z, float* candidate, int64_t hidden, float* state) const {
    if (is_default) return default_gru(z, candidate, hidden, state);
    activate(f, z, hidden);
    activate(g, candidate, hidden);
    for_vectors(
        hidden, [&](int64_t k, auto at) __attribute__((always_inline)) {
          const F32 value = at.load(candidate + k);
          at.store(state + k, fma(at.load(z + k), at.load(state + k) - value, value));
        });
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
