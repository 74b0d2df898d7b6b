// SPDX-License-Identifier: Apache-2.0
// Max and average pooling of channel-last bfloat16 and half maps: widened as they are read, one
// output pixel at a time, all of them one window when global.
#include "kernels/simd/float16.h"
#include "kernels/vector/pooling/pool_window.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/reduction/reduction.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

using ir::PoolingType;

template <class Step, class T, int kVectors>
CAMSHAFT_INLINE void pool_vectors(const T* x, int64_t rows, int64_t row_stride, int64_t cols,
                                  int64_t col_stride, float scale, T* to) {
  F32 sum[kVectors];
  for (F32& s : sum) s = set1(Step::kIdentity);
  for (int64_t row = 0; row < rows; ++row, x += row_stride) {
    const T* p = x;
    for (int64_t col = 0; col < cols; ++col, p += col_stride)
      for (int v = 0; v < kVectors; ++v) sum[v] = Step::step(sum[v], load_floats(p + v * kLanes));
  }
  for (int v = 0; v < kVectors; ++v)
    store_floats(to + v * kLanes, Step::kIdentity != 0 ? sum[v] : sum[v] * set1(scale));
}

template <class Step, class T>
void pool_rest(const T* x, int64_t rows, int64_t row_stride, int64_t cols, int64_t col_stride,
               float scale, T* to, int64_t count) {
  F32 sum = set1(Step::kIdentity);
  for (int64_t row = 0; row < rows; ++row, x += row_stride)
    for (int64_t col = 0; col < cols; ++col)
      sum = Step::step(sum, load_floats(x + col * col_stride, count));
  store_floats(to, Step::kIdentity != 0 ? sum : sum * set1(scale), count);
}

template <class Step, class T>
void pool_row(const PoolMaps& p, const T* maps, T* out, int64_t n, int64_t oh) {
  const int64_t kh = p.h.first(oh), rows = p.h.last(oh) - kh;
  const T* row = maps + n * p.x_image + (p.h.start(oh) + kh * p.h.dilation) * p.x_row;
  T* y = out + n * p.y_image + oh * p.y_row;
  for (int64_t ow = 0; ow < p.w.out; ++ow, y += p.y_pixel) {
    const int64_t kw = p.w.first(ow), cols = p.w.last(ow) - kw;
    const T* x = row + (p.w.start(ow) + kw * p.w.dilation) * p.x_pixel;
    const int64_t row_step = p.h.dilation * p.x_row, col_step = p.w.dilation * p.x_pixel;
    const float scale = p.scale(oh, ow);
    int64_t c = 0;
    for (; c + 4 * kLanes <= p.channels; c += 4 * kLanes)
      pool_vectors<Step, T, 4>(x + c, rows, row_step, cols, col_step, scale, y + c);
    for (; c + kLanes <= p.channels; c += kLanes)
      pool_vectors<Step, T, 1>(x + c, rows, row_step, cols, col_step, scale, y + c);
    if (c < p.channels)
      pool_rest<Step>(x + c, rows, row_step, cols, col_step, scale, y + c, p.channels - c);
  }
}

struct Pool {
  PoolMaps maps;
  double predicted_us;
};

template <class Step, class T>
void run(Pool& pool, const KernelCall& call) {
  const PoolMaps& p = pool.maps;
  const T* x = call.input<const T>(0);
  T* y = call.output<T>(0);
  split(call.pool, p.batch * p.h.out, pool.predicted_us, [&](int, int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row)
      pool_row<Step>(p, x, y, row / p.h.out, row % p.h.out);
  });
}

template <class Step>
void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const PoolMaps maps = pool_maps(args);
  const Pool pool{maps, pool_us(maps, kLanes)};
  if (args.inputs[0].type == DataType::kBFloat16)
    keep_state<run<Step, Bf16>>(kernel, pool);
  else
    keep_state<run<Step, Half>>(kernel, pool);
}

template <PoolingType kType>
std::string refusal(const Problem& p) {
  if (!ir::is_16_bit_float(p.inputs[0].type) || p.outputs[0].type != p.inputs[0].type)
    return "not of one 16-bit float type";
  if (p.outputs.size() > 1 && p.outputs[1].present) return "the indices are wanted";
  const ir::PoolingAttrs& attrs = pooling_attrs(*p.layer);
  if (attrs.type != kType)
    return kType == PoolingType::kMax ? "not max pooling" : "not average pooling";
  if (p.inputs[0].extents.size() != 3 && p.inputs[0].extents.size() != 4)
    return "not a 1-D or 2-D map";
  return "";
}

double cost_us(const Problem& p) {
  const ir::PoolingAttrs& attrs = pooling_attrs(*p.layer);
  double steps = 1;
  for (size_t d = 0; d < attrs.kernel.size() && !attrs.global; ++d)
    steps *= static_cast<double>(attrs.kernel[d]);
  const double vectors = static_cast<double>(count_of(p.outputs[0])) / kLanes;
  return traffic_us(p) / 2 + vectors * (2 + steps * 0.8) / 3000 / p.threads;
}

template <PoolingType kType, class Step>
constexpr Tactic row(const char* name) {
  return {.name = name,
          .kind = ir::LayerKind::kPooling,
          .isa = kIsa,
          .formats = FormatRule::kChannelLast,
          .version = 1,
          .refusal = refusal<kType>,
          .cost_us = cost_us,
          .packed_inputs = no_packed_inputs,
          .packed_bytes = no_packed_bytes,
          .pack = pack_nothing,
          .prepare = prepare<Step>};
}

constexpr Tactic kTactics[] = {
    row<PoolingType::kMax, MaxStep>("pool_max_nhwc_16_bit"),
    row<PoolingType::kAverage, AddStep>("pool_average_nhwc_16_bit"),
};

}  // namespace

std::span<const Tactic> pool_16_bit_tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
