// SPDX-License-Identifier: Apache-2.0
// Elementwise operators on integers, and the selection between elements of any type but floats:
// masks, positions, indices, hashes. Operands are brought side by side in chunks, so that each
// operator is one plain loop.
#include <atomic>

#include "kernels/index_error.h"
#include "kernels/vector/movement/copy_bytes.h"
#include "kernels/vector/pointwise/chunks.h"
#include "kernels/vector/pointwise/division.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::integers {
namespace {

using ir::LayerKind;
using ir::PointOp;

PointOp op_of(const ir::Layer& layer) {
  return std::get_if<ir::PointOpAttrs>(&layer.attrs)->op;
}

// Calls body(T()) for the type; false: no integer of whole bytes.
template <class Body>
bool with_whole(DataType type, const Body& body) {
  switch (type) {
    case DataType::kInt64:
      return body(int64_t()), true;
    case DataType::kInt32:
      return body(int32_t()), true;
    case DataType::kInt16:
      return body(int16_t()), true;
    case DataType::kInt8:
      return body(int8_t()), true;
    case DataType::kUInt64:
      return body(uint64_t()), true;
    case DataType::kUInt32:
      return body(uint32_t()), true;
    case DataType::kUInt16:
      return body(uint16_t()), true;
    case DataType::kUInt8:
      return body(uint8_t()), true;
    default:
      return false;
  }
}

bool is_whole(DataType type) {
  return with_whole(type, [](auto) {});
}

// --- arithmetic

// kModular: the bits of the result do not depend on the sign of the type.
enum class Form : uint8_t { kNone, kModular, kSigned, kPower, kDivision, kComparison };

Form form_of(PointOp op) {
  switch (op) {
    case PointOp::kNeg:
    case PointOp::kAdd:
    case PointOp::kSub:
    case PointOp::kMul:
    case PointOp::kBitAnd:
    case PointOp::kBitOr:
    case PointOp::kBitXor:
    case PointOp::kBitNot:
    case PointOp::kShiftLeft:
      return Form::kModular;
    case PointOp::kAbs:
    case PointOp::kSign:
    case PointOp::kRelu:
    case PointOp::kMin:
    case PointOp::kMax:
    case PointOp::kShiftRight:
      return Form::kSigned;
    case PointOp::kPow:
      return Form::kPower;
    case PointOp::kDiv:
    case PointOp::kMod:
    case PointOp::kFmod:
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

// U is unsigned: sums and products wrap around.
template <class U>
void compute_modular(PointOp op, const U* a, const U* b, U* y, int64_t count) {
  constexpr U kBits = sizeof(U) * 8;
  switch (op) {
    case PointOp::kNeg:
      return map(a, b, y, count, [](U p, U) { return U(0) - p; });
    case PointOp::kAdd:
      return map(a, b, y, count, [](U p, U q) { return p + q; });
    case PointOp::kSub:
      return map(a, b, y, count, [](U p, U q) { return p - q; });
    case PointOp::kMul:  // the product of two uint16 would be one of int
      return map(a, b, y, count, [](U p, U q) { return (p + 0u) * q; });
    case PointOp::kBitAnd:
      return map(a, b, y, count, [](U p, U q) { return p & q; });
    case PointOp::kBitOr:
      return map(a, b, y, count, [](U p, U q) { return p | q; });
    case PointOp::kBitXor:
      return map(a, b, y, count, [](U p, U q) { return p ^ q; });
    case PointOp::kBitNot:
      return map(a, b, y, count, [](U p, U) { return ~p; });
    default:                         // kShiftLeft; all bits may be shifted out
      if constexpr (sizeof(U) == 1)  // no instruction shifts bytes
        return map(a, b, y, count, [](U p, U q) {
          return q >= kBits ? uint16_t(0) : static_cast<uint16_t>(p << (q & 7));
        });
      return map(a, b, y, count, [](U p, U q) {
        return q >= kBits ? U(0) : static_cast<U>(p << (q & (kBits - 1)));
      });
  }
}

template <class T>
void compute_signed(PointOp op, const T* a, const T* b, T* y, int64_t count) {
  using U = std::make_unsigned_t<T>;
  constexpr U kBits = sizeof(T) * 8;
  switch (op) {
    case PointOp::kAbs:
      return map(a, b, y, count,
                 [](T p, T) { return p < 0 ? static_cast<T>(U(0) - static_cast<U>(p)) : p; });
    case PointOp::kSign:
      return map(a, b, y, count, [](T p, T) { return (p > 0) - (p < 0); });
    case PointOp::kRelu:
      return map(a, b, y, count, [](T p, T) { return p < 0 ? T(0) : p; });
    case PointOp::kMin:
      return map(a, b, y, count, [](T p, T q) { return q < p ? q : p; });
    case PointOp::kMax:
      return map(a, b, y, count, [](T p, T q) { return p < q ? q : p; });
    default:  // kShiftRight
      return map(a, b, y, count, [](T p, T q) {
        const U bits = static_cast<U>(q);
        return static_cast<T>(p >> (bits < kBits ? bits : kBits - 1) >> (bits >= kBits));
      });
  }
}

// By squaring, all elements of a chunk together, as often as the largest exponent wants.
template <class T>
void raise(const T* a, const T* b, T* y, int64_t count) {
  using U = std::make_unsigned_t<T>;
  U factor[kChunkOf<T>], result[kChunkOf<T>];
  U all = 0;
  for (int64_t k = 0; k < count; ++k) {
    factor[k] = static_cast<U>(a[k]);
    result[k] = 1;
    all |= static_cast<int64_t>(b[k]) < 0 ? U(0) : static_cast<U>(b[k]);
  }
  for (int bit = 0; all >> bit != 0; ++bit) {
    for (int64_t k = 0; k < count; ++k) {
      const U product = static_cast<U>((result[k] + 0u) * factor[k]);
      result[k] = (static_cast<U>(b[k]) >> bit & 1) != 0 ? product : result[k];
      factor[k] = static_cast<U>((factor[k] + 0u) * factor[k]);
    }
    if (bit + 1 == static_cast<int>(sizeof(T)) * 8) break;
  }
  for (int64_t k = 0; k < count; ++k) {
    const U minus_one = static_cast<U>(-1);
    const U base = static_cast<U>(a[k]), inverse = base == 1           ? U(1)
                                                   : base != minus_one ? U(0)
                                                   : (b[k] & 1) != 0   ? minus_one
                                                                       : U(1);
    y[k] = static_cast<T>(static_cast<int64_t>(b[k]) < 0 ? inverse : result[k]);
  }
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
      return "an input that is no integer of whole bytes, or another one than the first";
  if (p.outputs[0].type != (form == Form::kComparison ? DataType::kBool : p.inputs[0].type))
    return "the output's type";
  return "";
}

// Computes a chunk of operands side by side.
using Compute = void (*)(PointOp op, const void* a, const void* b, void* y, int64_t count);

struct Arithmetic {
  PointOp op;
  Compute compute;
  bool divides;
  Nest nest;
  TensorView divisor;  // of kDivision
  double predicted_us;
};

Nest nest_of(const KernelArgs& args) {
  Nest nest = make_nest(args.outputs[0]);
  for (size_t k = 0; k < args.inputs.size(); ++k) add_tensor(nest, args.inputs[k]);
  collapse(nest);
  return nest;
}

template <class T, Form kForm>
void compute_chunk(PointOp op, const void* a, const void* b, void* y, int64_t count) {
  using To = std::conditional_t<kForm == Form::kComparison, uint8_t, T>;
  const T *p = static_cast<const T*>(a), *q = static_cast<const T*>(b);
  To* to = static_cast<To*>(y);
  if constexpr (kForm == Form::kComparison)
    compare(op, p, q, to, count);
  else if constexpr (kForm == Form::kModular)
    compute_modular(op, p, q, to, count);
  else if constexpr (kForm == Form::kPower)
    raise(p, q, to, count);
  else if constexpr (kForm == Form::kDivision)
    divide(op, p, q, to, count);
  else
    compute_signed(op, p, q, to, count);
}

template <class T>
Compute compute_of(Form form) {
  switch (form) {
    case Form::kModular:
      return compute_chunk<std::make_unsigned_t<T>, Form::kModular>;
    case Form::kComparison:
      return compute_chunk<T, Form::kComparison>;
    case Form::kDivision:
      return compute_chunk<T, Form::kDivision>;
    case Form::kPower:
      return compute_chunk<T, Form::kPower>;
    default:
      return compute_chunk<T, Form::kSigned>;
  }
}

// What is brought side by side depends on the size of elements alone. A divisor of 0 is an error;
// until that is told it counts as 1.
template <class U, class To>
Status run_arithmetic(Arithmetic& s, const KernelCall& call) {
  const Nest& nest = s.nest;
  const U* a = call.input<const U>(0);
  const U* b = nest.tensors > 2 ? call.input<const U>(1) : a;
  To* y = call.output<To>(0);
  std::atomic<bool> fails = false;
  const auto compute = [&](To* to, const U* p, const U* q, int64_t count) {
    if (s.divides && has_zero(q, count)) fails.store(true, std::memory_order_relaxed);
    s.compute(s.op, p, q, to, count);
  };
  for_tiles(nest, call.pool, s.predicted_us,
            [&](const int64_t* offsets, int64_t rows, int64_t cols) {
              const U *left = a + offsets[1], *right = nest.tensors > 2 ? b + offsets[2] : left;
              for_chunks(nest, y + offsets[0], left, right, rows, cols, compute);
            });
  if (!fails) return Status();
  s.divisor.data = call.inputs[1];
  return divisor_error(s.divisor);
}

void prepare_arithmetic(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const PointOp op = op_of(*args.layer);
  const Form form = form_of(op);
  const bool divides = form == Form::kDivision;
  Arithmetic s{op,
               nullptr,
               divides,
               nest_of(args),
               divides ? args.inputs[1] : TensorView(),
               static_cast<double>(count_of(args.outputs[0])) /
                   (divides || form == Form::kPower ? 600 : 2000)};
  const DataType type = args.inputs[0].type;
  with_whole(type, [&](auto element) { s.compute = compute_of<decltype(element)>(form); });
  with_element(bytes_of(type), [&](auto element) {
    using U = decltype(element);
    if (form == Form::kComparison)
      keep_checked_state<run_arithmetic<U, uint8_t>>(kernel, s);
    else
      keep_checked_state<run_arithmetic<U, U>>(kernel, s);
  });
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
  constexpr int64_t kChunk = kChunkOf<T>;
  uint8_t flags[kChunk];
  T buffers[2][kChunk];
  for_blocks(nest, rows, cols, kChunk, [&](Block block) {
    const uint8_t* which =
        side_by_side(nest, 1, call.input<const uint8_t>(0) + offsets[1], block, flags);
    const T *yes = side_by_side(nest, 2, call.input<const T>(1) + offsets[2], block, buffers[0]),
            *no = side_by_side(nest, 3, call.input<const T>(2) + offsets[3], block, buffers[1]);
    T* to = call.output<T>(0) + offsets[0] + block.row * nest.row_stride(0) + block.col;
    const int64_t count = block.count();
#pragma GCC ivdep  // they may be yes or no, element for element
    for (int64_t k = 0; k < count; ++k) to[k] = which[k] != 0 ? yes[k] : no[k];
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
    name, LayerKind::kind, kIsa, FormatRule::kSame, 2, refusal, traffic_us, \
        CAMSHAFT_NOTHING_PACKED, prepare                                    \
  }
constexpr Tactic kTactics[] = {
    CAMSHAFT_INTEGERS("unary_integers", kUnary, refuse_arithmetic, prepare_arithmetic),
    CAMSHAFT_INTEGERS("activation_integers", kActivation, refuse_arithmetic, prepare_arithmetic),
    CAMSHAFT_INTEGERS("elementwise_integers", kElementWise, refuse_arithmetic, prepare_arithmetic),
    CAMSHAFT_INTEGERS("select_bytes", kSelect, refuse_selection, prepare_selection),
};
#undef CAMSHAFT_INTEGERS

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::integers
