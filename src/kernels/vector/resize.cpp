// SPDX-License-Identifier: Apache-2.0
// Resize of the spatial dimensions, nearest and linear: positions and weights per row and column
// are worked out first, then every output row is copied or blended from one or two input rows.
// Channel last: vectors of channels; linear: gathers along the row.
#include <cmath>

#include "kernels/resize_axis.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

// Taps of one dimension: out[k] = (1 - weight[k]) * in[low[k]] + weight[k] * in[high[k]].
struct Taps {
  int32_t *low, *high;
  float* weight;
};

int64_t padded(int64_t count) {
  return (count + 15) / 16 * 16;
}

struct Run {
  const KernelArgs& args;
  const ir::ResizeAttrs& attrs;
  const TensorView &x, &y;
  int64_t batch, channels, height, width;  // of the output
  bool linear;

  explicit Run(const KernelArgs& a)
      : args(a), attrs(a.layer->as<ir::ResizeAttrs>()), x(a.inputs[0]), y(a.outputs[0]) {
    batch = y.extents[0];
    channels = y.extents[1];
    height = y.rank == 4 ? y.extents[2] : 1;
    width = y.extents[y.rank - 1];
    linear = attrs.mode == ir::ResizeMode::kLinear;
  }

  size_t workspace() const { return static_cast<size_t>(3 * (padded(height) + padded(width))) * 4; }

  int64_t row_stride(const TensorView& view) const { return view.rank == 4 ? view.strides[2] : 0; }
  int64_t pixel_stride(const TensorView& view) const { return view.strides[view.rank - 1]; }

  Taps make_taps(std::byte* memory, int d, int64_t input, int64_t output) const {
    int32_t* words = reinterpret_cast<int32_t*>(memory);
    Taps taps{words, words + padded(output), reinterpret_cast<float*>(words + 2 * padded(output))};
    const ResizeAxis axis = resize_axis(attrs, d, input, output);
    for (int64_t k = 0; k < output; ++k) {
      const double position = source_coordinate(attrs, axis, k);
      if (!linear) {
        taps.low[k] = taps.high[k] = static_cast<int32_t>(nearest_position(attrs, axis, position));
        taps.weight[k] = 0;
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
  Taps row_taps() const {
    if (y.rank == 3) {  // one row: itself
      Taps taps = make_taps(args.workspace, 2, 1, 0);
      taps.low[0] = taps.high[0] = 0;
      taps.weight[0] = 0;
      return taps;
    }
    return make_taps(args.workspace, 2, x.extents[2], height);
  }
  Taps column_taps() const {
    return make_taps(args.workspace + 12 * padded(height), y.rank - 1, x.extents[x.rank - 1],
                     width);
  }
};

void copy_pixel(const float* from, float* to, int64_t channels) {
  int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) store(to + c, load(from + c));
  if (c < channels)
    store(to + c, load(from + c, first_n(static_cast<int>(channels - c))),
          first_n(static_cast<int>(channels - c)));
}

// Four corners: [row][column].
void blend_pixel(const float* const (&p)[2][2], float row_weight, float column_weight, float* to,
                 int64_t channels) {
  const F32 wr = set1(row_weight), wc = set1(column_weight);
  for (int64_t c = 0; c < channels; c += kLanes) {
    const M32 mask = first_n(static_cast<int>(channels - c));
    const F32 a = load(p[0][0] + c, mask), b = load(p[1][0] + c, mask);
    const F32 top = fma(wc, load(p[0][1] + c, mask) - a, a),
              bottom = fma(wc, load(p[1][1] + c, mask) - b, b);
    store(to + c, fma(wr, bottom - top, top), mask);
  }
}

void channel_last_row(const Run& r, const Taps& rows, const Taps& columns, int64_t n, int64_t h) {
  const int64_t pixel = r.pixel_stride(r.x), out_pixel = r.pixel_stride(r.y);
  const float* image = r.x.as<const float>() + n * r.x.strides[0];
  const float *top = image + rows.low[h] * r.row_stride(r.x),
              *bottom = image + rows.high[h] * r.row_stride(r.x);
  float* out = r.y.as<float>() + n * r.y.strides[0] + h * r.row_stride(r.y);
  for (int64_t w = 0; w < r.width; ++w, out += out_pixel) {
    const int64_t low = columns.low[w] * pixel, high = columns.high[w] * pixel;
    if (r.linear)
      blend_pixel({{top + low, top + high}, {bottom + low, bottom + high}}, rows.weight[h],
                  columns.weight[w], out, r.channels);
    else
      copy_pixel(top + low, out, r.channels);
  }
}

void linear_row(const Run& r, const Taps& rows, const Taps& columns, int64_t plane, int64_t h) {
  const int64_t n = plane / r.channels, c = plane % r.channels;
  const float* image = r.x.as<const float>() + n * r.x.strides[0] + c * r.x.strides[1];
  const float *top = image + rows.low[h] * r.row_stride(r.x),
              *bottom = image + rows.high[h] * r.row_stride(r.x);
  float* out = r.y.as<float>() + n * r.y.strides[0] + c * r.y.strides[1] + h * r.row_stride(r.y);
  const F32 wr = set1(rows.weight[h]);
  for (int64_t w = 0; w < r.width; w += kLanes) {
    const M32 mask = first_n(static_cast<int>(r.width - w));
    const I32 low = iload(columns.low + w), high = iload(columns.high + w);
    F32 value = gather(top, low);
    if (r.linear) {
      const F32 wc = load(columns.weight + w), under = gather(bottom, low);
      value = fma(wc, gather(top, high) - value, value);
      value = fma(wr, fma(wc, gather(bottom, high) - under, under) - value, value);
    }
    store(out + w, value, mask);
  }
}

std::string refusal(const Problem& p) {
  const auto& attrs = p.layer->as<ir::ResizeAttrs>();
  const ir::Extents &x = p.inputs[0].extents, &y = p.outputs[0].extents;
  if (!all_float({.layer = p.layer, .inputs = {p.inputs[0]}, .outputs = p.outputs, .threads = 1}))
    return "not float";
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

size_t workspace_bytes(const KernelArgs& args) {
  return Run(args).workspace();
}

constexpr int64_t kForkFloats = 32768;  // below, forking costs more than it gives

template <bool kChannelLast>
void run(const KernelArgs& args) {
  const Run r(args);
  if (args.outputs[0].elements() == 0) return;
  const Taps rows = r.row_taps();
  Taps columns = r.column_taps();
  if (!kChannelLast)  // gathers read whole vectors of positions
    for (int64_t w = r.width; w < padded(r.width); ++w) columns.low[w] = columns.high[w] = 0;
  const int64_t planes = kChannelLast ? r.batch : r.batch * r.channels;
  const auto body = [&](int, int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k)
      (kChannelLast ? channel_last_row : linear_row)(r, rows, columns, k / r.height, k % r.height);
  };
  if (args.pool && count_of(args.outputs[0]) >= kForkFloats)
    args.pool->parallel_ranges(planes * r.height, body);
  else
    body(0, 0, planes * r.height);
}

constexpr Tactic row(const char* name, FormatRule formats, void (*run)(const KernelArgs&)) {
  return {.name = name,
          .kind = ir::LayerKind::kResize,
          .isa = kIsa,
          .formats = formats,
          .version = 1,
          .refusal = refusal,
          .cost_us = cost_us,
          .packed_inputs = no_packed_inputs,
          .packed_bytes = no_packed_bytes,
          .pack = pack_nothing,
          .workspace_bytes = workspace_bytes,
          .run = run};
}

constexpr Tactic kTactics[] = {
    row("resize_nhwc_f32", FormatRule::kChannelLast, run<true>),
    row("resize_nchw_f32", FormatRule::kLinear, run<false>),
};

}  // namespace

std::span<const Tactic> resize_tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
