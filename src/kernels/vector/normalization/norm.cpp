// SPDX-License-Identifier: Apache-2.0
// Layer, RMS, instance and group normalization. Sums of squares are of what is left after the mean,
// so that a large mean costs no accuracy. Linear tensors: lines, a few together or one per lane, in
// three passes in cache. Channel last: sums of columns.
#include "kernels/nest.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/normalization/short_lines.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/program/result_epilogue.h"
#include "kernels/vector/reduction/reduction.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::norm {
namespace {

using ir::NormKind;

constexpr size_t kFirstOperand = 3;  // after x, scale, bias

const ir::NormalizationAttrs& attrs_of(const ir::Layer& layer) {
  return *std::get_if<ir::NormalizationAttrs>(&layer.attrs);
}

bool has_input(const KernelArgs& args, size_t k) {
  return k < args.inputs.size() && args.inputs[k].present();
}

float inverse_deviation(float squares, int64_t count, float epsilon) {
  return 1 / __builtin_sqrtf(squares / static_cast<float>(count) + epsilon);
}

float sum_squares(const float* x, int64_t count, float mean) {
  const F32 m = set1(mean);
  F32 total = zero();
  for (int64_t k = 0; k < count;) {
    F32 part[2] = {zero(), zero()};
    const int64_t end = k + 64 * kLanes < count ? k + 64 * kLanes : count;
    for (; k + 2 * kLanes <= end; k += 2 * kLanes) {
      const F32 a = load(x + k) - m, b = load(x + k + kLanes) - m;
      part[0] = fma(a, a, part[0]), part[1] = fma(b, b, part[1]);
    }
    for (; k < end; k += kLanes) {
      const M32 mask = first_n(static_cast<int>(end - k));
      const F32 a = select(mask, load(x + k, mask) - m, zero());
      part[0] = fma(a, a, part[0]);
      if (k + kLanes >= end) {
        k = end;
        break;
      }
    }
    total = total + (part[0] + part[1]);
  }
  return reduce_add(total);
}

// y = (x - mean) * inverse, times scale, plus bias.
template <bool kScale, bool kBias>
void normalize_line_by(const float* x, int64_t count, float mean, float inverse, const float* scale,
                       const float* bias, float* y) {
  const F32 m = set1(mean), r = set1(inverse);
  const auto value = [&](int64_t k, const auto& read) {
    const F32 v = (read(x + k) - m) * r, scaled = kScale ? v * read(scale + k) : v;
    return kBias ? scaled + read(bias + k) : scaled;
  };
  int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes)
    store(y + k, value(k, [](const float* p) { return load(p); }));
  if (k == count) return;
  const M32 mask = first_n(static_cast<int>(count - k));
  store(y + k, value(k, [mask](const float* p) { return load(p, mask); }), mask);
}

// `scale` and `bias`: vectors, or null.
void normalize_line(const float* x, int64_t count, float mean, float inverse, const float* scale,
                    const float* bias, float* y) {
  constexpr auto kBy = [](bool scales, bool shifts) {
    if (scales) return shifts ? normalize_line_by<true, true> : normalize_line_by<true, false>;
    return shifts ? normalize_line_by<false, true> : normalize_line_by<false, false>;
  };
  kBy(scale != nullptr, bias != nullptr)(x, count, mean, inverse, scale, bias, y);
}

// y = x * a + b.
void scale_line(const float* x, int64_t count, float a, float b, float* y) {
  const F32 va = set1(a), vb = set1(b);
  int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes) store(y + k, fma(load(x + k), va, vb));
  if (k == count) return;
  const M32 mask = first_n(static_cast<int>(count - k));
  store(y + k, fma(load(x + k, mask), va, vb), mask);
}

ResultEpilogue make_epilogue(const KernelArgs& args) {
  return make_result_epilogue(attrs_of(*args.layer).epilogue, args, kFirstOperand);
}

double predicted_us_of(const KernelArgs& args) {
  return static_cast<double>(count_of(args.outputs[0])) / kLanes / 800;
}

// Scale and bias, inputs 1 and 2: null where absent.
struct Affine {
  bool has_scale, has_bias;

  explicit Affine(const KernelArgs& args)
      : has_scale(has_input(args, 1)), has_bias(has_input(args, 2)) {}
  const float* scale(const KernelCall& call) const {
    return has_scale ? call.input<const float>(1) : nullptr;
  }
  const float* bias(const KernelCall& call) const {
    return has_bias ? call.input<const float>(2) : nullptr;
  }
};

// --- lines: layer and RMS
// ------------------------------------------------------------------------------------------------------

// Lines evenly apart.
struct Lines {
  const float* x;
  float* y;
  int64_t x_step, y_step, size, count;
};

struct LineFactors {
  const float *scale, *bias;  // or null
  float epsilon;
  bool centers;
};

// Lines up to here go a line per lane: a line by itself waits for two sums and a root.
constexpr int64_t kShortLine = 32;

// Elements of the lines in the lanes, kTurnedLines apart.
CAMSHAFT_INLINE void normalize_lanes(float* x, int64_t size, const LineFactors& by) {
  constexpr int64_t kStep = kTurnedLines;
  const F32 count = set1(static_cast<float>(size));
  F32 mean = zero(), squares = zero();
  if (by.centers) {
    for (int64_t k = 0; k < size; ++k) mean = mean + load(x + k * kStep);
    mean = mean / count;
  }
  for (int64_t k = 0; k < size; ++k) {
    const F32 rest = load(x + k * kStep) - mean;
    squares = fma(rest, rest, squares);
  }
  const F32 inverse = set1(1) / sqrt(squares / count + set1(by.epsilon));
  for (int64_t k = 0; k < size; ++k) {
    const F32 factor = by.scale != nullptr ? inverse * set1(by.scale[k]) : inverse,
              shift = by.bias != nullptr ? set1(by.bias[k]) : zero();
    store(x + k * kStep, fma(load(x + k * kStep) - mean, factor, shift));
  }
}

void normalize_short_lines(const Lines& l, const LineFactors& by) {
  for_lines_in_lanes<kShortLine>(l.x, l.x_step, l.y, l.y_step, l.size, l.count,
                                 [&](float* lines) { normalize_lanes(lines, l.size, by); });
}

// A line waits for its sums and its root: what else is to do then is another line's.
constexpr int64_t kLinesTogether = 4;

void normalize_long_lines(const Lines& l, const LineFactors& by) {
  for (int64_t first = 0; first < l.count; first += kLinesTogether) {
    const int64_t count = smaller(l.count - first, kLinesTogether);
    const float* x = l.x + first * l.x_step;
    float *y = l.y + first * l.y_step, mean[kLinesTogether], inverse[kLinesTogether];
    for (int64_t k = 0; k < count; ++k)
      mean[k] = by.centers
                    ? reduce_line<AddStep>(x + k * l.x_step, l.size) / static_cast<float>(l.size)
                    : 0;
    for (int64_t k = 0; k < count; ++k)
      inverse[k] =
          inverse_deviation(sum_squares(x + k * l.x_step, l.size, mean[k]), l.size, by.epsilon);
    for (int64_t k = 0; k < count; ++k)
      normalize_line(x + k * l.x_step, l.size, mean[k], inverse[k], by.scale, by.bias,
                     y + k * l.y_step);
  }
}

struct LineNorm {
  Affine affine;
  Nest kept;  // the output, the input
  int64_t size;
  bool centers;
  float epsilon;
  double predicted_us;
  ResultEpilogue epilogue;
};

void run_lines(LineNorm& n, const KernelCall& call) {
  const Nest& kept = n.kept;
  const LineFactors by{n.affine.scale(call), n.affine.bias(call), n.epsilon, n.centers};
  const float* x = call.input<const float>(0);
  float* y = call.output<float>(0);
  const auto run = n.size <= kShortLine ? normalize_short_lines : normalize_long_lines;
  for_tiles(kept, call.pool, n.predicted_us,
            [&](const int64_t* offsets, int64_t rows, int64_t cols) {
              const bool down = rows > cols;  // most kept dimensions are one, the rows of tiles
              for (int64_t k = 0; k < (down ? cols : rows); ++k) {
                const auto step = [&](bool of_rows, int t) {
                  return of_rows ? kept.row_stride(t) : kept.col_stride(t);
                };
                run({x + offsets[1] + k * step(!down, 1), y + offsets[0] + k * step(!down, 0),
                     step(down, 1), step(down, 0), n.size, down ? rows : cols},
                    by);
              }
            });
  run_result_epilogue(n.epilogue, call);
}

void prepare_lines(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const ir::NormalizationAttrs& attrs = attrs_of(*args.layer);
  TensorView kept_x = x, kept_y = y;
  int64_t size = 1;
  for (int64_t d = attrs.axis; d < x.rank; ++d) {
    size *= x.extents[d];
    kept_x.extents[d] = kept_y.extents[d] = 1;
  }
  LineNorm norm{Affine(args),
                make_nest(kept_y),
                size,
                attrs.kind == NormKind::kLayer,
                attrs.epsilon,
                predicted_us_of(args),
                make_epilogue(args)};
  add_tensor(norm.kept, kept_x);
  collapse(norm.kept);
  keep_state<run_lines>(kernel, norm);
}

// --- instance and group, linear
// ------------------------------------------------------------------------------------------------

// Element of a per-channel (or per-group) vector.
float element(const float* vector, int64_t given, int64_t channel, int64_t channels,
              float otherwise) {
  return vector == nullptr ? otherwise : vector[channel / (channels / given)];
}

struct Channels {
  int64_t batch, channels, groups, map;
  const float *scale = nullptr, *bias = nullptr;  // of the call
  int64_t scales = 1, biases = 1;
  int64_t per_group() const { return channels / groups; }
  // Groups that are lines of at least a vector, with factors per channel or none.
  bool has_lines(const Affine& affine) const {
    return map == 1 && per_group() >= kLanes && (!affine.has_scale || scales == channels) &&
           (!affine.has_bias || biases == channels);
  }
};

Channels channels_of(const KernelArgs& args) {
  const TensorView& x = args.inputs[0];
  const ir::NormalizationAttrs& attrs = attrs_of(*args.layer);
  Channels c{x.extents[0], x.extents[1],
             attrs.kind == NormKind::kGroup ? attrs.groups : x.extents[1], 1};
  for (int d = 2; d < x.rank; ++d) c.map *= x.extents[d];
  if (has_input(args, 1)) c.scales = count_of(args.inputs[1]);
  if (has_input(args, 2)) c.biases = count_of(args.inputs[2]);
  return c;
}

struct MapNorm {
  Affine affine;
  Channels channels;
  int64_t x_image, x_channel, x_pixel, y_image, y_channel, y_pixel;
  float epsilon;
  double predicted_us;
  CompiledCode scale_and_shift;  // of channel last
  ResultEpilogue epilogue;
  const float* x = nullptr;  // of the call
  float* y = nullptr;

  explicit MapNorm(const KernelArgs& args)
      : affine(args), channels(channels_of(args)), epilogue(make_epilogue(args)) {
    const TensorView &from = args.inputs[0], &to = args.outputs[0];
    x_image = from.strides[0], y_image = to.strides[0];
    x_channel = from.strides[1], y_channel = to.strides[1];
    x_pixel = from.strides[from.rank - 1], y_pixel = to.strides[to.rank - 1];
    epsilon = attrs_of(*args.layer).epsilon;
    predicted_us = predicted_us_of(args);
  }
  void set_addresses(const KernelCall& call) {
    channels.scale = affine.scale(call);
    channels.bias = affine.bias(call);
    x = call.input<const float>(0);
    y = call.output<float>(0);
  }
};

// Single pixels: every group is a line, in either format.
void run_groups(MapNorm& norm, const KernelCall& call) {
  norm.set_addresses(call);
  const Channels& c = norm.channels;
  const int64_t size = c.per_group();
  split(call.pool, c.batch * c.groups, norm.predicted_us, [&](int, int64_t first, int64_t last) {
    for (int64_t unit = first; unit < last; ++unit) {
      const int64_t n = unit / c.groups, channel = unit % c.groups * size;
      normalize_long_lines(
          {norm.x + n * norm.x_image + channel, norm.y + n * norm.y_image + channel, 0, 0, size, 1},
          {c.scale != nullptr ? c.scale + channel : nullptr,
           c.bias != nullptr ? c.bias + channel : nullptr, norm.epsilon, true});
    }
  });
  run_result_epilogue(norm.epilogue, call);
}

void run_maps(MapNorm& norm, const KernelCall& call) {
  norm.set_addresses(call);
  const Channels& c = norm.channels;
  const int64_t per_group = c.per_group();
  split(call.pool, c.batch * c.groups, norm.predicted_us, [&](int, int64_t first, int64_t last) {
    for (int64_t unit = first; unit < last; ++unit) {
      const int64_t n = unit / c.groups, channel = unit % c.groups * per_group,
                    size = per_group * c.map;
      const float* from = norm.x + n * norm.x_image + channel * norm.x_channel;
      float* to = norm.y + n * norm.y_image + channel * norm.y_channel;
      const float mean = reduce_line<AddStep>(from, size) / static_cast<float>(size);
      const float inverse = inverse_deviation(sum_squares(from, size, mean), size, norm.epsilon);
      for (int64_t k = 0; k < per_group; ++k) {
        const float a = inverse * element(c.scale, c.scales, channel + k, c.channels, 1);
        scale_line(from + k * c.map, c.map, a,
                   element(c.bias, c.biases, channel + k, c.channels, 0) - mean * a,
                   to + k * c.map);
      }
    }
  });
  run_result_epilogue(norm.epilogue, call);
}

void prepare_maps(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const MapNorm norm(args);
  if (norm.channels.has_lines(norm.affine))
    keep_state<run_groups>(kernel, norm);
  else
    keep_state<run_maps>(kernel, norm);
}

// --- instance and group, channel last
// ------------------------------------------------------------------------------------------

// sums[c] = sum of (x - mean[c])² over `pixels`, of some vectors of channels.
template <int kVectors>
CAMSHAFT_INLINE void square_block(const float* x, int64_t pixels, int64_t stride, const float* mean,
                                  float* sums, M32 mask) {
  F32 total[kVectors], m[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    total[v] = zero();
    m[v] = kVectors > 1 ? load(mean + v * kLanes) : load(mean, mask);
  }
  for (int64_t p = 0; p < pixels;) {
    const int64_t end = p + kReductionBlock < pixels ? p + kReductionBlock : pixels;
    F32 part[kVectors];
    for (F32& sum : part) sum = zero();
    for (; p < end; ++p, x += stride)
      for (int v = 0; v < kVectors; ++v) {
        const F32 a = (kVectors > 1 ? load(x + v * kLanes) : load(x, mask)) - m[v];
        part[v] = fma(a, a, part[v]);
      }
    for (int v = 0; v < kVectors; ++v) total[v] = total[v] + part[v];
  }
  for (int v = 0; v < kVectors; ++v)
    kVectors > 1 ? store(sums + v * kLanes, total[v]) : store(sums, total[v], mask);
}

void sum_squares_of_columns(const float* x, int64_t pixels, int64_t stride, int64_t channels,
                            const float* mean, float* sums) {
  constexpr int kVectors = 4;
  int64_t c = 0;
  for (; c + kVectors * kLanes <= channels; c += kVectors * kLanes)
    square_block<kVectors>(x + c, pixels, stride, mean + c, sums + c, M32());
  for (; c < channels; c += kLanes) {
    const M32 mask = first_n(static_cast<int>(channels - c < kLanes ? channels - c : kLanes));
    square_block<1>(x + c, pixels, stride, mean + c, sums + c, mask);
  }
}

// y[k] = value(vectors of the channels from k on).
template <class Value>
CAMSHAFT_INLINE void for_channels(int64_t channels, float* y, const Value& value) {
  for (int64_t k = 0; k < channels; k += kLanes) {
    const M32 mask = first_n(static_cast<int>(channels - k < kLanes ? channels - k : kLanes));
    store(y + k, value(k, mask), mask);
  }
}

// Gives every channel the sum of its group.
void share_in_groups(float* values, const Channels& c) {
  const int64_t per_group = c.per_group();
  if (per_group == 1) return;
  for (int64_t first = 0; first < c.channels; first += per_group) {
    const F32 sum = set1(reduce_line<AddStep>(values + first, per_group));
    for_channels(per_group, values + first, [&](int64_t, M32) { return sum; });
  }
}

// What an image is multiplied by and what is added, per channel: `scale` and `bias` per channel.
void find_factors(const float* x, int64_t pixel, const Channels& c, float epsilon,
                  const float* scale, const float* bias, float* factor, float* shift) {
  const F32 count = set1(static_cast<float>(c.map * c.per_group())), least = set1(epsilon);
  float* mean = shift;
  reduce_columns<AddStep>(x, c.map, pixel, c.channels, mean, false);
  share_in_groups(mean, c);
  for_channels(c.channels, mean, [&](int64_t k, M32 m) { return load(mean + k, m) / count; });
  sum_squares_of_columns(x, c.map, pixel, c.channels, mean, factor);
  share_in_groups(factor, c);
  for_channels(c.channels, factor, [&](int64_t k, M32 m) {
    return load(scale + k, m) / sqrt(load(factor + k, m) / count + least);
  });
  for_channels(c.channels, shift, [&](int64_t k, M32 m) {
    return fnma(load(mean + k, m), load(factor + k, m), load(bias + k, m));
  });
}

const ir::Instruction kScaleAndShift{ir::PointOp::kFma, 0, 1, 2};

void scale_pixels(const MapNorm& norm, int64_t n, const float* factor, const float* shift,
                  int64_t first, int64_t last) {
  const TileOperand operands[] = {
      {norm.x + n * norm.x_image + first * norm.x_pixel, norm.x_pixel, 1},
      {factor, 0, 1},
      {shift, 0, 1}};
  run_code(norm.scale_and_shift, operands,
           {norm.y + n * norm.y_image + first * norm.y_pixel, norm.y_pixel}, last - first,
           norm.channels.channels);
}

// `given` values as one per channel, in `room` where they are not.
const float* per_channel(const float* given, int64_t count, int64_t channels, float otherwise,
                         float* room) {
  if (given != nullptr && count == channels) return given;
  for (int64_t k = 0; k < channels; ++k) room[k] = element(given, count, k, channels, otherwise);
  return room;
}

void run_pixels(MapNorm& norm, const KernelCall& call) {
  norm.set_addresses(call);
  const Channels& c = norm.channels;
  float* room = reinterpret_cast<float*>(call.workspace);
  const float* scale = per_channel(c.scale, c.scales, c.channels, 1, room);
  const float* bias = per_channel(c.bias, c.biases, c.channels, 0, room + c.channels);
  room += 2 * c.channels;
  const auto image = [&](int64_t n, float* vectors) {
    find_factors(norm.x + n * norm.x_image, norm.x_pixel, c, norm.epsilon, scale, bias, vectors,
                 vectors + c.channels);
  };
  const auto finish = [&](int64_t n, const float* vectors, int64_t first, int64_t last) {
    scale_pixels(norm, n, vectors, vectors + c.channels, first, last);
  };
  if (c.batch >= threads_of(call)) {
    split(call.pool, c.batch, norm.predicted_us, [&](int thread, int64_t first, int64_t last) {
      float* vectors = room + thread * 2 * c.channels;
      for (int64_t n = first; n < last; ++n) {
        image(n, vectors);
        finish(n, vectors, 0, c.map);
      }
    });
  } else {
    for (int64_t n = 0; n < c.batch; ++n) {
      image(n, room);
      split(call.pool, c.map, norm.predicted_us / static_cast<double>(c.batch),
            [&](int, int64_t first, int64_t last) { finish(n, room, first, last); });
    }
  }
  run_result_epilogue(norm.epilogue, call);
}

// Workspace: scale and bias per channel, then two vectors for every thread.
void prepare_pixels(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  MapNorm norm(args);
  if (norm.channels.has_lines(norm.affine)) {
    keep_state<run_groups>(kernel, norm);
    return;
  }
  const TileOperand operands[3] = {{nullptr, 0, 1}, {nullptr, 0, 1}, {nullptr, 0, 1}};
  compile_code(&kScaleAndShift, 1, 3, operands, DataType::kFloat, norm.scale_and_shift);
  keep_state<run_pixels>(kernel, norm);
  kernel.workspace_bytes =
      static_cast<size_t>((2 + 2 * threads_of(args)) * norm.channels.channels) * sizeof(float);
}

// --- the tactics
// ---------------------------------------------------------------------------------------------------------------

std::string refuse_common(const Problem& p) {
  if (!all_float(p)) return "not float";
  for (size_t k = 1; k < p.outputs.size(); ++k)
    if (p.outputs[k].present) return "mean and deviation are wanted";
  return refuse_result_epilogue(p, attrs_of(*p.layer).epilogue, kFirstOperand);
}

bool is_channel_wise(const Problem& p) {
  const NormKind kind = attrs_of(*p.layer).kind;
  return kind == NormKind::kInstance || kind == NormKind::kGroup;
}

std::string refuse_lines(const Problem& p) {
  if (is_channel_wise(p)) return "not layer or RMS normalization";
  const auto axis = static_cast<size_t>(attrs_of(*p.layer).axis);
  if (axis + 1 < p.inputs[0].extents.size() && !(p.inputs[0].dense && p.outputs[0].dense))
    return "a part of a larger tensor";
  int64_t size = 1;
  for (size_t d = axis; d < p.inputs[0].extents.size(); ++d) size *= p.inputs[0].extents[d];
  for (size_t k = 1; k < 3 && k < p.inputs.size(); ++k)
    if (p.inputs[k].present && count_of(p.inputs[k]) != size) return "scale or bias is broadcast";
  return refuse_common(p);
}

// Maps are walked as one line: one cut out of wider rows is not.
std::string refuse_maps(const Problem& p) {
  return p.inputs[0].dense && p.outputs[0].dense ? refuse_common(p) : "a part of a larger tensor";
}

std::string refuse_channels(const Problem& p) {
  if (!is_channel_wise(p)) return "not instance or group normalization";
  if (p.inputs[0].extents.size() < 2) return "no channels";
  return refuse_maps(p);
}

// Layer normalization over all spatial dimensions without scale and bias is instance normalization.
bool is_spatial_layer(const Problem& p) {
  const ir::NormalizationAttrs& attrs = attrs_of(*p.layer);
  if (attrs.kind != NormKind::kLayer || attrs.axis != 2) return false;
  for (size_t k = 1; k < 3 && k < p.inputs.size(); ++k)
    if (p.inputs[k].present) return false;
  return true;
}

std::string refuse_channel_last(const Problem& p) {
  return is_spatial_layer(p) ? refuse_maps(p) : refuse_channels(p);
}

double cost_us(const Problem& p) {
  return traffic_us(p) * 1.5;
}

#define CAMSHAFT_NORM(name, formats, refusal, prepare)                                   \
  {                                                                                      \
    name, ir::LayerKind::kNormalization, kIsa, FormatRule::formats, 2, refusal, cost_us, \
        CAMSHAFT_NOTHING_PACKED, prepare                                                 \
  }
constexpr Tactic kTactics[] = {
    CAMSHAFT_NORM("norm_lines_f32", kLinear, refuse_lines, prepare_lines),
    CAMSHAFT_NORM("norm_maps_f32", kLinear, refuse_channels, prepare_maps),
    CAMSHAFT_NORM("norm_maps_nhwc_f32", kChannelLast, refuse_channel_last, prepare_pixels),
};
#undef CAMSHAFT_NORM

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::norm
