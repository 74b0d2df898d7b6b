// SPDX-License-Identifier: Apache-2.0
// Reduce of integers, truth values and doubles over any set of dimensions. Rows are added to a row
// of results eight at a time; a line that is reduced counts as rows of a few vectors, whose results
// are merged. Plain loops that the compiler makes vectors of. Integers wrap around, as the
// reference's do; sums of doubles are taken in another order.
#include <limits>
#include <type_traits>

#include "kernels/vector/counts.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/reduction/reduction.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::reduce_numbers {
namespace {

using ir::ReduceOp;

// An operator: From, the type of elements; Sum, of what they become; take() adds an element to a
// result, merge() another result.
template <class T, class S>
struct AddNumbers {
  using From = T;
  using Sum = S;
  static constexpr Sum kIdentity = 0;
  CAMSHAFT_INLINE Sum merge(Sum a, Sum b) { return a + b; }
  CAMSHAFT_INLINE Sum take(Sum a, T v) { return a + static_cast<Sum>(v); }
};
template <class T, class S>
struct AddMagnitudes : AddNumbers<T, S> {
  CAMSHAFT_INLINE S take(S a, T v) {
    if constexpr (std::is_same_v<T, double>)
      return a + __builtin_fabs(v);
    else
      return a + (v < T(0) ? S(0) - static_cast<S>(v) : static_cast<S>(v));
  }
};
template <class T, class S>
struct AddSquares : AddNumbers<T, S> {
  CAMSHAFT_INLINE S take(S a, T v) { return a + static_cast<S>(v) * static_cast<S>(v); }
};
template <class T, class S>
struct MultiplyNumbers {
  using From = T;
  using Sum = S;
  static constexpr Sum kIdentity = 1;
  CAMSHAFT_INLINE Sum merge(Sum a, Sum b) { return a * b; }
  CAMSHAFT_INLINE Sum take(Sum a, T v) { return a * static_cast<Sum>(v); }
};
// A NaN stays.
template <class T>
struct MostOf {
  using From = T;
  using Sum = T;
  static constexpr Sum kIdentity = std::is_same_v<T, double> ? -std::numeric_limits<T>::infinity()
                                                             : std::numeric_limits<T>::lowest();
  CAMSHAFT_INLINE Sum merge(Sum a, Sum b) { return (b > a) | (b != b) ? b : a; }
  CAMSHAFT_INLINE Sum take(Sum a, T v) { return merge(a, v); }
};
template <class T>
struct LeastOf {
  using From = T;
  using Sum = T;
  static constexpr Sum kIdentity = std::is_same_v<T, double> ? std::numeric_limits<T>::infinity()
                                                             : std::numeric_limits<T>::max();
  CAMSHAFT_INLINE Sum merge(Sum a, Sum b) { return (b < a) | (b != b) ? b : a; }
  CAMSHAFT_INLINE Sum take(Sum a, T v) { return merge(a, v); }
};
// Without a thought of NaN, for lines without one: what is left of v * 0 tells, of infinities, too.
struct LargestOf : MostOf<double> {
  CAMSHAFT_INLINE double merge(double a, double b) { return b > a ? b : a; }
  CAMSHAFT_INLINE double take(double a, double v) { return merge(a, v); }
};
struct SmallestOf : LeastOf<double> {
  CAMSHAFT_INLINE double merge(double a, double b) { return b < a ? b : a; }
  CAMSHAFT_INLINE double take(double a, double v) { return merge(a, v); }
};
struct NotFinite : AddNumbers<double, double> {
  CAMSHAFT_INLINE double take(double a, double v) { return a + v * 0; }
};

// Of truth values: whether any is true, whether all are.
struct AnyOf : MostOf<uint8_t> {
  CAMSHAFT_INLINE uint8_t take(uint8_t a, uint8_t v) { return a | (v != 0); }
};
struct AllOf : LeastOf<uint8_t> {
  static constexpr uint8_t kIdentity = 1;
  CAMSHAFT_INLINE uint8_t take(uint8_t a, uint8_t v) { return a & (v != 0); }
};

// results[c] takes x[r * stride + c] of all rows, one after the other.
template <class Op>
void take_rows(typename Op::Sum* __restrict results, const typename Op::From* x, int64_t rows,
               int64_t stride, int64_t cols) {
  for (; rows >= 8; rows -= 8, x += 8 * stride)
    for (int64_t c = 0; c < cols; ++c) {
      typename Op::Sum result = results[c];
#pragma GCC unroll 8
      for (int r = 0; r < 8; ++r) result = Op::take(result, x[r * stride + c]);
      results[c] = result;
    }
  for (; rows > 0; --rows, x += stride)
    for (int64_t c = 0; c < cols; ++c) results[c] = Op::take(results[c], x[c]);
}

// Sums of integers in any order are the same: the compiler makes vectors of them itself.
template <class Op>
CAMSHAFT_INLINE typename Op::Sum merge_all(typename Op::Sum result, typename Op::Sum* results,
                                           int64_t count) {
  if constexpr (std::is_same_v<typename Op::Sum, double>)
    for (; count > 1; count /= 2)
      for (int64_t k = 0; k < count / 2; ++k)
        results[k] = Op::merge(results[k], results[k + count / 2]);
  for (int64_t k = 0; k < count; ++k) result = Op::merge(result, results[k]);
  return result;
}

template <class Op>
typename Op::Sum take_line(typename Op::Sum result, const typename Op::From* x, int64_t count) {
  using Sum = typename Op::Sum;
  constexpr int64_t kWidth = 4 * kLanes * 4 / static_cast<int64_t>(sizeof(Sum));  // four vectors
  if (count >= 2 * kWidth) {
    Sum results[kWidth];
    for (Sum& r : results) r = Op::kIdentity;
    const int64_t rows = count / kWidth;
    take_rows<Op>(results, x, rows, kWidth, kWidth);
    result = merge_all<Op>(result, results, kWidth);
    x += rows * kWidth, count -= rows * kWidth;
  }
  for (int64_t k = 0; k < count; ++k) result = Op::take(result, x[k]);
  return result;
}

constexpr int64_t kPart = 2048;  // is still in L1 when it is read again

template <class Op, class Plain>
double take_doubles(double result, const double* x, int64_t count) {
  for (int64_t first = 0; first < count; first += kPart) {
    const int64_t part = smaller(kPart, count - first);
    const double rest = take_line<NotFinite>(0, x + first, part);
    result = rest == rest && result == result ? take_line<Plain>(result, x + first, part)
                                              : take_line<Op>(result, x + first, part);
  }
  return result;
}
template <class Op>
typename Op::Sum take_whole_line(typename Op::Sum result, const typename Op::From* x,
                                 int64_t count) {
  if constexpr (std::is_same_v<Op, MostOf<double>>)
    return take_doubles<Op, LargestOf>(result, x, count);
  else if constexpr (std::is_same_v<Op, LeastOf<double>>)
    return take_doubles<Op, SmallestOf>(result, x, count);
  else
    return take_line<Op>(result, x, count);
}

struct Numbers;

// How results come about: all of one kept element; those of columns side by side, up to kColumns.
// These alone know the types, what calls them is compiled once.
using ReduceLine = void (*)(const Numbers& s, const void* x, void* y);
using ReduceColumns = void (*)(const Numbers& s, const void* x, int64_t cols, void* y);

struct Numbers {
  Reduction shape;
  ReduceOp op;
  int64_t count;  // of elements that become one
  int64_t bytes;  // of an element
  ReduceLine line;
  ReduceColumns columns;
};

template <class To, class Sum>
CAMSHAFT_INLINE To finish(const Numbers& s, Sum v) {
  if constexpr (std::is_same_v<To, double>) {
    if (s.op == ReduceOp::kMean) return v / static_cast<double>(s.count);
    if (s.op == ReduceOp::kL2) return __builtin_sqrt(v);
    if (s.op == ReduceOp::kLogSum) return __builtin_log(v);
    return v;
  } else {
    if (s.op == ReduceOp::kMean) return static_cast<To>(static_cast<int64_t>(v) / s.count);
    return static_cast<To>(v);
  }
}

template <class To, class Sum>
void finish_columns(const Numbers& s, const Sum* results, int64_t cols, To* y) {
  const int64_t stride = s.shape.nest.col_stride(1);
  for (int64_t c = 0; c < cols; ++c) y[c * stride] = finish<To>(s, results[c]);
}

template <class Op, class To>
void reduce_line(const Numbers& numbers, const void* x, void* y) {
  const Reduction& s = numbers.shape;
  const auto* from = static_cast<const typename Op::From*>(x);
  typename Op::Sum result = Op::kIdentity;
  for (int64_t r = 0; r < s.reduced_count; ++r)
    result = take_whole_line<Op>(result, from + s.offset_of_reduced(r), s.nest.cols());
  *static_cast<To*>(y) = finish<To>(numbers, result);
}

constexpr int64_t kColumns = 512;  // results that stay in L1

template <class Op, class To>
void reduce_columns(const Numbers& numbers, const void* x, int64_t cols, void* y) {
  const Reduction& s = numbers.shape;
  const auto* from = static_cast<const typename Op::From*>(x);
  typename Op::Sum results[kColumns];
  for (int64_t c = 0; c < cols; ++c) results[c] = Op::kIdentity;
  const int inner = s.num_reduced == 0 ? 0 : s.reduced[s.num_reduced - 1];
  const int64_t rows = s.num_reduced == 0 ? 1 : s.nest.extents[inner];
  for (int64_t r = 0; r < s.reduced_count; r += rows)
    take_rows<Op>(results, from + s.offset_of_reduced(r), rows, s.nest.strides[0][inner], cols);
  finish_columns(numbers, results, cols, static_cast<To*>(y));
}

void reduce_lines(const Numbers& numbers, const std::byte* x, std::byte* y, ThreadPool* pool) {
  const Reduction& s = numbers.shape;
  split(pool, s.kept_count, s.predicted_us, [&](int, int64_t first, int64_t last) {
    for (int64_t k = first; k < last; ++k)
      numbers.line(numbers, x + s.offset_of_kept(0, k) * numbers.bytes,
                   y + s.offset_of_kept(1, k) * numbers.bytes);
  });
}

void reduce_rows(const Numbers& numbers, const std::byte* x, std::byte* y, ThreadPool* pool) {
  const Reduction& s = numbers.shape;
  const int64_t cols = s.nest.cols(), stride = s.nest.col_stride(1),
                blocks = ceil_div(cols, kColumns);
  split(pool, s.kept_count * blocks, s.predicted_us, [&](int, int64_t first, int64_t last) {
    for (int64_t unit = first; unit < last; ++unit) {
      const int64_t k = unit / blocks, c = unit % blocks * kColumns;
      numbers.columns(numbers, x + (s.offset_of_kept(0, k) + c) * numbers.bytes,
                      smaller(kColumns, cols - c),
                      y + (s.offset_of_kept(1, k) + c * stride) * numbers.bytes);
    }
  });
}

void run(Numbers& s, const KernelCall& call) {
  const auto* x = call.input<const std::byte>(0);
  auto* y = call.output<std::byte>(0);
  if (s.shape.line)
    reduce_lines(s, x, y, call.pool);
  else
    reduce_rows(s, x, y, call.pool);
}

template <class Op, class To = typename Op::From>
void set(Numbers& s) {
  s.line = reduce_line<Op, To>;
  s.columns = reduce_columns<Op, To>;
}

template <class T>
using Wrapping = typename std::conditional_t<std::is_same_v<T, double>, std::type_identity<double>,
                                             std::make_unsigned<T>>::type;
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, uint64_t>;

template <class T>
void set_extreme(Numbers& s) {
  if (s.op == ReduceOp::kMax)
    set<MostOf<T>>(s);
  else
    set<LeastOf<T>>(s);
}

template <class T>
void set_arithmetic(Numbers& s) {
  using U = Wrapping<T>;
  switch (s.op) {
    case ReduceOp::kMax:
    case ReduceOp::kMin:
      return set_extreme<T>(s);
    case ReduceOp::kMean:
      return set<AddNumbers<T, Wide<T>>>(s);
    case ReduceOp::kProd:
      return set<MultiplyNumbers<U, U>>(s);
    case ReduceOp::kL1:
      return set<AddMagnitudes<T, U>, U>(s);
    case ReduceOp::kL2:
    case ReduceOp::kSumSquare:
      return set<AddSquares<U, U>>(s);
    default:
      return set<AddNumbers<U, U>>(s);
  }
}

void set_numbers(DataType type, Numbers& s) {
  switch (type) {
    case DataType::kDouble:
      return set_arithmetic<double>(s);
    case DataType::kInt64:
      return set_arithmetic<int64_t>(s);
    case DataType::kInt32:
      return set_arithmetic<int32_t>(s);
    case DataType::kUInt64:
      return set_arithmetic<uint64_t>(s);
    case DataType::kUInt32:
      return set_arithmetic<uint32_t>(s);
    case DataType::kInt8:
      return set_extreme<int8_t>(s);
    case DataType::kUInt8:
      return set_extreme<uint8_t>(s);
    default:
      return s.op == ReduceOp::kMax ? set<AnyOf>(s) : set<AllOf>(s);
  }
}

const ir::ReduceAttrs& attrs_of(const ir::Layer& layer) {
  return *std::get_if<ir::ReduceAttrs>(&layer.attrs);
}

bool is_byte(DataType type) {
  return type == DataType::kInt8 || type == DataType::kUInt8 || type == DataType::kBool;
}

std::string refusal(const Problem& p) {
  const DataType type = p.inputs[0].type;
  const ReduceOp op = attrs_of(*p.layer).op;
  const bool is_whole = type == DataType::kInt64 || type == DataType::kInt32 ||
                        type == DataType::kUInt64 || type == DataType::kUInt32;
  if (!is_whole && !is_byte(type) && type != DataType::kDouble) return "floats or 16-bit integers";
  if (p.outputs[0].type != type) return "another type";
  if (is_byte(type) && op != ReduceOp::kMax && op != ReduceOp::kMin)
    return "of bytes, only the most and the least";
  if (is_whole && (op == ReduceOp::kL2 || op == ReduceOp::kLogSum)) return "a root or a logarithm";
  if (op == ReduceOp::kLogSumExp) return "log-sum-exp needs two passes";
  if (attrs_of(*p.layer).axes.empty()) return "axes are known only when running";
  if (count_of(p.inputs[0]) == 0) return "empty";
  return "";
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const ir::ReduceAttrs& attrs = attrs_of(*args.layer);
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  Numbers numbers{split_reduction(x, with_reduced_extents(x, y, attrs), dims_of(attrs.axes)),
                  attrs.op,
                  count_of(x) / count_of(y),
                  bytes_of(x.type),
                  nullptr,
                  nullptr};
  numbers.shape.predicted_us = static_cast<double>(count_of(x) * bytes_of(x.type)) / 12000;
  set_numbers(x.type, numbers);
  keep_state<run>(kernel, numbers);
}

constexpr Tactic kTactics[] = {
    {"reduce_numbers", ir::LayerKind::kReduce, kIsa, FormatRule::kSame, 1, refusal, traffic_us,
     CAMSHAFT_NOTHING_PACKED, prepare},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::reduce_numbers
