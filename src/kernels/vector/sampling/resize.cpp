// SPDX-License-Identifier: Apache-2.0
// Resize of the spatial dimensions, nearest and linear, of floats and 8-bit codes: positions and
// weights per row and column are worked out first, then every output row is copied or blended from
// one or two input rows. Channel last: vectors of channels; linear: gathers along the row, once for
// all output rows an input row is in.
#include <cmath>

#include "kernels/resize_axis.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/sampling/pixels.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::resize {
namespace {

// Taps of one dimension: out[k] = (1 - weight[k]) * in[low[k]] + weight[k] * in[high[k]].
struct Taps {
  int32_t *low, *high;
  float* weight;
};

int64_t padded(int64_t count) {
  return (count + 15) / 16 * 16;
}

struct Resize {
  TensorView x, y;                         // with the addresses of the call
  int64_t batch, channels, height, width;  // of the output
  bool linear, forks = false;
  Taps rows, columns;

  Resize(const KernelArgs& args, const ir::ResizeAttrs& attrs)
      : x(args.inputs[0]), y(args.outputs[0]) {
    batch = y.extents[0];
    channels = y.extents[1];
    height = y.rank == 4 ? y.extents[2] : 1;
    width = y.extents[y.rank - 1];
    linear = attrs.mode == ir::ResizeMode::kLinear;
  }

  int64_t row_stride(const TensorView& view) const { return view.rank == 4 ? view.strides[2] : 0; }
  int64_t pixel_stride(const TensorView& view) const { return view.strides[view.rank - 1]; }
};

Taps make_taps(const ir::ResizeAttrs& attrs, int d, int64_t input, int64_t output,
               PreparedKernel& kernel) {
  Taps taps{keep_array<int32_t>(kernel, padded(output)),
            keep_array<int32_t>(kernel, padded(output)), keep_array<float>(kernel, padded(output))};
  const ResizeAxis axis = resize_axis(attrs, d, input, output);
  for (int64_t k = 0; k < output; ++k) {
    const double position = source_coordinate(attrs, axis, k);
    if (attrs.mode != ir::ResizeMode::kLinear) {
      taps.low[k] = taps.high[k] = static_cast<int32_t>(nearest_position(attrs, axis, k));
      continue;
    }
    const double last = static_cast<double>(input - 1), clamped = position < 0      ? 0
                                                                  : position > last ? last
                                                                                    : position;
    taps.low[k] = static_cast<int32_t>(clamped);
    taps.high[k] = taps.low[k] + 1 < input ? taps.low[k] + 1 : taps.low[k];
    taps.weight[k] = static_cast<float>(clamped - taps.low[k]);
  }
  return taps;
}

// Of one row, itself.
Taps row_taps(const Resize& r, const ir::ResizeAttrs& attrs, PreparedKernel& kernel) {
  if (r.y.rank == 4) return make_taps(attrs, 2, r.x.extents[2], r.height, kernel);
  return {keep_array<int32_t>(kernel, 1), keep_array<int32_t>(kernel, 1),
          keep_array<float>(kernel, 1)};
}

// Steps of kStep bytes, the last one overlapping the one before.
template <int64_t kStep>
CAMSHAFT_INLINE void copy_in_steps(const std::byte* from, std::byte* to, int64_t bytes) {
  for (int64_t k = 0; k + kStep < bytes; k += kStep) __builtin_memcpy(to + k, from + k, kStep);
  __builtin_memcpy(to + bytes - kStep, from + bytes - kStep, kStep);
}

template <class T>
CAMSHAFT_INLINE void copy_pixel(const T* source, T* target, int64_t channels) {
  const auto* from = reinterpret_cast<const std::byte*>(source);
  auto* to = reinterpret_cast<std::byte*>(target);
  const int64_t bytes = channels * static_cast<int64_t>(sizeof(T));
  constexpr int64_t kVector = kLanes * 4;
  if (bytes >= kVector) return copy_in_steps<kVector>(from, to, bytes);
  if (bytes >= 16) return copy_in_steps<16>(from, to, bytes);
  if (bytes >= 4) return copy_in_steps<4>(from, to, bytes);
  for (int64_t c = 0; c < channels; ++c) target[c] = source[c];
}

// Four corners: [row][column].
template <class T>
void blend_pixel(const T* const (&p)[2][2], float row_weight, float column_weight, T* to,
                 int64_t channels) {
  const F32 wr = set1(row_weight), wc = set1(column_weight);
  for (int64_t c = 0; c < channels; c += kLanes) {
    const int64_t rest = channels - c;
    const F32 a = fetch(p[0][0] + c, rest), b = fetch(p[1][0] + c, rest);
    const F32 top = fma(wc, fetch(p[0][1] + c, rest) - a, a),
              bottom = fma(wc, fetch(p[1][1] + c, rest) - b, b);
    put(to + c, fma(wr, bottom - top, top), rest);
  }
}

// `repeats`: the row above is this worker's.
template <class T>
void channel_last_row(const Resize& r, int64_t n, int64_t h, bool repeats) {
  const Taps &rows = r.rows, &columns = r.columns;
  const int64_t pixel = r.pixel_stride(r.x), out_pixel = r.pixel_stride(r.y);
  const T* image = r.x.as<const T>() + n * r.x.strides[0];
  const T *top = image + rows.low[h] * r.row_stride(r.x),
          *bottom = image + rows.high[h] * r.row_stride(r.x);
  T* out = r.y.as<T>() + n * r.y.strides[0] + h * r.row_stride(r.y);
  if (repeats && !r.linear && h > 0 && rows.low[h] == rows.low[h - 1] && out_pixel == r.channels) {
    __builtin_memcpy(out, out - r.row_stride(r.y),
                     static_cast<size_t>(r.width * out_pixel) * sizeof(T));
    return;
  }
  for (int64_t w = 0; w < r.width; ++w, out += out_pixel) {
    const int64_t low = columns.low[w] * pixel, high = columns.high[w] * pixel;
    if (r.linear)
      blend_pixel<T>({{top + low, top + high}, {bottom + low, bottom + high}}, rows.weight[h],
                     columns.weight[w], out, r.channels);
    else
      copy_pixel(top + low, out, r.channels);
  }
}

CAMSHAFT_INLINE F32 gather_at(const float* p, I32 index) {
  return load_at(p, index);
}
template <class T>
CAMSHAFT_INLINE F32 gather_at(const T* p, I32 index) {
  int32_t at[kLanes];
  istore(at, index);
  T lanes[kLanes];
  for (int k = 0; k < kLanes; ++k) lanes[k] = p[at[k]];
  return to_float(load_bytes(lanes));
}

// --- linear format: a row of the input is stretched once, whatever number of output rows it is in

// The stretched rows a worker has at hand.
struct Lines {
  float* line[2];
  const void* source[2] = {};

  static int64_t floats(int64_t width) { return 2 * padded(width); }
  Lines(float* memory, int64_t width) : line{memory, memory + padded(width)} {}
};

template <class T>
void stretch(const T* from, const Taps& columns, int64_t width, float* to) {
  for (int64_t w = 0; w < width; w += kLanes) {  // positions are padded to whole vectors
    const F32 low = gather_at(from, iload(columns.low + w));
    const F32 high = gather_at(from, iload(columns.high + w));
    store(to + w, fma(load(columns.weight + w), high - low, low));
  }
}

// The stretched `row`; the other line is `kept`.
template <class T>
const float* stretched(Lines& lines, const T* row, const void* kept, const Taps& columns,
                       int64_t width) {
  for (int k = 0; k < 2; ++k)
    if (lines.source[k] == row) return lines.line[k];
  const int k = lines.source[0] == kept ? 1 : 0;
  lines.source[k] = row;
  stretch(row, columns, width, lines.line[k]);
  return lines.line[k];
}

template <class T>
void linear_row(const Resize& r, int64_t plane, int64_t h, bool repeats, Lines& lines) {
  const Taps &rows = r.rows, &columns = r.columns;
  const int64_t n = plane / r.channels, c = plane % r.channels;
  const T* image = r.x.as<const T>() + n * r.x.strides[0] + c * r.x.strides[1];
  const T *top = image + rows.low[h] * r.row_stride(r.x),
          *bottom = image + rows.high[h] * r.row_stride(r.x);
  T* out = r.y.as<T>() + n * r.y.strides[0] + c * r.y.strides[1] + h * r.row_stride(r.y);
  if (!r.linear) {
    if (repeats && h > 0 && rows.low[h] == rows.low[h - 1])
      __builtin_memcpy(out, out - r.row_stride(r.y), static_cast<size_t>(r.width) * sizeof(T));
    else
      for (int64_t w = 0; w < r.width; ++w) out[w] = top[columns.low[w]];
    return;
  }
  const float* upper = stretched(lines, top, bottom, columns, r.width);
  const float* lower = stretched(lines, bottom, top, columns, r.width);
  const F32 weight = set1(rows.weight[h]);
  for (int64_t w = 0; w < r.width; w += kLanes) {
    const F32 value = load(upper + w);
    put(out + w, fma(weight, load(lower + w) - value, value), r.width - w);
  }
}

std::string refusal(const Problem& p) {
  const auto& attrs = p.layer->as<ir::ResizeAttrs>();
  const ir::Extents &x = p.inputs[0].extents, &y = p.outputs[0].extents;
  const DataType type = p.inputs[0].type;
  if (type != DataType::kFloat && type != DataType::kUInt8 && type != DataType::kInt8 &&
      !ir::is_16_bit_float(type))
    return "neither a float nor 8-bit";
  if (ir::is_16_bit_float(type) && p.inputs[0].format != Format::kChannelLast)
    return "16-bit floats in rows";
  if (p.outputs[0].type != type) return "another output type";
  if (x.size() != 3 && x.size() != 4) return "not of rank 3 or 4";
  if (attrs.sizes.empty() && attrs.scales.empty()) return "sizes are known only at run time";
  if (attrs.mode == ir::ResizeMode::kCubic) return "cubic";
  if (attrs.antialias || attrs.exclude_outside) return "antialiased";
  if (attrs.transform == ir::CoordinateTransform::kTfCropAndResize) return "crops";
  if (x[0] != y[0] || x[1] != y[1]) return "resizes batch or channels";
  for (size_t d = 0; d < 2 && d < attrs.scales.size(); ++d)
    if (attrs.scales[d] != 1) return "resizes batch or channels";
  return {};
}

double cost_us(const Problem& p) {
  return traffic_us(p) * 2 / p.threads;
}

constexpr int64_t kForkFloats = 32768;  // below, forking costs more than it gives

template <class Body>
void for_output_rows(Resize& r, int64_t planes, const KernelCall& call, const Body& body) {
  r.x.data = call.inputs[0];
  r.y.data = call.outputs[0];
  if (call.pool && r.forks)
    call.pool->parallel_ranges(planes * r.height, body);
  else
    body(0, int64_t{0}, planes * r.height);
}

template <class T>
void run_channel_last(Resize& r, const KernelCall& call) {
  for_output_rows(r, r.batch, call, [&r](int, int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k)
      channel_last_row<T>(r, k / r.height, k % r.height, k > begin);
  });
}

template <class T>
void run_linear(Resize& r, const KernelCall& call) {
  float* memory = reinterpret_cast<float*>(call.workspace);
  for_output_rows(r, r.batch * r.channels, call,
                  [&r, memory](int worker, int64_t begin, int64_t end) {
                    Lines lines(memory + worker * Lines::floats(r.width), r.width);
                    for (int64_t k = begin; k < end; ++k)
                      linear_row<T>(r, k / r.height, k % r.height, k > begin, lines);
                  });
}

// Pixels of one channel lie as in the linear format.
bool is_one_plane(const Resize& r) {
  return r.channels == 1 && r.pixel_stride(r.x) == 1 && r.pixel_stride(r.y) == 1 &&
         !ir::is_16_bit_float(r.x.type);
}

void keep_channel_last(const Resize& r, PreparedKernel& kernel) {
  switch (r.x.type) {
    case DataType::kUInt8:
      keep_state<run_channel_last<uint8_t>>(kernel, r);
      break;
    case DataType::kInt8:
      keep_state<run_channel_last<int8_t>>(kernel, r);
      break;
    case DataType::kBFloat16:
      keep_state<run_channel_last<Bf16>>(kernel, r);
      break;
    case DataType::kHalf:
      keep_state<run_channel_last<Half>>(kernel, r);
      break;
    default:
      keep_state<run_channel_last<float>>(kernel, r);
  }
}

void keep_linear(const Resize& r, int threads, PreparedKernel& kernel) {
  if (r.x.type == DataType::kUInt8)
    keep_state<run_linear<uint8_t>>(kernel, r);
  else if (r.x.type == DataType::kInt8)
    keep_state<run_linear<int8_t>>(kernel, r);
  else
    keep_state<run_linear<float>>(kernel, r);
  kernel.workspace_bytes = static_cast<size_t>(threads * Lines::floats(r.width)) * sizeof(float);
}

// Gathers of the linear format read whole vectors of positions: behind the last one they are 0.
template <bool kChannelLast>
void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const auto& attrs = args.layer->as<ir::ResizeAttrs>();
  Resize r(args, attrs);
  r.forks = count_of(r.y) >= kForkFloats;
  r.rows = row_taps(r, attrs, kernel);
  r.columns = make_taps(attrs, r.y.rank - 1, r.x.extents[r.x.rank - 1], r.width, kernel);
  if (kChannelLast && !is_one_plane(r))
    keep_channel_last(r, kernel);
  else
    keep_linear(r, threads_of(args), kernel);
}

constexpr Tactic row(const char* name, FormatRule formats, Prepare prepares) {
  return {.name = name,
          .kind = ir::LayerKind::kResize,
          .isa = kIsa,
          .formats = formats,
          .version = 2,
          .refusal = refusal,
          .cost_us = cost_us,
          .packed_inputs = no_packed_inputs,
          .packed_bytes = no_packed_bytes,
          .pack = pack_nothing,
          .prepare = prepares};
}

constexpr Tactic kTactics[] = {
    row("resize_nhwc", FormatRule::kChannelLast, prepare<true>),
    row("resize_nchw", FormatRule::kLinear, prepare<false>),
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::resize
