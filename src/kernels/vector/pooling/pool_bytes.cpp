// SPDX-License-Identifier: Apache-2.0
// Pooling of 8-bit maps: maxima stay codes, averages are float means of codes. Channel last:
// vectors of channels, for large windows column results first, then along the line; linear: always
// so.
#include <cstring>

#include "kernels/simd/bytes.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/pooling/pool_window.h"
#include "kernels/vector/prepare.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::pool_bytes {
namespace {

using ir::PoolingType;

constexpr int kByteLanes = kLanes == 16 ? 64 : kLanes == 8 ? 32 : 16;

template <class Q>
constexpr Q kLowest = Q(-1) < Q(0) ? Q(-128) : Q(0);

struct Pool {
  PoolMaps maps;
  double predicted_us;
};

// --- maxima, channel last

// kBytes codes: what the compiler makes one register of.
template <class Q, int kBytes>
struct Codes {
  using Vector __attribute__((vector_size(kBytes))) = Q;
};

// Maxima over `rows` x `cols` pixels of kVectors * kBytes channels.
template <class Q, int kBytes, int kVectors>
CAMSHAFT_INLINE void max_block(const Q* x, int64_t rows, int64_t row_stride, int64_t cols,
                               int64_t col_stride, Q* to) {
  typename Codes<Q, kBytes>::Vector most[kVectors], v;
  std::memset(most, kLowest<Q>, sizeof(most));
  for (int64_t row = 0; row < rows; ++row, x += row_stride) {
    const Q* p = x;
    for (int64_t col = 0; col < cols; ++col, p += col_stride) {
#pragma GCC unroll 4
      for (int k = 0; k < kVectors; ++k) {
        std::memcpy(&v, p + k * kBytes, kBytes);
        most[k] = v > most[k] ? v : most[k];
      }
    }
  }
  std::memcpy(to, most, sizeof(most));
}

// Fewer channels than kBytes: two halves that overlap.
template <class Q, int kBytes>
CAMSHAFT_INLINE void max_few(const Q* x, int64_t rows, int64_t row_stride, int64_t cols,
                             int64_t col_stride, int64_t channels, Q* to) {
  if (channels >= kBytes) {
    max_block<Q, kBytes, 1>(x, rows, row_stride, cols, col_stride, to);
    const int64_t rest = channels - kBytes;
    if (rest > 0) max_block<Q, kBytes, 1>(x + rest, rows, row_stride, cols, col_stride, to + rest);
  } else if constexpr (kBytes > 4) {
    max_few<Q, kBytes / 2>(x, rows, row_stride, cols, col_stride, channels, to);
  } else {
    for (int64_t c = 0; c < channels; ++c) {
      Q most = kLowest<Q>;
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t col = 0; col < cols; ++col) {
          const Q v = x[c + row * row_stride + col * col_stride];
          most = v > most ? v : most;
        }
      to[c] = most;
    }
  }
}

template <class Q>
void max_pixel(const Q* x, int64_t rows, int64_t row_stride, int64_t cols, int64_t col_stride,
               int64_t channels, Q* to) {
  if (channels < kByteLanes)
    return max_few<Q, kByteLanes / 2>(x, rows, row_stride, cols, col_stride, channels, to);
  int64_t c = 0;
  for (; c + 4 * kByteLanes <= channels; c += 4 * kByteLanes)
    max_block<Q, kByteLanes, 4>(x + c, rows, row_stride, cols, col_stride, to + c);
  for (; c + kByteLanes <= channels; c += kByteLanes)
    max_block<Q, kByteLanes, 1>(x + c, rows, row_stride, cols, col_stride, to + c);
  if (c == channels) return;
  c = channels - kByteLanes;
  max_block<Q, kByteLanes, 1>(x + c, rows, row_stride, cols, col_stride, to + c);
}

// The first input row of output row oh, and how many rows its windows have.
template <class Q>
struct Rows {
  const Q* x;
  int64_t count, step;
};
template <class Q>
Rows<Q> rows_of(const PoolMaps& p, const Q* x, int64_t n, int64_t oh) {
  const int64_t kh = p.h.first(oh);
  return {x + n * p.x_image + (p.h.start(oh) + kh * p.h.dilation) * p.x_row, p.h.last(oh) - kh,
          p.h.dilation * p.x_row};
}

template <class Q>
void max_row_direct(const PoolMaps& p, const Q* x, Q* y, int64_t n, int64_t oh) {
  const Rows<Q> rows = rows_of(p, x, n, oh);
  y += n * p.y_image + oh * p.y_row;
  for (int64_t ow = 0; ow < p.w.out; ++ow) {
    const int64_t kw = p.w.first(ow);
    max_pixel(rows.x + (p.w.start(ow) + kw * p.w.dilation) * p.x_pixel, rows.count, rows.step,
              p.w.last(ow) - kw, p.w.dilation * p.x_pixel, p.channels, y + ow * p.y_pixel);
  }
}

template <class Q>
void max_row_separable(const PoolMaps& p, const Q* x, Q* y, int64_t n, int64_t oh, Q* line) {
  const Rows<Q> rows = rows_of(p, x, n, oh);
  y += n * p.y_image + oh * p.y_row;
  for (int64_t iw = 0; iw < p.w.in; ++iw)
    max_pixel(rows.x + iw * p.x_pixel, rows.count, rows.step, 1, 0, p.channels,
              line + iw * p.channels);
  for (int64_t ow = 0; ow < p.w.out; ++ow) {
    const int64_t kw = p.w.first(ow);
    max_pixel(line + (p.w.start(ow) + kw * p.w.dilation) * p.channels, 1, 0, p.w.last(ow) - kw,
              p.w.dilation * p.channels, p.channels, y + ow * p.y_pixel);
  }
}

template <class Q, bool kSeparable>
void run_max(Pool& pool, const KernelCall& call) {
  const PoolMaps& p = pool.maps;
  const Q* x = call.input<const Q>(0);
  Q* y = call.output<Q>(0);
  Q* lines = reinterpret_cast<Q*>(call.workspace);
  split(call.pool, p.batch * p.h.out, pool.predicted_us,
        [&p, x, y, lines](int worker, int64_t first, int64_t last) {
          for (int64_t row = first; row < last; ++row) {
            const int64_t n = row / p.h.out, oh = row % p.h.out;
            if constexpr (kSeparable)
              max_row_separable(p, x, y, n, oh, lines + worker * p.w.in * p.channels);
            else
              max_row_direct(p, x, y, n, oh);
          }
        });
}

template <bool kSeparable>
void prepare_max(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const PoolMaps maps = pool_maps(args);
  const Pool pool{maps, pool_us(maps, kByteLanes)};
  if (args.inputs[0].type == DataType::kInt8)
    keep_state<run_max<int8_t, kSeparable>>(kernel, pool);
  else
    keep_state<run_max<uint8_t, kSeparable>>(kernel, pool);
  if (kSeparable)
    kernel.workspace_bytes = static_cast<size_t>(threads_of(args) * maps.w.in * maps.channels);
}

// --- averages, channel last

// Codes as int32 sums: exact up to 2^23 elements of a window.
template <class Q, int kVectors, bool kPartial>
CAMSHAFT_INLINE void mean_block(const Q* x, int64_t rows, int64_t row_stride, int64_t cols,
                                int64_t col_stride, float scale, float* to, int64_t count) {
  I32 sum[kVectors];
  for (I32& s : sum) s = iset1(0);
  for (int64_t row = 0; row < rows; ++row, x += row_stride) {
    const Q* p = x;
    for (int64_t col = 0; col < cols; ++col, p += col_stride)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        sum[v] = sum[v] + (kPartial ? load_bytes(p, count) : load_bytes(p + v * kLanes));
  }
  for (int v = 0; v < kVectors; ++v) {
    const F32 mean = to_float(sum[v]) * set1(scale);
    if (kPartial)
      store(to, mean, first_n(static_cast<int>(count)));
    else
      store(to + v * kLanes, mean);
  }
}

template <class Q>
void mean_pixel(const Q* x, int64_t rows, int64_t row_stride, int64_t cols, int64_t col_stride,
                int64_t channels, float scale, float* to) {
  if (channels < kLanes)
    return mean_block<Q, 1, true>(x, rows, row_stride, cols, col_stride, scale, to, channels);
  int64_t c = 0;
  for (; c + 4 * kLanes <= channels; c += 4 * kLanes)
    mean_block<Q, 4, false>(x + c, rows, row_stride, cols, col_stride, scale, to + c, 0);
  for (; c + kLanes <= channels; c += kLanes)
    mean_block<Q, 1, false>(x + c, rows, row_stride, cols, col_stride, scale, to + c, 0);
  if (c == channels) return;
  c = channels - kLanes;
  mean_block<Q, 1, false>(x + c, rows, row_stride, cols, col_stride, scale, to + c, 0);
}

template <class Q>
void run_mean(Pool& pool, const KernelCall& call) {
  const PoolMaps& p = pool.maps;
  const Q* x = call.input<const Q>(0);
  float* to = call.output<float>(0);
  split(call.pool, p.batch * p.h.out, pool.predicted_us,
        [&p, x, to](int, int64_t first, int64_t last) {
          for (int64_t row = first; row < last; ++row) {
            const int64_t n = row / p.h.out, oh = row % p.h.out;
            const Rows<Q> rows = rows_of(p, x, n, oh);
            float* y = to + n * p.y_image + oh * p.y_row;
            for (int64_t ow = 0; ow < p.w.out; ++ow) {
              const int64_t kw = p.w.first(ow);
              mean_pixel(rows.x + (p.w.start(ow) + kw * p.w.dilation) * p.x_pixel, rows.count,
                         rows.step, p.w.last(ow) - kw, p.w.dilation * p.x_pixel, p.channels,
                         p.scale(oh, ow), y + ow * p.y_pixel);
            }
          }
        });
}

void prepare_mean(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const PoolMaps maps = pool_maps(args);
  const Pool pool{maps, pool_us(maps, kLanes)};
  if (args.inputs[0].type == DataType::kInt8)
    keep_state<run_mean<int8_t>>(kernel, pool);
  else
    keep_state<run_mean<uint8_t>>(kernel, pool);
}

// --- linear

// Length of a line of column results: those outside the map are there too, so that no window needs
// its borders looked at.
int64_t line_length(const PoolAxis& w) {
  const int64_t reach = (w.out - 1) * w.stride + (w.kernel - 1) * w.dilation + 1;
  const int64_t end = reach > w.pre + w.in ? reach : w.pre + w.in;
  return round_up(end, 64);
}

struct MaxCodes {
  template <class Q>
  using Line = Q;
  template <class Q>
  static constexpr Q kIdentity = kLowest<Q>;
  template <class L, class Q>
  CAMSHAFT_INLINE L step(L most, Q v) {
    return v > most ? v : most;
  }
};
struct AddCodes {
  template <class Q>
  using Line = int32_t;
  template <class Q>
  static constexpr int32_t kIdentity = 0;
  template <class L, class Q>
  CAMSHAFT_INLINE L step(L sum, Q v) {
    return sum + v;
  }
};

template <class Step, class Q, class Line = typename Step::template Line<Q>>
void column_results(const PoolMaps& p, const Rows<Q>& rows, Line* __restrict line) {
  for (int64_t iw = 0; iw < p.w.in; ++iw) line[iw] = Step::template kIdentity<Q>;
  for (int64_t row = 0; row < rows.count; ++row) {
    const Q* x = rows.x + row * rows.step;
    for (int64_t iw = 0; iw < p.w.in; ++iw) line[iw] = Step::step(line[iw], x[iw]);
  }
}

// to[ow] = steps over the window of ow, from the line.
template <class Step, int kStride, class Line>
void along_line(const PoolAxis& w, const Line* line, Line* __restrict to) {
  const int64_t stride = kStride > 0 ? kStride : w.stride;
  for (int64_t ow = 0; ow < w.out; ++ow) to[ow] = line[ow * stride];
  for (int64_t kw = 1; kw < w.kernel; ++kw) {
    const Line* from = line + kw * w.dilation;
    for (int64_t ow = 0; ow < w.out; ++ow) to[ow] = Step::step(to[ow], from[ow * stride]);
  }
}

template <class Step, class Line>
void along_line(const PoolAxis& w, const Line* line, Line* to) {
  if (w.stride == 1) return along_line<Step, 1>(w, line, to);
  if (w.stride == 2) return along_line<Step, 2>(w, line, to);
  along_line<Step, 0>(w, line, to);
}

// Of a worker: the line, and for averages a row of sums.
int64_t worker_length(const PoolMaps& p) {
  return line_length(p.w) + round_up(p.w.out, 64);
}

template <class Step, class Q>
void pool_map(const PoolMaps& p, const Q* x, void* out, int64_t n, int64_t c,
              typename Step::template Line<Q>* line) {
  const int64_t to = n * p.y_image + c * p.y_channel;
  auto* sums = line + line_length(p.w);
  for (int64_t oh = 0; oh < p.h.out; ++oh) {
    column_results<Step>(p, rows_of(p, x + c * p.x_channel, n, oh), line + p.w.pre);
    if constexpr (sizeof(*line) == 1) {
      along_line<Step>(p.w, line, static_cast<Q*>(out) + to + oh * p.y_row);
    } else {
      along_line<Step>(p.w, line, sums);
      float* y = static_cast<float*>(out) + to + oh * p.y_row;
      for (int64_t ow = 0; ow < p.w.out; ++ow)
        y[ow] = static_cast<float>(sums[ow]) * p.scale(oh, ow);
    }
  }
}

template <class Step, class Q>
void run_linear(Pool& pool, const KernelCall& call) {
  using Line = typename Step::template Line<Q>;
  const PoolMaps& p = pool.maps;
  split(call.pool, p.batch * p.channels, pool.predicted_us,
        [&p, &call](int worker, int64_t first, int64_t last) {
          Line* line = reinterpret_cast<Line*>(call.workspace) + worker * worker_length(p);
          for (int64_t k = 0; k < line_length(p.w); ++k) line[k] = Step::template kIdentity<Q>;
          for (int64_t map = first; map < last; ++map)
            pool_map<Step>(p, call.input<const Q>(0), call.outputs[0], map / p.channels,
                           map % p.channels, line);
        });
}

template <class Step>
void prepare_linear(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const PoolMaps maps = pool_maps(args);
  const Pool pool{maps, pool_us(maps, kLanes)};
  if (args.inputs[0].type == DataType::kInt8)
    keep_state<run_linear<Step, int8_t>>(kernel, pool);
  else
    keep_state<run_linear<Step, uint8_t>>(kernel, pool);
  kernel.workspace_bytes = static_cast<size_t>(threads_of(args) * worker_length(maps)) *
                           sizeof(typename Step::template Line<int8_t>);
}

// --- the tactics

template <PoolingType kType, bool kSeparable>
std::string refusal(const Problem& p) {
  const DataType x = p.inputs[0].type, y = p.outputs[0].type;
  const ir::PoolingAttrs& attrs = pooling_attrs(*p.layer);
  if (x != DataType::kUInt8 && x != DataType::kInt8) return "not 8-bit";
  if (attrs.type != kType)
    return kType == PoolingType::kMax ? "not max pooling" : "not average pooling";
  if (y != (kType == PoolingType::kMax ? x : DataType::kFloat)) return "the output's type";
  if (wants_indices(p)) return "the indices are wanted";
  if (!attrs.epilogue.empty()) return "pooling of codes has no epilogue here";
  if (p.inputs[0].extents.size() != 3 && p.inputs[0].extents.size() != 4)
    return "not a 1-D or 2-D map";
  if (count_of(p.inputs[0]) == 0) return "empty";
  if (kSeparable &&
      (attrs.global || attrs.kernel.size() < 2 || attrs.kernel[0] * attrs.kernel[1] < 9))
    return "the window is small or global";
  return "";
}

// Two steps a cycle; a separable window has kh + kw of them and writes the line.
template <bool kSeparable, int kWidth>
double cost_us(const Problem& p) {
  const ir::PoolingAttrs& attrs = pooling_attrs(*p.layer);
  double product = 1, sum = 2;
  for (size_t d = 2; d < p.inputs[0].extents.size(); ++d) {
    const double taps =
        attrs.global ? static_cast<double>(p.inputs[0].extents[d])
                     : static_cast<double>(d - 2 < attrs.kernel.size() ? attrs.kernel[d - 2] : 1);
    product *= taps, sum += taps;
  }
  const double vectors = static_cast<double>(count_of(p.outputs[0])) / kWidth;
  return traffic_us(p) / 2 + vectors * (2 + (kSeparable ? sum : product) * 0.6) / 3000 / p.threads;
}

#define CAMSHAFT_POOL(name, format, type, separable, width, prepare)                               \
  {                                                                                                \
    name, ir::LayerKind::kPooling, kIsa, FormatRule::format, 1,                                    \
        refusal<PoolingType::type, separable>, cost_us<separable, width>, CAMSHAFT_NOTHING_PACKED, \
        prepare                                                                                    \
  }
constexpr Tactic kTactics[] = {
    CAMSHAFT_POOL("pool_max_nhwc_i8", kChannelLast, kMax, false, kByteLanes, prepare_max<false>),
    CAMSHAFT_POOL("pool_max_separable_nhwc_i8", kChannelLast, kMax, true, kByteLanes,
                  prepare_max<true>),
    CAMSHAFT_POOL("pool_max_i8", kLinear, kMax, false, kLanes, prepare_linear<MaxCodes>),
    CAMSHAFT_POOL("pool_average_nhwc_i8f32", kChannelLast, kAverage, false, kLanes, prepare_mean),
    CAMSHAFT_POOL("pool_average_i8f32", kLinear, kAverage, false, kLanes, prepare_linear<AddCodes>),
};
#undef CAMSHAFT_POOL

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::pool_bytes
