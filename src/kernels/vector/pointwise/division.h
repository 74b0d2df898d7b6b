// SPDX-License-Identifier: Apache-2.0
// Quotients and rests of integers, through floats that hold them: processors divide vectors of
// floats, integers only one by one (int32 3 times, int64 4 times as fast on AVX-512).
#pragma once

#include <type_traits>

#include "ir/program.h"
#include "kernels/vector/pointwise/chunks.h"
#include "kernels/vector/pointwise/magic.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

template <class T>
CAMSHAFT_INLINE bool has_zero(const T* b, int64_t count) {
  T found = 0;
  for (int64_t k = 0; k < count; ++k) found |= static_cast<T>(b[k] == 0);
  return found != 0;
}

// A quotient that is cut off and its rest; the quotient by 0 is that by 1, its rest 0.
template <class T>
struct Divided {
  T quotient, rest;
};

// The divisor, but 1 for the two that need care: 0, and -1, by which the least number has no
// quotient (it wraps around).
template <class T>
CAMSHAFT_INLINE T safe_divisor(T b) {
  return b == T(0) || (std::is_signed_v<T> && b == T(-1)) ? T(1) : b;
}
template <class T>
CAMSHAFT_INLINE T negated_if(bool negates, T a) {
  using U = std::make_unsigned_t<T>;
  return negates ? static_cast<T>(U(0) - static_cast<U>(a)) : a;
}

// int32 and less: a quotient of doubles (of floats, where these hold the numbers) is off by less
// than what is left to the next whole number.
template <class T>
CAMSHAFT_INLINE Divided<T> divide_narrow(T a, T b) {
  using Float = std::conditional_t<sizeof(T) < 4, float, double>;
  using U = std::make_unsigned_t<T>;
  const T divisor = safe_divisor(b);
  const T quotient =
      static_cast<T>(static_cast<int32_t>(static_cast<Float>(a) / static_cast<Float>(divisor)));
  const T rest =
      static_cast<T>(static_cast<U>(a) - (static_cast<U>(quotient) + 0u) * static_cast<U>(divisor));
  return {negated_if(std::is_signed_v<T> && b == T(-1), quotient), rest};
}

// Numbers below kHeldByDoubles: the nearest quotient, whose rest is exact, and a step back where
// that is beyond the dividend.
CAMSHAFT_INLINE Divided<int64_t> divide_wide(int64_t dividend, int64_t divisor) {
  const double a = as_double(dividend), b = as_double(divisor == 0 ? 1 : divisor);
  const double ratio = a / b, quotient = (ratio + kMagic) - kMagic;
  const double rest = a - quotient * b;
  const double step = rest * a < 0 ? __builtin_copysign(1.0, ratio) : 0.0;
  return {as_whole(quotient - step), as_whole(rest + step * b)};
}

// One by one.
template <class T>
CAMSHAFT_INLINE Divided<T> divide_any(T a, T b) {
  const T divisor = safe_divisor(b);
  return {negated_if(std::is_signed_v<T> && b == T(-1), static_cast<T>(a / divisor)),
          static_cast<T>(a % divisor)};
}

// kMod gives the rest the divisor's sign.
template <class T, class Divide>
CAMSHAFT_INLINE void divide_by(ir::PointOp op, const T* a, const T* b, T* y, int64_t count,
                               const Divide& divide) {
  if (op == ir::PointOp::kDiv)
    return map(a, b, y, count, [&](T p, T q) { return divide(p, q).quotient; });
  if (op == ir::PointOp::kFmod)
    return map(a, b, y, count, [&](T p, T q) { return divide(p, q).rest; });
  map(a, b, y, count, [&](T p, T q) {
    const T rest = divide(p, q).rest;
    return rest != T(0) && (rest < T(0)) != (q < T(0)) ? static_cast<T>(rest + q) : rest;
  });
}

template <class T>
CAMSHAFT_INLINE bool is_held_by_doubles(const T* a, int64_t count) {
  uint64_t bits = 0;
  for (int64_t k = 0; k < count; ++k) bits |= static_cast<uint64_t>(a[k] < T(0) ? ~a[k] : a[k]);
  return bits < static_cast<uint64_t>(kHeldByDoubles);
}

template <class T>
void divide(ir::PointOp op, const T* a, const T* b, T* y, int64_t count) {
  if constexpr (sizeof(T) < 4 || std::is_same_v<T, int32_t>)
    return divide_by(op, a, b, y, count, [](T p, T q) { return divide_narrow(p, q); });
  if (is_held_by_doubles(a, count) && is_held_by_doubles(b, count))
    return divide_by(op, a, b, y, count, [](T p, T q) {
      const Divided<int64_t> divided =
          divide_wide(static_cast<int64_t>(p), static_cast<int64_t>(q));
      return Divided<T>{static_cast<T>(divided.quotient), static_cast<T>(divided.rest)};
    });
  divide_by(op, a, b, y, count, [](T p, T q) { return divide_any(p, q); });
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
