// SPDX-License-Identifier: Apache-2.0
// Sampling: GridSample, AffineGrid, DeformConv, Col2Im, CenterCropPad, MaxUnpool.
#include <algorithm>
#include <cstring>
#include <string_view>

#include "ir/deformed_columns.h"
#include "kernels/index_error.h"
#include "kernels/reference/generic.h"

namespace camshaft::kernels::reference {
namespace {

// --- GridSample

// Coordinates in float: whether a position rounds up depends on it.
float denormalize(float n, int64_t extent, bool align_corners) {
  const auto length = static_cast<float>(extent);
  return align_corners ? (n + 1) / 2 * (length - 1) : ((n + 1) * length - 1) / 2;
}

double reflect(double x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return low;
  const double distance = x < low ? low - x : x > high ? x - high : 0;
  if (distance == 0) return x;
  const double turns = std::floor(distance / range), rest = distance - turns * range;
  const bool even = std::fmod(turns, 2) == 0;
  return (x < low) == even ? low + rest : high - rest;
}

enum class Border : uint8_t { kZeros, kEdge, kReflection };

struct Axis {
  int64_t extent;
  double low, high;  // the borders of reflection
};

// Position of a tap, or -1 where it counts as zero.
int64_t bordered(int64_t position, const Axis& axis, Border border) {
  if (position >= 0 && position < axis.extent) return position;
  if (border == Border::kZeros) return -1;
  if (border == Border::kEdge) return std::clamp<int64_t>(position, 0, axis.extent - 1);
  return std::clamp<int64_t>(
      static_cast<int64_t>(reflect(static_cast<double>(position), axis.low, axis.high)), 0,
      axis.extent - 1);
}

struct GridTap {
  int64_t position;
  double weight;
};

double cubic_weight(double distance) {
  constexpr double a = -0.75;
  const double t = std::abs(distance);
  if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
}

std::vector<GridTap> grid_taps(std::string_view mode, float x, const Axis& axis, Border border) {
  if (mode == "nearest") x = std::nearbyint(x);
  const bool linear = mode == "linear" || mode == "bilinear";
  if (x < axis.low || x > axis.high) {
    // Of four taps each meets the edge on its own, as in PyTorch and ONNX Runtime.
    const float beyond = linear || mode == "nearest" ? 0 : 3;
    if (border == Border::kEdge)
      x = std::clamp<float>(x, -beyond, static_cast<float>(axis.extent - 1) + beyond);
    if (border == Border::kReflection) x = static_cast<float>(reflect(x, axis.low, axis.high));
  }
  // Far outside: nothing but the border's rule decides, and the conversion to an integer stays
  // defined.
  if (!(std::abs(x) < 1e9f)) return {{border == Border::kZeros ? -1 : 0, 1.0}};
  if (mode == "nearest") return {{bordered(static_cast<int64_t>(x), axis, border), 1.0}};
  const auto base = static_cast<int64_t>(std::floor(x));
  std::vector<GridTap> taps;
  for (int64_t k = linear ? base : base - 1; k <= (linear ? base + 1 : base + 2); ++k) {
    const double distance = static_cast<double>(x) - static_cast<double>(k);
    taps.push_back(
        {bordered(k, axis, border), linear ? 1 - std::abs(distance) : cubic_weight(distance)});
  }
  return taps;
}

// Σ over all combinations of the taps of every dimension.
double sample(const double* map, std::span<const Axis> axes,
              const std::vector<std::vector<GridTap>>& taps, size_t d, int64_t position) {
  if (d == axes.size()) return map[position];
  double sum = 0;
  for (const GridTap& tap : taps[d])
    if (tap.position >= 0 && tap.weight != 0)
      sum += tap.weight * sample(map, axes, taps, d + 1, position * axes[d].extent + tap.position);
  return sum;
}

Status grid_sample(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(2));
  CAMSHAFT_TRY(call.require_rank(0, 3));
  const Extents extents = call.extents(0), grid_extents = call.extents(1);
  const size_t spatial = extents.size() - 2;
  if (grid_extents.size() != extents.size() ||
      grid_extents.back() != static_cast<int64_t>(spatial) || grid_extents[0] != extents[0])
    return make_error(ErrorCode::kInvalidArgument, "GridSample: the grid does not fit the input");
  const std::string mode = call.text("mode", "linear"),
                    padding = call.text("padding_mode", "zeros");
  const Border border = padding == "border"       ? Border::kEdge
                        : padding == "reflection" ? Border::kReflection
                                                  : Border::kZeros;
  const bool align = call.integer("align_corners", 0) != 0;
  std::vector<Axis> axes;
  for (size_t d = 0; d < spatial; ++d) {
    const auto extent = static_cast<double>(extents[d + 2]);
    axes.push_back({extents[d + 2], align ? 0 : -0.5, align ? extent - 1 : extent - 0.5});
  }
  const std::vector<double> x = call.doubles(0);
  const std::vector<float> grid = load<float>(call.in(1));
  const int64_t map_size = count_of(std::span<const int64_t>(extents).subspan(2));
  const int64_t points = count_of(std::span<const int64_t>(grid_extents).subspan(1, spatial)),
                channels = extents[1];
  CAMSHAFT_TRY(check_extents(Extents{extents[0], channels, points}));
  std::vector<double> y(extents[0] * channels * points);
  std::vector<std::vector<GridTap>> taps(spatial);
  for (int64_t n = 0; n < extents[0] && map_size > 0; ++n) {
    for (int64_t p = 0; p < points; ++p) {
      const float* coordinates = grid.data() + (n * points + p) * static_cast<int64_t>(spatial);
      for (size_t d = 0; d < spatial; ++d)  // the grid holds x first, the last dimension
        taps[d] = grid_taps(mode, denormalize(coordinates[spatial - 1 - d], axes[d].extent, align),
                            axes[d], border);
      for (int64_t c = 0; c < channels; ++c)
        y[(n * channels + c) * points + p] =
            sample(x.data() + (n * channels + c) * map_size, axes, taps, 0, 0);
    }
  }
  Extents out{extents[0], channels};
  for (size_t d = 0; d < spatial; ++d) out.push_back(grid_extents[d + 1]);
  outputs.push_back(produce(call.in(0).type, out, y));
  return ok_status();
}

// theta [N, d, d+1], size [N, C, spatial…] → grid [N, spatial…, d].
Status affine_grid(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(2));
  CAMSHAFT_TRY(call.require_rank(0, 3));
  const std::vector<double> theta = call.doubles(0);
  const Ints size = call.ints(1);
  const bool align = call.integer("align_corners", 0) != 0;
  const int64_t d = static_cast<int64_t>(size.size()) - 2;
  if (d < 1 || d > 4 || call.in(0).extents[1] != d || call.in(0).extents[2] != d + 1 ||
      call.in(0).extents[0] != size[0])
    return make_error(ErrorCode::kInvalidArgument,
                      "AffineGrid: theta does not fit a size of {} dimensions", size.size());
  CAMSHAFT_TRY(check_extents(size));
  const Extents spatial(size.begin() + 2, size.end());
  Extents extents{size[0]};
  for (int64_t extent : spatial) extents.push_back(extent);
  extents.push_back(d);
  std::vector<double> grid;
  for (int64_t n = 0; n < size[0]; ++n) {
    for_each_index(spatial, [&](const Extents& index) {
      for (int64_t row = 0; row < d; ++row) {
        const double* line = theta.data() + (n * d + row) * (d + 1);
        double sum = line[d];
        for (int64_t col = 0; col < d; ++col) {
          const size_t dimension = d - 1 - col;  // x is the last dimension
          const auto k = static_cast<double>(index[dimension]),
                     extent = static_cast<double>(spatial[dimension]);
          const double position =
              align ? (extent > 1 ? 2 * k / (extent - 1) - 1 : -1) : (2 * k + 1) / extent - 1;
          sum += line[col] * position;
        }
        grid.push_back(sum);
      }
    });
  }
  outputs.push_back(produce(call.in(0).type, extents, grid));
  return ok_status();
}

// --- DeformConv (2-D)

double bilinear_or_zero(const double* map, int64_t height, int64_t width, double y, double x) {
  if (!(y > -1 && y < static_cast<double>(height) && x > -1 && x < static_cast<double>(width)))
    return 0;
  const auto y0 = static_cast<int64_t>(std::floor(y)), x0 = static_cast<int64_t>(std::floor(x));
  double sum = 0;
  for (int64_t r = y0; r <= y0 + 1; ++r)
    for (int64_t c = x0; c <= x0 + 1; ++c)
      if (r >= 0 && r < height && c >= 0 && c < width)
        sum += map[r * width + c] * (1 - std::abs(y - static_cast<double>(r))) *
               (1 - std::abs(x - static_cast<double>(c)));
  return sum;
}

// The image of a deformable convolution, where its taps are moved to: offset [N,
// offset_groups*taps*2, OH, OW], mask [N, offset_groups*taps, OH, OW] or nothing.
struct DeformedImage {
  int64_t groups, offset_groups;
  Ints kernel, stride, dilation, pads;
  Extents xe, oe;
  std::vector<double> x, offset, mask;

  int64_t taps() const { return kernel[0] * kernel[1]; }

  // False: they do not fit.
  bool read(const Call& call, const Ints& taps_of, size_t offset_input, size_t mask_input) {
    groups = call.integer("group", 1), offset_groups = call.integer("offset_group", 1);
    kernel = taps_of, stride = call.list_or("strides", 2, 1);
    dilation = call.list_or("dilations", 2, 1), pads = call.list_or("pads", 4, 0);
    xe = call.extents(0), oe = call.extents(offset_input);
    if (groups < 1 || offset_groups < 1 || kernel[0] < 1 || kernel[1] < 1 || xe[1] % groups ||
        xe[1] % offset_groups || oe[0] != xe[0] || oe[1] % 2 || oe[1] / 2 % kernel[0] ||
        oe[1] / 2 / kernel[0] % kernel[1] || oe[1] / 2 / kernel[0] / kernel[1] != offset_groups)
      return false;
    x = call.doubles(0), offset = call.doubles(offset_input), mask = call.doubles(mask_input);
    return mask.empty() ||
           static_cast<int64_t>(mask.size()) == xe[0] * offset_groups * taps() * oe[2] * oe[3];
  }
  // Channel `channel` of image n where tap t of the output pixel [oh, ow] lies.
  double at(int64_t n, int64_t channel, int64_t t, int64_t oh, int64_t ow) const {
    const int64_t place = channel / (xe[1] / offset_groups) * taps() + t;
    const auto moved = [&](int64_t part) {
      return offset[((n * oe[1] + place * 2 + part) * oe[2] + oh) * oe[3] + ow];
    };
    const int64_t row = oh * stride[0] - pads[0] + t / kernel[1] * dilation[0],
                  col = ow * stride[1] - pads[1] + t % kernel[1] * dilation[1];
    const double gate =
        mask.empty() ? 1 : mask[((n * oe[1] / 2 + place) * oe[2] + oh) * oe[3] + ow];
    return gate * bilinear_or_zero(x.data() + (n * xe[1] + channel) * xe[2] * xe[3], xe[2], xe[3],
                                   static_cast<double>(row) + moved(0),
                                   static_cast<double>(col) + moved(1));
  }
};

// Inputs x [N,C,H,W], w [K,C/groups,kh,kw], offset, bias, mask.
Status deform_conv(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(3));
  const Extents xe = call.extents(0), we = call.extents(1), oe = call.extents(2);
  if (xe.size() != 4 || we.size() != 4 || oe.size() != 4)
    return make_error(ErrorCode::kUnsupported,
                      "DeformConv is implemented for two spatial dimensions");
  DeformedImage image;
  const std::vector<double> w = call.doubles(1), bias = call.doubles(3);
  if (!image.read(call, {we[2], we[3]}, 2, 4) || we[1] * image.groups != xe[1] ||
      we[0] % image.groups || (!bias.empty() && static_cast<int64_t>(bias.size()) != we[0]))
    return make_error(ErrorCode::kInvalidArgument,
                      "DeformConv: channels, groups, offsets, bias or mask do not fit");
  std::vector<double> y;
  for_each_index(Extents{xe[0], we[0], oe[2], oe[3]}, [&](const Extents& at) {
    const int64_t oc = at[1], first = oc / (we[0] / image.groups) * we[1];
    double sum = bias.empty() ? 0 : bias[oc];
    for (int64_t c = 0; c < we[1]; ++c)
      for (int64_t t = 0; t < image.taps(); ++t)
        sum += w[(oc * we[1] + c) * image.taps() + t] * image.at(at[0], first + c, t, at[2], at[3]);
    y.push_back(sum);
  });
  outputs.push_back(produce(call.in(0).type, {xe[0], we[0], oe[2], oe[3]}, y));
  return ok_status();
}

// What of it comes before the product with the weights: deformed_columns.h.
Status deformed_columns(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(2));
  CAMSHAFT_TRY(call.require_rank(0, 4));
  CAMSHAFT_TRY(call.require_rank(1, 4));
  DeformedImage image;
  if (!image.read(call, call.list_or("kernel_shape", 2, 1), 1, 2))
    return make_error(ErrorCode::kInvalidArgument,
                      "DeformedColumns: channels, groups, offsets or mask do not fit");
  const int64_t each = image.xe[1] / image.groups;
  const Extents extents = {image.xe[0], image.groups, image.taps(), each, image.oe[2], image.oe[3]};
  CAMSHAFT_TRY(check_extents(extents));
  std::vector<double> y;
  for_each_index(extents, [&](const Extents& at) {
    y.push_back(image.at(at[0], at[1] * each + at[3], at[2], at[4], at[5]));
  });
  outputs.push_back(produce(
      call.in(0).type, {image.xe[0], image.xe[1] * image.taps(), image.oe[2], image.oe[3]}, y));
  return ok_status();
}

// input [N, C*block, L], image_shape, block_shape → [N, C, image…]: sums the blocks where they lie.
Status col2im(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(3));
  CAMSHAFT_TRY(call.require_rank(0, 3));
  const Ints image = call.ints(1), block = call.ints(2);
  const size_t rank = image.size();
  if (rank == 0 || rank + 2 > ir::kMaxRank || block.size() != rank)
    return make_error(ErrorCode::kInvalidArgument, "Col2Im: image and block shapes do not fit");
  const Ints dilation = call.list_or("dilations", rank, 1),
             stride = call.list_or("strides", rank, 1), pads = call.list_or("pads", 2 * rank, 0);
  CAMSHAFT_TRY(check_extents(image));
  CAMSHAFT_TRY(check_extents(block));
  Extents positions;
  for (size_t d = 0; d < rank; ++d) {
    if (stride[d] < 1 || dilation[d] < 1)
      return make_error(ErrorCode::kInvalidArgument, "Col2Im: a stride or dilation below 1");
    positions.push_back(
        (image[d] + pads[d] + pads[d + rank] - dilation[d] * (block[d] - 1) - 1) / stride[d] + 1);
  }
  CAMSHAFT_TRY(check_extents(positions));
  const int64_t taps = count_of(block), places = count_of(positions), pixels = count_of(image);
  const Extents extents = call.extents(0);
  if (extents.size() != 3 || taps < 1 || extents[1] % taps || extents[2] != places)
    return make_error(ErrorCode::kInvalidArgument, "Col2Im: {} columns for {} positions",
                      extents[2], places);
  const int64_t maps = extents[0] * (extents[1] / taps);
  CAMSHAFT_TRY(check_extents(Extents{maps, pixels}));
  const std::vector<double> x = call.doubles(0);
  std::vector<double> y(maps * pixels);
  const Ints strides = dense_strides(image);
  for (int64_t map = 0; map < maps; ++map) {
    const double* column = x.data() + map * taps * places;
    for_each_index(block, [&](const Extents& tap) {
      for_each_index(positions, [&](const Extents& position) {
        int64_t pixel = 0;
        bool inside = true;
        for (size_t d = 0; d < rank; ++d) {
          const int64_t coordinate = position[d] * stride[d] + tap[d] * dilation[d] - pads[d];
          inside = inside && coordinate >= 0 && coordinate < image[d];
          pixel += coordinate * strides[d];
        }
        if (inside) y[map * pixels + pixel] += *column;
        ++column;
      });
    });
  }
  Extents out{extents[0], extents[1] / taps};
  for (int64_t extent : image) out.push_back(extent);
  outputs.push_back(produce(call.in(0).type, out, y));
  return ok_status();
}

Status center_crop_pad(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(2));
  const TensorView x = call.in(0);
  const Ints wanted = call.ints(1);
  Ints axes = call.list("axes");
  if (axes.empty())
    for (int64_t d = 0; d < x.rank; ++d) axes.push_back(d);
  if (axes.size() != wanted.size())
    return make_error(ErrorCode::kInvalidArgument, "CenterCropPad: {} extents for {} axes",
                      wanted.size(), axes.size());
  Extents out = extents_of(x), common = out;
  Ints from(x.rank, 0), to(x.rank, 0);
  std::vector<bool> named(x.rank, false);
  for (size_t k = 0; k < axes.size(); ++k) {
    CAMSHAFT_ASSIGN(const int64_t d, normalize_axis(axes[k], x.rank));
    if (named[d]) return make_error(ErrorCode::kInvalidArgument, "CenterCropPad: axis {} twice", d);
    named[d] = true;
    out[d] = wanted[k];
    common[d] = std::min(wanted[k], x.extents[d]);
    if (wanted[k] < 0)
      return make_error(ErrorCode::kInvalidArgument, "CenterCropPad to {}", wanted[k]);
    if (wanted[k] < x.extents[d])
      from[d] = (x.extents[d] - wanted[k]) / 2;
    else
      to[d] = (wanted[k] - x.extents[d]) / 2;
  }
  CAMSHAFT_TRY(check_extents(out));
  const size_t bytes = ir::bits_of(x.type) / 8;
  DynamicOutput result{out, x.type, std::vector<std::byte>(count_of(out) * bytes)};
  const TensorView y = make_view(result.bytes.data(), x.type, Format::kLinear, out);
  copy_elements(
      x.as<std::byte>() +
          offset_of(from, std::span(x.strides, x.rank)) * static_cast<int64_t>(bytes),
      std::span(x.strides, x.rank),
      y.as<std::byte>() + offset_of(to, std::span(y.strides, y.rank)) * static_cast<int64_t>(bytes),
      std::span(y.strides, y.rank), common, bytes);
  outputs.push_back(std::move(result));
  return ok_status();
}

// x, indices (flat positions in the map before pooling), output_shape.
Status max_unpool(const KernelArgs& args, Outputs& outputs) {
  const Call call(args);
  CAMSHAFT_TRY(call.require(2));
  CAMSHAFT_TRY(call.require_rank(0, 3));
  const Extents extents = call.extents(0);
  const size_t spatial = extents.size() - 2;
  const Ints kernel = call.list_or("kernel_shape", spatial, 1),
             stride = call.list_or("strides", spatial, 1),
             pads = call.list_or("pads", 2 * spatial, 0);
  Extents small = extents;
  for (size_t d = 0; d < spatial; ++d)
    small[d + 2] = (extents[d + 2] - 1) * stride[d] - pads[d] - pads[d + spatial] + kernel[d];
  const Ints stated = call.ints(2);
  if (stated.size() > ir::kMaxRank)
    return make_error(ErrorCode::kInvalidArgument, "MaxUnpool: an output shape of {} dimensions",
                      stated.size());
  const Extents out = stated.empty() ? small : Extents(stated.begin(), stated.end());
  if (out.size() != extents.size())
    return make_error(ErrorCode::kInvalidArgument, "MaxUnpool: an output shape of {} dimensions",
                      out.size());
  CAMSHAFT_TRY(check_extents(small));
  CAMSHAFT_TRY(check_extents(out));
  CAMSHAFT_TRY(places_error(call.in(1), count_of(small)));
  const std::vector<double> x = call.doubles(0);
  const Ints indices = call.ints(1), strides = dense_strides(out),
             small_strides = dense_strides(small);
  std::vector<double> y(count_of(out));
  for (size_t k = 0; k < x.size();
       ++k) {  // an index counts in the small output, which lies at the larger one's origin
    if (k >= indices.size())
      return make_error(ErrorCode::kInvalidArgument, "MaxUnpool: fewer indices than elements");
    int64_t rest = indices[k], target = 0;
    for (size_t d = 0; d < small.size(); ++d) {
      const int64_t coordinate = rest / small_strides[d];
      if (coordinate >= out[d])
        return make_error(ErrorCode::kInvalidArgument, "MaxUnpool: an index beyond the output");
      target += coordinate * strides[d];
      rest %= small_strides[d];
    }
    y[target] = x[k];
  }
  outputs.push_back(produce(call.in(0).type, out, y));
  return ok_status();
}

}  // namespace

std::span<const GenericRow> generic_vision_operators() {
  static constexpr GenericRow kRows[] = {
      {"GridSample", {nullptr, appending<grid_sample>}},
      {"AffineGrid", {nullptr, appending<affine_grid>}},
      {"DeformConv", {nullptr, appending<deform_conv>}},
      {ir::kDeformedColumns, {nullptr, appending<deformed_columns>}},
      {"Col2Im", {nullptr, appending<col2im>}},
      {"CenterCropPad", {nullptr, appending<center_crop_pad>}},
      {"MaxUnpool", {nullptr, appending<max_unpool>}},
  };
  return kRows;
}

}  // namespace camshaft::kernels::reference
