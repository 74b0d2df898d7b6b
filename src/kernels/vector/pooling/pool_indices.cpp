// SPDX-License-Identifier: Apache-2.0
// Max pooling that tells where the largest elements are. Lanes are channels where these follow each
// other, else neighbouring outputs; each tap's elements replace what is smaller.
#include "kernels/vector/counts.h"
#include "kernels/vector/pooling/pool_window.h"
#include "kernels/vector/prepare.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::pool_indices {
namespace {

std::string refusal(const Problem& p) {
  const ir::PoolingAttrs& attrs = pooling_attrs(*p.layer);
  if (!wants_indices(p)) return "no indices are wanted";
  if (attrs.type != ir::PoolingType::kMax || attrs.global) return "not max pooling of windows";
  if (p.inputs[0].type != DataType::kFloat) return "not float";
  if (!attrs.epilogue.empty()) return "an epilogue";
  if (p.inputs[0].extents.size() != 3 && p.inputs[0].extents.size() != 4)
    return "not a 1-D or 2-D map";
  return count_of(p.inputs[0]) > INT32_MAX / kLanes ? "offsets of more than 32 bits" : "";
}

double cost_us(const Problem& p) {
  double taps = 1;
  for (const int64_t extent : pooling_attrs(*p.layer).kernel) taps *= static_cast<double>(extent);
  const double vectors = static_cast<double>(count_of(p.outputs[0])) / kLanes;
  return 0.5 + (traffic_us(p) + vectors * (10 + 3 * taps) / 1000) / p.threads;
}

struct IndexPool : PoolMaps {
  int64_t row_step, col_step;  // of the places in a map
  int64_t i_image, i_channel, i_row, i_pixel;
  double predicted_us;
};

// The largest element and its place in the map, of kLanes windows.
struct Largest {
  F32 value = set1(-__builtin_inff());
  I32 place = iset1(0);
  M32 none = first_n(kLanes);  // nothing seen: even a NaN is taken

  void step(F32 x, I32 at, M32 inside) {
    const M32 better = mask_and(inside, mask_or(none, less(value, x)));
    value = select(better, x, value);
    place = bits_as_int(select(better, bits_as_float(at), bits_as_float(place)));
    none = mask_and(none, mask_not(inside));
  }
};

// Of `count` lanes. `before`, `between`: elements of maps before the first lane, between two.
void write(const Largest& largest, int64_t count, int64_t before, int64_t between, float* y,
           int64_t y_step, int64_t* indices, int64_t i_step) {
  float values[kLanes];
  int32_t places[kLanes];
  store(values, largest.value);
  istore(places, largest.place);
  for (int64_t k = 0; k < count; ++k) {
    y[k * y_step] = values[k];
    indices[k * i_step] = before + k * between + places[k];
  }
}

// Output row `oh` of image n; lanes are channels.
void pool_channels(const IndexPool& p, const KernelCall& call, int64_t n, int64_t oh) {
  const int64_t map = p.h.in * p.w.in;
  const float* x = call.input<const float>(0) + n * p.x_image;
  for (int64_t ow = 0; ow < p.w.out; ++ow) {
    float* y = call.output<float>(0) + n * p.y_image + oh * p.y_row + ow * p.y_pixel;
    int64_t* indices = call.output<int64_t>(1) + n * p.i_image + oh * p.i_row + ow * p.i_pixel;
    for (int64_t c = 0; c < p.channels; c += kLanes) {
      const int64_t count = smaller(kLanes, p.channels - c);
      const M32 some = first_n(static_cast<int>(count));
      Largest largest;
      for (int64_t kh = p.h.first(oh); kh < p.h.last(oh); ++kh)
        for (int64_t kw = p.w.first(ow); kw < p.w.last(ow); ++kw) {
          const int64_t row = p.h.start(oh) + kh * p.h.dilation,
                        col = p.w.start(ow) + kw * p.w.dilation;
          const auto place = static_cast<int32_t>(row * p.row_step + col * p.col_step);
          largest.step(load(x + row * p.x_row + col * p.x_pixel + c, some), iset1(place), some);
        }
      write(largest, count, (n * p.channels + c) * map, map, y + c * p.y_channel, p.y_channel,
            indices + c * p.i_channel, p.i_channel);
    }
  }
}

// Of kLanes neighbouring outputs from `ow` on, those whose tap kw lies in the map.
M32 lanes_inside(const PoolAxis& w, int64_t ow, int64_t kw) {
  const int64_t col = w.start(ow) + kw * w.dilation;
  const int64_t first = ceil_div(-col, w.stride), last = ceil_div(w.in - col, w.stride),
                lanes = smaller(kLanes, w.out - ow);
  return mask_and(first_n(static_cast<int>(smaller(last, lanes))),
                  mask_not(first_n(static_cast<int>(smaller(first, kLanes)))));
}

// Output row `oh` of one map; lanes are neighbouring outputs.
void pool_outputs(const IndexPool& p, const KernelCall& call, int64_t n, int64_t c, int64_t oh) {
  const int64_t before = (n * p.channels + c) * p.h.in * p.w.in;
  const float* x = call.input<const float>(0) + n * p.x_image + c * p.x_channel;
  float* y = call.output<float>(0) + n * p.y_image + c * p.y_channel + oh * p.y_row;
  int64_t* indices = call.output<int64_t>(1) + n * p.i_image + c * p.i_channel + oh * p.i_row;
  const I32 lane_cols = iota() * iset1(static_cast<int32_t>(p.w.stride)),
            cols_apart = iset1(static_cast<int32_t>(p.x_pixel)),
            places_apart = iset1(static_cast<int32_t>(p.col_step));
  for (int64_t ow = 0; ow < p.w.out; ow += kLanes) {
    Largest largest;
    for (int64_t kh = p.h.first(oh); kh < p.h.last(oh); ++kh) {
      const int64_t row = p.h.start(oh) + kh * p.h.dilation;
      for (int64_t kw = 0; kw < p.w.kernel; ++kw) {
        const M32 inside = lanes_inside(p.w, ow, kw);
        const I32 col = lane_cols + iset1(static_cast<int32_t>(p.w.start(ow) + kw * p.w.dilation));
        const I32 offset = bits_as_int(select(inside, bits_as_float(col * cols_apart), zero()));
        const I32 place = col * places_apart + iset1(static_cast<int32_t>(row * p.row_step));
        largest.step(load_at(x + row * p.x_row, offset), place, inside);
      }
    }
    write(largest, smaller(kLanes, p.w.out - ow), before, 0, y + ow * p.y_pixel, p.y_pixel,
          indices + ow * p.i_pixel, p.i_pixel);
  }
}

void run(IndexPool& p, const KernelCall& call) {
  const bool by_channels = p.x_channel == 1 && p.x_pixel != 1;
  const int64_t maps = by_channels ? 1 : p.channels;  // of an image
  split(call.pool, p.batch * maps * p.h.out, p.predicted_us, [&](int, int64_t first, int64_t last) {
    for (int64_t k = first; k < last; ++k) {
      const int64_t oh = k % p.h.out, map = k / p.h.out;
      if (by_channels)
        pool_channels(p, call, map, oh);
      else
        pool_outputs(p, call, map / p.channels, map % p.channels, oh);
    }
  });
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  IndexPool p{pool_maps(args), 0, 0, 0, 0, 0, 0, 0};
  const bool column_major = pooling_attrs(*args.layer).column_major_indices;
  p.row_step = column_major ? 1 : p.w.in, p.col_step = column_major ? p.h.in : 1;
  const TensorView& i = args.outputs[1];
  p.i_image = i.strides[0], p.i_channel = i.strides[1];
  p.i_row = i.rank == 3 ? 0 : i.strides[2], p.i_pixel = i.strides[i.rank - 1];
  p.predicted_us = 4 * pool_us(p, kLanes);
  keep_state<run>(kernel, p);
}

constexpr Tactic kTactics[] = {
    {"pool_max_indices_f32", ir::LayerKind::kPooling, kIsa, FormatRule::kAny, 1, refusal, cost_us,
     CAMSHAFT_NOTHING_PACKED, prepare},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::pool_indices
