// SPDX-License-Identifier: Apache-2.0
// DeformedColumns (ir/deformed_columns.h): every tap of a pixel is four pixels of x, read as
// vectors of channels; where these do not follow each other (linear tensors) lanes gather them.
// Threads share rows of pixels.
#include <cmath>

#include "ir/deformed_columns.h"
#include "kernels/nest.h"
#include "kernels/vector/counts.h"
#include "kernels/vector/generic.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/sampling/channels.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::deformed_columns {
namespace {

struct Window {
  int64_t kernel[2] = {1, 1}, stride[2] = {1, 1}, dilation[2] = {1, 1}, pad[2] = {0, 0};
  int64_t groups = 1, offset_groups = 1;

  int64_t taps() const { return kernel[0] * kernel[1]; }
};

Window window_of(const ir::Layer& layer) {
  Window w;
  const auto read = [&layer](std::string_view name, int64_t* to) {
    const ir::Ints& given = ir::integers_attribute(generic_attrs(layer), name);
    if (given.size() >= 2) to[0] = given[0], to[1] = given[1];
  };
  read("kernel_shape", w.kernel), read("strides", w.stride), read("dilations", w.dilation);
  read("pads", w.pad);
  w.groups = generic_integer(layer, "group", 1);
  w.offset_groups = generic_integer(layer, "offset_group", 1);
  return w;
}

bool has_mask(const Problem& p) {
  return p.inputs.size() > ir::kDeformedMask && p.inputs[ir::kDeformedMask].present;
}

std::string refusal(const Problem& p) {
  if (!is_operator(p, ir::kDeformedColumns)) return "another operator";
  if (!all_float(p)) return "not float";
  const Window w = window_of(*p.layer);
  const ir::Extents &x = p.inputs[0].extents, &offset = p.inputs[1].extents,
                    &y = p.outputs[0].extents;
  if (x.size() != 4 || offset.size() != 4 || y.size() != 4) return "not of images";
  if (w.groups < 1 || w.offset_groups < 1 || x[1] % w.groups != 0 || x[1] % w.offset_groups != 0)
    return "groups that do not fit";
  const ir::Extents columns = {x[0], x[1] * w.taps(), offset[2], offset[3]},
                    places = {x[0], w.offset_groups * w.taps() * 2, y[2], y[3]},
                    gates = {x[0], w.offset_groups * w.taps(), y[2], y[3]};
  if (y != columns || offset != places || (has_mask(p) && p.inputs[2].extents != gates))
    return "offsets or mask that do not fit";
  return count_of(p.inputs[0]) > kMostElements ? "offsets of more than 32 bits" : "";
}

// Of vectors of channels: four loads each, or gathers of kLanes lines.
double us_of(int64_t places, int64_t channels, bool gathers) {
  const double vectors = static_cast<double>(ceil_div(channels, kLanes));
  return static_cast<double>(places) * (0.01 + vectors * (gathers ? 0.03 : 0.002));
}

double cost_us(const Problem& p) {
  const ir::Extents& y = p.outputs[0].extents;
  const Window w = window_of(*p.layer);
  const bool gathers = p.inputs[0].format != Format::kChannelLast;
  return 0.3 + us_of(y[0] * y[2] * y[3] * w.taps(), p.inputs[0].extents[1], gathers) / p.threads;
}

struct DeformedColumns {
  TensorView x, offset, mask, y;
  Window window;
  double predicted_us;
};

// The pixels of x around a place, and how much of each: those that count.
struct Corners {
  int count = 0;
  int64_t at[4];
  float weight[4];
};

Corners corners_at(const TensorView& x, double row, double col, double gate) {
  Corners found;
  const int64_t height = x.extents[2], width = x.extents[3];
  if (!(row > -1 && row < static_cast<double>(height) && col > -1 &&
        col < static_cast<double>(width)))
    return found;
  const double top = std::floor(row), left = std::floor(col);
  const double down[2] = {1 - (row - top), row - top}, along[2] = {1 - (col - left), col - left};
  for (int k = 0; k < 4; ++k) {
    const int64_t r = static_cast<int64_t>(top) + k / 2, c = static_cast<int64_t>(left) + k % 2;
    if (r < 0 || r >= height || c < 0 || c >= width) continue;
    found.at[found.count] = r * x.strides[2] + c * x.strides[3];
    found.weight[found.count++] = static_cast<float>(down[k / 2] * along[k % 2] * gate);
  }
  return found;
}

// `count` channels from x on.
template <bool kGathers>
CAMSHAFT_INLINE void sample(const Corners& corners, const float* x, int64_t x_step, int64_t count,
                            float* y, int64_t y_step) {
  for (int64_t c = 0; c < count; c += kLanes, x += kLanes * x_step, y += kLanes * y_step) {
    const int64_t lanes = smaller(kLanes, count - c);
    const M32 some = first_n(static_cast<int>(lanes));
    F32 sum = zero();
    for (int k = 0; k < corners.count; ++k)
      sum = fma(load_channels<kGathers>(x + corners.at[k], x_step, some), set1(corners.weight[k]),
                sum);
    store_channels(y, y_step, sum, lanes);
  }
}

// All taps of the pixel (oh, ow) of image n.
template <bool kGathers>
void sample_pixel(const DeformedColumns& s, const KernelCall& call, int64_t n, int64_t oh,
                  int64_t ow) {
  const Window& w = s.window;
  const int64_t taps = w.taps(), channels = s.x.extents[1], of_group = channels / w.groups,
                of_offset = channels / w.offset_groups;
  const auto at = [n, oh, ow](const TensorView& view, int64_t channel) {
    return n * view.strides[0] + channel * view.strides[1] + oh * view.strides[2] +
           ow * view.strides[3];
  };
  const float *x = call.input<const float>(0) + n * s.x.strides[0],
              *offset = call.input<const float>(1);
  for (int64_t t = 0; t < taps; ++t)
    for (int64_t part = 0; part < w.offset_groups; ++part) {
      const int64_t place = part * taps + t;
      const auto moved = [&](int axis, int64_t out, int64_t tap) {
        return static_cast<double>(out * w.stride[axis] - w.pad[axis] + tap * w.dilation[axis]) +
               static_cast<double>(offset[at(s.offset, place * 2 + axis)]);
      };
      const double gate =
          s.mask.present() ? static_cast<double>(call.input<const float>(2)[at(s.mask, place)]) : 1;
      const Corners corners =
          corners_at(s.x, moved(0, oh, t / w.kernel[1]), moved(1, ow, t % w.kernel[1]), gate);
      // Channels that move together may be of several groups of the product.
      for (int64_t c = part * of_offset, end; c < (part + 1) * of_offset; c = end) {
        const int64_t group = c / of_group;
        end = smaller((part + 1) * of_offset, (group + 1) * of_group);
        const int64_t column = (group * taps + t) * of_group + c % of_group;
        sample<kGathers>(corners, x + c * s.x.strides[1], s.x.strides[1], end - c,
                         call.output<float>(0) + at(s.y, column), s.y.strides[1]);
      }
    }
}

void run(DeformedColumns& s, const KernelCall& call) {
  const auto pixel = s.x.strides[1] == 1 ? sample_pixel<false> : sample_pixel<true>;
  const int64_t rows = s.y.extents[2];
  split(call.pool, s.y.extents[0] * rows, s.predicted_us, [&](int, int64_t first, int64_t last) {
    for (int64_t k = first; k < last; ++k)
      for (int64_t ow = 0; ow < s.y.extents[3]; ++ow) pixel(s, call, k / rows, k % rows, ow);
  });
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const Window w = window_of(*args.layer);
  const double us =
      us_of(y.extents[0] * y.extents[2] * y.extents[3] * w.taps(), x.extents[1], x.strides[1] != 1);
  keep_state<run>(
      kernel, DeformedColumns{x, args.inputs[1],
                              args.inputs.size() > 2 ? args.inputs[2] : TensorView(), y, w, us});
}

constexpr Tactic kTactics[] = {
    {"deformed_columns_f32", ir::LayerKind::kGeneric, kIsa, FormatRule::kAny, 1, refusal, cost_us,
     CAMSHAFT_NOTHING_PACKED, prepare},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::deformed_columns
