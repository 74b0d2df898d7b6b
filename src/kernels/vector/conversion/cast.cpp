// SPDX-License-Identifier: Apache-2.0
// Cast between numbers of all types of whole bytes and truth values, row by row in any strides.
// Floats of 16 bits go through floats, chunk by chunk.
#include <bit>
#include <type_traits>

#include "kernels/simd/float16.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/movement/copy.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::cast {
namespace {

struct Bool {
  uint8_t value;
};

// Floating to integer cuts off towards zero and wraps to the width; beyond int64 (uint64) the
// nearest number, NaN 0.
template <class To>
CAMSHAFT_INLINE int64_t cut_off(double v) {
  if (!(v == v)) return 0;
  if (std::is_same_v<To, uint64_t> && v >= 0x1p63)
    return v >= 0x1p64 ? -1 : static_cast<int64_t>(static_cast<uint64_t>(v));
  if (v >= 0x1p63) return INT64_MAX;
  if (v < -0x1p63) return INT64_MIN;
  return static_cast<int64_t>(v);
}

template <class To, class From>
CAMSHAFT_INLINE To convert(From v) {
  if constexpr (std::is_same_v<From, Bool>)
    return convert<To>(v.value);
  else if constexpr (std::is_same_v<To, Bool>)
    return {static_cast<uint8_t>(v != From(0))};
  else if constexpr (std::is_floating_point_v<From> && !std::is_floating_point_v<To>)
    return static_cast<To>(cut_off<To>(v));
  else
    return static_cast<To>(v);
}

constexpr int64_t kChunk = 256;

// Whether int32 holds them all, cut off: by the largest of their bits without sign, of which NaN
// has more than any number.
template <class From>
CAMSHAFT_INLINE bool are_held_by_int32(const From* x, int64_t count) {
  using Bits = std::conditional_t<sizeof(From) == 4, uint32_t, uint64_t>;
  constexpr Bits kMagnitude = ~Bits{0} >> 1;
  Bits most = 0;
  for (int64_t k = 0; k < count; ++k) {
    const Bits bits = std::bit_cast<Bits>(x[k]) & kMagnitude;
    most = bits > most ? bits : most;
  }
  return most < std::bit_cast<Bits>(From(0x1p31));
}

// Processors convert vectors of floats to int32; to other integers, and where that says something
// else than cut_off, only some or none do.
template <class To, class From>
void cut_off_row(const From* x, To* y, int64_t count) {
  for (int64_t first = 0; first < count; first += kChunk, x += kChunk, y += kChunk) {
    const int64_t chunk = smaller(kChunk, count - first);
    if (are_held_by_int32(x, chunk))
      for (int64_t k = 0; k < chunk; ++k) y[k] = static_cast<To>(static_cast<int32_t>(x[k]));
    else
      for (int64_t k = 0; k < chunk; ++k) y[k] = convert<To>(x[k]);
  }
}

template <class To, class From>
void cast_row(const void* x, int64_t step, void* y, int64_t count) {
  const auto* from = static_cast<const From*>(x);
  auto* to = static_cast<To*>(y);
  if (step != 1) {
    for (int64_t k = 0; k < count; ++k) to[k] = convert<To>(from[k * step]);
    return;
  }
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>)
    cut_off_row(from, to, count);
  else
    for (int64_t k = 0; k < count; ++k) to[k] = convert<To>(from[k]);
}

// The loops around it are compiled once, not per pair of types.
using CastRow = void (*)(const void* x, int64_t step, void* y, int64_t count);

template <class To>
CastRow row_to(DataType from) {
  switch (from) {
    case DataType::kDouble:
      return cast_row<To, double>;
    case DataType::kInt64:
      return cast_row<To, int64_t>;
    case DataType::kInt32:
      return cast_row<To, int32_t>;
    case DataType::kInt16:
      return cast_row<To, int16_t>;
    case DataType::kInt8:
      return cast_row<To, int8_t>;
    case DataType::kUInt64:
      return cast_row<To, uint64_t>;
    case DataType::kUInt32:
      return cast_row<To, uint32_t>;
    case DataType::kUInt16:
      return cast_row<To, uint16_t>;
    case DataType::kUInt8:
      return cast_row<To, uint8_t>;
    case DataType::kBool:
      return cast_row<To, Bool>;
    default:
      return cast_row<To, float>;
  }
}

// Integers wrap: of a width they have the same bits, signed or not (but uint64, which has more
// floats within its range).
CastRow row_of(DataType to, DataType from) {
  switch (to) {
    case DataType::kDouble:
      return row_to<double>(from);
    case DataType::kInt64:
      return row_to<int64_t>(from);
    case DataType::kUInt64:
      return row_to<uint64_t>(from);
    case DataType::kInt32:
    case DataType::kUInt32:
      return row_to<uint32_t>(from);
    case DataType::kInt16:
    case DataType::kUInt16:
      return row_to<uint16_t>(from);
    case DataType::kInt8:
    case DataType::kUInt8:
      return row_to<uint8_t>(from);
    case DataType::kBool:
      return row_to<Bool>(from);
    default:
      return row_to<float>(from);
  }
}

bool is_taken(DataType type) {
  return type != DataType::kUndefined && type != DataType::kInt4 && type != DataType::kUInt4;
}

std::string refusal(const Problem& p) {
  const DataType from = p.inputs[0].type, to = p.outputs[0].type;
  if (!is_taken(from) || !is_taken(to)) return "4-bit elements";
  const auto is_float = [](DataType type) {
    return type == DataType::kFloat || ir::is_16_bit_float(type);
  };
  if (from != to && is_float(from) && is_float(to)) return "floats alone";  // cast_floats
  return "";
}

// Elements of one type are copied.
void run_copy(CopyPlan& plan, const KernelCall& call) {
  run_copy(plan, call.inputs[0], call.outputs[0], call.pool);
}

// Rows of floats of 16 bits to floats and back.
using WidenRow = void (*)(const void* x, int64_t step, float* y, int64_t count);
using NarrowRow = void (*)(const float* x, void* y, int64_t count);

template <class T>
void widen_row(const void* x, int64_t step, float* y, int64_t count) {
  const T* from = static_cast<const T*>(x);
  T gathered[kChunk];
  if (step != 1) {
    for (int64_t k = 0; k < count; ++k) gathered[k] = from[k * step];
    from = gathered;
  }
  convert_row(from, y, count);
}
template <class T>
void narrow_row(const float* x, void* y, int64_t count) {
  convert_row(x, static_cast<T*>(y), count);
}

struct Cast {
  CastRow row;
  WidenRow widen;    // null: no 16-bit floats
  NarrowRow narrow;  // null: none
  Nest nest;
  int64_t x_bytes, y_bytes;  // of an element
  double predicted_us;

  void run_row(const char* x, char* y, int64_t count) const {
    const int64_t step = nest.col_stride(1);
    if (widen == nullptr && narrow == nullptr) return row(x, step, y, count);
    float wide[kChunk], result[kChunk];
    for (int64_t k = 0; k < count; k += kChunk) {
      const int64_t chunk = smaller(kChunk, count - k);
      const char* from = x + k * step * x_bytes;
      char* to = y + k * y_bytes;
      if (widen != nullptr) widen(from, step, wide, chunk);
      const void* source = widen != nullptr ? static_cast<const void*>(wide) : from;
      row(source, widen != nullptr ? 1 : step, narrow != nullptr ? static_cast<void*>(result) : to,
          chunk);
      if (narrow != nullptr) narrow(result, to, chunk);
    }
  }
};

void run(Cast& c, const KernelCall& call) {
  const char* x = call.input<const char>(0);
  char* y = call.output<char>(0);
  for_tiles(c.nest, call.pool, c.predicted_us,
            [&c, x, y](const int64_t* offsets, int64_t rows, int64_t cols) {
              for (int64_t row = 0; row < rows; ++row)
                c.run_row(x + (offsets[1] + row * c.nest.row_stride(1)) * c.x_bytes,
                          y + (offsets[0] + row * c.nest.row_stride(0)) * c.y_bytes, cols);
            });
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  Nest nest = make_nest(y);
  add_tensor(nest, x);
  if (x.type == y.type) {
    keep_state<run_copy>(kernel, plan_copy(nest, bytes_of(y.type)));
    return;
  }
  collapse(nest);
  Cast cast{row_of(y.type, x.type),
            nullptr,
            nullptr,
            nest,
            bytes_of(x.type),
            bytes_of(y.type),
            static_cast<double>(count_of(y)) / 3000};
  if (ir::is_16_bit_float(x.type))
    cast.widen = x.type == DataType::kHalf ? widen_row<Half> : widen_row<Bf16>;
  if (ir::is_16_bit_float(y.type))
    cast.narrow = y.type == DataType::kHalf ? narrow_row<Half> : narrow_row<Bf16>;
  keep_state<run>(kernel, cast);
}

constexpr Tactic kTactics[] = {
    {"cast", ir::LayerKind::kCast, kIsa, FormatRule::kSame, 2, refusal, traffic_us,
     CAMSHAFT_NOTHING_PACKED, prepare},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::cast
