// SPDX-License-Identifier: Apache-2.0
// Threaded code: every step is a function that takes eight vectors in registers and ends with a
// jump to the next step's function, so that nothing is saved, moved or dispatched in between.
// One file: the table of steps names every one of them.
#include "kernels/vector/program/program_registers.h"

#include "kernels/simd/bytes.h"
#include "kernels/simd/float16.h"
#include "kernels/vector/math.h"
#include "kernels/vector/pointwise/byte_rows.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

StepSource step_source_of(DataType type, int64_t col_stride) {
  if (col_stride == 0) return type == DataType::kFloat ? StepSource::kSplat : StepSource::kNone;
  if (col_stride != 1) return StepSource::kNone;
  switch (type) {
    case DataType::kFloat:
      return StepSource::kFloats;
    case DataType::kUInt8:
      return StepSource::kBytes;
    case DataType::kInt8:
      return StepSource::kSignedBytes;
    case DataType::kBFloat16:
      return StepSource::kBf16;
    case DataType::kHalf:
      return StepSource::kHalf;
    default:
      return StepSource::kNone;
  }
}

#if !defined(CAMSHAFT_HAS_VECTOR_ARGUMENTS)
bool make_register_program(const ir::Instruction*, int, int, const StepSource*,
                           RegisterProgram& program) {
  return program.num_steps = 0, false;
}
bool append_codes(RegisterProgram&, float, float, float) {
  return false;
}
void run_registers(const RegisterProgram&, const TileOperand*, const TileResult&, int64_t,
                   int64_t) {}
#else

constexpr int kMaxCursors = 16;

// Where the eight vectors of a block are: offsets in bytes stay from block to block.
struct Cursor {
  std::byte* first;
  int64_t offsets[kStepVectors];

  CAMSHAFT_INLINE_MEMBER std::byte* at(int k) const { return first + offsets[k]; }
};

struct StepContext {
  Cursor operands[kMaxCursors];
  Cursor out;
  StepFunction store;
  alignas(64) float waiting[kStepVectors * kLanes];
};

namespace {

using ir::Instruction;
using ir::PointOp;

// --- what steps read

struct NoSource {
  NoSource(const Step&, const StepContext&) {}
  CAMSHAFT_INLINE_MEMBER F32 operator()(int) const { return zero(); }
};
struct Literal {
  F32 x;
  Literal(const Step& step, const StepContext&) : x(set1(step.x)) {}
  CAMSHAFT_INLINE_MEMBER F32 operator()(int) const { return x; }
};
struct Waiting {
  const float* values;
  Waiting(const Step&, const StepContext& context) : values(context.waiting) {}
  CAMSHAFT_INLINE_MEMBER F32 operator()(int k) const { return load(values + k * kLanes); }
};
template <class T>
struct Vectors {
  const std::byte* first;
  const int64_t* offsets;
  Vectors(const Step& step, const StepContext& context)
      : first(context.operands[step.operand].first),
        offsets(context.operands[step.operand].offsets) {}
  CAMSHAFT_INLINE_MEMBER F32 operator()(int k) const {
    const T* p = reinterpret_cast<const T*>(first + offsets[k]);
    if constexpr (sizeof(T) == 1)
      return to_float(load_bytes(p));
    else
      return load_floats(p);
  }
};
struct Splat {
  const Cursor* cursor;
  Splat(const Step& step, const StepContext& context) : cursor(&context.operands[step.operand]) {}
  CAMSHAFT_INLINE_MEMBER F32 operator()(int k) const {
    return set1(*reinterpret_cast<const float*>(cursor->at(k)));
  }
};
template <class Source>
struct AffineOf {
  Source source;
  F32 by, shift;
  AffineOf(const Step& step, const StepContext& context)
      : source(step, context), by(set1(step.by)), shift(set1(step.shift)) {}
  CAMSHAFT_INLINE_MEMBER F32 operator()(int k) const { return fma(source(k), by, shift); }
};

// --- what they do with the chain's value v and z

#define CAMSHAFT_STEP(Name, expression)                                                   \
  struct Name {                                                                           \
    F32 x, y;                                                                             \
    const Cursor* second;                                                                 \
    Name(const Step& step, const StepContext& context)                                    \
        : x(set1(step.x)),                                                                \
          y(set1(step.y)),                                                                \
          second(&context.operands[step.second < 0 ? 0 : step.second]) {}                 \
    CAMSHAFT_INLINE_MEMBER F32 operator()([[maybe_unused]] F32 v, [[maybe_unused]] F32 z, \
                                          [[maybe_unused]] int k) const {                 \
      return expression;                                                                  \
    }                                                                                     \
  };
CAMSHAFT_STEP(Set, z)
CAMSHAFT_STEP(Add, v + z)
CAMSHAFT_STEP(Sub, v - z)
CAMSHAFT_STEP(SubFrom, z - v)
CAMSHAFT_STEP(Mul, v* z)
CAMSHAFT_STEP(Div, v / z)
CAMSHAFT_STEP(DivFrom, z / v)
// A NaN on the left stays.
CAMSHAFT_STEP(Min, select(is_nan(v), v, min(v, z)))
CAMSHAFT_STEP(MinOf, select(is_nan(z), z, min(z, v)))
CAMSHAFT_STEP(Max, select(is_nan(v), v, max(v, z)))
CAMSHAFT_STEP(MaxOf, select(is_nan(z), z, max(z, v)))
CAMSHAFT_STEP(ScaleAddLiteral, fma(v, z, y))
CAMSHAFT_STEP(ScaleByLiteral, fma(v, x, z))
CAMSHAFT_STEP(AddScaled, fma(z, x, v))
CAMSHAFT_STEP(ScaleAdd, fma(v, z, load(reinterpret_cast<const float*>(second->at(k)))))
CAMSHAFT_STEP(Clip, min(y, max(x, v)))
CAMSHAFT_STEP(Round, round_even(v))
CAMSHAFT_STEP(Leaky, select(less(v, zero()), v* x, v))
CAMSHAFT_STEP(HardSigmoid, hard_sigmoid(v, x, y))
CAMSHAFT_STEP(HardSwish, hard_swish(v))
CAMSHAFT_STEP(Abs, abs(v))
CAMSHAFT_STEP(Neg, neg(v))
CAMSHAFT_STEP(Sigmoid, sigmoid(v))
CAMSHAFT_STEP(Silu, silu(v))
CAMSHAFT_STEP(Tanh, tanh(v))
CAMSHAFT_STEP(Exp, exp(v))
CAMSHAFT_STEP(Sqrt, sqrt(v))
CAMSHAFT_STEP(Reciprocal, set1(1) / v)
CAMSHAFT_STEP(Floor, floor(v))
CAMSHAFT_STEP(Erf, erf(v))
CAMSHAFT_STEP(Gelu, gelu(v))
CAMSHAFT_STEP(GeluTanh, gelu_tanh(v))
CAMSHAFT_STEP(Softplus, softplus(v))
#undef CAMSHAFT_STEP

template <class Operation, class Source>
void run_step(const Step* step, StepContext* context, F32 v0, F32 v1, F32 v2, F32 v3, F32 v4,
              F32 v5, F32 v6, F32 v7) {
  const Operation f(*step, *context);
  const Source z(*step, *context);
  v0 = f(v0, z(0), 0), v1 = f(v1, z(1), 1), v2 = f(v2, z(2), 2), v3 = f(v3, z(3), 3);
  v4 = f(v4, z(4), 4), v5 = f(v5, z(5), 5), v6 = f(v6, z(6), 6), v7 = f(v7, z(7), 7);
  return step[1].run(step + 1, context, v0, v1, v2, v3, v4, v5, v6, v7);
}

CAMSHAFT_INLINE void store_all(float* to, F32 v0, F32 v1, F32 v2, F32 v3, F32 v4, F32 v5, F32 v6,
                               F32 v7) {
  store(to, v0), store(to + kLanes, v1), store(to + 2 * kLanes, v2), store(to + 3 * kLanes, v3);
  to += 4 * kLanes;
  store(to, v4), store(to + kLanes, v5), store(to + 2 * kLanes, v6), store(to + 3 * kLanes, v7);
}

// The value waits; the next step starts another.
void wait(const Step* step, StepContext* context, F32 v0, F32 v1, F32 v2, F32 v3, F32 v4, F32 v5,
          F32 v6, F32 v7) {
  store_all(context->waiting, v0, v1, v2, v3, v4, v5, v6, v7);
  return step[1].run(step + 1, context, v0, v1, v2, v3, v4, v5, v6, v7);
}

// Operators of one operand that are not above: through memory.
void run_unary_step(const Step* step, StepContext* context, F32 v0, F32 v1, F32 v2, F32 v3, F32 v4,
                    F32 v5, F32 v6, F32 v7) {
  alignas(64) float values[kStepVectors * kLanes];
  store_all(values, v0, v1, v2, v3, v4, v5, v6, v7);
  apply_unary({step->unary, 0, -1, -1, step->x, step->y}, values, kStepVectors * kLanes);
  const auto at = [&values](int k) { return load(values + k * kLanes); };
  step[1].run(step + 1, context, at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7));
}

// Behind the last step.
void store_block(const Step* step, StepContext* context, F32 v0, F32 v1, F32 v2, F32 v3, F32 v4,
                 F32 v5, F32 v6, F32 v7) {
  return context->store(step, context, v0, v1, v2, v3, v4, v5, v6, v7);
}

// T: float, bfloat16 or half.
template <class T>
void store_as(const Step*, StepContext* context, F32 v0, F32 v1, F32 v2, F32 v3, F32 v4, F32 v5,
              F32 v6, F32 v7) {
  const auto to = [context](int k) { return reinterpret_cast<T*>(context->out.at(k)); };
  store_floats(to(0), v0), store_floats(to(1), v1), store_floats(to(2), v2);
  store_floats(to(3), v3), store_floats(to(4), v4), store_floats(to(5), v5);
  store_floats(to(6), v6), store_floats(to(7), v7);
}

template <class Q>
void store_codes_of(const Step*, StepContext* context, F32 v0, F32 v1, F32 v2, F32 v3, F32 v4,
                    F32 v5, F32 v6, F32 v7) {
  const auto to = [context](int k) { return reinterpret_cast<Q*>(context->out.at(k)); };
  store_bytes(to(0), to_code<Q>(v0)), store_bytes(to(1), to_code<Q>(v1));
  store_bytes(to(2), to_code<Q>(v2)), store_bytes(to(3), to_code<Q>(v3));
  store_bytes(to(4), to_code<Q>(v4)), store_bytes(to(5), to_code<Q>(v5));
  store_bytes(to(6), to_code<Q>(v6)), store_bytes(to(7), to_code<Q>(v7));
}

// The same where four vectors each lie side by side.
template <class Q>
void store_codes_in_fours(const Step*, StepContext* context, F32 v0, F32 v1, F32 v2, F32 v3, F32 v4,
                          F32 v5, F32 v6, F32 v7) {
  store_bytes(reinterpret_cast<Q*>(context->out.at(0)), to_code<Q>(v0), to_code<Q>(v1),
              to_code<Q>(v2), to_code<Q>(v3));
  store_bytes(reinterpret_cast<Q*>(context->out.at(4)), to_code<Q>(v4), to_code<Q>(v5),
              to_code<Q>(v6), to_code<Q>(v7));
}

// --- from instructions to steps

template <class Operation>
StepFunction step_of(StepSource source) {
  switch (source) {
    case StepSource::kLiteral:
      return run_step<Operation, Literal>;
    case StepSource::kWaiting:
      return run_step<Operation, Waiting>;
    case StepSource::kFloats:
      return run_step<Operation, Vectors<float> >;
    case StepSource::kBytes:
      return run_step<Operation, Vectors<uint8_t> >;
    case StepSource::kSignedBytes:
      return run_step<Operation, Vectors<int8_t> >;
    case StepSource::kBf16:
      return run_step<Operation, Vectors<Bf16> >;
    case StepSource::kHalf:
      return run_step<Operation, Vectors<Half> >;
    case StepSource::kSplat:
      return run_step<Operation, Splat>;
    default:
      return run_step<Operation, NoSource>;
  }
}

// z is an operand, scaled and shifted.
template <class Operation>
StepFunction affine_step_of(StepSource source) {
  switch (source) {
    case StepSource::kFloats:
      return run_step<Operation, AffineOf<Vectors<float> > >;
    case StepSource::kBytes:
      return run_step<Operation, AffineOf<Vectors<uint8_t> > >;
    default:
      return nullptr;
  }
}

// The step of `op` when the chain is its left operand, or its right one; null: not one of these.
StepFunction binary_step(PointOp op, bool is_left, StepSource source) {
  switch (op) {
    case PointOp::kAdd:
      return step_of<Add>(source);
    case PointOp::kMul:
      return step_of<Mul>(source);
    case PointOp::kSub:
      return is_left ? step_of<Sub>(source) : step_of<SubFrom>(source);
    case PointOp::kDiv:
      return is_left ? step_of<Div>(source) : step_of<DivFrom>(source);
    case PointOp::kMin:
      return is_left ? step_of<Min>(source) : step_of<MinOf>(source);
    case PointOp::kMax:
      return is_left ? step_of<Max>(source) : step_of<MaxOf>(source);
    default:
      return nullptr;
  }
}
StepFunction affine_binary_step(PointOp op, bool is_left, StepSource source) {
  switch (op) {
    case PointOp::kAdd:
      return affine_step_of<Add>(source);
    case PointOp::kMul:
      return affine_step_of<Mul>(source);
    case PointOp::kSub:
      return is_left ? affine_step_of<Sub>(source) : affine_step_of<SubFrom>(source);
    default:
      return nullptr;
  }
}

StepFunction unary_step(const Instruction& op) {
  switch (op.op) {
    case PointOp::kRelu:
    case PointOp::kClip:
      return run_step<Clip, NoSource>;
    case PointOp::kRound:
      return run_step<Round, NoSource>;
    case PointOp::kLeakyRelu:
      return run_step<Leaky, NoSource>;
    case PointOp::kHardSigmoid:
      return run_step<HardSigmoid, NoSource>;
    case PointOp::kHardSwish:
      return run_step<HardSwish, NoSource>;
    case PointOp::kAbs:
      return run_step<Abs, NoSource>;
    case PointOp::kNeg:
      return run_step<Neg, NoSource>;
    case PointOp::kSigmoid:
      return run_step<Sigmoid, NoSource>;
    case PointOp::kTanh:
      return run_step<Tanh, NoSource>;
    case PointOp::kExp:
      return run_step<Exp, NoSource>;
    case PointOp::kSqrt:
      return run_step<Sqrt, NoSource>;
    case PointOp::kReciprocal:
      return run_step<Reciprocal, NoSource>;
    case PointOp::kFloor:
      return run_step<Floor, NoSource>;
    case PointOp::kErf:
      return run_step<Erf, NoSource>;
    case PointOp::kGelu:
      return run_step<Gelu, NoSource>;
    case PointOp::kGeluTanh:
      return run_step<GeluTanh, NoSource>;
    case PointOp::kSoftplus:
      return run_step<Softplus, NoSource>;
    case PointOp::kSilu:
      return op.x == 1 ? run_step<Silu, NoSource> : run_unary_step;
    default:
      return run_unary_step;
  }
}

class Maker {
 public:
  Maker(const Instruction* code, int length, int inputs, const StepSource* sources,
        RegisterProgram& program)
      : code_(code), inputs_(inputs), sources_(sources), program_(program) {
    for (int v = 0; v < inputs + length; ++v) uses_[v] = 0;
    for (int k = 0; k < length; ++k)
      for (int16_t v : {code[k].a, code[k].b, code[k].c})
        if (v >= 0 && uses_[v] < 2) ++uses_[v];
  }

  // Steps that give value v; `may_wait`: nothing waits meanwhile.
  bool make(int v, bool may_wait) {
    if (v < inputs_)
      return is_operand(v) && add(step_of<Set>(sources_[v]), {.operand = static_cast<int8_t>(v)});
    const Instruction& op = instruction(v);
    if (op.op == PointOp::kConst) return add(step_of<Set>(StepSource::kLiteral), {.x = op.x});
    if (uses_more(op.a) || uses_more(op.b) || uses_more(op.c)) return false;
    if (op.op == PointOp::kFma) return make_fma(op, may_wait);
    if (op.c >= 0) return false;
    return op.b < 0 ? make(op.a, may_wait) && add_unary(op) : make_binary(op, may_wait);
  }

 private:
  const Instruction& instruction(int v) const { return code_[v - inputs_]; }
  bool is_literal(int v) const { return v >= inputs_ && instruction(v).op == PointOp::kConst; }
  float literal(int v) const { return instruction(v).x; }
  bool is_operand(int v) const { return v >= 0 && v < inputs_ && sources_[v] != StepSource::kNone; }
  // A computed value that is used again is no part of a chain.
  bool uses_more(int v) const { return v >= inputs_ && !is_literal(v) && uses_[v] > 1; }

  bool add(StepFunction run, Step step) {
    if (program_.num_steps == RegisterProgram::kMaxSteps || run == nullptr) return false;
    step.run = run;
    program_.steps[program_.num_steps++] = step;
    return true;
  }

  bool add_unary(const Instruction& op) {
    if (op.op == PointOp::kIdentity) return true;
    Step step{.unary = op.op, .x = op.x, .y = op.y};
    if (op.op == PointOp::kRelu) step.x = 0, step.y = kInfinity;
    return add(unary_step(op), step);
  }

  // operand * by + shift by literals, as one value.
  bool find_affine_operand(int v, Step& step) const {
    if (v < inputs_ || uses_more(v)) return false;
    const Instruction& op = instruction(v);
    const bool scales = op.op == PointOp::kMul || (op.op == PointOp::kFma && is_literal(op.c));
    if (!scales || !is_operand(op.a) || !is_literal(op.b)) return false;
    step.operand = static_cast<int8_t>(op.a), step.by = literal(op.b);
    step.shift = op.op == PointOp::kFma ? literal(op.c) : 0;
    return true;
  }

  // `op` of the chain and value v, when that needs no chain of its own.
  bool is_simple(PointOp op, int v) const {
    Step step;
    return is_literal(v) || is_operand(v) ||
           (find_affine_operand(v, step) &&
            affine_binary_step(op, true, sources_[step.operand]) != nullptr);
  }
  bool add_simple(PointOp op, bool is_left, int v) {
    if (is_literal(v))
      return add(binary_step(op, is_left, StepSource::kLiteral), {.x = literal(v)});
    if (is_operand(v))
      return add(binary_step(op, is_left, sources_[v]), {.operand = static_cast<int8_t>(v)});
    Step step;
    return find_affine_operand(v, step) &&
           add(affine_binary_step(op, is_left, sources_[step.operand]), step);
  }

  // `first` waits while the chain of `second` is made.
  bool make_both(const Instruction& op, int first, int second, bool is_left) {
    return make(first, true) && add(wait, {}) && make(second, false) &&
           add(binary_step(op.op, is_left, StepSource::kWaiting), {});
  }

  bool make_binary(const Instruction& op, bool may_wait) {
    if (binary_step(op.op, true, StepSource::kLiteral) == nullptr) return false;
    if (is_simple(op.op, op.b)) return make(op.a, may_wait) && add_simple(op.op, true, op.b);
    if (is_simple(op.op, op.a)) return make(op.b, may_wait) && add_simple(op.op, false, op.a);
    if (!may_wait) return false;
    const int begin = program_.num_steps;
    if (make_both(op, op.b, op.a, true)) return true;
    program_.num_steps = begin;
    return make_both(op, op.a, op.b, false);
  }

  bool make_fma(const Instruction& op, bool may_wait) {
    const bool swaps = is_literal(op.a) || !(is_literal(op.b) || is_operand(op.b));
    const int a = swaps ? op.b : op.a, b = swaps ? op.a : op.b, c = op.c;
    const auto operand = [](int v) { return static_cast<int8_t>(v); };
    if (is_literal(b)) {
      const float scale = literal(b);
      if (is_literal(c))
        return make(a, may_wait) &&
               add(step_of<ScaleAddLiteral>(StepSource::kLiteral), {.x = scale, .y = literal(c)});
      if (is_operand(c))
        return make(a, may_wait) &&
               add(step_of<ScaleByLiteral>(sources_[c]), {.operand = operand(c), .x = scale});
      return is_operand(a) && make(c, may_wait) &&
             add(step_of<AddScaled>(sources_[a]), {.operand = operand(a), .x = scale});
    }
    if (!is_operand(b)) return false;
    if (is_literal(c))
      return make(a, may_wait) &&
             add(step_of<ScaleAddLiteral>(sources_[b]), {.operand = operand(b), .y = literal(c)});
    return is_operand(c) && sources_[c] == StepSource::kFloats && make(a, may_wait) &&
           add(step_of<ScaleAdd>(sources_[b]), {.operand = operand(b), .second = operand(c)});
  }

  const Instruction* code_;
  int inputs_;
  const StepSource* sources_;
  RegisterProgram& program_;
  uint8_t uses_[kMaxProgramValues];
};

// --- running

int64_t size_of(DataType type) {
  return type == DataType::kFloat ? 4 : ir::is_16_bit_float(type) ? 2 : 1;
}

constexpr int64_t kBlockCols = kStepVectors * kLanes;

// Blocks of eight vectors: `across` side by side in `rows_at_once()` rows.
struct Blocks {
  const RegisterProgram* program;
  const TileOperand* operands;
  TileResult out;

  void start(const Step* step, StepContext* context) const {
    const F32 none = zero();
    step->run(step, context, none, none, none, none, none, none, none, none);
  }

  // Rows past the last are its copies: the same values are written twice.
  static void set_cursor(Cursor& cursor, const void* data, int64_t row_bytes, int64_t vector_bytes,
                         int across, int64_t rows) {
    cursor.first = const_cast<std::byte*>(static_cast<const std::byte*>(data));
    const int shift = __builtin_ctz(static_cast<unsigned>(across));  // a power of two
    for (int k = 0; k < kStepVectors; ++k) {
      const int64_t row = k >> shift < rows ? k >> shift : rows - 1;
      cursor.offsets[k] = row * row_bytes + (k & (across - 1)) * vector_bytes;
    }
  }

  void place(int64_t row, int64_t col, int across, int64_t rows, StepContext& context) const {
    for (int k = 0; k < program->num_inputs; ++k) {
      const TileOperand& a = operands[k];
      const int64_t size = size_of(a.type);
      set_cursor(
          context.operands[k],
          static_cast<const std::byte*>(a.data) + (row * a.row_stride + col * a.col_stride) * size,
          a.row_stride * size, a.col_stride * kLanes * size, across, rows);
    }
    const int64_t size = size_of(out.type);
    set_cursor(context.out, static_cast<std::byte*>(out.data) + (row * out.row_stride + col) * size,
               out.row_stride * size, kLanes * size, across, rows);
  }

  CAMSHAFT_INLINE_MEMBER void advance(int64_t rows, int64_t cols, StepContext& context) const {
    for (int k = 0; k < program->num_inputs; ++k) {
      const TileOperand& a = operands[k];
      context.operands[k].first += (rows * a.row_stride + cols * a.col_stride) * size_of(a.type);
    }
    context.out.first += (rows * out.row_stride + cols) * size_of(out.type);
  }

  // `count` blocks of eight vectors, one behind the other, from the first column of a row on.
  void run_along(int64_t row, int64_t count, StepContext& context) const {
    place(row, 0, kStepVectors, 1, context);
    for (; count > 0; --count) {
      start(program->steps, &context);
      advance(0, kBlockCols, context);
    }
  }

  // `across` whole vectors from column `col` on, of rows [row, last).
  void run(int64_t row, int64_t last, int64_t col, int across, StepContext& context) const {
    const int64_t at_once = kStepVectors / across;
    place(row, col, across, last - row < at_once ? last - row : at_once, context);
    while (true) {
      start(program->steps, &context);
      row += at_once;
      if (row >= last) return;
      if (row + at_once <= last)
        advance(at_once, 0, context);
      else
        place(row, col, across, last - row, context);
    }
  }

  // `count` < kLanes columns: through copies of whole vectors.
  void run_rest(int64_t row, int64_t last, int64_t col, int64_t count, StepContext& context) const {
    alignas(64) std::byte copies[kMaxCursors][kStepVectors][kLanes * 4];
    alignas(64) std::byte results[kStepVectors][kLanes * 4];
    for (; row < last; row += kStepVectors) {
      const int64_t rows = last - row < kStepVectors ? last - row : kStepVectors;
      place(row, col, 1, rows, context);
      for (int k = 0; k < program->num_inputs; ++k) {
        if (operands[k].col_stride == 0) continue;
        Cursor& cursor = context.operands[k];
        for (int n = 0; n < kStepVectors; ++n)
          fill_some(cursor.at(n), copies[k][n], count, size_of(operands[k].type));
        set_cursor(cursor, copies[k], kLanes * 4, 0, 1, kStepVectors);
      }
      const Cursor to = context.out;
      set_cursor(context.out, results, kLanes * 4, 0, 1, kStepVectors);
      start(program->steps, &context);
      for (int n = 0; n < rows; ++n) copy_some(results[n], to.at(n), count, size_of(out.type));
    }
  }

  // A whole vector, zeros behind the first `count`: what lies on the stack is often denormal, and
  // an operation on denormals takes a hundred cycles.
  static void fill_some(const std::byte* from, std::byte* to, int64_t count, int64_t size) {
    if (size == 4) {
      store(reinterpret_cast<float*>(to),
            load(reinterpret_cast<const float*>(from), first_n(static_cast<int>(count))));
    } else {
      store(reinterpret_cast<float*>(to), zero());
      std::memcpy(to, from, static_cast<size_t>(count * size));
    }
  }

  static void copy_some(const std::byte* from, std::byte* to, int64_t count, int64_t size) {
    if (size == 4) {
      const int floats = static_cast<int>(count);
      store_first(reinterpret_cast<float*>(to),
                  load(reinterpret_cast<const float*>(from), first_n(floats)), floats);
    } else {
      std::memcpy(to, from, static_cast<size_t>(count * size));
    }
  }
};

// One long row where all is contiguous: no tails between rows.
bool is_flat(const TileOperand* operands, int num_operands, const TileResult& out, int64_t cols) {
  bool flat = out.row_stride == cols;
  for (int k = 0; k < num_operands; ++k) {
    const TileOperand& a = operands[k];
    flat &= a.col_stride == 0 ? a.row_stride == 0 : a.row_stride == cols;
  }
  return flat;
}

StepFunction storing_step(DataType type, bool in_fours) {
  if (type == DataType::kUInt8)
    return in_fours ? store_codes_in_fours<uint8_t> : store_codes_of<uint8_t>;
  if (type == DataType::kInt8)
    return in_fours ? store_codes_in_fours<int8_t> : store_codes_of<int8_t>;
  if (type == DataType::kBFloat16) return store_as<Bf16>;
  if (type == DataType::kHalf) return store_as<Half>;
  return store_as<float>;
}

// Finding the places of a block takes as long as the operations on a few: rows of so many blocks
// are run along, one place a row, others across, one place for a column of blocks.
constexpr int64_t kLongRow = 8;
constexpr int64_t kRowsAtOnce = 64;  // whose columns are finished before the next rows

}  // namespace

bool make_register_program(const Instruction* code, int length, int num_inputs,
                           const StepSource* sources, RegisterProgram& program) {
  program.num_steps = 0;
  program.num_inputs = num_inputs;
  if (length == 0 || num_inputs > kMaxCursors || num_inputs + length > kMaxProgramValues)
    return false;
  Maker maker(code, length, num_inputs, sources, program);
  if (maker.make(num_inputs + length - 1, true))
    return program.steps[program.num_steps].run = store_block, true;
  return program.num_steps = 0, false;
}

bool append_codes(RegisterProgram& program, float scale, float shift, float offset) {
  if (!program.present() || program.num_steps + 3 > RegisterProgram::kMaxSteps)
    return program.num_steps = 0, false;
  const auto add = [&program](StepFunction run, Step step) {
    step.run = run;
    program.steps[program.num_steps++] = step;
  };
  if (scale != 1 || shift != 0) add(run_step<ScaleAddLiteral, Literal>, {.x = scale, .y = shift});
  add(run_step<Round, NoSource>, {});
  if (offset != 0) add(run_step<Add, Literal>, {.x = offset});
  program.steps[program.num_steps].run = store_block;
  return true;
}

void run_registers(const RegisterProgram& program, const TileOperand* operands,
                   const TileResult& out, int64_t rows, int64_t cols) {
  if (is_flat(operands, program.num_inputs, out, cols)) cols *= rows, rows = 1;
  const Blocks blocks{&program, operands, out};
  StepContext context;
  for (int64_t row = 0; row < rows; row += kRowsAtOnce) {
    const int64_t end = rows - row < kRowsAtOnce ? rows : row + kRowsAtOnce;
    int64_t col = 0;
    const int64_t count = cols / kBlockCols;
    if (count > end - row || count >= kLongRow) {
      context.store = storing_step(out.type, true);
      for (int64_t along = row; along < end; ++along) blocks.run_along(along, count, context);
      col = count * kBlockCols;
    }
    for (int across = kStepVectors; across > 0; across /= 2) {
      context.store = storing_step(out.type, across >= 4);
      for (; col + across * kLanes <= cols; col += across * kLanes)
        blocks.run(row, end, col, across, context);
    }
    if (col < cols) blocks.run_rest(row, end, col, cols - col, context);
  }
}
#endif

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
