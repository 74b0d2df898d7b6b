// SPDX-License-Identifier: Apache-2.0
// LSTM, GRU and RNN: one matrix product for the inputs of all steps,
// then per step one product with the state, accumulated onto it, and the gates. W and R are packed
// transposed, so that both run in the register tiles of GEMM.
//
//   gates[t][b][gate][h] = bias + X[t][b] · W^T  (all steps at once)      += H[b] · R^T  (per step)
//   ─▶ H, C
//
// GRU computes its candidate's recurrent part apart: it is multiplied by the reset gate before or
// after the product.
#include <cstring>

#include "kernels/vector/counts.h"
#include "kernels/vector/gemm/gemm_cost.h"
#include "kernels/vector/gemm/gemm_pack.h"
#include "kernels/vector/gemm/panel_product.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/recurrence/recurrent_layer.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::recurrence {
namespace {

using ir::RnnKind;

// Inputs of all steps are multiplied together, many rows: the widest tile of four rows. States have
// a row per batch item: a tactic per register tile, wide ones keep few rows' additions apart. Of
// one step that holds for inputs, too: there are tactics with both in the wide tile (dtln_1,
// AVX2: 8.9 to 7.1 us a layer).
constexpr int many_rows_vecs() {
  int vecs = kMaxVecs < 4 ? kMaxVecs : 4;
  while (vecs > 1 && kMaxRows[vecs] < 4) --vecs;
  return vecs;
}

const ir::RnnAttrs& attrs_of(const Problem& p) {
  return p.layer->as<ir::RnnAttrs>();
}

int gates_of(RnnKind kind) {
  return kind == RnnKind::kLstm ? 4 : kind == RnnKind::kGru ? 3 : 1;
}
int64_t padded(int64_t columns) {
  return (columns + kLanes - 1) / kLanes * kLanes;
}

// Packed, per direction: bias of the gates, bias of GRU's recurrent candidate, W panels, R panels.
// The candidate's R is packed apart (its columns come last), so that z and r can be had without it.
struct Packing {
  RnnKind kind;
  int64_t inputs, hidden;
  int state_vecs, input_vecs;  // of the panels of R and W

  int64_t columns() const { return gates_of(kind) * hidden; }
  // Columns of R that are added to the gates directly.
  int64_t direct_columns() const { return kind == RnnKind::kGru ? 2 * hidden : columns(); }
  Panels input_panels() const { return Panels(columns(), inputs, input_vecs); }
  Panels state_panels() const { return Panels(direct_columns(), hidden, state_vecs); }
  Panels candidate_panels() const {
    return Panels(kind == RnnKind::kGru ? hidden : 0, hidden, state_vecs);
  }

  int64_t candidate_bias() const { return padded(columns()); }
  int64_t w() const { return candidate_bias() + padded(hidden); }
  int64_t r() const { return w() + input_panels().lanes(); }
  int64_t candidate_r() const { return r() + state_panels().lanes(); }
  int64_t direction_floats() const {
    return (candidate_r() + candidate_panels().lanes() + 15) / 16 * 16;
  }
};

template <int kStateVecs, int kInputVecs>
Packing packing_of(const Problem& p) {
  return {attrs_of(p).kind, p.inputs[kW].extents[2], p.inputs[kR].extents[2], kStateVecs,
          kInputVecs};
}

int64_t input_rows(const Problem& p) {
  return p.inputs[kX].extents[0] * p.inputs[kX].extents[1];
}

template <int kInputVecs>
std::string refusal(const Problem& p) {
  if (kInputVecs > many_rows_vecs() && input_rows(p) > kMaxRows[kInputVecs])
    return "the inputs have more rows than the tile";
  if (!is_float_constant(p.inputs[kW]) || !is_float_constant(p.inputs[kR]))
    return "the weights are not float constants";
  return refuse_recurrence(p);
}

template <int kStateVecs, int kInputVecs>
double cost_us(const Problem& p) {
  const Packing packing = packing_of<kStateVecs, kInputVecs>(p);
  const int time_axis = attrs_of(p).batch_first ? 1 : 0;
  const int64_t steps = p.inputs[kX].extents[time_axis],
                batch = p.inputs[kX].extents[1 - time_axis];
  const double input = tile_cost_us(Numeric::kFloat, 1, input_rows(p), packing.columns(),
                                    packing.inputs, kInputVecs);
  const double states =
      tile_cost_us(Numeric::kFloat, steps, batch, packing.columns(), packing.hidden, kStateVecs);
  return 0.5 + static_cast<double>(p.inputs[kW].extents[0]) * (input + states);
}

uint32_t packed_inputs(const Problem& p) {
  return 1u << kW | 1u << kR | (has(p, kB) ? 1u << kB : 0u);
}

template <int kStateVecs, int kInputVecs>
size_t packed_bytes(const Problem& p) {
  return static_cast<size_t>(p.inputs[kW].extents[0] *
                             packing_of<kStateVecs, kInputVecs>(p).direction_floats()) *
         sizeof(float);
}

// The rows of a [n][k] matrix as columns of panels.
void pack_panels(const Panels& panels, const float* rows, float* packed) {
  for (int64_t panel = 0; panel < panels.count(); ++panel)
    pack_panel(rows + panels.first_col(panel) * panels.k, 1, panels.k, panels.k,
               panels.cols_of(panel), panels.vecs_of(panel) * kLanes, 1,
               packed + panels.offset(panel));
}

// Input and recurrent bias are added once; only the candidate of GRU needs its recurrent one apart.
void pack_bias(const Packing& packing, const float* bias, float* out) {
  const int64_t columns = packing.columns();
  for (int64_t k = 0; k < columns; ++k)
    out[k] = bias[k] + (k < packing.direct_columns() ? bias[columns + k] : 0);
  if (packing.kind == RnnKind::kGru)
    std::memcpy(out + packing.candidate_bias(), bias + 5 * packing.hidden,
                static_cast<size_t>(packing.hidden) * sizeof(float));
}

template <int kStateVecs, int kInputVecs>
void pack(const Problem& p, std::byte* packed) {
  const Packing packing = packing_of<kStateVecs, kInputVecs>(p);
  const auto floats = [&](RecurrenceInput input) {
    return reinterpret_cast<const float*>(p.inputs[input].constant->view.data());
  };
  std::memset(packed, 0, packed_bytes<kStateVecs, kInputVecs>(p));
  for (int64_t d = 0; d < p.inputs[kW].extents[0]; ++d) {
    float* out = reinterpret_cast<float*>(packed) + d * packing.direction_floats();
    const float* r = floats(kR) + d * packing.columns() * packing.hidden;
    if (has(p, kB)) pack_bias(packing, floats(kB) + d * 2 * packing.columns(), out);
    pack_panels(packing.input_panels(), floats(kW) + d * packing.columns() * packing.inputs,
                out + packing.w());
    pack_panels(packing.state_panels(), r, out + packing.r());
    pack_panels(packing.candidate_panels(), r + packing.direct_columns() * packing.hidden,
                out + packing.candidate_r());
  }
}

constexpr int64_t kMacsWorthThreads = 100000;  // forking costs about a microsecond

void multiply(const PanelProduct& p, int64_t rows, ThreadPool* pool) {
  const bool alone =
      !pool || pool->threads() == 1 || rows * p.panels.k * p.panels.n < kMacsWorthThreads;
  if (alone) return multiply_panels(p, rows, 0, p.panels.count());
  pool->parallel_ranges(p.panels.count(), [&](int, int64_t first, int64_t last) {
    multiply_panels(p, rows, first, last);
  });
}

struct Run : RecurrentLayer {
  Packing packing;
  Panels input_panels, state_panels, candidate_panels;
  // Workspace: the gates of every step, one state per batch item and array.
  float *gates, *h, *c, *scratch, *candidate;

  int64_t state_floats() const { return batch * hidden + kLanes; }
  int64_t gate_floats() const { return steps * batch * packing.columns() + kLanes; }
  int64_t direction_workspace() const {
    return round_up(gate_floats() + 4 * state_floats(), kLanes);
  }
  size_t workspace() const {
    return static_cast<size_t>(direction_workspace() * (side_by_side ? 2 : 1)) * sizeof(float);
  }
  // Behind its length an item rests: its state stays, its outputs are 0. Backwards it rests first.
  bool runs(int64_t t, int64_t b) const { return t < length(b); }
  // The items up to the last that does not rest.
  int64_t rows_at(int64_t t) const {
    int64_t rows = batch;
    while (rows > 0 && !runs(t, rows - 1)) --rows;
    return rows;
  }

  Run(const KernelArgs& a, const KeptViews& kept, int state_vecs, int input_vecs)
      : RecurrentLayer(a, kept),
        packing{attrs.kind, inputs, hidden, state_vecs, input_vecs},
        input_panels(packing.input_panels()),
        state_panels(packing.state_panels()),
        candidate_panels(packing.candidate_panels()) {
    side_by_side = run_side_by_side(directions, batch * hidden * packing.columns(),
                                    kMacsWorthThreads, threads_of(a));
  }
  void place(int64_t d) {
    gates =
        reinterpret_cast<float*>(args.workspace) + (side_by_side ? d : 0) * direction_workspace();
    h = gates + gate_floats();
    c = h + state_floats();
    scratch = c + state_floats();
    candidate = scratch + state_floats();
  }

  void give_step(int64_t t, int64_t d) const {
    if (!args.outputs[0].present()) return;
    for (int64_t b = 0; b < batch; ++b)
      if (runs(t, b))
        std::memcpy(output_row(args.outputs[0], t, d, b), h + b * hidden, row_bytes());
      else
        std::memset(output_row(args.outputs[0], t, d, b), 0, row_bytes());
  }

  void input_product(const float* packed) const {
    const TensorView& x = args.inputs[kX];
    const int64_t columns = packing.columns(), t_stride = x.strides[time_axis()],
                  b_stride = x.strides[1 - time_axis()];
    PanelProduct product{
        input_panels, packed + packing.w(), packed, x.as<float>(), b_stride, gates, columns, false};
    if (batch == 1) product.a_stride = t_stride;
    if (batch == 1 || steps == 1 || t_stride == batch * b_stride)
      return multiply(product, steps * batch, args.pool);
    for (int64_t t = 0; t < steps; ++t) {
      product.a = x.as<float>() + t * t_stride;
      product.c = gates + t * batch * columns;
      multiply(product, batch, args.pool);
    }
  }

  // candidate = X part (in `step_gates`) + r ⊙ (H·R^T + bias), or + (r ⊙ H)·R^T + bias.
  void gru_candidate(const Gates& cell, const float* packed, float* step_gates,
                     int64_t rows) const {
    const bool before = attrs.linear_before_reset;
    const int64_t columns = packing.columns();
    if (!before)
      for (int64_t b = 0; b < rows; ++b)
        cell.reset(step_gates + b * columns + hidden, h + b * hidden, nullptr, hidden,
                   scratch + b * hidden);
    multiply({candidate_panels, packed + packing.candidate_r(), packed + packing.candidate_bias(),
              before ? h : scratch, hidden, candidate, hidden, false},
             rows, args.pool);
    for (int64_t b = 0; b < rows; ++b) {
      float* row = step_gates + b * columns;
      float* out = candidate + b * hidden;
      if (before)
        cell.reset(row + hidden, out, row + 2 * hidden, hidden, out);
      else
        for (int64_t k = 0; k < hidden; ++k) out[k] += row[2 * hidden + k];
    }
  }

  void next_states(const float* packed, float* step_gates, int64_t t, int64_t d,
                   int64_t rows) const {
    const int64_t columns = packing.columns();
    const Gates cell = gates_at(d);
    const float* peepholes = peepholes_at(d);
    if (attrs.kind == RnnKind::kGru) gru_candidate(cell, packed, step_gates, rows);
    for (int64_t b = 0; b < rows; ++b) {
      if (!runs(t, b)) continue;
      float *row = step_gates + b * columns, *state = h + b * hidden;
      if (attrs.kind == RnnKind::kLstm)
        cell.lstm(row, peepholes, hidden, state, c + b * hidden);
      else if (attrs.kind == RnnKind::kGru)
        cell.gru(row, candidate + b * hidden, hidden, state);
      else
        cell.rnn(row, hidden, state);
    }
  }

  const float* packed_of(int64_t d) const {
    return reinterpret_cast<const float*>(args.packed) + d * packing.direction_floats();
  }

  void begin(int64_t d) {
    place(d);
    copy_state(h, kInitialH, d);
    copy_state(c, kInitialC, d);
    input_product(packed_of(d));
  }

  void run_steps(int64_t d) const {
    const float* packed = packed_of(d);
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t t = is_reverse(d) ? steps - 1 - step : step;
      const int64_t rows = rows_at(t);
      float* step_gates = gates + t * batch * packing.columns();
      if (rows > 0) {
        multiply({state_panels, packed + packing.r(), nullptr, h, hidden, step_gates,
                  packing.columns(), true},
                 rows, args.pool);
        next_states(packed, step_gates, t, d, rows);
      }
      give_step(t, d);
    }
    give_state(h, 1, d);
    give_state(c, 2, d);
  }
};

Status run(Run& job, const KernelCall& call) {
  job.args = job.views.at(call);
  CAMSHAFT_TRY(job.check_lengths());
  run_directions(job);
  return ok_status();
}

template <int kStateVecs, int kInputVecs>
void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  const Run& job =
      keep_checked_state<run>(kernel, Run(args, keep_views(args, kernel), kStateVecs, kInputVecs));
  kernel.workspace_bytes = job.workspace();
}

template <int kStateVecs, int kInputVecs>
constexpr Tactic row(const char* name) {
  return {.name = name,
          .kind = ir::LayerKind::kRecurrence,
          .isa = kIsa,
          .formats = FormatRule::kLinear,
          .version = 1,
          .refusal = refusal<kInputVecs>,
          .cost_us = cost_us<kStateVecs, kInputVecs>,
          .packed_inputs = packed_inputs,
          .packed_bytes = packed_bytes<kStateVecs, kInputVecs>,
          .pack = pack<kStateVecs, kInputVecs>,
          .prepare = prepare<kStateVecs, kInputVecs>};
}

#define CAMSHAFT_RECURRENCE_ROW(vecs, tile) row<vecs, many_rows_vecs()>("recurrence_f32_" tile),
#define CAMSHAFT_STEP_ROW(vecs, tile) row<vecs, vecs>("recurrence_step_f32_" tile),

constexpr Tactic kTactics[] = {CAMSHAFT_GEMM_TILES(CAMSHAFT_RECURRENCE_ROW)
                                   CAMSHAFT_WIDE_TILES(CAMSHAFT_STEP_ROW)};
#undef CAMSHAFT_RECURRENCE_ROW
#undef CAMSHAFT_STEP_ROW

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::recurrence
