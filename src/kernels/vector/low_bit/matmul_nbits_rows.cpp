// SPDX-License-Identifier: Apache-2.0
// Rows of floats as planes of bytes.
#include "kernels/simd/bytes.h"
#include "kernels/vector/low_bit/matmul_nbits.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

constexpr float kLargestFixed = 127 * 65536 + 127 * 256 + 127;
constexpr int kVectorsOfPart = kMostPart / kLanes;

// The largest magnitude; NaN where an element is not finite.
float largest_of(const F32* x, int vectors) {
  F32 most = zero();
  M32 bad = first_n(0);
  for (int i = 0; i < vectors; ++i) {
    most = max(abs(x[i]), most);
    bad = mask_or(bad, is_nan(x[i] - x[i]));
  }
  return any(bad) ? __builtin_nanf("") : reduce_max(most);
}

int32_t bits_of_float(float x) {
  int32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}
float power_of_two(int exponent) {
  const int32_t bits = (exponent + 127) << 23;
  float x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}

struct Unit {
  float unit, inverse;
};

template <int kPlanes>
Unit unit_of(float largest) {
  if constexpr (kPlanes == 1) {
    constexpr float kLeast = 1e-30f;
    const float most = largest < kLeast ? kLeast : largest;
    return {most / 127, 127 / most};
  } else {
    int exponent = (bits_of_float(largest) >> 23) - 127;
    if (exponent < -104) exponent = -104;
    if (largest * power_of_two(22 - exponent) > kLargestFixed) ++exponent;
    return {power_of_two(exponent - 22), power_of_two(22 - exponent)};
  }
}

CAMSHAFT_INLINE I32 low_byte(I32 q) {
  return shift_right_arithmetic<24>(shift_left<24>(q));
}

template <int kPlanes>
struct Planes {
  alignas(64) int8_t bytes[kPlanes][kMostPart + kLanes];
  F32 sums[kPlanes];

  // Elements [i, i + kLanes): digits, highest plane first.
  CAMSHAFT_INLINE_MEMBER void take(int p, int64_t i, I32 digit) {
    store_bytes(bytes[p] + i, digit);
    sums[p] = sums[p] + to_float(digit);
  }
  CAMSHAFT_INLINE_MEMBER void split(int64_t i, F32 scaled) {
    I32 q = to_int(scaled);
    if constexpr (kPlanes == 3) {
      const I32 low = low_byte(q);
      take(2, i, low);
      q = shift_right_arithmetic<8>(q - low);
      const I32 middle = low_byte(q);
      take(1, i, middle);
      q = shift_right_arithmetic<8>(q - middle);
    }
    take(0, i, q);
  }
};

// `count` elements of a part of `dwords` dwords of a plane.
template <int kPlanes>
void make_part(const float* a, int64_t count, int64_t dwords, int centre, int rows, int32_t* digits,
               PartOfRow<kPlanes>& part) {
  F32 x[kVectorsOfPart];
  const int vectors = static_cast<int>(ceil_div(dwords * 4, kLanes));
  for (int i = 0; i < vectors; ++i) {
    const int64_t left = count - int64_t{i} * kLanes;
    x[i] = left >= kLanes ? load(a + i * kLanes)
           : left > 0     ? load(a + i * kLanes, first_n(static_cast<int>(left)))
                          : zero();
  }
  const float largest = largest_of(x, vectors);
  const bool finite = largest == largest;
  const Unit unit = unit_of<kPlanes>(finite ? largest : 0);
  Planes<kPlanes> planes;
  for (int p = 0; p < kPlanes; ++p) planes.sums[p] = zero();
  for (int i = 0; i < vectors; ++i)
    planes.split(int64_t{i} * kLanes, finite ? x[i] * set1(unit.inverse) : zero());
  part.unit = finite ? unit.unit : largest;
  float sum = 0;
  for (int p = 0; p < kPlanes; ++p) {
    const float plane = reduce_add(planes.sums[p]);
    part.start[p] = -centre * static_cast<int32_t>(plane);
    sum = sum * 256 + plane;
  }
  part.sum = sum * part.unit;
  for (int64_t d = 0; d < dwords; ++d)
    for (int p = 0; p < kPlanes; ++p)
      __builtin_memcpy(digits + d * rows * kPlanes + p, planes.bytes[p] + 4 * d, 4);
}

template <int kPlanes>
void make_row(const float* a, const BitGeometry& g, int rows, int r, int32_t* digits,
              std::byte* parts) {
  const int64_t most = part_dwords(g.bits);
  auto* part = reinterpret_cast<PartOfRow<kPlanes>*>(parts) + r;
  digits += r * kPlanes;
  for (int64_t b = 0; b < g.blocks; ++b)
    for (int64_t d = 0; d < g.block_dwords; d += most, part += rows) {
      const int64_t dwords = smaller(most, g.block_dwords - d) * g.shifts();
      const int64_t in_block = d * g.codes_per_dword(), first = b * g.block + in_block;
      const int64_t count = smaller(smaller(g.block - in_block, g.depth - first), dwords * 4);
      make_part<kPlanes>(a + first, count, dwords, g.centre, rows, digits, *part);
      digits += dwords * rows * kPlanes;
    }
}

}  // namespace

int64_t part_bytes(int planes) {
  return planes == 1 ? int64_t{sizeof(PartOfRow<1>)} : int64_t{sizeof(PartOfRow<3>)};
}

void make_digits(const float* a, const BitGeometry& geometry, int planes, int rows, int r,
                 int32_t* digits, std::byte* parts) {
  if (planes == 1)
    make_row<1>(a, geometry, rows, r, digits, parts);
  else
    make_row<3>(a, geometry, rows, r, digits, parts);
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
