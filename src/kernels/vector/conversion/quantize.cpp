// SPDX-License-Identifier: Apache-2.0
// Quantize and Dequantize between float and integers of 8 or 16 bits (of int32, Dequantize), one
// scale, one per index of an axis or one per block of it. Quantization gives the quotients ONNX
// says: a product with the reciprocal alone would round some halfway cases the other way.
#include <limits>
#include <span>
#include <type_traits>

#include "kernels/nest.h"
#include "kernels/simd/bytes.h"
#include "kernels/simd/words.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::quantize {
namespace {

const ir::QuantizeAttrs& attrs_of(const ir::Layer& layer) {
  return *std::get_if<ir::QuantizeAttrs>(&layer.attrs);
}

template <class Q>
CAMSHAFT_INLINE I32 load_lanes(const Q* p) {
  if constexpr (sizeof(Q) == 4)
    return iload(p);
  else if constexpr (sizeof(Q) == 1)
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
  Row from(int64_t k) const {
    return {scale + k * stride, zero_point == nullptr ? nullptr : zero_point + k * stride, stride};
  }
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
CAMSHAFT_INLINE void store_steps(Q* q, F32 steps, F32 zeros) {
  store_lanes(q, to_int(min(set1(kHighest<Q>), max(set1(kLowest<Q>), steps + zeros))));
}

template <class Q>
void quantize_each(const float* x, const Row<Q>& row, Q* q, int64_t count) {
  for (int64_t k = 0; k < count; ++k) {
    const float steps = __builtin_rintf(x[k] / row.scale_at(k)),
                zero_point = static_cast<float>(row.zero_at(k));
    const float shifted = steps != steps ? zero_point : steps + zero_point;
    q[k] = static_cast<Q>(shifted < kLowest<Q>    ? kLowest<Q>
                          : shifted > kHighest<Q> ? kHighest<Q>
                                                  : shifted);
  }
}

template <class Q>
CAMSHAFT_INLINE void quantize_vector(const float* x, F32 scales, F32 zeros, Q* q) {
  const F32 steps = round_even(load(x) / scales);
  store_steps(q, select(is_nan(steps), zero(), steps), zeros);
}

// By the scale's reciprocal, which is off by less than 2^-22 of the quotient: only where that is
// so near to a half that the other step might be meant, or is no number, it is divided.
template <class Q>
int64_t quantize_by_reciprocal(const float* x, float scale, F32 zeros, Q* q, int64_t count) {
  const F32 reciprocal = set1(1 / scale), half = set1(0.5F), off = set1(0x1p-22F);
  const auto is_sure = [&](F32 quotient, F32 steps) {
    return less(abs(quotient - steps), fnma(abs(quotient), off, half));
  };
  int64_t k = 0;
  for (; k + 2 * kLanes <= count; k += 2 * kLanes) {
    const F32 a = load(x + k) * reciprocal, b = load(x + k + kLanes) * reciprocal;
    const F32 a_steps = round_even(a), b_steps = round_even(b);
    if (any(mask_not(mask_and(is_sure(a, a_steps), is_sure(b, b_steps))))) {
      quantize_vector(x + k, set1(scale), zeros, q + k);
      quantize_vector(x + k + kLanes, set1(scale), zeros, q + k + kLanes);
      continue;
    }
    store_steps(q + k, a_steps, zeros);
    store_steps(q + k + kLanes, b_steps, zeros);
  }
  return k;
}

template <class Q>
void quantize_row(const float* x, const Row<Q>& row, Q* q, int64_t count) {
  int64_t k = 0;
  const M32 all = first_n(kLanes);
  if (row.stride == 0 && *row.scale > 0x1p-100F && *row.scale < 0x1p100F)
    k = quantize_by_reciprocal(x, *row.scale, zero_vector(row, 0), q, count);
  for (; k + kLanes <= count; k += kLanes)
    quantize_vector(x + k, row.scales(k, true, all), zero_vector(row, k), q + k);
  quantize_each(x + k, row.from(k), q + k, count - k);
}

template <class Q>
void dequantize_row(const Q* q, const Row<Q>& row, float* x, int64_t count) {
  int64_t k = 0;
  const M32 all = first_n(kLanes);
  // Differences of int32 need not be numbers a float holds.
  if (sizeof(Q) < 4 || row.zero_point == nullptr)
    for (; k + kLanes <= count; k += kLanes)
      store(x + k, (to_float(load_lanes(q + k)) - zero_vector(row, k)) * row.scales(k, true, all));
  for (; k < count; ++k)
    x[k] = static_cast<float>(static_cast<int64_t>(q[k]) - row.zero_at(k)) * row.scale_at(k);
}

// One scale, or one per index of `axis`, as a view of x's rank.
TensorView along(const TensorView& vector, const TensorView& x, int64_t axis) {
  TensorView view = vector;
  view.rank = x.rank;
  for (int d = 0; d < x.rank; ++d) view.extents[d] = 1, view.strides[d] = 0;
  const int64_t count = count_of(vector);
  if (count > 1) view.extents[axis] = count, view.strides[axis] = vector.strides[vector.rank - 1];
  return view;
}

// The output, the input, scales, zero points.
struct Grid {
  Nest nests[2];  // whole blocks of the axis, and what is left
  int64_t shifts[2][4];
  int num_nests;
  bool has_zeros;
  double predicted_us;
};

// The blocks [first, first + count) of `size` neighbours of the axis: blocks and what is in one
// become dimensions of their own.
void add_blocks(Grid& grid, std::span<const TensorView> views, int64_t axis, int64_t first,
                int64_t count, int64_t block, int64_t size) {
  Nest& nest = grid.nests[grid.num_nests];
  nest.rank = views[0].rank + 1;
  nest.tensors = static_cast<int>(views.size());
  for (int d = 0; d < views[0].rank; ++d) nest.extents[d] = views[0].extents[d];
  nest.extents[axis] = count, nest.extents[views[0].rank] = size;
  for (size_t t = 0; t < views.size(); ++t) {
    const TensorView& view = views[t];
    for (int d = 0; d < view.rank; ++d)
      nest.strides[t][d] = view.extents[d] == 1 ? 0 : view.strides[d];
    const bool is_scale = t >= 2;
    const int64_t step = is_scale ? 1 : block;
    grid.shifts[grid.num_nests][t] = first * step * view.strides[axis];
    nest.strides[t][axis] = step * view.strides[axis];
    nest.strides[t][view.rank] = is_scale ? 0 : view.strides[axis];
  }
  collapse(nest);
  ++grid.num_nests;
}

void add_blocked(Grid& grid, std::span<const TensorView> views, const ir::QuantizeAttrs& attrs) {
  const int64_t extent = views[0].extents[attrs.axis], block = attrs.block_size,
                whole = extent / block;
  if (whole > 0) add_blocks(grid, views, attrs.axis, 0, whole, block, block);
  if (extent % block != 0) add_blocks(grid, views, attrs.axis, whole, 1, block, extent % block);
}

void add_plain(Grid& grid, std::span<const TensorView> views, int64_t axis) {
  Nest& nest = grid.nests[grid.num_nests++];
  nest = make_nest(views[0]);
  add_tensor(nest, views[1]);
  for (const TensorView& scale : views.subspan(2)) add_tensor(nest, along(scale, views[1], axis));
  collapse(nest);
}

template <class Q, bool kQuantizes>
struct Tile {
  const Nest& nest;
  std::conditional_t<kQuantizes, const float*, const Q*> x;
  std::conditional_t<kQuantizes, Q*, float*> y;
  const float* scales;
  const Q* zeros;

  // Rows whose scales or elements do not lie side by side go element by element.
  bool goes_by_element() const {
    return nest.col_stride(2) > 1 || nest.col_stride(1) > 1 ||
           (zeros != nullptr && nest.col_stride(3) != nest.col_stride(2));
  }

  void run(const int64_t* offsets, int64_t rows, int64_t cols) const {
    const int64_t columns = goes_by_element() ? cols : 1, count = goes_by_element() ? 1 : cols;
    for (int64_t col = 0; col < columns; ++col) {
      const auto at = [&](int t) { return offsets[t] + col * nest.col_stride(t); };
      auto *from = x + at(1), *to = y + at(0);
      Row<Q> grid{scales + at(2), zeros == nullptr ? nullptr : zeros + at(3), nest.col_stride(2)};
      for (int64_t row = 0; row < rows; ++row) {
        if constexpr (kQuantizes)
          quantize_row<Q>(from, grid, to, count);
        else
          dequantize_row<Q>(from, grid, to, count);
        from += nest.row_stride(1), to += nest.row_stride(0);
        grid.scale += nest.row_stride(2);
        if (zeros != nullptr) grid.zero_point += nest.row_stride(3);
      }
    }
  }
};

template <class Q, bool kQuantizes>
void run(Grid& g, const KernelCall& call) {
  using From = std::conditional_t<kQuantizes, float, Q>;
  using To = std::conditional_t<kQuantizes, Q, float>;
  for (int n = 0; n < g.num_nests; ++n) {
    const int64_t* shift = g.shifts[n];
    const Tile<Q, kQuantizes> tile{g.nests[n], call.input<const From>(0) + shift[1],
                                   call.output<To>(0) + shift[0],
                                   call.input<const float>(1) + shift[2],
                                   g.has_zeros ? call.input<const Q>(2) + shift[3] : nullptr};
    for_tiles(g.nests[n], call.pool, g.predicted_us,
              [&tile](const int64_t* offsets, int64_t rows, int64_t cols) {
                tile.run(offsets, rows, cols);
              });
  }
}

template <bool kQuantizes>
void keep_grid(DataType type, const Grid& grid, PreparedKernel& kernel) {
  switch (type) {
    case DataType::kInt8:
      keep_state<run<int8_t, kQuantizes>>(kernel, grid);
      break;
    case DataType::kUInt8:
      keep_state<run<uint8_t, kQuantizes>>(kernel, grid);
      break;
    case DataType::kInt16:
      keep_state<run<int16_t, kQuantizes>>(kernel, grid);
      break;
    case DataType::kUInt16:
      keep_state<run<uint16_t, kQuantizes>>(kernel, grid);
      break;
    default:
      if constexpr (!kQuantizes) keep_state<run<int32_t, false>>(kernel, grid);
  }
}

template <bool kQuantizes>
void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const ir::QuantizeAttrs& attrs = attrs_of(*args.layer);
  Grid grid{};
  grid.has_zeros = args.inputs.size() > 2 && args.inputs[2].present();
  grid.predicted_us = static_cast<double>(count_of(y)) / kLanes / 1500;
  TensorView views[] = {y, x, args.inputs[1], TensorView()};
  if (grid.has_zeros) views[3] = args.inputs[2];
  const std::span<const TensorView> used(views, grid.has_zeros ? 4 : 3);
  if (attrs.block_size > 0)
    add_blocked(grid, used, attrs);
  else
    add_plain(grid, used, attrs.axis);
  keep_grid<kQuantizes>((kQuantizes ? y : x).type, grid, kernel);
}

// Blocked scales have the input's extents, but the number of blocks along the axis.
bool are_blocks(const ProblemTensor& scale, const ProblemTensor& x, const ir::QuantizeAttrs& a) {
  if (scale.extents.size() != x.extents.size()) return false;
  for (size_t d = 0; d < x.extents.size(); ++d) {
    const bool is_axis = static_cast<int64_t>(d) == a.axis;
    if (scale.extents[d] !=
        (is_axis ? (x.extents[d] + a.block_size - 1) / a.block_size : x.extents[d]))
      return false;
  }
  return true;
}

std::string refusal(const Problem& p) {
  const bool quantizes = p.layer->kind == ir::LayerKind::kQuantize;
  const ir::QuantizeAttrs& attrs = attrs_of(*p.layer);
  const DataType from = p.inputs[0].type, to = p.outputs[0].type, type = quantizes ? to : from;
  if ((quantizes ? from : to) != DataType::kFloat || p.inputs[1].type != DataType::kFloat)
    return "not float";
  const bool is_wide = !quantizes && type == DataType::kInt32;
  if (type != DataType::kInt8 && type != DataType::kUInt8 && type != DataType::kInt16 &&
      type != DataType::kUInt16 && !is_wide)
    return "neither 8-bit nor 16-bit";
  const bool has_zeros = p.inputs.size() > 2 && p.inputs[2].present;
  if (has_zeros && p.inputs[2].type != type) return "the zero point has another type";
  if (attrs.block_size == 0) return "";
  if (attrs.axis < 0 || attrs.axis >= static_cast<int64_t>(p.inputs[0].extents.size()))
    return "the axis is counted from the end";
  if (!are_blocks(p.inputs[1], p.inputs[0], attrs) ||
      (has_zeros && !are_blocks(p.inputs[2], p.inputs[0], attrs)))
    return "scales that are not one per block";
  return "";
}

constexpr Tactic kTactics[] = {
    {"quantize_f32", ir::LayerKind::kQuantize, kIsa, FormatRule::kSame, 2, refusal, traffic_us,
     CAMSHAFT_NOTHING_PACKED, prepare<true>},
    {"dequantize_f32", ir::LayerKind::kDequantize, kIsa, FormatRule::kSame, 2, refusal, traffic_us,
     CAMSHAFT_NOTHING_PACKED, prepare<false>},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::quantize
