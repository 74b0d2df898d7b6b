// SPDX-License-Identifier: Apache-2.0
// Quantize and Dequantize between float and integers of 8 or 16 bits, one scale or one per index of
// an axis. Quantization divides, as ONNX says: a product with the reciprocal would round some
// halfway cases the other way.
#include <limits>

#include "kernels/simd/bytes.h"
#include "kernels/simd/words.h"
#include "kernels/vector/nest.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

const ir::QuantizeAttrs& attrs_of(const ir::Layer& layer) {
  return *std::get_if<ir::QuantizeAttrs>(&layer.attrs);
}

template <class Q>
CAMSHAFT_INLINE I32 load_lanes(const Q* p) {
  if constexpr (sizeof(Q) == 1)
    return load_bytes(p);
  else
    return load_words(p);
}
template <class Q>
CAMSHAFT_INLINE void store_lanes(Q* p, I32 a) {
  if constexpr (sizeof(Q) == 1)
    store_bytes(p, a);
  else
    store_words(p, a);
}

// A row of the quantized or the float side; scale and zero points one for the row (stride 0) or one
// per element.
template <class Q>
struct Row {
  const float* scale;
  const Q* zero_point;
  int64_t stride;

  F32 scales(int64_t k, bool whole, M32 mask) const {
    if (stride == 0) return set1(*scale);
    return whole ? load(scale + k) : select(mask, load(scale + k, mask), set1(1));
  }
  float scale_at(int64_t k) const { return scale[k * stride]; }
  int32_t zero_at(int64_t k) const { return zero_point == nullptr ? 0 : zero_point[k * stride]; }
};

template <class Q>
CAMSHAFT_INLINE F32 zero_vector(const Row<Q>& row, int64_t k) {
  if (row.zero_point == nullptr) return zero();
  if (row.stride == 0) return set1(static_cast<float>(*row.zero_point));
  return to_float(load_lanes(row.zero_point + k));
}

template <class Q>
constexpr float kLowest = std::numeric_limits<Q>::lowest();
template <class Q>
constexpr float kHighest = std::numeric_limits<Q>::max();

template <class Q>
void quantize_row(const float* x, const Row<Q>& row, Q* q, int64_t count) {
  int64_t k = 0;
  const M32 all = first_n(kLanes);
  for (; k + kLanes <= count; k += kLanes) {
    const F32 steps = round_even(load(x + k) / row.scales(k, true, all)),
              zeros = zero_vector(row, k);
    const F32 shifted = select(is_nan(steps), zeros, steps + zeros);
    store_lanes(q + k, to_int(min(set1(kHighest<Q>), max(set1(kLowest<Q>), shifted))));
  }
  for (; k < count; ++k) {
    const float steps = __builtin_rintf(x[k] / row.scale_at(k)),
                zero_point = static_cast<float>(row.zero_at(k));
    const float shifted = steps != steps ? zero_point : steps + zero_point;
    q[k] = static_cast<Q>(shifted < kLowest<Q>    ? kLowest<Q>
                          : shifted > kHighest<Q> ? kHighest<Q>
                                                  : shifted);
  }
}

template <class Q>
void dequantize_row(const Q* q, const Row<Q>& row, float* x, int64_t count) {
  int64_t k = 0;
  const M32 all = first_n(kLanes);
  for (; k + kLanes <= count; k += kLanes)
    store(x + k, (to_float(load_lanes(q + k)) - zero_vector(row, k)) * row.scales(k, true, all));
  for (; k < count; ++k)
    x[k] = static_cast<float>(static_cast<int32_t>(q[k]) - row.zero_at(k)) * row.scale_at(k);
}

// A vector along `axis` as a view of x's rank.
TensorView along(const TensorView& vector, const TensorView& x, int64_t axis) {
  TensorView view = vector;
  view.rank = x.rank;
  for (int d = 0; d < x.rank; ++d) view.extents[d] = 1, view.strides[d] = 0;
  const int64_t count = count_of(vector);
  if (count > 1) view.extents[axis] = count, view.strides[axis] = vector.strides[vector.rank - 1];
  return view;
}

struct Grid {
  Nest nest;  // the output, the input, scales (zero points lie as they do)
  bool has_zeros;
  double predicted_us;
};

template <class Q, bool kQuantizes>
void run(Grid& g, const KernelCall& call) {
  const Nest& nest = g.nest;
  const float* scales = call.input<const float>(1);
  const Q* zeros = g.has_zeros ? call.input<const Q>(2) : nullptr;
  // Rows whose scales or elements do not lie side by side go element by element.
  const bool by_element = nest.col_stride(2) > 1 || nest.col_stride(1) > 1;
  const auto body = [&](const int64_t* offsets, int64_t rows, int64_t cols) {
    const int64_t run = by_element ? 1 : cols;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t col = 0; col < cols; col += run) {
        const int64_t at = offsets[2] + row * nest.row_stride(2) + col * nest.col_stride(2);
        const Row<Q> grid{scales + at, zeros == nullptr ? nullptr : zeros + at, nest.col_stride(2)};
        const int64_t from = offsets[1] + row * nest.row_stride(1) + col * nest.col_stride(1);
        const int64_t to = offsets[0] + row * nest.row_stride(0) + col;
        if (kQuantizes)
          quantize_row<Q>(call.input<const float>(0) + from, grid, call.output<Q>(0) + to, run);
        else
          dequantize_row<Q>(call.input<const Q>(0) + from, grid, call.output<float>(0) + to, run);
      }
  };
  for_tiles(nest, call.pool, g.predicted_us, body);
}

template <bool kQuantizes>
void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  Grid grid{make_nest(y), args.inputs.size() > 2 && args.inputs[2].present(),
            static_cast<double>(count_of(y)) / kLanes / 1500};
  add_tensor(grid.nest, x);
  add_tensor(grid.nest, along(args.inputs[1], x, attrs_of(*args.layer).axis));
  collapse(grid.nest);
  switch ((kQuantizes ? y : x).type) {
    case DataType::kInt8:
      keep_state<run<int8_t, kQuantizes>>(kernel, grid);
      break;
    case DataType::kUInt8:
      keep_state<run<uint8_t, kQuantizes>>(kernel, grid);
      break;
    case DataType::kInt16:
      keep_state<run<int16_t, kQuantizes>>(kernel, grid);
      break;
    default:
      keep_state<run<uint16_t, kQuantizes>>(kernel, grid);
      break;
  }
}

std::string refusal(const Problem& p) {
  const bool quantizes = p.layer->kind == ir::LayerKind::kQuantize;
  const DataType from = p.inputs[0].type, to = p.outputs[0].type, type = quantizes ? to : from;
  if ((quantizes ? from : to) != DataType::kFloat || p.inputs[1].type != DataType::kFloat)
    return "not float";
  if (type != DataType::kInt8 && type != DataType::kUInt8 && type != DataType::kInt16 &&
      type != DataType::kUInt16)
    return "neither 8-bit nor 16-bit";
  if (p.inputs.size() > 2 && p.inputs[2].present && p.inputs[2].type != type)
    return "the zero point has another type";
  if (attrs_of(*p.layer).block_size > 0) return "scales per block";
  return "";
}

constexpr Tactic kTactics[] = {
    {"quantize_f32", ir::LayerKind::kQuantize, kIsa, FormatRule::kSame, 1, refusal, traffic_us,
     CAMSHAFT_NOTHING_PACKED, prepare<true>},
    {"dequantize_f32", ir::LayerKind::kDequantize, kIsa, FormatRule::kSame, 1, refusal, traffic_us,
     CAMSHAFT_NOTHING_PACKED, prepare<false>},
};

}  // namespace

std::span<const Tactic> quantize_tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
