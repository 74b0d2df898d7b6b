// SPDX-License-Identifier: Apache-2.0
// Max and average pooling of 1-D and 2-D maps. Channel last: vectors of channels, window by window,
// or for large windows rows first into a line of column results, then along it. Linear: always rows
// first, then along the line. Global: a reduction. An epilogue runs on some rows or maps at a time.
#include "kernels/vector/pooling/pool_window.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/reduction/reduction.h"
#include "kernels/vector/shares.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::pool {
namespace {

using ir::PoolingAttrs;
using ir::PoolingType;

struct Pool : PoolMaps {
  double predicted_us;
  ResultEpilogue epilogue;
  Line parts;                // of rows by outputs, channel last
  const float* x = nullptr;  // of the call
  float* y = nullptr;

  Pool(const PoolMaps& maps, const ResultEpilogue& e)
      : PoolMaps(maps),
        predicted_us(pool_us(maps, kLanes) + pixels_us(maps) + e.predicted_us),
        epilogue(e) {}

  // What a pixel costs beside its vectors.
  static double pixels_us(const PoolMaps& maps) {
    constexpr double kPixelUs = 0.01;
    return static_cast<double>(maps.batch * maps.h.out * maps.w.out) * kPixelUs;
  }
};

const PoolingAttrs& attrs_of(const ir::Layer& layer) {
  return pooling_attrs(layer);
}

void set_addresses(const KernelCall& call, Pool& p) {
  p.x = call.input<const float>(0);
  p.y = call.output<float>(0);
}

// A channel-last kernel that runs as kRun(Pool&, call).
template <auto kRun>
Pool* keep_pool(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return nullptr;
  return &keep_state<kRun>(kernel, Pool(pool_maps(args), row_epilogue(args, args.outputs[0])));
}

template <class Step>
constexpr bool kIsMax = Step::kIdentity != 0;

// --- channel last
// --------------------------------------------------------------------------------------------------------------

// to[c] = scale * steps over `rows` x `cols` vectors at x.
template <class Step, int kVectors, bool kMasked>
CAMSHAFT_INLINE void pool_vectors(const float* x, int64_t rows, int64_t row_stride, int64_t cols,
                                  int64_t col_stride, float scale, float* to, M32 mask) {
  F32 sum[kVectors];
  for (F32& s : sum) s = set1(Step::kIdentity);
  for (int64_t row = 0; row < rows; ++row, x += row_stride) {
    const float* p = x;
    for (int64_t col = 0; col < cols; ++col, p += col_stride)
      for (int v = 0; v < kVectors; ++v)
        sum[v] = Step::step(sum[v], kMasked ? load(p + v * kLanes, mask) : load(p + v * kLanes));
  }
  for (int v = 0; v < kVectors; ++v) {
    const F32 result = kIsMax<Step> ? sum[v] : sum[v] * set1(scale);
    if (kMasked)
      store(to + v * kLanes, result, mask);
    else
      store(to + v * kLanes, result);
  }
}

// One output pixel, or a pixel of the line of column results.
template <class Step>
void pool_pixel(const float* x, int64_t rows, int64_t row_stride, int64_t cols, int64_t col_stride,
                int64_t channels, float scale, float* to) {
  int64_t c = 0;
  for (; c + 4 * kLanes <= channels; c += 4 * kLanes)
    pool_vectors<Step, 4, false>(x + c, rows, row_stride, cols, col_stride, scale, to + c,
                                 first_n(kLanes));
  for (; c + kLanes <= channels; c += kLanes)
    pool_vectors<Step, 1, false>(x + c, rows, row_stride, cols, col_stride, scale, to + c,
                                 first_n(kLanes));
  if (c < channels)
    pool_vectors<Step, 1, true>(x + c, rows, row_stride, cols, col_stride, scale, to + c,
                                first_n(static_cast<int>(channels - c)));
}

// Outputs [first, last) of a row.
template <class Step>
void pool_row_direct(const Pool& p, int64_t n, int64_t oh, int64_t first, int64_t last) {
  const int64_t kh = p.h.first(oh), rows = p.h.last(oh) - kh;
  const float* row = p.x + n * p.x_image + (p.h.start(oh) + kh * p.h.dilation) * p.x_row;
  float* y = p.y + n * p.y_image + oh * p.y_row;
  for (int64_t ow = first; ow < last; ++ow) {
    const int64_t kw = p.w.first(ow), cols = p.w.last(ow) - kw;
    const float* x = row + (p.w.start(ow) + kw * p.w.dilation) * p.x_pixel;
    pool_pixel<Step>(x, rows, p.h.dilation * p.x_row, cols, p.w.dilation * p.x_pixel, p.channels,
                     p.scale(oh, ow), y + ow * p.y_pixel);
  }
}

// Column results of all input pixels first: kh + kw steps for a pixel instead of kh * kw.
template <class Step>
void pool_row_separable(const Pool& p, int64_t n, int64_t oh, float* line) {
  const int64_t kh = p.h.first(oh), rows = p.h.last(oh) - kh;
  const float* row = p.x + n * p.x_image + (p.h.start(oh) + kh * p.h.dilation) * p.x_row;
  float* y = p.y + n * p.y_image + oh * p.y_row;
  for (int64_t iw = 0; iw < p.w.in; ++iw)
    pool_pixel<Step>(row + iw * p.x_pixel, rows, p.h.dilation * p.x_row, 1, 0, p.channels, 1,
                     line + iw * p.channels);
  for (int64_t ow = 0; ow < p.w.out; ++ow) {
    const int64_t kw = p.w.first(ow), cols = p.w.last(ow) - kw;
    const float* x = line + (p.w.start(ow) + kw * p.w.dilation) * p.channels;
    pool_pixel<Step>(x, 1, 0, cols, p.w.dilation * p.channels, p.channels, p.scale(oh, ow),
                     y + ow * p.y_pixel);
  }
}

// Rows, or parts of them where there are too few for the threads, as of sequences.
template <class Step>
void run_channel_last(Pool& p, const KernelCall& call) {
  set_addresses(call, p);
  const auto pool_parts = [&p](int64_t first, int64_t last) {
    p.parts.for_rectangles(
        first, last, [&p](int64_t row, int64_t end, int64_t first_out, int64_t end_out) {
          for (; row < end; ++row)
            pool_row_direct<Step>(p, row / p.h.out, row % p.h.out, first_out, end_out);
        });
  };
  split(call.pool, p.parts.places(), p.predicted_us, [&](int, int64_t first, int64_t last) {
    for_unit_blocks(p.epilogue, call, first, last, pool_parts);
  });
}

template <class Step>
void prepare_channel_last(const KernelArgs& args, PreparedKernel& kernel) {
  Pool* p = keep_pool<run_channel_last<Step>>(args, kernel);
  if (!p) return;
  // What follows takes whole rows.
  p->parts = even_line(p->batch * p->h.out, p->w.out, p->epilogue.present ? 1 : threads_of(args));
}

template <class Step>
void run_separable(Pool& p, const KernelCall& call) {
  set_addresses(call, p);
  float* lines = reinterpret_cast<float*>(call.workspace);
  split(call.pool, p.batch * p.h.out, p.predicted_us, [&](int worker, int64_t first, int64_t last) {
    float* line = lines + worker * p.w.in * p.channels;
    for_unit_blocks(p.epilogue, call, first, last, [&p, line](int64_t from, int64_t end) {
      for (int64_t row = from; row < end; ++row)
        pool_row_separable<Step>(p, row / p.h.out, row % p.h.out, line);
    });
  });
}

template <class Step>
void prepare_separable(const KernelArgs& args, PreparedKernel& kernel) {
  if (const Pool* p = keep_pool<run_separable<Step>>(args, kernel))
    kernel.workspace_bytes =
        static_cast<size_t>(threads_of(args) * p->w.in * p->channels) * sizeof(float);
}

// --- linear
// --------------------------------------------------------------------------------------------------------------------

// A line holds the column results with identities around them, so that no window needs its borders
// looked at.
int64_t line_floats(const PoolAxis& w) {
  const int64_t reach = (w.out - 1) * w.stride + (w.kernel - 1) * w.dilation + 1;
  const int64_t end = reach > w.pre + w.in ? reach : w.pre + w.in;
  return (end + (w.stride + 1) * kLanes + 15) / 16 * 16;
}

// Steps over a window's taps of kLanes neighbouring outputs.
template <class Step>
CAMSHAFT_INLINE F32 pool_outputs(const Pool& p, const float* line, I32 index) {
  F32 sum = set1(Step::kIdentity);
  for (int64_t kw = 0; kw < p.w.kernel; ++kw) {
    const float* from = line + kw * p.w.dilation;
    sum = Step::step(sum, p.w.stride == 1 ? load(from) : load_at(from, index));
  }
  return sum;
}

template <class Step>
void pool_line(const Pool& p, const float* x, int64_t oh, float* line, const float* scales,
               float* y) {
  const int64_t kh = p.h.first(oh), rows = p.h.last(oh) - kh;
  reduce_columns<Step>(x + (p.h.start(oh) + kh * p.h.dilation) * p.x_row, rows,
                       p.h.dilation * p.x_row, p.w.in, line + p.w.pre, false);
  const I32 index = iota() * iset1(static_cast<int32_t>(p.w.stride));
  const int64_t counted = p.h.counted(oh, p.with_padding);
  const F32 row_scale = set1(counted > 0 ? 1 / static_cast<float>(counted) : 0);
  for (int64_t ow = 0; ow < p.w.out; ow += kLanes) {
    F32 sum = pool_outputs<Step>(p, line + ow * p.w.stride, index);
    if (!kIsMax<Step>) sum = sum * (row_scale * load(scales + ow));
    if (ow + kLanes <= p.w.out)
      store(y + ow, sum);
    else
      store(y + ow, sum, first_n(static_cast<int>(p.w.out - ow)));
  }
}

int64_t scale_floats(const PoolAxis& w) {
  return (w.out + kLanes - 1) / kLanes * kLanes;
}

// Lines are the workspace, scales are made once.
struct LinearPool {
  Pool pool;
  const float* scales;
};

template <class Step>
void pool_maps_of(const Pool& p, int64_t first, int64_t last, float* line, const float* scales) {
  for (int64_t map = first; map < last; ++map) {
    const int64_t n = map / p.channels, c = map % p.channels;
    const float* x = p.x + n * p.x_image + c * p.x_channel;
    float* y = p.y + n * p.y_image + c * p.y_channel;
    for (int64_t oh = 0; oh < p.h.out; ++oh)
      pool_line<Step>(p, x, oh, line, scales, y + oh * p.y_row);
  }
}

template <class Step>
void run_linear(LinearPool& kernel, const KernelCall& call) {
  Pool& p = kernel.pool;
  const float* scales = kernel.scales;
  set_addresses(call, p);
  float* lines = reinterpret_cast<float*>(call.workspace);
  for (int64_t k = 0; k < threads_of(call) * line_floats(p.w); ++k) lines[k] = Step::kIdentity;
  split(call.pool, p.batch * p.channels, p.predicted_us,
        [&](int worker, int64_t first, int64_t last) {
          float* line = lines + worker * line_floats(p.w);
          for_unit_blocks(p.epilogue, call, first, last, [&](int64_t from, int64_t end) {
            pool_maps_of<Step>(p, from, end, line, scales);
          });
        });
}

template <class Step>
void prepare_linear(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const PoolMaps p = pool_maps(args);
  const int64_t count = scale_floats(p.w);
  float* scales =
      reinterpret_cast<float*>(kernel.allocate(static_cast<size_t>(count) * sizeof(float)));
  for (int64_t ow = 0; ow < count; ++ow) {
    const int64_t counted = ow < p.w.out ? p.w.counted(ow, p.with_padding) : 0;
    scales[ow] = counted > 0 ? 1 / static_cast<float>(counted) : 0;
  }
  keep_state<run_linear<Step>>(kernel, LinearPool{Pool(p, map_epilogue(args)), scales});
  kernel.workspace_bytes = static_cast<size_t>(threads_of(args) * line_floats(p.w)) * sizeof(float);
}

// --- global
// --------------------------------------------------------------------------------------------------------------------

struct GlobalPool {
  Reduction reduction;
  ResultEpilogue epilogue;
};

void run_global(GlobalPool& pool, const KernelCall& call) {
  run_reduction(pool.reduction, call.input<const float>(0), call.output<float>(0), call.pool);
  run_result_epilogue(pool.epilogue, call);
}

void prepare_global(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView& x = args.inputs[0];
  uint32_t spatial = 0;
  for (int d = 2; d < x.rank; ++d) spatial |= 1u << d;
  const PoolingAttrs& attrs = attrs_of(*args.layer);
  const ir::ReduceOp op =
      attrs.type == PoolingType::kMax ? ir::ReduceOp::kMax : ir::ReduceOp::kMean;
  keep_state<run_global>(kernel,
                         GlobalPool{plan_reduction(x, args.outputs[0], spatial, op),
                                    make_result_epilogue(attrs.epilogue, args, kFirstPoolOperand)});
}

// --- the tactics
// ---------------------------------------------------------------------------------------------------------------

std::string common_refusal(const Problem& p) {
  if (p.inputs[0].type != DataType::kFloat || p.outputs[0].type != DataType::kFloat)
    return "not float";
  if (wants_indices(p)) return "the indices are wanted";
  if (attrs_of(*p.layer).type == PoolingType::kLp) return "Lp pooling";
  return refuse_result_epilogue(p, attrs_of(*p.layer).epilogue, kFirstPoolOperand);
}

template <PoolingType kType>
std::string window_refusal(const Problem& p) {
  if (std::string reason = common_refusal(p); !reason.empty()) return reason;
  const PoolingAttrs& attrs = attrs_of(*p.layer);
  if (attrs.type != kType)
    return kType == PoolingType::kMax ? "not max pooling" : "not average pooling";
  if (attrs.global) return "global";
  if (p.inputs[0].extents.size() != 3 && p.inputs[0].extents.size() != 4)
    return "not a 1-D or 2-D map";
  return "";
}

template <PoolingType kType>
std::string separable_refusal(const Problem& p) {
  if (std::string reason = window_refusal<kType>(p); !reason.empty()) return reason;
  const ir::Ints& kernel = attrs_of(*p.layer).kernel;
  if (kernel.size() < 2 || kernel[0] * kernel[1] < 9) return "the window is small";
  return "";
}

std::string global_refusal(const Problem& p) {
  if (std::string reason = common_refusal(p); !reason.empty()) return reason;
  if (!attrs_of(*p.layer).global) return "not global";
  if (count_of(p.inputs[0]) == 0) return "empty";
  return "";
}

// Steps of a window for each output.
double steps(const Problem& p, bool separable) {
  const ir::Ints& kernel = attrs_of(*p.layer).kernel;
  double product = 1, sum = 0;
  for (size_t d = 0; d < kernel.size(); ++d)
    product *= static_cast<double>(kernel[d]), sum += static_cast<double>(kernel[d]);
  return separable ? sum + 2 : product;
}

double window_cost(const Problem& p, bool separable) {
  const double vectors = static_cast<double>(count_of(p.outputs[0])) / kLanes;
  return traffic_us(p) / 2 + vectors * (2 + steps(p, separable) * 0.6) / 3000 / p.threads;
}
double direct_cost(const Problem& p) {
  return window_cost(p, false);
}
double separable_cost(const Problem& p) {
  return window_cost(p, true);
}
double linear_cost(const Problem& p) {
  return 2 * window_cost(p, true);
}

#define CAMSHAFT_POOL(tactic, rule, refuses, cost, prepares)                                   \
  {                                                                                            \
    .name = tactic, .kind = ir::LayerKind::kPooling, .isa = kIsa, .formats = FormatRule::rule, \
    .version = 1, .refusal = refuses, .cost_us = cost, .packed_inputs = no_packed_inputs,      \
    .packed_bytes = no_packed_bytes, .pack = pack_nothing, .prepare = prepares                 \
  }
constexpr Tactic kTactics[] = {
    CAMSHAFT_POOL("pool_max_nhwc_f32", kChannelLast, window_refusal<PoolingType::kMax>, direct_cost,
                  prepare_channel_last<MaxStep>),
    CAMSHAFT_POOL("pool_max_separable_nhwc_f32", kChannelLast, separable_refusal<PoolingType::kMax>,
                  separable_cost, prepare_separable<MaxStep>),
    CAMSHAFT_POOL("pool_max_f32", kLinear, window_refusal<PoolingType::kMax>, linear_cost,
                  prepare_linear<MaxStep>),
    CAMSHAFT_POOL("pool_average_nhwc_f32", kChannelLast, window_refusal<PoolingType::kAverage>,
                  direct_cost, prepare_channel_last<AddStep>),
    CAMSHAFT_POOL("pool_average_separable_nhwc_f32", kChannelLast,
                  separable_refusal<PoolingType::kAverage>, separable_cost,
                  prepare_separable<AddStep>),
    CAMSHAFT_POOL("pool_average_f32", kLinear, window_refusal<PoolingType::kAverage>, linear_cost,
                  prepare_linear<AddStep>),
    CAMSHAFT_POOL("pool_global_f32", kSame, global_refusal, traffic_us, prepare_global),
};
#undef CAMSHAFT_POOL

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::pool
