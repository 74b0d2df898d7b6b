// SPDX-License-Identifier: Apache-2.0
// RNN, GRU, LSTM with every attribute of ONNX, one step, batch item and gate after the other, in
// double.
#include <algorithm>
#include <span>

#include "kernels/gate_functions.h"
#include "kernels/reference/access.h"
#include "kernels/reference/dynamic_grid.h"
#include "kernels/reference/tables.h"

namespace camshaft::kernels::reference {
namespace {

using ir::RnnKind;
using Vector = std::vector<double>;

int gate_count(RnnKind kind) {
  return kind == RnnKind::kLstm ? 4 : kind == RnnKind::kGru ? 3 : 1;
}

// One direction's weights, as pointers into the loaded tensors; null: absent.
struct Weights {
  const double *w, *r, *b, *p;
};

struct Cell {
  const ir::RnnAttrs& attrs;
  int64_t inputs, hidden;
  Weights weights;
  const GateFunction* functions;  // of this direction

  double activate(int gate, double value) const { return evaluate(functions[gate], value); }
  double clipped(double value) const {
    return attrs.clip > 0 ? std::clamp<double>(value, -attrs.clip, attrs.clip) : value;
  }
  double from_input(const double* x, int gate, int64_t unit) const {
    const int64_t row = gate * hidden + unit;
    double sum = weights.b ? weights.b[row] : 0;
    for (int64_t k = 0; k < inputs; ++k) sum += weights.w[row * inputs + k] * x[k];
    return sum;
  }
  double recurrent_bias(int gate, int64_t unit) const {
    return weights.b ? weights.b[(gate_count(attrs.kind) + gate) * hidden + unit] : 0;
  }
  double from_state(const double* h, int gate, int64_t unit) const {
    const int64_t row = gate * hidden + unit;
    double sum = 0;
    for (int64_t k = 0; k < hidden; ++k) sum += weights.r[row * hidden + k] * h[k];
    return sum;
  }
  double gate(const double* x, const double* h, int number, int64_t unit) const {
    return from_input(x, number, unit) + from_state(h, number, unit) + recurrent_bias(number, unit);
  }

  // One step: h (and c) are replaced.
  void step(const double* x, Vector& h, Vector& c) const {
    switch (attrs.kind) {
      case RnnKind::kRnn:
        return step_rnn(x, h);
      case RnnKind::kGru:
        return step_gru(x, h);
      case RnnKind::kLstm:
        return step_lstm(x, h, c);
    }
  }

 private:
  void step_rnn(const double* x, Vector& h) const {
    Vector next(hidden);
    for (int64_t u = 0; u < hidden; ++u) next[u] = activate(0, clipped(gate(x, h.data(), 0, u)));
    h = next;
  }

  void step_gru(const double* x, Vector& h) const {  // gates z, r, h
    Vector next(hidden), update(hidden), reset(hidden), reset_state(hidden);
    for (int64_t u = 0; u < hidden; ++u) {
      update[u] = activate(0, clipped(gate(x, h.data(), 0, u)));
      reset[u] = activate(0, clipped(gate(x, h.data(), 1, u)));
      reset_state[u] = reset[u] * h[u];
    }
    for (int64_t u = 0; u < hidden; ++u) {
      const double recurrent = attrs.linear_before_reset
                                   ? reset[u] * (from_state(h.data(), 2, u) + recurrent_bias(2, u))
                                   : from_state(reset_state.data(), 2, u) + recurrent_bias(2, u);
      const double candidate = activate(1, clipped(from_input(x, 2, u) + recurrent));
      next[u] = (1 - update[u]) * candidate + update[u] * h[u];
    }
    h = next;
  }

  void step_lstm(const double* x, Vector& h,
                 Vector& c) const {  // gates i, o, f, c; peepholes i, o, f
    Vector next(hidden);
    const double* p = weights.p;
    for (int64_t u = 0; u < hidden; ++u) {
      const double i = activate(0, clipped(gate(x, h.data(), 0, u) + (p ? p[u] * c[u] : 0)));
      const double f =
          attrs.input_forget
              ? 1 - i
              : activate(0, clipped(gate(x, h.data(), 2, u) + (p ? p[2 * hidden + u] * c[u] : 0)));
      const double candidate = activate(1, clipped(gate(x, h.data(), 3, u)));
      c[u] = f * c[u] + i * candidate;
      const double o =
          activate(0, clipped(gate(x, h.data(), 1, u) + (p ? p[hidden + u] * c[u] : 0)));
      next[u] = o * activate(2, c[u]);
    }
    h = next;
  }
};

// x [T, B, I] and the outputs [T, D, B, H], [D, B, H] whatever the layout: a batch-first view has
// its dimensions exchanged.
TensorView time_first(TensorView view, const Ints& permutation) {
  if (!view.present()) return view;
  const TensorView old = view;
  for (size_t d = 0; d < permutation.size(); ++d) {
    view.extents[d] = old.extents[permutation[d]];
    view.strides[d] = old.strides[permutation[d]];
  }
  return view;
}

struct States {
  Vector y, h, c;  // [T, D, B, H], [D, B, H], [D, B, H]
};

void run_direction(const Cell& cell, const Vector& x, const Ints& lengths, int64_t d,
                   int64_t directions, bool reverse, States& states) {
  const int64_t batch = static_cast<int64_t>(lengths.size()), hidden = cell.hidden;
  for (int64_t n = 0; n < batch; ++n) {
    double *h_state = states.h.data() + (d * batch + n) * hidden,
           *c_state = states.c.data() + (d * batch + n) * hidden;
    Vector h(h_state, h_state + hidden), c(c_state, c_state + hidden);
    for (int64_t s = 0; s < lengths[n]; ++s) {
      const int64_t t = reverse ? lengths[n] - 1 - s : s;
      cell.step(x.data() + (t * batch + n) * cell.inputs, h, c);
      std::copy(h.begin(), h.end(), states.y.data() + ((t * directions + d) * batch + n) * hidden);
    }
    std::copy(h.begin(), h.end(), h_state);
    std::copy(c.begin(), c.end(), c_state);
  }
}

// What DynamicQuantizeLinear makes of floats, back as numbers.
void round_to_codes(std::span<double> values) {
  const DynamicGrid grid(std::vector<float>(values.begin(), values.end()));
  for (double& v : values)
    v = static_cast<double>(grid.scale) * (grid.code(static_cast<float>(v)) - grid.zero_point);
}

int64_t longest_of(const Ints& lengths) {
  return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
}

// With weights of codes, step by step: all rows of a product are rounded together. Of an item that
// has ended, that is once its last state, then zeros. `x` is rounded.
void run_direction_of_codes(const Cell& cell, const Vector& x, const Ints& lengths, int64_t d,
                            int64_t directions, bool reverse, States& states) {
  const int64_t batch = static_cast<int64_t>(lengths.size()), hidden = cell.hidden;
  const int64_t longest = longest_of(lengths);
  double *h_states = states.h.data() + d * batch * hidden,
         *c_states = states.c.data() + d * batch * hidden;
  Vector multiplied(h_states, h_states + batch * hidden);
  for (int64_t s = 0; s < longest; ++s) {
    Vector rounded = multiplied;
    round_to_codes(rounded);
    for (int64_t n = 0; n < batch; ++n) {
      double* next = multiplied.data() + n * hidden;
      std::fill(next, next + hidden, 0.0);
      if (s >= lengths[n]) continue;
      const int64_t t = reverse ? lengths[n] - 1 - s : s;
      double* c_state = c_states + n * hidden;
      Vector h(rounded.begin() + n * hidden, rounded.begin() + (n + 1) * hidden),
          c(c_state, c_state + hidden);
      cell.step(x.data() + (t * batch + n) * cell.inputs, h, c);
      for (double* to : {next, h_states + n * hidden,
                         states.y.data() + ((t * directions + d) * batch + n) * hidden})
        std::copy(h.begin(), h.end(), to);
      std::copy(c.begin(), c.end(), c_state);
    }
  }
}

// Input k, of codes with scales and zero points in inputs `grid` and the next.
Vector load_weights(const KernelArgs& args, size_t k, size_t grid) {
  Vector weights = load<double>(args.inputs[k]);
  if (!ir::is_quantized(args.inputs[k].type)) return weights;
  const Vector scales = load<double>(input(args, grid)),
               zeros = load<double>(input(args, grid + 1));
  const size_t depth = scales.empty() ? 0 : weights.size() / scales.size();
  for (size_t i = 0; i < weights.size(); ++i)
    weights[i] = (weights[i] - zeros[i / depth]) * scales[i / depth];
  return weights;
}

Status recurrence(const KernelArgs& args) {
  const auto& attrs = args.layer->as<ir::RnnAttrs>();
  const bool swap = attrs.batch_first;
  const Ints state_order = swap ? Ints{1, 0, 2} : Ints{0, 1, 2};
  const TensorView x_view = time_first(args.inputs[0], state_order);
  const TensorView &w_view = args.inputs[1], &r_view = args.inputs[2];
  if (x_view.rank != 3 || w_view.rank != 3 || r_view.rank != 3)
    return make_error(ErrorCode::kInvalidArgument, "a recurrent layer takes X, W, R of rank 3");
  const int64_t steps = x_view.extents[0], batch = x_view.extents[1], inputs = x_view.extents[2];
  const int64_t directions = w_view.extents[0], hidden = r_view.extents[2],
                rows = gate_count(attrs.kind) * hidden;
  if (w_view.extents[1] != rows || r_view.extents[1] != rows || w_view.extents[2] != inputs ||
      directions != (attrs.direction == ir::RnnDirection::kBidirectional ? 2 : 1))
    return make_error(ErrorCode::kInvalidArgument,
                      "weights of a recurrent layer do not fit {} inputs and {} units", inputs,
                      hidden);
  GateFunctions functions;
  CAMSHAFT_TRY(read_gate_functions(attrs, directions, functions));

  Vector x = load<double>(x_view);
  const Vector w = load_weights(args, 1, 8), r = load_weights(args, 2, 10);
  const Vector b = load<double>(input(args, 3)), p = load<double>(input(args, 7));
  Ints lengths = load_ints(input(args, 4));
  if (lengths.empty()) lengths.assign(batch, steps);
  for (int64_t length : lengths)
    if (length < 0 || length > steps || static_cast<int64_t>(lengths.size()) != batch)
      return make_error(ErrorCode::kInvalidArgument, "sequence length {} of {} steps", length,
                        steps);
  States states{Vector(steps * directions * batch * hidden),
                load<double>(time_first(input(args, 5), state_order)),
                load<double>(time_first(input(args, 6), state_order))};
  const size_t state_size = directions * batch * hidden;
  for (Vector* state : {&states.h, &states.c}) {
    if (state->empty()) state->resize(state_size);
    if (state->size() != state_size)
      return make_error(ErrorCode::kInvalidArgument,
                        "an initial state of {} elements, {} are wanted", state->size(),
                        state_size);
  }
  const bool has_codes = ir::is_quantized(w_view.type);
  // Steps behind the longest are not looked at.
  if (has_codes) round_to_codes(std::span(x).first(longest_of(lengths) * batch * inputs));
  for (int64_t d = 0; d < directions; ++d) {
    const Weights weights{w.data() + d * rows * inputs, r.data() + d * rows * hidden,
                          b.empty() ? nullptr : b.data() + d * 2 * rows,
                          p.empty() ? nullptr : p.data() + d * 3 * hidden};
    const Cell cell{attrs, inputs, hidden, weights, functions.of[d]};
    const bool reverse = attrs.direction == ir::RnnDirection::kReverse || d == 1;
    const auto run = has_codes ? run_direction_of_codes : run_direction;
    run(cell, x, lengths, d, directions, reverse, states);
  }
  // Y is [B, T, D, H] when batch first.
  if (const TensorView y = output(args, 0); y.present())
    store(time_first(y, swap ? Ints{1, 2, 0, 3} : Ints{0, 1, 2, 3}), states.y);
  if (const TensorView h = output(args, 1); h.present())
    store(time_first(h, state_order), states.h);
  if (const TensorView c = output(args, 2); c.present())
    store(time_first(c, state_order), states.c);
  return ok_status();
}

}  // namespace

std::span<const KindRow> recurrence_kinds() {
  static constexpr KindRow kRows[] = {{ir::LayerKind::kRecurrence, {recurrence, nullptr}}};
  return kRows;
}

}  // namespace camshaft::kernels::reference
