// SPDX-License-Identifier: Apache-2.0
// Elementwise operators on int64 and int32, and the selection between elements of any type but
// floats: masks, positions, indices. Operands are brought side by side in chunks, so that each
// operator is one plain loop.
#include "kernels/index_error.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/movement/copy_bytes.h"
#include "kernels/vector/nest.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

using ir::LayerKind;
using ir::PointOp;

constexpr int64_t kChunk = 256;

PointOp op_of(const ir::Layer& layer) {
  return std::get_if<ir::PointOpAttrs>(&layer.attrs)->op;
}

bool is_whole(DataType type) {
  return type == DataType::kInt64 || type == DataType::kInt32;
}

// Elements of some rows of a tile.
struct Block {
  int64_t row, col, rows, cols;
  bool follows;  // another block of no fewer rows from the same column on
};

// A block's elements next to each other: where they lie, or copied to `buffer`.
// `data`: tensor t from the tile on.
template <class T>
CAMSHAFT_INLINE const T* side_by_side(const Nest& nest, int t, const T* data, Block block,
                                      T* buffer) {
  const int64_t row_step = nest.row_stride(t), step = nest.col_stride(t), rows = block.rows,
                cols = block.cols;
  const T* from = data + block.row * row_step + block.col * step;
  if (step == 1 && (rows == 1 || row_step == cols)) return from;
  if (row_step == 0 && block.follows) return buffer;
  T* to = buffer;
  for (int64_t row = 0; row < rows; ++row, from += row_step, to += cols) {
    if (step == 0)
      for (int64_t k = 0; k < cols; ++k) to[k] = *from;
    else
      for (int64_t k = 0; k < cols; ++k) to[k] = from[k * step];
  }
  return buffer;
}

// Calls body(block) for blocks of up to kChunk elements of a tile. Short rows are taken
// together where the output's follow each other: each by itself is 10 ns.
template <class Body>
CAMSHAFT_INLINE void for_blocks(const Nest& nest, int64_t rows, int64_t cols, const Body& body) {
  const int64_t together =
      nest.row_stride(0) == cols && cols > 0 && cols < kChunk ? kChunk / cols : 1;
  for (int64_t row = 0; row < rows; row += together)
    for (int64_t col = 0; col < cols; col += kChunk)
      body(Block{row, col, smaller(together, rows - row), smaller(kChunk, cols - col),
                 row > 0 && together > 1});
}

// Calls body(y, x..., count) for blocks of a tile; y has step 1 (collapse() sees to it, or its rows
// have one element).
template <class To, class T, class Body>
void for_chunks(const Nest& nest, To* y, const T* a, const T* b, int64_t rows, int64_t cols,
                const Body& body) {
  T buffers[2][kChunk];
  for_blocks(nest, rows, cols, [&](Block block) {
    const T* left = side_by_side(nest, 1, a, block, buffers[0]);
    const T* right = nest.tensors > 2 ? side_by_side(nest, 2, b, block, buffers[1]) : left;
    body(y + block.row * nest.row_stride(0) + block.col, left, right, block.rows * block.cols);
  });
}

// --- arithmetic

enum class Form : uint8_t { kNone, kArithmetic, kDivision, kComparison };

Form form_of(PointOp op) {
  switch (op) {
    case PointOp::kAbs:
    case PointOp::kNeg:
    case PointOp::kSign:
    case PointOp::kAdd:
    case PointOp::kSub:
    case PointOp::kMul:
    case PointOp::kMin:
    case PointOp::kMax:
    case PointOp::kBitAnd:
    case PointOp::kBitOr:
    case PointOp::kBitXor:
      return Form::kArithmetic;
    case PointOp::kDiv:
    case PointOp::kMod:
      return Form::kDivision;
    case PointOp::kEqual:
    case PointOp::kLess:
    case PointOp::kLessOrEqual:
    case PointOp::kGreater:
    case PointOp::kGreaterOrEqual:
      return Form::kComparison;
    default:
      return Form::kNone;
  }
}

template <class T, class U, class Op>
CAMSHAFT_INLINE void map(const T* a, const T* b, U* y, int64_t count, const Op& op) {
#pragma GCC ivdep  // y may be a or b, element for element
  for (int64_t k = 0; k < count; ++k) y[k] = static_cast<U>(op(a[k], b[k]));
}

// Sums and products wrap around.
template <class T>
void compute(PointOp op, const T* a, const T* b, T* y, int64_t count) {
  using U = std::make_unsigned_t<T>;
  const auto wrap = [](auto function) {
    return [function](T p, T q) {
      return static_cast<T>(function(static_cast<U>(p), static_cast<U>(q)));
    };
  };
  switch (op) {
    case PointOp::kAbs:
      return map(a, b, y, count,
                 wrap([](U p, U) { return p >> (sizeof(U) * 8 - 1) ? U(0) - p : p; }));
    case PointOp::kNeg:
      return map(a, b, y, count, wrap([](U p, U) { return U(0) - p; }));
    case PointOp::kSign:
      return map(a, b, y, count, [](T p, T) { return (p > 0) - (p < 0); });
    case PointOp::kAdd:
      return map(a, b, y, count, wrap([](U p, U q) { return p + q; }));
    case PointOp::kSub:
      return map(a, b, y, count, wrap([](U p, U q) { return p - q; }));
    case PointOp::kMul:
      return map(a, b, y, count, wrap([](U p, U q) { return p * q; }));
    case PointOp::kMin:
      return map(a, b, y, count, [](T p, T q) { return q < p ? q : p; });
    case PointOp::kMax:
      return map(a, b, y, count, [](T p, T q) { return p < q ? q : p; });
    case PointOp::kBitAnd:
      return map(a, b, y, count, [](T p, T q) { return p & q; });
    case PointOp::kBitOr:
      return map(a, b, y, count, [](T p, T q) { return p | q; });
    default:
      return map(a, b, y, count, [](T p, T q) { return p ^ q; });
  }
}

// The quotient is cut off, the rest of kMod has the sign of the divisor. A divisor of 0 is told
// before: here it counts as 1.
template <class T>
void divide(PointOp op, const T* a, const T* b, T* y, int64_t count) {
  using U = std::make_unsigned_t<T>;
  const auto negated = [](T p) { return static_cast<T>(U(0) - static_cast<U>(p)); };
  if (op == PointOp::kDiv)
    return map(a, b, y, count, [&](T p, T q) { return q == -1 ? negated(p) : q == 0 ? p : p / q; });
  map(a, b, y, count, [](T p, T q) {
    if (q == -1 || q == 0) return T(0);
    const T rest = p % q;
    return rest != 0 && (rest < 0) != (q < 0) ? rest + q : rest;
  });
}

template <class T>
void compare(PointOp op, const T* a, const T* b, uint8_t* y, int64_t count) {
  switch (op) {
    case PointOp::kEqual:
      return map(a, b, y, count, [](T p, T q) { return p == q; });
    case PointOp::kLess:
      return map(a, b, y, count, [](T p, T q) { return p < q; });
    case PointOp::kLessOrEqual:
      return map(a, b, y, count, [](T p, T q) { return p <= q; });
    case PointOp::kGreater:
      return map(a, b, y, count, [](T p, T q) { return p > q; });
    default:
      return map(a, b, y, count, [](T p, T q) { return p >= q; });
  }
}

std::string refuse_arithmetic(const Problem& p) {
  const PointOp op = op_of(*p.layer);
  const Form form = form_of(op);
  if (form == Form::kNone) return "not an operator on integers";
  for (size_t k = 0; k < p.inputs.size(); ++k)
    if (!p.inputs[k].present || !is_whole(p.inputs[k].type) || p.inputs[k].type != p.inputs[0].type)
      return "an input that is neither int64 nor int32";
  if (p.outputs[0].type != (form == Form::kComparison ? DataType::kBool : p.inputs[0].type))
    return "the output's type";
  return "";
}

struct Arithmetic {
  PointOp op;
  Nest nest;
  TensorView divisor;  // of kDivision: it is looked at before
  double predicted_us;
};

Nest nest_of(const KernelArgs& args) {
  Nest nest = make_nest(args.outputs[0]);
  for (size_t k = 0; k < args.inputs.size(); ++k) add_tensor(nest, args.inputs[k]);
  collapse(nest);
  return nest;
}

template <class T, Form kForm>
void run_arithmetic(Arithmetic& s, const KernelCall& call) {
  using To = std::conditional_t<kForm == Form::kComparison, uint8_t, T>;
  const Nest& nest = s.nest;
  const PointOp op = s.op;
  const T* a = call.input<const T>(0);
  const T* b = nest.tensors > 2 ? call.input<const T>(1) : a;
  To* y = call.output<To>(0);
  for_tiles(nest, call.pool, s.predicted_us,
            [&](const int64_t* offsets, int64_t rows, int64_t cols) {
              const T *left = a + offsets[1], *right = nest.tensors > 2 ? b + offsets[2] : left;
              for_chunks(nest, y + offsets[0], left, right, rows, cols,
                         [op](To* to, const T* p, const T* q, int64_t count) {
                           if constexpr (kForm == Form::kComparison)
                             compare(op, p, q, to, count);
                           else if constexpr (kForm == Form::kDivision)
                             divide(op, p, q, to, count);
                           else
                             compute(op, p, q, to, count);
                         });
            });
}

template <class T>
Status run_division(Arithmetic& s, const KernelCall& call) {
  s.divisor.data = call.inputs[1];
  if (Status status = divisor_error(s.divisor); !status.ok()) return status;
  run_arithmetic<T, Form::kDivision>(s, call);
  return Status();
}

template <class T>
void keep_arithmetic(const Arithmetic& s, PreparedKernel& kernel) {
  switch (form_of(s.op)) {
    case Form::kComparison:
      keep_state<run_arithmetic<T, Form::kComparison>>(kernel, s);
      break;
    case Form::kDivision:
      keep_checked_state<run_division<T>>(kernel, s);
      break;
    default:
      keep_state<run_arithmetic<T, Form::kArithmetic>>(kernel, s);
  }
}

void prepare_arithmetic(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const PointOp op = op_of(*args.layer);
  const bool divides = form_of(op) == Form::kDivision;
  const Arithmetic s{op, nest_of(args), divides ? args.inputs[1] : TensorView(),
                     static_cast<double>(count_of(args.outputs[0])) / (divides ? 300 : 2000)};
  if (args.inputs[0].type == DataType::kInt64)
    keep_arithmetic<int64_t>(s, kernel);
  else
    keep_arithmetic<int32_t>(s, kernel);
}

// --- selection

std::string refuse_selection(const Problem& p) {
  const DataType type = p.outputs[0].type;
  if (type == DataType::kFloat || ir::is_16_bit_float(type)) return "floats";
  if (type == DataType::kInt4 || type == DataType::kUInt4) return "4-bit elements";
  if (p.inputs[0].type != DataType::kBool) return "the condition is no bool";
  for (size_t k = 1; k < 3; ++k)
    if (p.inputs[k].type != type) return "types differ";
  return "";
}

struct Selection {
  Nest nest;  // y, the condition, both choices
  double predicted_us;
};

template <class T>
void select_tile(const Nest& nest, const KernelCall& call, const int64_t* offsets, int64_t rows,
                 int64_t cols) {
  uint8_t flags[kChunk];
  T buffers[2][kChunk];
  for_blocks(nest, rows, cols, [&](Block block) {
    const uint8_t* which =
        side_by_side(nest, 1, call.input<const uint8_t>(0) + offsets[1], block, flags);
    const T *yes = side_by_side(nest, 2, call.input<const T>(1) + offsets[2], block, buffers[0]),
            *no = side_by_side(nest, 3, call.input<const T>(2) + offsets[3], block, buffers[1]);
    T* to = call.output<T>(0) + offsets[0] + block.row * nest.row_stride(0) + block.col;
#pragma GCC ivdep  // they may be yes or no, element for element
    for (int64_t k = 0; k < block.rows * block.cols; ++k) to[k] = which[k] != 0 ? yes[k] : no[k];
  });
}

template <class T>
void run_selection(Selection& s, const KernelCall& call) {
  for_tiles(s.nest, call.pool, s.predicted_us,
            [&s, &call](const int64_t* offsets, int64_t rows, int64_t cols) {
              select_tile<T>(s.nest, call, offsets, rows, cols);
            });
}

void prepare_selection(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView& y = args.outputs[0];
  const Selection s{nest_of(args), static_cast<double>(count_of(y)) / 2000};
  with_element(bytes_of(y.type),
               [&](auto type) { keep_state<run_selection<decltype(type)>>(kernel, s); });
}

#define CAMSHAFT_INTEGERS(name, kind, refusal, prepare)                     \
  {                                                                         \
    name, LayerKind::kind, kIsa, FormatRule::kSame, 1, refusal, traffic_us, \
        CAMSHAFT_NOTHING_PACKED, prepare                                    \
  }
constexpr Tactic kTactics[] = {
    CAMSHAFT_INTEGERS("unary_integers", kUnary, refuse_arithmetic, prepare_arithmetic),
    CAMSHAFT_INTEGERS("elementwise_integers", kElementWise, refuse_arithmetic, prepare_arithmetic),
    CAMSHAFT_INTEGERS("select_bytes", kSelect, refuse_selection, prepare_selection),
};

}  // namespace

std::span<const Tactic> integers_tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
