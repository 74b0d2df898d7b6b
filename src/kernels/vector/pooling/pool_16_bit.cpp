// SPDX-License-Identifier: Apache-2.0
// Max and average pooling of channel-last bfloat16 and half maps: widened as they are read, one
// output pixel at a time, all of them one window when global.
#include "kernels/simd/float16.h"
#include "kernels/vector/pooling/pool_window.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/reduction/reduction.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::pool_16_bit {
namespace {

using ir::PoolingType;

template <class Step, class T, class Result, int kVectors>
CAMSHAFT_INLINE void pool_vectors(const T* x, int64_t rows, int64_t row_stride, int64_t cols,
                                  int64_t col_stride, float scale, Result* to) {
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

template <class Step, class T, class Result>
void pool_rest(const T* x, int64_t rows, int64_t row_stride, int64_t cols, int64_t col_stride,
               float scale, Result* to, int64_t count) {
  F32 sum = set1(Step::kIdentity);
  for (int64_t row = 0; row < rows; ++row, x += row_stride)
    for (int64_t col = 0; col < cols; ++col)
      sum = Step::step(sum, load_floats(x + col * col_stride, count));
  store_floats(to, Step::kIdentity != 0 ? sum : sum * set1(scale), count);
}

// y: pixels are y_pixel elements apart.
template <class Step, class T, class Result>
void pool_row(const PoolMaps& p, const T* maps, int64_t n, int64_t oh, Result* y, int64_t y_pixel) {
  const int64_t kh = p.h.first(oh), rows = p.h.last(oh) - kh;
  const T* row = maps + n * p.x_image + (p.h.start(oh) + kh * p.h.dilation) * p.x_row;
  for (int64_t ow = 0; ow < p.w.out; ++ow, y += y_pixel) {
    const int64_t kw = p.w.first(ow), cols = p.w.last(ow) - kw;
    const T* x = row + (p.w.start(ow) + kw * p.w.dilation) * p.x_pixel;
    const int64_t row_step = p.h.dilation * p.x_row, col_step = p.w.dilation * p.x_pixel;
    const float scale = p.scale(oh, ow);
    int64_t c = 0;
    for (; c + 4 * kLanes <= p.channels; c += 4 * kLanes)
      pool_vectors<Step, T, Result, 4>(x + c, rows, row_step, cols, col_step, scale, y + c);
    for (; c + kLanes <= p.channels; c += kLanes)
      pool_vectors<Step, T, Result, 1>(x + c, rows, row_step, cols, col_step, scale, y + c);
    if (c < p.channels)
      pool_rest<Step>(x + c, rows, row_step, cols, col_step, scale, y + c, p.channels - c);
  }
}

struct Pool {
  PoolMaps maps;
  ResultEpilogue epilogue;
  double predicted_us;

  int64_t row_floats() const { return maps.w.out * maps.channels; }
};

template <class Step, class T>
void run_plain(Pool& pool, const KernelCall& call) {
  const PoolMaps& p = pool.maps;
  const T* x = call.input<const T>(0);
  T* y = call.output<T>(0);
  split(call.pool, p.batch * p.h.out, pool.predicted_us, [&](int, int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const int64_t n = row / p.h.out, oh = row % p.h.out;
      pool_row<Step>(p, x, n, oh, y + n * p.y_image + oh * p.y_row, p.y_pixel);
    }
  });
}

// The epilogue reads floats: some rows of them are in each worker's share of the workspace.
template <class Step, class T>
void run_with_epilogue(Pool& pool, const KernelCall& call) {
  const PoolMaps& p = pool.maps;
  const ResultEpilogue& e = pool.epilogue;
  const T* x = call.input<const T>(0);
  const int64_t row_floats = pool.row_floats();
  split(call.pool, p.batch * p.h.out, pool.predicted_us,
        [&](int worker, int64_t first, int64_t last) {
          float* sums =
              reinterpret_cast<float*>(call.workspace) + worker * e.block_units * row_floats;
          for (int64_t from = first; from < last; from += e.block_units) {
            const int64_t end = from + e.block_units < last ? from + e.block_units : last;
            for (int64_t row = from; row < end; ++row)
              pool_row<Step>(p, x, row / p.h.out, row % p.h.out, sums + (row - from) * row_floats,
                             p.channels);
            run_unit_epilogue(e, call, sums, from * row_floats, from, end);
          }
        });
}

template <class Step, class T>
void prepare_type(const KernelArgs& args, PreparedKernel& kernel) {
  const PoolMaps maps = pool_maps(args);
  const TensorView& y = args.outputs[0];
  const TensorView sums =
      make_view(nullptr, DataType::kFloat, Format::kChannelLast, {y.extents, size_t(y.rank)});
  const ResultEpilogue e = row_epilogue(args, sums);
  const Pool pool{maps, e, pool_us(maps, kLanes) + e.predicted_us};
  if (!e.present) {
    keep_state<run_plain<Step, T>>(kernel, pool);
    return;
  }
  keep_state<run_with_epilogue<Step, T>>(kernel, pool);
  kernel.workspace_bytes =
      static_cast<size_t>(threads_of(args) * e.block_units * pool.row_floats()) * sizeof(float);
}

template <class Step>
void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  if (args.inputs[0].type == DataType::kBFloat16)
    prepare_type<Step, Bf16>(args, kernel);
  else
    prepare_type<Step, Half>(args, kernel);
}

template <PoolingType kType>
std::string refusal(const Problem& p) {
  if (!ir::is_16_bit_float(p.inputs[0].type) || p.outputs[0].type != p.inputs[0].type)
    return "not of one 16-bit float type";
  if (wants_indices(p)) return "the indices are wanted";
  const ir::PoolingAttrs& attrs = pooling_attrs(*p.layer);
  if (attrs.type != kType)
    return kType == PoolingType::kMax ? "not max pooling" : "not average pooling";
  if (p.inputs[0].extents.size() != 3 && p.inputs[0].extents.size() != 4)
    return "not a 1-D or 2-D map";
  return refuse_result_epilogue(p, attrs.epilogue, kFirstPoolOperand, p.inputs[0].type);
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

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::pool_16_bit
