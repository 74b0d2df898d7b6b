// SPDX-License-Identifier: Apache-2.0
// The LSTM that quantize_dynamic makes (8-bit weights, ir/infer_control.cpp): rows become uint8
// codes less their zero point, all inputs at once, the states anew in every step; 16-bit products
// of neighbouring pairs with weights that are widened where they are read, exact in int32.
//
//   gates[t][b] = bias + u_x · s_w · Σ x (w - z_w)               (all steps at once)
//   step[b] = gates[t][b] + u_h · s_r · Σ h (r - z_r)  ─▶ H, C   (per step)
#include <type_traits>

#include "kernels/simd/words.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/gemm/gemm_cost.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/recurrence/recurrent_layer.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::recurrence_codes {
namespace {

constexpr int kCodeVecs = 2;  // of columns, beside kCodeRows rows: 8 sums
constexpr int kCodeRows = 4;
constexpr int64_t kCodeColumns = kCodeVecs * kLanes;

// Weights of one direction: panels of kCodeColumns columns, pair after pair of the depth, as uint8.
struct CodePanels {
  int64_t columns, depth;

  int64_t pairs() const { return ceil_div(depth, 2); }
  int64_t panel_bytes() const { return pairs() * 2 * kCodeColumns; }
  int64_t count() const { return ceil_div(columns, kCodeColumns); }
  int64_t padded() const { return count() * kCodeColumns; }
  int64_t bytes() const { return count() * panel_bytes(); }
  int64_t row_words() const { return round_up(depth, kLanes); }  // of the rows they multiply
};

// Packed, per direction: bias, scales and zero points of W and R, then the panels of both.
struct CodePacking {
  CodePanels w, r;

  int64_t vector_bytes() const { return w.padded() * int64_t{sizeof(float)}; }
  int64_t scales(bool recurrent) const { return (recurrent ? 3 : 1) * vector_bytes(); }
  int64_t zeros(bool recurrent) const { return (recurrent ? 4 : 2) * vector_bytes(); }
  int64_t panels(bool recurrent) const { return 5 * vector_bytes() + (recurrent ? w.bytes() : 0); }
  int64_t bytes() const { return round_up(panels(true) + r.bytes(), 64); }
};

CodePacking code_packing_of(const Problem& p) {
  const int64_t columns = p.inputs[kW].extents[1];
  return {{columns, p.inputs[kW].extents[2]}, {columns, p.inputs[kR].extents[2]}};
}

std::string refuse_codes(const Problem& p) {
  if (const std::string reason = refuse_recurrence(p); !reason.empty()) return reason;
  for (const RecurrenceInput input : {kW, kR})
    if (!p.inputs[input].constant || !ir::is_quantized(p.inputs[input].type))
      return "the weights are not constant codes";
  for (const RecurrenceInput input : {kWScale, kWZero, kRScale, kRZero})
    if (!has(p, input) || !p.inputs[input].constant) return "scales that are no constants";
  return {};
}

double cost_of_codes_us(const Problem& p) {
  const CodePacking packing = code_packing_of(p);
  const int time_axis = p.layer->as<ir::RnnAttrs>().batch_first ? 1 : 0;
  const int64_t steps = p.inputs[kX].extents[time_axis],
                batch = p.inputs[kX].extents[1 - time_axis];
  const auto product = [&](int64_t times, int64_t rows, const CodePanels& panels) {
    return tile_cost_us(Numeric::kFloat, times, rows, panels.columns, panels.depth, kCodeVecs);
  };
  return 0.5 + static_cast<double>(p.inputs[kW].extents[0]) *
                   (product(1, steps * batch, packing.w) + product(steps, batch, packing.r));
}

uint32_t packed_inputs_of_codes(const Problem& p) {
  uint32_t inputs =
      1u << kW | 1u << kR | 1u << kWScale | 1u << kWZero | 1u << kRScale | 1u << kRZero;
  if (has(p, kB)) inputs |= 1u << kB;
  return inputs;
}

size_t packed_bytes_of_codes(const Problem& p) {
  return static_cast<size_t>(p.inputs[kW].extents[0] * code_packing_of(p).bytes());
}

// ---- packing

// Signed codes move up by 128, as their zero points do.
struct StoredCodes {
  const std::byte* data;
  int shift;

  explicit StoredCodes(const ProblemTensor& tensor)
      : data(tensor.constant->view.data()), shift(tensor.type == DataType::kInt8 ? 128 : 0) {}
  uint8_t at(int64_t k) const {
    return static_cast<uint8_t>(std::to_integer<int>(data[k]) ^ shift);
  }
};

const float* floats_of(const Problem& p, RecurrenceInput input) {
  return reinterpret_cast<const float*>(p.inputs[input].constant->view.data());
}

void pack_codes(const Problem& p, int64_t d, bool recurrent, std::byte* packed) {
  const CodePacking packing = code_packing_of(p);
  const CodePanels& panels = recurrent ? packing.r : packing.w;
  const StoredCodes codes(p.inputs[recurrent ? kR : kW]),
      zeros(p.inputs[recurrent ? kRZero : kWZero]);
  const float* from = floats_of(p, recurrent ? kRScale : kWScale);
  auto* scales = reinterpret_cast<float*>(packed + packing.scales(recurrent));
  auto* starts = reinterpret_cast<int32_t*>(packed + packing.zeros(recurrent));
  std::byte* to = packed + packing.panels(recurrent);
  for (int64_t column = 0; column < panels.columns; ++column) {
    const int64_t at = d * panels.columns + column;
    scales[column] = from[at];
    starts[column] = zeros.at(at);
    std::byte* panel = to + column / kCodeColumns * panels.panel_bytes();
    const int64_t lane = column % kCodeColumns;
    for (int64_t k = 0; k < panels.depth; ++k)
      panel[k / 2 * 2 * kCodeColumns + 2 * lane + k % 2] =
          static_cast<std::byte>(codes.at(at * panels.depth + k));
  }
}

void pack_of_codes(const Problem& p, std::byte* packed) {
  const CodePacking packing = code_packing_of(p);
  std::memset(packed, 0, packed_bytes_of_codes(p));
  for (int64_t d = 0; d < p.inputs[kW].extents[0]; ++d, packed += packing.bytes()) {
    const int64_t columns = packing.w.columns;
    auto* bias = reinterpret_cast<float*>(packed);
    const float* parts = has(p, kB) ? floats_of(p, kB) + d * 2 * columns : nullptr;
    for (int64_t k = 0; parts && k < columns; ++k) bias[k] = parts[k] + parts[columns + k];
    pack_codes(p, d, false, packed);
    pack_codes(p, d, true, packed);
  }
}

// ---- rows as codes

struct CodedRows {
  int16_t* codes = nullptr;  // less the zero point
  int32_t* sums = nullptr;   // of a row
  int64_t stride = 0, depth = 0;
  float unit = 0;
};

F32 masked_row(const float* row, int64_t k, int64_t depth) {
  return load(row + k, first_n(static_cast<int>(depth - k)));
}

void code_row(const float* row, int64_t r, float zero_point, CodedRows& to) {
  const F32 unit = set1(to.unit), offset = set1(zero_point);
  int16_t* codes = to.codes + r * to.stride;
  I32 sums = iset1(0);
  for (int64_t k = 0; k < to.depth; k += kLanes) {
    const F32 code = round_even(masked_row(row, k, to.depth) / unit) + offset;
    const I32 moved = to_int(min(set1(255), max(zero(), code)) - offset);
    sums = sums + moved;
    store_words(codes + k, moved);
  }
  int32_t lanes[kLanes];
  istore(lanes, sums);
  to.sums[r] = 0;
  for (int lane = 0; lane < kLanes; ++lane) to.sums[r] += lanes[lane];
}

// As DynamicQuantizeLinear: from the least to the largest of all elements and 0. row(r): its
// address.
template <class RowAt>
void code_rows(int64_t rows, const RowAt& row, CodedRows& to) {
  F32 low = zero(), high = zero();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < to.depth; k += kLanes) {
      const F32 v = masked_row(row(r), k, to.depth);
      low = min(low, v), high = max(high, v);
    }
  const float least = reduce_min(low), largest = reduce_max(high);
  to.unit = least == largest ? 1.0f : (largest - least) / 255.0f;
  const float code = __builtin_rintf(-least / to.unit);
  const float zero_point = code < 0 ? 0 : code > 255 ? 255 : code;
  for (int64_t r = 0; r < rows; ++r) code_row(row(r), r, zero_point, to);
}

// ---- products

struct CodeProduct {
  const CodePanels& panels;
  const std::byte* weights;
  const float* scales;
  const int32_t* zeros;
  const CodedRows& rows;
  float* c;  // [rows][padded columns]
};

// base(r): what is added to row r.
template <int kRows, class BaseAt>
void multiply_code_tile(const CodeProduct& p, int64_t row, int64_t panel, const BaseAt& base) {
  const int64_t column = panel * kCodeColumns;
  const auto* b = reinterpret_cast<const uint8_t*>(p.weights + panel * p.panels.panel_bytes());
  const int16_t* a = p.rows.codes + row * p.rows.stride;
  I32 sums[kRows][kCodeVecs];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kCodeVecs; ++v)
      sums[r][v] = iset1(-p.rows.sums[row + r]) * iload(p.zeros + column + v * kLanes);
  for (int64_t pair = 0; pair < p.panels.pairs(); ++pair, a += 2, b += 2 * kCodeColumns) {
    const W16 first = load_codes(b), second = load_codes(b + kWords);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const W16 pairs = broadcast_pair(a + r * p.rows.stride);
      sums[r][0] = sums[r][0] + pair_sums(pairs, first);
      sums[r][1] = sums[r][1] + pair_sums(pairs, second);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kCodeVecs; ++v) {
      const int64_t at = column + v * kLanes;
      const F32 unit = set1(p.rows.unit) * load(p.scales + at);
      store(p.c + (row + r) * p.panels.padded() + at,
            fma(to_float(sums[r][v]), unit, load(base(row + r) + at)));
    }
}

template <class BaseAt>
void multiply_code_panels(const CodeProduct& p, int64_t rows, int64_t first, int64_t last,
                          const BaseAt& base) {
  for (int64_t panel = first; panel < last; ++panel) {
    int64_t row = 0;
    for (; row + kCodeRows <= rows; row += kCodeRows)
      multiply_code_tile<kCodeRows>(p, row, panel, base);
    for (; row + 2 <= rows; row += 2) multiply_code_tile<2>(p, row, panel, base);
    if (row < rows) multiply_code_tile<1>(p, row, panel, base);
  }
}

constexpr int64_t kMacsWorthThreads = 200000;

template <class BaseAt>
void multiply_code_rows(const CodeProduct& p, int64_t rows, ThreadPool* pool, const BaseAt& base) {
  if (!pool || pool->threads() == 1 || rows * p.panels.depth * p.panels.columns < kMacsWorthThreads)
    return multiply_code_panels(p, rows, 0, p.panels.count(), base);
  pool->parallel_ranges(p.panels.count(), [&](int, int64_t first, int64_t last) {
    multiply_code_panels(p, rows, first, last, base);
  });
}

// ---- running

struct CodeRun : RecurrentLayer {
  CodePacking packing;
  // Workspace: gates of every step and of one; states, and what of them is multiplied.
  float *gates = nullptr, *step_gates = nullptr, *h = nullptr, *c = nullptr, *multiplied = nullptr;
  CodedRows x_rows, h_rows;

  CodeRun(const KernelArgs& a, const KeptViews& kept)
      : RecurrentLayer(a, kept), packing{{4 * hidden, inputs}, {4 * hidden, hidden}} {
    side_by_side =
        run_side_by_side(directions, batch * hidden * 4 * hidden, kMacsWorthThreads, threads_of(a));
  }

  // The workspace, and how many bytes it takes.
  size_t place(std::byte* workspace) {
    int64_t offset = 0;
    const auto take = [&offset, workspace](auto*& pointer, int64_t count) {
      using Pointer = std::remove_reference_t<decltype(pointer)>;
      if (workspace) pointer = reinterpret_cast<Pointer>(workspace + offset);
      offset += round_up(count * int64_t{sizeof *pointer}, 64);
    };
    const auto take_rows = [&](CodedRows& rows, int64_t count, const CodePanels& panels) {
      rows.stride = panels.row_words(), rows.depth = panels.depth;
      take(rows.codes, count * rows.stride);
      take(rows.sums, count);
    };
    take(gates, steps * batch * packing.w.padded());
    take(step_gates, batch * packing.w.padded());
    for (float** state : {&h, &c, &multiplied}) take(*state, batch * hidden + kLanes);
    take_rows(x_rows, steps * batch, packing.w);
    take_rows(h_rows, batch, packing.r);
    return static_cast<size_t>(offset);
  }

  CodeProduct product(const std::byte* packed, bool recurrent) const {
    return {recurrent ? packing.r : packing.w,
            packed + packing.panels(recurrent),
            reinterpret_cast<const float*>(packed + packing.scales(recurrent)),
            reinterpret_cast<const int32_t*>(packed + packing.zeros(recurrent)),
            recurrent ? h_rows : x_rows,
            recurrent ? step_gates : gates};
  }
  int64_t longest() const {
    int64_t most = 0;
    for (int64_t b = 0; b < batch; ++b) most = larger(most, length(b));
    return most;
  }
  int64_t time_of(int64_t step, int64_t b, int64_t d) const {
    return is_reverse(d) ? length(b) - 1 - step : step;
  }

  // An item that has ended is multiplied once more, then as zeros.
  void finish_item(int64_t step, int64_t b, int64_t d) const {
    float* row = multiplied + b * hidden;
    if (step >= length(b)) {
      std::memset(row, 0, row_bytes());
      return;
    }
    gates_at(d).lstm(step_gates + b * packing.w.padded(), peepholes_at(d), hidden, row,
                     c + b * hidden);
    if (args.outputs[0].present())
      std::memcpy(output_row(args.outputs[0], time_of(step, b, d), d, b), row, row_bytes());
    if (step + 1 == length(b)) std::memcpy(h + b * hidden, row, row_bytes());
  }

  void run_step(const std::byte* packed, int64_t step, int64_t d) {
    code_rows(
        batch, [this](int64_t b) { return multiplied + b * hidden; }, h_rows);
    multiply_code_rows(product(packed, true), batch, args.pool, [&](int64_t b) {
      const int64_t t = step < length(b) ? time_of(step, b, d) : 0;
      return gates + (t * batch + b) * packing.w.padded();
    });
    for (int64_t b = 0; b < batch; ++b) finish_item(step, b, d);
  }

  void clear_rest(int64_t d) const {
    if (!args.outputs[0].present()) return;
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t t = length(b); t < steps; ++t)
        std::memset(output_row(args.outputs[0], t, d, b), 0, row_bytes());
  }

  const std::byte* packed_of(int64_t d) const { return args.packed + d * packing.bytes(); }

  void begin(int64_t d) {
    if (side_by_side && d == 1) {
      const CodedRows coded = x_rows;  // of both
      place(args.workspace + place(nullptr));
      x_rows = coded;
    }
    const std::byte* packed = packed_of(d);
    const auto* bias = reinterpret_cast<const float*>(packed);
    copy_state(h, kInitialH, d);
    copy_state(c, kInitialC, d);
    std::memcpy(multiplied, h, static_cast<size_t>(batch) * row_bytes());
    multiply_code_rows(product(packed, false), longest() * batch, args.pool,
                       [bias](int64_t) { return bias; });
  }

  void run_steps(int64_t d) {
    const int64_t count = longest();
    for (int64_t step = 0; step < count; ++step) run_step(packed_of(d), step, d);
    clear_rest(d);
    give_state(h, 1, d);
    give_state(c, 2, d);
  }
};

Status run_codes(CodeRun& job, const KernelCall& call) {
  job.args = job.views.at(call);
  job.place(job.args.workspace);
  CAMSHAFT_TRY(job.check_lengths());
  code_rows(
      job.longest() * job.batch,
      [&job](int64_t r) { return job.input_row(r / job.batch, r % job.batch); }, job.x_rows);
  run_directions(job);
  return ok_status();
}

void prepare_codes(const KernelArgs& args, PreparedKernel& kernel) {
  CodeRun& job = keep_checked_state<run_codes>(kernel, CodeRun(args, keep_views(args, kernel)));
  kernel.workspace_bytes = job.place(nullptr) * (job.side_by_side ? 2 : 1);
}

std::string arithmetic_of_codes(const Problem&, const std::byte*) {
  return "int16 (widened), rows as uint8";
}

constexpr Tactic kTactics[] = {{.name = "recurrence_u8",
                                .kind = ir::LayerKind::kRecurrence,
                                .isa = kIsa,
                                .formats = FormatRule::kLinear,
                                .version = 1,
                                .refusal = refuse_codes,
                                .cost_us = cost_of_codes_us,
                                .packed_inputs = packed_inputs_of_codes,
                                .packed_bytes = packed_bytes_of_codes,
                                .pack = pack_of_codes,
                                .prepare = prepare_codes,
                                .arithmetic = arithmetic_of_codes}};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::recurrence_codes
