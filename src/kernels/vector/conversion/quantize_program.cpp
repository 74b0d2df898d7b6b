// SPDX-License-Identifier: Apache-2.0
// PointWise programs that quantize a tensor of floats, round(x f) + z, or make floats of codes,
// (x - z) f, with one factor and perhaps zero point, or with one for each channel: four vectors at
// a time.
#include <limits>
#include <type_traits>

#include "kernels/nest.h"
#include "kernels/simd/bytes.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::quantize_program {
namespace {

using ir::Instruction;
using ir::PointOp;

// One of the inputs, a literal of the program, or absent.
struct Operand {
  int input = -1;
  float literal = 0;
  bool is_literal = false;
  bool present() const { return input >= 0 || is_literal; }
};

struct Grid {
  int data = -1;
  Operand factor, zero;
  bool quantizes = false;
};

bool is_code(DataType type) {
  return type == DataType::kInt8 || type == DataType::kUInt8;
}

// Types of a program's inputs and of its result.
struct Types {
  static constexpr int kMost = 3;
  DataType inputs[kMost];
  int count = 0;
  DataType output;
};

// A program's instructions but for its literals.
class Steps {
 public:
  static constexpr int kMost = 3;

  Steps(const Types& types, const ir::Program& program) : types_(types), program_(program) {
    for (size_t k = 0; k < program.code.size(); ++k) {
      if (program.code[k].op == PointOp::kConst) continue;
      if (count < kMost) {
        list[count] = program.code[k];
        results_[count] = program.num_inputs + static_cast<int>(k);
      }
      ++count;
    }
  }

  Instruction list[kMost];
  int count = 0;

  // That instruction k has this operator, and reads the result of the one before it.
  bool goes_on(int k, PointOp op) const {
    return list[k].op == op &&
           (k == 0 || list[k].a == results_[k - 1] || list[k].b == results_[k - 1]);
  }
  // What instruction k reads besides.
  int other(int k) const { return list[k].a == results_[k - 1] ? list[k].b : list[k].a; }

  bool is_code_input(int value) const { return is_input(value) && is_code(types_.inputs[value]); }
  bool is_float_input(int value) const {
    return is_input(value) && types_.inputs[value] == DataType::kFloat;
  }
  // False: neither an input of floats nor a literal.
  bool find_operand(int value, Operand& operand) const {
    if (is_float_input(value)) return operand.input = value, true;
    if (value < program_.num_inputs) return false;
    const Instruction& code = program_.code[static_cast<size_t>(value - program_.num_inputs)];
    operand.literal = code.x, operand.is_literal = true;
    return code.op == PointOp::kConst;
  }

 private:
  bool is_input(int value) const { return value >= 0 && value < program_.num_inputs; }

  const Types& types_;
  const ir::Program& program_;
  int results_[kMost];
};

// mul, round, perhaps add.
bool find_quantizer(const Types& types, const Steps& steps, Grid& grid) {
  if (steps.count < 2 || steps.count > 3 || !steps.goes_on(0, PointOp::kMul) ||
      !steps.goes_on(1, PointOp::kRound) || !is_code(types.output))
    return false;
  grid.quantizes = true;
  grid.data = steps.list[0].a;
  if (steps.count == 3 &&
      (!steps.goes_on(2, PointOp::kAdd) || !steps.find_operand(steps.other(2), grid.zero)))
    return false;
  return steps.is_float_input(grid.data) && steps.find_operand(steps.list[0].b, grid.factor);
}

// Perhaps sub, mul.
bool find_dequantizer(const Types& types, const Steps& steps, Grid& grid) {
  if (steps.count < 1 || steps.count > 2 || types.output != DataType::kFloat) return false;
  const int last = steps.count - 1;
  if (!steps.goes_on(last, PointOp::kMul)) return false;
  const Instruction& first = steps.list[0];
  const bool is_turned = last == 0 && !steps.is_code_input(first.a);
  grid.data = is_turned ? first.b : first.a;
  if (last == 1 && (first.op != PointOp::kSub || !steps.find_operand(first.b, grid.zero)))
    return false;
  const int factor = last == 1 ? steps.other(1) : is_turned ? first.a : first.b;
  return steps.is_code_input(grid.data) && steps.find_operand(factor, grid.factor);
}

bool find_grid(const ir::Layer& layer, const Types& types, Grid& grid) {
  const ir::Program& program = std::get_if<ir::PointWiseAttrs>(&layer.attrs)->program;
  if (program.code.empty() || program.code.back().op == PointOp::kConst) return false;
  const Steps steps(types, program);
  if (find_quantizer(types, steps, grid)) return true;
  grid = Grid();
  return find_dequantizer(types, steps, grid);
}

// Of a problem's tensors, or of views.
template <class Tensors>
Types types_of(const Tensors& inputs, const Tensors& outputs) {
  Types types;
  types.count = static_cast<int>(inputs.size());
  for (int k = 0; k < types.count; ++k) types.inputs[k] = inputs[static_cast<size_t>(k)].type;
  types.output = outputs[0].type;
  return types;
}

std::string refusal(const Problem& p) {
  Grid grid;
  if (p.inputs.size() > Types::kMost || !find_grid(*p.layer, types_of(p.inputs, p.outputs), grid))
    return "neither a quantizer nor a dequantizer";
  if (count_of(p.inputs[static_cast<size_t>(grid.data)]) != count_of(p.outputs[0]))
    return "the data are broadcast";
  return "";
}

// Factors and zero points of a row: one of each, or one per element.
struct Row {
  const float *factor, *zero;
  int64_t factor_step, zero_step;

  float factor_at(int64_t k) const { return factor[k * factor_step]; }
  float zero_at(int64_t k) const { return zero == nullptr ? 0 : zero[k * zero_step]; }
};

template <class Q>
constexpr float kLowest = std::numeric_limits<Q>::lowest();
template <class Q>
constexpr float kHighest = std::numeric_limits<Q>::max();

template <class Q>
CAMSHAFT_INLINE I32 code_of(F32 x, F32 factor, F32 zero_point) {
  const F32 shifted = round_even(x * factor) + zero_point;
  const F32 number = select(is_nan(shifted), zero(), shifted);
  return to_int(min(set1(kHighest<Q>), max(set1(kLowest<Q>), number)));
}

// kSplat: one factor and zero point for the row.
template <bool kSplat, class Q>
int64_t run_vectors(const Row& row, const float* x, Q* y, int64_t count) {
  const F32 factor = set1(row.factor_at(0)), zero_point = set1(row.zero_at(0));
  const auto code = [&](int64_t k) {
    if constexpr (kSplat) return code_of<Q>(load(x + k), factor, zero_point);
    return code_of<Q>(load(x + k), load(row.factor + k),
                      row.zero == nullptr ? zero() : load(row.zero + k));
  };
  int64_t k = 0;
  for (; k + 4 * kLanes <= count; k += 4 * kLanes)
    store_bytes(y + k, code(k), code(k + kLanes), code(k + 2 * kLanes), code(k + 3 * kLanes));
  for (; k + kLanes <= count; k += kLanes) store_bytes(y + k, code(k));
  return k;
}

template <bool kSplat, class Q>
int64_t run_vectors(const Row& row, const Q* x, float* y, int64_t count) {
  const F32 factor = set1(row.factor_at(0)), zero_point = set1(row.zero_at(0));
  int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes) {
    const F32 code = to_float(load_bytes(x + k));
    if constexpr (kSplat)
      store(y + k, (code - zero_point) * factor);
    else
      store(y + k,
            (code - (row.zero == nullptr ? zero() : load(row.zero + k))) * load(row.factor + k));
  }
  return k;
}

template <class Q>
void run_each(const Row& row, const float* x, int64_t step, Q* y, int64_t first, int64_t count) {
  for (int64_t k = first; k < count; ++k) {
    const float shifted = __builtin_rintf(x[k * step] * row.factor_at(k)) + row.zero_at(k);
    const float whole = shifted != shifted ? 0 : __builtin_rintf(shifted);
    y[k] = static_cast<Q>(whole < kLowest<Q>    ? kLowest<Q>
                          : whole > kHighest<Q> ? kHighest<Q>
                                                : whole);
  }
}
template <class Q>
void run_each(const Row& row, const Q* x, int64_t step, float* y, int64_t first, int64_t count) {
  for (int64_t k = first; k < count; ++k)
    y[k] = (static_cast<float>(x[k * step]) - row.zero_at(k)) * row.factor_at(k);
}

template <class From, class To>
void run_row(const Row& row, const From* x, int64_t step, To* y, int64_t count) {
  const int64_t zero_step = row.zero == nullptr ? row.factor_step : row.zero_step;
  int64_t done = 0;
  if (step == 1 && row.factor_step == zero_step && zero_step <= 1)
    done =
        zero_step == 0 ? run_vectors<true>(row, x, y, count) : run_vectors<false>(row, x, y, count);
  run_each(row, x, step, y, done, count);
}

struct Program {
  Grid grid;
  Nest nest;  // the output, the data, factors, zero points
  double predicted_us;
};

template <class From, class To>
void run(Program& s, const KernelCall& call) {
  const Nest& nest = s.nest;
  const From* x = call.input<const From>(static_cast<size_t>(s.grid.data));
  const auto values = [&call](const Operand& operand) -> const float* {
    if (operand.is_literal) return &operand.literal;
    return operand.present() ? call.input<const float>(static_cast<size_t>(operand.input))
                             : nullptr;
  };
  const float *factors = values(s.grid.factor), *zeros = values(s.grid.zero);
  To* y = call.output<To>(0);
  for_tiles(
      nest, call.pool, s.predicted_us, [&](const int64_t* offsets, int64_t rows, int64_t cols) {
        const auto at = [&](int t, int64_t row) { return offsets[t] + row * nest.row_stride(t); };
        for (int64_t row = 0; row < rows; ++row)
          run_row(Row{factors + at(2, row), zeros == nullptr ? nullptr : zeros + at(3, row),
                      nest.col_stride(2), zeros == nullptr ? 0 : nest.col_stride(3)},
                  x + at(1, row), nest.col_stride(1), y + at(0, row), cols);
      });
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView& y = args.outputs[0];
  Program s{};
  static_cast<void>(find_grid(*args.layer, types_of(args.inputs, args.outputs), s.grid));
  s.nest = make_nest(y);
  add_tensor(s.nest, args.inputs[static_cast<size_t>(s.grid.data)]);
  TensorView literal;
  literal.rank = 0;
  for (const Operand* operand : {&s.grid.factor, &s.grid.zero})
    if (operand->present())
      add_tensor(s.nest,
                 operand->is_literal ? literal : args.inputs[static_cast<size_t>(operand->input)]);
  collapse(s.nest);
  s.predicted_us = static_cast<double>(count_of(y)) / kLanes / 1500;
  const DataType codes =
      s.grid.quantizes ? y.type : args.inputs[static_cast<size_t>(s.grid.data)].type;
  const bool has_sign = codes == DataType::kInt8;
  if (s.grid.quantizes)
    has_sign ? keep_state<run<float, int8_t>>(kernel, s)
             : keep_state<run<float, uint8_t>>(kernel, s);
  else
    has_sign ? keep_state<run<int8_t, float>>(kernel, s)
             : keep_state<run<uint8_t, float>>(kernel, s);
}

constexpr Tactic kTactics[] = {
    {"pointwise_quantize", ir::LayerKind::kPointWise, kIsa, FormatRule::kSame, 1, refusal,
     traffic_us, CAMSHAFT_NOTHING_PACKED, prepare},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::quantize_program
