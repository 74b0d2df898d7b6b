// SPDX-License-Identifier: Apache-2.0
// The interpreter of tile programs: one switch per instruction and L1-sized chunk, then a tight
// loop over vectors. Temporaries live in a stack pool, assigned by last use; the last instruction
// writes to the output. One file: an instruction is a case here and nowhere else.
#include "kernels/vector/program/program_tile.h"

#include "kernels/simd/float16.h"
#include "kernels/vector/math.h"
#include "kernels/vector/pointwise/byte_rows.h"
#include "kernels/vector/program/affine_tile.h"
#include "kernels/vector/program/compiled_code.h"
#include "kernels/vector/program/math_inverse.h"
#include "kernels/vector/program/rest.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

using ir::Instruction;
using ir::PointOp;

constexpr int64_t kPoolFloats = 4096;  // 16 KiB: half of the smallest L1
constexpr int64_t kMaxChunk = 512;

struct Tile {
  float* out;
  int64_t row_stride, rows, cols;
};

// A TileOperand of floats.
struct Operand {
  const float* data;
  int64_t row_stride, col_stride;
};

// --- loops: f on every element of the tile
// -------------------------------------------------------------------------------------

template <bool kSplat>
CAMSHAFT_INLINE F32 fetch(const float* row, F32 splat, int64_t col) {
  if constexpr (kSplat) return splat;
  return load(row + col);
}
template <bool kSplat>
CAMSHAFT_INLINE F32 fetch(const float* row, F32 splat, int64_t col, M32 mask) {
  if constexpr (kSplat) return splat;
  return load(row + col, mask);
}
template <bool kSplat>
CAMSHAFT_INLINE F32 splat_of(const float* row) {
  if constexpr (kSplat) return set1(*row);
  return zero();
}

template <bool kSplatA, bool kSplatB, bool kSplatC, class F>
CAMSHAFT_INLINE void loop(const Tile& tile, const Operand& a, const Operand& b, const Operand& c,
                          F f) {
  const float *row_a = a.data, *row_b = b.data, *row_c = c.data;
  float* out = tile.out;
  const int64_t cols = tile.cols, whole = cols - cols % kLanes;
  const M32 mask = first_n(static_cast<int>(cols - whole));
  for (int64_t row = 0; row < tile.rows; ++row) {
    const F32 sa = splat_of<kSplatA>(row_a), sb = splat_of<kSplatB>(row_b),
              sc = splat_of<kSplatC>(row_c);
    for (int64_t col = 0; col < whole; col += kLanes)
      store(out + col, f(fetch<kSplatA>(row_a, sa, col), fetch<kSplatB>(row_b, sb, col),
                         fetch<kSplatC>(row_c, sc, col)));
    if (whole < cols)
      store(out + whole,
            f(fetch<kSplatA>(row_a, sa, whole, mask), fetch<kSplatB>(row_b, sb, whole, mask),
              fetch<kSplatC>(row_c, sc, whole, mask)),
            mask);
    row_a += a.row_stride, row_b += b.row_stride, row_c += c.row_stride, out += tile.row_stride;
  }
}

CAMSHAFT_INLINE bool is_row_major(const Operand& a, int64_t cols) {
  return a.col_stride == 1 && a.row_stride == cols;
}
CAMSHAFT_INLINE bool is_one_scalar(const Operand& a) {
  return a.col_stride == 0 && a.row_stride == 0;
}
// One long row where all is contiguous: no tails between rows.
CAMSHAFT_INLINE Tile flattened(const Tile& tile) {
  return {tile.out, 0, 1, tile.rows * tile.cols};
}

template <class F>
CAMSHAFT_INLINE void map1(const Tile& tile, const Operand& a, F f) {
  const bool flat = tile.row_stride == tile.cols && is_row_major(a, tile.cols);
  loop<false, true, true>(flat ? flattened(tile) : tile, a, a, a,
                          [f](F32 va, F32, F32) { return f(va); });
}

template <class F>
CAMSHAFT_INLINE void map2(const Tile& tile, const Operand& a, const Operand& b, F f) {
  Tile t = tile;
  const auto g = [f](F32 va, F32 vb, F32) { return f(va, vb); };
  const bool flat_a = is_row_major(a, t.cols) || is_one_scalar(a),
             flat_b = is_row_major(b, t.cols) || is_one_scalar(b);
  if (t.row_stride == t.cols && flat_a && flat_b) t = flattened(t);
  if (a.col_stride == 0 && b.col_stride == 0) return loop<true, true, true>(t, a, b, b, g);
  if (b.col_stride == 0) return loop<false, true, true>(t, a, b, b, g);
  if (a.col_stride == 0) return loop<true, false, true>(t, a, b, a, g);
  loop<false, false, true>(t, a, b, a, g);
}

// b and c contiguous, or both one scalar per row (a scale and shift), or one of them.
template <class F>
CAMSHAFT_INLINE void map3(const Tile& tile, const Operand& a, const Operand& b, const Operand& c,
                          F f) {
  if (b.col_stride == 0 && c.col_stride == 0) return loop<false, true, true>(tile, a, b, c, f);
  if (b.col_stride == 0) return loop<false, true, false>(tile, a, b, c, f);
  if (c.col_stride == 0) return loop<false, false, true>(tile, a, b, c, f);
  loop<false, false, false>(tile, a, b, c, f);
}

// Operators without a vector form: element by element.
template <class F>
void map_scalar(const Tile& tile, const Operand& a, const Operand& b, F f) {
  for (int64_t row = 0; row < tile.rows; ++row)
    for (int64_t col = 0; col < tile.cols; ++col)
      tile.out[row * tile.row_stride + col] = f(a.data[row * a.row_stride + col * a.col_stride],
                                                b.data[row * b.row_stride + col * b.col_stride]);
}

// --- operators
// -----------------------------------------------------------------------------------------------------------------

CAMSHAFT_INLINE F32 truth(M32 m) {
  return select(m, set1(1), zero());
}
CAMSHAFT_INLINE M32 holds(F32 a) {
  return not_equal(a, zero());
}

struct Clamp {
  F32 low, high;
};
CAMSHAFT_INLINE F32 apply(const Clamp& clamp, F32 v) {
  return min(clamp.high, max(clamp.low, v));
}  // NaN stays

// The instruction after a sum or product, when that is all its result is used for: relu or clip,
// done in the same loop.
struct Tail {
  bool present = false;
  float low = -kInfinity, high = kInfinity;
};

template <class F>
void map2_clamped(const Tile& tile, const Operand& a, const Operand& b, const Tail& tail, F f) {
  if (!tail.present) return map2(tile, a, b, f);
  const Clamp clamp{set1(tail.low), set1(tail.high)};
  map2(tile, a, b, [clamp, f](F32 va, F32 vb) { return apply(clamp, f(va, vb)); });
}

template <class F>
void map3_clamped(const Tile& tile, const Operand& a, const Operand& b, const Operand& c,
                  const Tail& tail, F f) {
  if (!tail.present) return map3(tile, a, b, c, f);
  const Clamp clamp{set1(tail.low), set1(tail.high)};
  map3(tile, a, b, c, [clamp, f](F32 va, F32 vb, F32 vc) { return apply(clamp, f(va, vb, vc)); });
}

// Sine and cosine: vectors with an argument too large for the reduction take libm.
void map_sine(const Tile& tile, const Operand& a, int quarter_turns) {
  map1(tile, a, [quarter_turns](F32 v) {
    if (__builtin_expect(!any(less(set1(32768.0f), abs(v))), 1))
      return sin_shifted(v, quarter_turns);
    alignas(64) float lanes[kLanes];
    store(lanes, v);
    for (float& x : lanes) x = quarter_turns == 0 ? __builtin_sinf(x) : __builtin_cosf(x);
    return load(lanes);
  });
}

void run_power(const Tile& tile, const Operand& a, const Operand& b) {
  if (is_one_scalar(b)) {
    const float exponent = *b.data;
    if (exponent == 2) return map1(tile, a, [](F32 v) { return v * v; });
    if (exponent == 3) return map1(tile, a, [](F32 v) { return v * v * v; });
    if (exponent == 1) return map1(tile, a, [](F32 v) { return v; });
    if (exponent == -1) return map1(tile, a, [](F32 v) { return set1(1) / v; });
  }
#if !defined(CAMSHAFT_HAS_FMA)
  map_scalar(tile, a, b, [](float x, float y) { return __builtin_powf(x, y); });
#else
  map2(tile, a, b, [](F32 x, F32 y) {
    if (__builtin_expect(!any(is_hard_power(x, y)), 1)) return pow(x, y);
    alignas(64) float bases[kLanes], exponents[kLanes];
    store(bases, x), store(exponents, y);
    for (int k = 0; k < kLanes; ++k) bases[k] = __builtin_powf(bases[k], exponents[k]);
    return load(bases);
  });
#endif
}

int64_t integer(float x) {
  return static_cast<int64_t>(x);
}

float shift_left(float x, float y) {
  if (!(y >= 0 && y < 64)) return 0;
  return static_cast<float>(static_cast<int64_t>(static_cast<uint64_t>(integer(x)) << integer(y)));
}

float shift_right(float x, float y) {
  if (!(y >= 0 && y < 64)) return integer(x) < 0 ? -1 : 0;
  return static_cast<float>(integer(x) >> integer(y));
}

// Operators that appear in few networks.
void run_rare(const Instruction& op, const Tile& t, const Operand& a, const Operand& b) {
  switch (op.op) {
    case PointOp::kTan:
      return map_scalar(t, a, a, [](float x, float) { return __builtin_tanf(x); });
    case PointOp::kAsin:
      return map1(t, a, [](F32 v) { return asin(v); });
    case PointOp::kAcos:
      return map1(t, a, [](F32 v) { return acos(v); });
    case PointOp::kAtan:
      return map1(t, a, [](F32 v) { return atan(v); });
    case PointOp::kSinh:
      return map_scalar(t, a, a, [](float x, float) { return __builtin_sinhf(x); });
    case PointOp::kCosh:
      return map_scalar(t, a, a, [](float x, float) { return __builtin_coshf(x); });
    case PointOp::kAsinh:
      return map_scalar(t, a, a, [](float x, float) { return __builtin_asinhf(x); });
    case PointOp::kAcosh:
      return map_scalar(t, a, a, [](float x, float) { return __builtin_acoshf(x); });
    case PointOp::kAtanh:
      return map_scalar(t, a, a, [](float x, float) { return __builtin_atanhf(x); });
    case PointOp::kMod:
      return map2(t, a, b, [](F32 x, F32 y) { return floor_mod(x, y); });
    case PointOp::kFmod:
      return map2(t, a, b, [](F32 x, F32 y) { return fmod(x, y); });
    case PointOp::kBitAnd:
      return map_scalar(
          t, a, b, [](float x, float y) { return static_cast<float>(integer(x) & integer(y)); });
    case PointOp::kBitOr:
      return map_scalar(
          t, a, b, [](float x, float y) { return static_cast<float>(integer(x) | integer(y)); });
    case PointOp::kBitXor:
      return map_scalar(
          t, a, b, [](float x, float y) { return static_cast<float>(integer(x) ^ integer(y)); });
    case PointOp::kBitNot:
      return map_scalar(t, a, a, [](float x, float) { return static_cast<float>(~integer(x)); });
    case PointOp::kShiftLeft:
      return map_scalar(t, a, b, shift_left);
    case PointOp::kShiftRight:
      return map_scalar(t, a, b, shift_right);
    default:
      return;
  }
}

void run_activation(const Instruction& op, const Tile& t, const Operand& a) {
  const F32 x = set1(op.x), y = set1(op.y);
  switch (op.op) {
    case PointOp::kRelu:
      return map1(t, a, [](F32 v) { return max(zero(), v); });
    case PointOp::kClip:
      return map1(t, a, [x, y](F32 v) { return min(y, max(x, v)); });
    case PointOp::kSigmoid:
      return map1(t, a, [](F32 v) { return sigmoid(v); });
    case PointOp::kTanh:
      return map1(t, a, [](F32 v) { return tanh(v); });
    case PointOp::kLeakyRelu:
      return map1(t, a, [x](F32 v) { return select(less(v, zero()), v * x, v); });
    case PointOp::kElu:
      return map1(t, a, [x](F32 v) { return select(less(v, zero()), x * expm1(v), v); });
    case PointOp::kSelu:
      return map1(t, a, [x, y](F32 v) { return y * select(less(v, zero()), x * expm1(v), v); });
    case PointOp::kCelu:
      return map1(t, a, [x](F32 v) { return select(less(v, zero()), x * expm1(v / x), v); });
    case PointOp::kHardSigmoid:
      return map1(t, a, [x, y](F32 v) { return hard_sigmoid(v, x, y); });
    case PointOp::kHardSwish:
      return map1(t, a, [](F32 v) { return hard_swish(v); });
    case PointOp::kSoftplus:
      return map1(t, a, [](F32 v) { return softplus(v); });
    case PointOp::kSoftsign:
      return map1(t, a, [](F32 v) { return v / (set1(1) + abs(v)); });
    case PointOp::kMish:
      return map1(t, a, [](F32 v) { return mish(v); });
    case PointOp::kThresholdedRelu:
      return map1(t, a, [x](F32 v) { return select(less(x, v), v, zero()); });
    case PointOp::kShrink:
      return map1(t, a, [x, y](F32 v) {
        return select(less(v, neg(x)), v + y, select(less(x, v), v - y, zero()));
      });
    case PointOp::kSilu:
      if (op.x == 1) return map1(t, a, [](F32 v) { return silu(v); });
      return map1(t, a, [x](F32 v) { return v / (set1(1) + exp(neg(x * v))); });
    case PointOp::kGelu:
      return map1(t, a, [](F32 v) { return gelu(v); });
    case PointOp::kGeluTanh:
      return map1(t, a, [](F32 v) { return gelu_tanh(v); });
    default:
      return run_rare(op, t, a, a);
  }
}

void run_unary(const Instruction& op, const Tile& t, const Operand& a) {
  switch (op.op) {
    case PointOp::kIdentity:
      return map1(t, a, [](F32 v) { return v; });
    case PointOp::kAbs:
      return map1(t, a, [](F32 v) { return abs(v); });
    case PointOp::kNeg:
      return map1(t, a, [](F32 v) { return neg(v); });
    case PointOp::kSign:
      return map1(t, a, [](F32 v) {
        return select(less(v, zero()), set1(-1),
                      select(less(zero(), v), set1(1), v));  // 0 and NaN as they are
      });
    case PointOp::kSqrt:
      return map1(t, a, [](F32 v) { return sqrt(v); });
    case PointOp::kReciprocal:
      return map1(t, a, [](F32 v) { return set1(1) / v; });
    case PointOp::kExp:
      return map1(t, a, [](F32 v) { return exp(v); });
    case PointOp::kLog:
      return map1(t, a, [](F32 v) { return log(v); });
    case PointOp::kErf:
      return map1(t, a, [](F32 v) { return erf(v); });
    case PointOp::kFloor:
      return map1(t, a, [](F32 v) { return floor(v); });
    case PointOp::kCeil:
      return map1(t, a, [](F32 v) { return ceil(v); });
    case PointOp::kRound:
      return map1(t, a, [](F32 v) { return round_even(v); });
    case PointOp::kSin:
      return map_sine(t, a, 0);
    case PointOp::kCos:
      return map_sine(t, a, 1);
    case PointOp::kNot:
      return map1(t, a, [](F32 v) { return truth(mask_not(holds(v))); });
    case PointOp::kIsNan:
      return map1(t, a, [](F32 v) { return truth(is_nan(v)); });
    case PointOp::kIsInf: {
      const F32 low = set1(op.x != 0 ? -kInfinity : kInfinity),
                high = set1(op.y != 0 ? kInfinity : -kInfinity);
      if (op.x == 0 && op.y == 0) return map1(t, a, [](F32) { return zero(); });
      return map1(t, a,
                  [low, high](F32 v) { return truth(mask_or(equal(v, low), equal(v, high))); });
    }
    default:
      return run_activation(op, t, a);
  }
}

void run_binary(const Instruction& op, const Tile& t, const Operand& a, const Operand& b,
                const Tail& tail) {
  switch (op.op) {
    case PointOp::kAdd:
      return map2_clamped(t, a, b, tail, [](F32 u, F32 v) { return u + v; });
    case PointOp::kSub:
      return map2_clamped(t, a, b, tail, [](F32 u, F32 v) { return u - v; });
    case PointOp::kMul:
      return map2_clamped(t, a, b, tail, [](F32 u, F32 v) { return u * v; });
    case PointOp::kDiv:
      return map2(t, a, b, [](F32 u, F32 v) { return u / v; });
    case PointOp::kMin:
      return map2(t, a, b, [](F32 u, F32 v) { return select(is_nan(u), u, min(u, v)); });
    case PointOp::kMax:
      return map2(t, a, b, [](F32 u, F32 v) { return select(is_nan(u), u, max(u, v)); });
    case PointOp::kPow:
      return run_power(t, a, b);
    case PointOp::kPRelu:
      return map2(t, a, b, [](F32 u, F32 v) { return select(less(u, zero()), u * v, u); });
    case PointOp::kEqual:
      return map2(t, a, b, [](F32 u, F32 v) { return truth(equal(u, v)); });
    case PointOp::kLess:
      return map2(t, a, b, [](F32 u, F32 v) { return truth(less(u, v)); });
    case PointOp::kLessOrEqual:
      return map2(t, a, b, [](F32 u, F32 v) { return truth(less_equal(u, v)); });
    case PointOp::kGreater:
      return map2(t, a, b, [](F32 u, F32 v) { return truth(less(v, u)); });
    case PointOp::kGreaterOrEqual:
      return map2(t, a, b, [](F32 u, F32 v) { return truth(less_equal(v, u)); });
    case PointOp::kAnd:
      return map2(t, a, b, [](F32 u, F32 v) { return truth(mask_and(holds(u), holds(v))); });
    case PointOp::kOr:
      return map2(t, a, b, [](F32 u, F32 v) { return truth(mask_or(holds(u), holds(v))); });
    case PointOp::kXor:
      return map2(t, a, b, [](F32 u, F32 v) { return truth(mask_xor(holds(u), holds(v))); });
    default:
      return run_rare(op, t, a, b);
  }
}

// --- the interpreter
// -----------------------------------------------------------------------------------------------------------

int operand_count(const Instruction& op) {
  return op.a < 0 ? 0 : op.b < 0 ? 1 : op.c < 0 ? 2 : 3;
}

bool is_clamp(PointOp op) {
  return op == PointOp::kRelu || op == PointOp::kClip;
}
bool takes_tail(PointOp op) {
  return op == PointOp::kAdd || op == PointOp::kSub || op == PointOp::kMul || op == PointOp::kFma;
}

// Values whose operands must be vectors: all but those map2 and map3 can splat.
bool splats(const Instruction& op, int operand) {
  if (op.op == PointOp::kFma) return operand > 0;
  return operand_count(op) == 2;
}

class Interpreter {
 public:
  Interpreter(const Instruction* code, int length, int inputs, const TileOperand* operands,
              DataType result)
      : code_(code), length_(length), inputs_(inputs), operands_(operands), result_(result) {
    plan_slots();
  }

  // Elements of a chunk; a tile that needs no temporaries is one chunk.
  int64_t chunk() const {
    if (slots_ == 0) return INT64_MAX;
    const int64_t fit = kPoolFloats / slots_ / kLanes * kLanes;
    return fit < kMaxChunk ? fit : kMaxChunk;
  }

  // The part of `rows` x `cols` elements at (row, col).
  void run(const TileResult& out, int64_t row, int64_t col, int64_t rows, int64_t cols) {
    slot_floats_ = slots_ == 0 ? 0 : chunk();
    const int64_t to = row * out.row_stride + col;
    Tile tile{static_cast<float*>(out.data) + to, out.row_stride, rows, cols};
    const bool narrows = result_ != DataType::kFloat;
    if (narrows) tile.out = slot_data(slot_[inputs_ + length_ - 1]), tile.row_stride = cols;
    for (int k = 0; k < inputs_; ++k) {
      const TileOperand& a = operands_[k];
      const int64_t offset = row * a.row_stride + col * a.col_stride;
      if (needs_copy_[k])
        values_[k] = copied(a, offset, tile, slot_[k]);
      else
        values_[k] = {static_cast<const float*>(a.data) + offset, a.row_stride, a.col_stride};
    }
    for (int k = 0; k < length_; ++k) k += execute(k, tile);
    if (!narrows) return;
    if (ir::is_16_bit_float(result_))
      narrow_floats(tile, static_cast<uint16_t*>(out.data) + to, out.row_stride);
    else
      narrow(tile, static_cast<uint8_t*>(out.data) + to, out.row_stride);
  }

 private:
  int take_slot() {
    for (int s = 0; s < slots_; ++s)
      if (!taken_[s]) return taken_[s] = true, s;
    taken_[slots_] = true;
    return slots_++;
  }

  // A clamp right after, when it is the only user of instruction k's value.
  bool has_tail(int k) const {
    return k + 1 < length_ && takes_tail(code_[k].op) && is_clamp(code_[k + 1].op) &&
           code_[k + 1].a == inputs_ + k && last_use_[inputs_ + k] == k + 1 &&
           uses_[inputs_ + k] == 1;
  }

  void plan_slots() {
    const int count = inputs_ + length_;
    for (int v = 0; v < count; ++v) last_use_[v] = -1, slot_[v] = -1, uses_[v] = 0;
    for (int v = 0; v < inputs_; ++v)
      needs_copy_[v] = operands_[v].type != DataType::kFloat ||
                       (operands_[v].col_stride != 0 && operands_[v].col_stride != 1);
    for (int k = 0; k < length_; ++k) {
      const int16_t operands[3] = {code_[k].a, code_[k].b, code_[k].c};
      for (int j = 0; j < operand_count(code_[k]); ++j) {
        const int v = operands[j];
        last_use_[v] = static_cast<int16_t>(k), ++uses_[v];
        if (v < inputs_ && operands_[v].col_stride == 0 && !splats(code_[k], j))
          needs_copy_[v] = true;
      }
    }
    for (int v = 0; v < inputs_; ++v)
      if (needs_copy_[v]) slot_[v] = static_cast<int8_t>(take_slot());
    for (int k = 0; k < length_; ++k) plan_result(k);
  }

  void plan_result(int k) {
    if (has_tail(k)) return;  // the clamp's slot
    const Instruction& op = code_[k];
    const int first = k > 0 && has_tail(k - 1) ? k - 1 : k;
    // A result may take the slot of an operand that ends here: loops read before they write. Of one
    // row they read it again.
    for (int j = first; j <= k; ++j) {
      const int16_t operands[3] = {code_[j].a, code_[j].b, code_[j].c};
      for (int n = 0; n < operand_count(code_[j]); ++n)
        if (slot_[operands[n]] >= 0 && last_use_[operands[n]] <= k && !is_one_row(operands[n]))
          taken_[slot_[operands[n]]] = false;
    }
    if (k + 1 == length_ && result_ == DataType::kFloat) return;
    if (k + 1 < length_ && op.op == PointOp::kConst && const_splats(inputs_ + k)) return;
    slot_[inputs_ + k] = static_cast<int8_t>(take_slot());
  }

  bool is_one_row(int value) const { return value < inputs_ && operands_[value].row_stride == 0; }

  bool const_splats(int value) const {
    for (int k = value - inputs_ + 1; k < length_; ++k) {
      const int16_t operands[3] = {code_[k].a, code_[k].b, code_[k].c};
      for (int j = 0; j < operand_count(code_[k]); ++j)
        if (operands[j] == value && !splats(code_[k], j)) return false;
    }
    return true;
  }

  float* slot_data(int slot) { return pool_ + slot * slot_floats_; }

  template <class T>
  static void gather_row(const T* from, int64_t stride, float* to, int64_t count) {
    if (stride == 0) {
      const auto value = static_cast<float>(*from);
      for (int64_t k = 0; k < count; ++k) to[k] = value;
    } else {
      for (int64_t k = 0; k < count; ++k) to[k] = static_cast<float>(from[k * stride]);
    }
  }
  template <class T>
  static void copy_floats(const T* from, int64_t stride, float* to, int64_t count) {
    if (stride == 1) return convert_row(from, to, count);
    for (int64_t k = 0; k < count; ++k) convert_row(from + k * stride, to + k, 1);
  }
  static void copy_row(const TileOperand& a, int64_t offset, float* to, int64_t count) {
    switch (a.type) {
      case DataType::kUInt8: {
        const uint8_t* from = static_cast<const uint8_t*>(a.data) + offset;
        return a.col_stride == 1 ? widen_row(from, to, count)
                                 : gather_row(from, a.col_stride, to, count);
      }
      case DataType::kInt8: {
        const int8_t* from = static_cast<const int8_t*>(a.data) + offset;
        return a.col_stride == 1 ? widen_row(from, to, count)
                                 : gather_row(from, a.col_stride, to, count);
      }
      case DataType::kBool: {
        const uint8_t* from = static_cast<const uint8_t*>(a.data) + offset;
        if (a.col_stride == 1) return widen_bools(from, to, count);
        for (int64_t k = 0; k < count; ++k) to[k] = from[k * a.col_stride] != 0 ? 1.0f : 0.0f;
        return;
      }
      case DataType::kBFloat16:
        return copy_floats(static_cast<const Bf16*>(a.data) + offset, a.col_stride, to, count);
      case DataType::kHalf:
        return copy_floats(static_cast<const Half*>(a.data) + offset, a.col_stride, to, count);
      default:
        return gather_row(static_cast<const float*>(a.data) + offset, a.col_stride, to, count);
    }
  }

  // The operand's tile as contiguous floats.
  Operand copied(const TileOperand& a, int64_t offset, const Tile& tile, int slot) {
    float* to = slot_data(slot);
    if (a.row_stride == 0) {  // a mask, a number: one row for all
      copy_row(a, offset, to, tile.cols);
      return {to, 0, 1};
    }
    const bool flat = a.col_stride == 1 && a.row_stride == tile.cols;
    const int64_t rows = flat ? 1 : tile.rows, cols = flat ? tile.rows * tile.cols : tile.cols;
    for (int64_t row = 0; row < rows; ++row)
      copy_row(a, offset + row * a.row_stride, to + row * cols, cols);
    return {to, tile.cols, 1};
  }

  void narrow_floats(const Tile& tile, uint16_t* out, int64_t row_stride) const {
    const bool flat = row_stride == tile.cols;
    const int64_t rows = flat ? 1 : tile.rows, cols = flat ? tile.rows * tile.cols : tile.cols;
    for (int64_t row = 0; row < rows; ++row, out += row_stride) {
      const float* from = tile.out + row * cols;
      if (result_ == DataType::kBFloat16)
        convert_row(from, reinterpret_cast<Bf16*>(out), cols);
      else
        convert_row(from, reinterpret_cast<Half*>(out), cols);
    }
  }

  void narrow(const Tile& tile, uint8_t* out, int64_t row_stride) const {
    const bool flat = row_stride == tile.cols;
    const int64_t rows = flat ? 1 : tile.rows, cols = flat ? tile.rows * tile.cols : tile.cols;
    for (int64_t row = 0; row < rows; ++row, out += row_stride) {
      const float* from = tile.out + row * cols;
      if (result_ == DataType::kBool)
        narrow_bools(from, out, cols);
      else if (result_ == DataType::kInt8)
        narrow_row(from, reinterpret_cast<int8_t*>(out), cols);
      else
        narrow_row(from, out, cols);
    }
  }

  // Gives how many further instructions it has done.
  int execute(int k, const Tile& tile) {
    const Instruction& op = code_[k];
    const bool tailed = has_tail(k);
    const int last = tailed ? k + 1 : k;
    Tail tail;
    if (tailed) {
      const Instruction& clamp = code_[k + 1];
      const bool relu = clamp.op == PointOp::kRelu;
      tail = {true, relu ? 0 : clamp.x, relu ? kInfinity : clamp.y};
    }
    const int value = inputs_ + last;
    Tile to = tile;
    if (last + 1 < length_) {
      if (slot_[value] < 0)
        return values_[value] = {&op.x, 0, 0}, 0;  // a constant that is only splat
      to.out = slot_data(slot_[value]), to.row_stride = tile.cols;
      values_[value] = {to.out, tile.cols, 1};
    }
    apply(op, to, tail);
    return last - k;
  }

  void apply(const Instruction& op, const Tile& to, const Tail& tail) {
    const Operand* a = op.a < 0 ? nullptr : &values_[op.a];
    switch (operand_count(op)) {
      case 0: {
        const F32 x = set1(op.x);
        const Operand literal{&op.x, 0, 0};
        return loop<true, true, true>(to, literal, literal, literal,
                                      [x](F32, F32, F32) { return x; });
      }
      case 1:
        return run_unary(op, to, *a);
      case 2:
        return run_binary(op, to, *a, values_[op.b], tail);
      default:
        if (op.op == PointOp::kFma)
          return map3_clamped(to, *a, values_[op.b], values_[op.c], tail,
                              [](F32 u, F32 v, F32 w) { return fma(u, v, w); });
        return map3(to, *a, values_[op.b], values_[op.c],
                    [](F32 u, F32 v, F32 w) { return select(holds(u), v, w); });
    }
  }

  const Instruction* code_;
  int length_, inputs_;
  const TileOperand* operands_;
  DataType result_;
  int slots_ = 0;
  int64_t slot_floats_ = 0;
  int8_t slot_[kMaxProgramValues];
  int16_t last_use_[kMaxProgramValues];
  uint8_t uses_[kMaxProgramValues];
  bool needs_copy_[kMaxProgramValues];
  bool taken_[kMaxProgramValues] = {};
  Operand values_[kMaxProgramValues];
  alignas(64) float pool_[kPoolFloats];
};

// Single-instruction programs on contiguous floats need no plan.
bool run_single(const Instruction& op, const TileOperand* operands, const TileResult& out,
                int64_t rows, int64_t cols) {
  const int count = operand_count(op);
  if (out.type != DataType::kFloat || count == 0 || count == 3) return false;
  const Tile tile{static_cast<float*>(out.data), out.row_stride, rows, cols};
  Operand own[2];
  const int16_t values[2] = {op.a, op.b};
  for (int k = 0; k < count; ++k) {
    const TileOperand& a = operands[values[k]];
    if (a.type != DataType::kFloat || a.col_stride < 0 || a.col_stride > 1) return false;
    own[k] = {static_cast<const float*>(a.data), a.row_stride, a.col_stride};
  }
  if (count == 1) return own[0].col_stride == 1 ? run_unary(op, tile, own[0]), true : false;
  if ((own[0].col_stride | own[1].col_stride) == 0) return false;
  return run_binary(op, tile, own[0], own[1], {}), true;
}

// A chain of at least two operations that is run in registers.
bool find_registers(const Instruction* code, int length, int num_inputs,
                    const TileOperand* operands, DataType out, RegisterProgram& program) {
  constexpr int kMaxInputs = 16;
  if (num_inputs > kMaxInputs || out == DataType::kBool) return false;
  StepSource sources[kMaxInputs];
  for (int k = 0; k < num_inputs; ++k)
    sources[k] = step_source_of(operands[k].type, operands[k].col_stride);
  return make_register_program(code, length, num_inputs, sources, program);
}

}  // namespace

void apply_unary(const Instruction& op, float* values, int64_t count) {
  run_unary(op, {values, count, 1, count}, {values, count, 1});
}

double code_ns_per_16(const Instruction* code, int length) {
  double ns = 0.5;
  for (int k = 0; k < length; ++k) {
    const PointOp op = code[k].op;
    if (op == PointOp::kExp || op == PointOp::kLog || op == PointOp::kErf ||
        op == PointOp::kSigmoid || op == PointOp::kTanh || op == PointOp::kElu ||
        op == PointOp::kSelu || op == PointOp::kCelu || op == PointOp::kSoftplus ||
        op == PointOp::kMish || op == PointOp::kSilu || op == PointOp::kGelu ||
        op == PointOp::kGeluTanh || op == PointOp::kSin || op == PointOp::kCos ||
        op == PointOp::kAsin || op == PointOp::kAcos || op == PointOp::kAtan ||
        op == PointOp::kPow || op == PointOp::kMod || op == PointOp::kFmod)
      ns += 32.0 / kLanes;
    else if (op >= PointOp::kTan && op <= PointOp::kAtanh)
      ns += 100;
    else
      ns += 12.0 / kLanes;
  }
  return ns;
}

namespace {

void interpret(const Instruction* code, int length, int num_inputs, const TileOperand* operands,
               const TileResult& out, int64_t rows, int64_t cols) {
  Interpreter interpreter(code, length, num_inputs, operands, out.type);
  const int64_t chunk = interpreter.chunk();
  if (cols >= chunk) {
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t col = 0; col < cols; col += chunk)
        interpreter.run(out, row, col, 1, cols - col < chunk ? cols - col : chunk);
    return;
  }
  const int64_t step = chunk / (cols > 0 ? cols : 1);
  for (int64_t row = 0; row < rows; row += step)
    interpreter.run(out, row, 0, rows - row < step ? rows - row : step, cols);
}

constexpr Instruction kCopy{PointOp::kIdentity, 0};

}  // namespace

void compile_code(const Instruction* code, int length, int num_inputs, const TileOperand* operands,
                  DataType out, CompiledCode& compiled) {
  // An empty program may not count its operand.
  if (length == 0) code = &kCopy, length = 1, num_inputs = num_inputs > 0 ? num_inputs : 1;
  compiled.code = code;
  compiled.length = length;
  compiled.num_inputs = num_inputs;
  find_registers(code, length, num_inputs, operands, out, compiled.registers);
}

void run_code(const CompiledCode& compiled, const TileOperand* operands, const TileResult& out,
              int64_t rows, int64_t cols) {
  if (compiled.length == 1 && run_single(*compiled.code, operands, out, rows, cols)) return;
  Affine affine;
  if (find_affine(compiled.code, compiled.length, compiled.num_inputs, operands, out.type, affine))
    return run_affine(affine, operands, out, rows, cols);
  if (compiled.registers.present())
    return run_registers(compiled.registers, operands, out, rows, cols);
  interpret(compiled.code, compiled.length, compiled.num_inputs, operands, out, rows, cols);
}

void run_code(const Instruction* code, int length, int num_inputs, const TileOperand* operands,
              const TileResult& out, int64_t rows, int64_t cols) {
  if (length == 0) code = &kCopy, length = 1;
  if (length == 1 && run_single(*code, operands, out, rows, cols)) return;
  Affine affine;
  if (find_affine(code, length, num_inputs, operands, out.type, affine))
    return run_affine(affine, operands, out, rows, cols);
  RegisterProgram registers;
  if (find_registers(code, length, num_inputs, operands, out.type, registers))
    return run_registers(registers, operands, out, rows, cols);
  interpret(code, length, num_inputs, operands, out, rows, cols);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
