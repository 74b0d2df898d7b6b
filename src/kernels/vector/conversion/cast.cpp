// SPDX-License-Identifier: Apache-2.0
// Cast between float, double, int64, int32, 8-bit integers and bool, row by row in any strides.
#include "kernels/vector/movement/copy.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

struct Bool {
  uint8_t value;
};

// Floating to integer cuts off towards zero and wraps to the width; beyond int64 the nearest
// number, NaN 0.
CAMSHAFT_INLINE int64_t cut_off(double v) {
  if (!(v == v)) return 0;
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
    return static_cast<To>(cut_off(v));
  else
    return static_cast<To>(v);
}

template <class To, class From>
void cast_rows(const Nest& nest, const void* x, void* y, int64_t rows, int64_t cols) {
  const auto* from = static_cast<const From*>(x);
  auto* to = static_cast<To*>(y);
  const int64_t step = nest.col_stride(1);
  for (int64_t row = 0; row < rows; ++row, from += nest.row_stride(1), to += nest.row_stride(0)) {
    if (step == 1)
      for (int64_t col = 0; col < cols; ++col) to[col] = convert<To>(from[col]);
    else
      for (int64_t col = 0; col < cols; ++col) to[col] = convert<To>(from[col * step]);
  }
}

// The loops around it are compiled once, not per pair of types.
using CastRows = void (*)(const Nest&, const void* x, void* y, int64_t rows, int64_t cols);

template <class To>
CastRows rows_to(DataType from) {
  switch (from) {
    case DataType::kFloat:
      return cast_rows<To, float>;
    case DataType::kDouble:
      return cast_rows<To, double>;
    case DataType::kInt64:
      return cast_rows<To, int64_t>;
    case DataType::kInt32:
      return cast_rows<To, int32_t>;
    case DataType::kInt8:
      return cast_rows<To, int8_t>;
    case DataType::kUInt8:
      return cast_rows<To, uint8_t>;
    default:
      return cast_rows<To, Bool>;
  }
}

CastRows rows_of(DataType to, DataType from) {
  switch (to) {
    case DataType::kFloat:
      return rows_to<float>(from);
    case DataType::kDouble:
      return rows_to<double>(from);
    case DataType::kInt64:
      return rows_to<int64_t>(from);
    case DataType::kInt32:
      return rows_to<int32_t>(from);
    case DataType::kInt8:
      return rows_to<int8_t>(from);
    case DataType::kUInt8:
      return rows_to<uint8_t>(from);
    default:
      return rows_to<Bool>(from);
  }
}

bool is_taken(DataType type) {
  return type == DataType::kFloat || type == DataType::kDouble || type == DataType::kInt64 ||
         type == DataType::kInt32 || type == DataType::kInt8 || type == DataType::kUInt8 ||
         type == DataType::kBool;
}

std::string refusal(const Problem& p) {
  if (!is_taken(p.inputs[0].type) || !is_taken(p.outputs[0].type))
    return "16-bit, unsigned or 4-bit elements";
  return "";
}

// Elements of one type are copied.
void run_copy(CopyPlan& plan, const KernelCall& call) {
  run_copy(plan, call.inputs[0], call.outputs[0], call.pool);
}

struct Cast {
  CastRows rows;
  Nest nest;
  int64_t x_bytes, y_bytes;  // of an element
  double predicted_us;
};

void run(Cast& c, const KernelCall& call) {
  const char* x = call.input<const char>(0);
  char* y = call.output<char>(0);
  for_tiles(c.nest, call.pool, c.predicted_us,
            [&c, x, y](const int64_t* offsets, int64_t rows, int64_t cols) {
              c.rows(c.nest, x + offsets[1] * c.x_bytes, y + offsets[0] * c.y_bytes, rows, cols);
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
  keep_state<run>(kernel, Cast{rows_of(y.type, x.type), nest, bytes_of(x.type), bytes_of(y.type),
                               static_cast<double>(count_of(y)) / 1500});
}

constexpr Tactic kTactics[] = {
    {"cast", ir::LayerKind::kCast, kIsa, FormatRule::kSame, 1, refusal, traffic_us,
     CAMSHAFT_NOTHING_PACKED, prepare},
};

}  // namespace

std::span<const Tactic> cast_tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
