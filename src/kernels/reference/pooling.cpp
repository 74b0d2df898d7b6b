// SPDX-License-Identifier: Apache-2.0
// Max, average and Lp pooling over any number of spatial dimensions.
#include <limits>

#include "ir/infer.h"
#include "kernels/reference/access.h"
#include "kernels/reference/tables.h"

namespace camshaft::kernels::reference {
namespace {

struct WindowGeometry {
  Ints input, kernel, output, stride, dilation, pre_padding, post_padding;
};

Result<WindowGeometry> geometry_of(const KernelArgs& args, const ir::PoolingAttrs& attrs) {
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  if (x.rank < 3 && !attrs.global)
    return make_error(ErrorCode::kInvalidArgument, "pooling needs rank 3 or more, not {}", x.rank);
  WindowGeometry g;
  for (int d = 2; d < x.rank; ++d) {
    const size_t k = d - 2;
    const int64_t kernel = attrs.global ? x.extents[d] : attrs.kernel[k];
    const int64_t stride = attrs.global || attrs.stride.empty() ? 1 : attrs.stride[k];
    const int64_t dilation = attrs.global || attrs.dilation.empty() ? 1 : attrs.dilation[k];
    const int64_t pre = attrs.global || attrs.pre_padding.empty() ? 0 : attrs.pre_padding[k];
    const int64_t post = attrs.global || attrs.post_padding.empty() ? 0 : attrs.post_padding[k];
    const auto mode = attrs.global ? ir::PaddingMode::kExplicit : attrs.padding_mode;
    const ir::Window window =
        ir::resolve_window(mode, x.extents[d], kernel, stride, dilation, pre, post);
    g.input.push_back(x.extents[d]);
    g.kernel.push_back(kernel);
    g.output.push_back(y.extents[d]);
    g.stride.push_back(stride);
    g.dilation.push_back(dilation);
    g.pre_padding.push_back(window.pre_padding);
    g.post_padding.push_back(window.post_padding);
  }
  return g;
}

// What one window gives.
struct Pooled {
  double value = 0;
  int64_t index = 0;  // of the maximum, within the map
};

// Calls body(value, position within the map) for the taps inside the map; returns how many taps lie
// inside the padded map.
template <class Body>
int64_t for_each_tap(const WindowGeometry& g, const double* map, const Extents& out,
                     const Body& body) {
  int64_t padded_taps = 0;
  for_each_index(g.kernel, [&](const Extents& tap) {
    int64_t position = 0;
    bool inside = true, in_padding = true;
    for (size_t d = 0; d < tap.size(); ++d) {
      const int64_t coordinate = out[d] * g.stride[d] - g.pre_padding[d] + tap[d] * g.dilation[d];
      inside = inside && coordinate >= 0 && coordinate < g.input[d];
      in_padding = in_padding && coordinate < g.input[d] + g.post_padding[d];
      position = position * g.input[d] + coordinate;
    }
    padded_taps += in_padding;
    if (inside) body(map[position], position);
  });
  return padded_taps;
}

Pooled pool_window(const ir::PoolingAttrs& attrs, const WindowGeometry& g, const double* map,
                   const Extents& out) {
  Pooled result;
  if (attrs.type == ir::PoolingType::kMax) {
    result.value = -std::numeric_limits<double>::infinity();
    bool first = true;
    for_each_tap(g, map, out, [&](double value, int64_t position) {
      if (!first && !(value > result.value)) return;
      result = {value, position};
      first = false;
    });
    return result;
  }
  double sum = 0;
  int64_t taps = 0;
  const double p = static_cast<double>(attrs.p);
  const int64_t padded_taps = for_each_tap(g, map, out, [&](double value, int64_t) {
    sum += attrs.type == ir::PoolingType::kLp ? std::pow(std::abs(value), p) : value;
    ++taps;
  });
  if (attrs.type == ir::PoolingType::kLp) {
    result.value = std::pow(sum, 1 / p);
  } else {
    const int64_t divisor = attrs.count_includes_padding ? padded_taps : taps;
    result.value = divisor == 0 ? 0 : sum / static_cast<double>(divisor);
  }
  return result;
}

// Row-major position in the map → the flat index ONNX wants.
int64_t flat_index(const WindowGeometry& g, int64_t position, bool column_major) {
  if (!column_major) return position;
  int64_t index = 0, rest = position, map = count_of(g.input);
  for (size_t d = g.input.size(); d-- > 0;) {
    map /= g.input[d];
    index += rest % g.input[d] * map;
    rest /= g.input[d];
  }
  return index;
}

Status pooling(const KernelArgs& args) {
  const auto& attrs = args.layer->as<ir::PoolingAttrs>();
  CAMSHAFT_ASSIGN(const WindowGeometry g, geometry_of(args, attrs));
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const std::vector<double> values = load<double>(x);
  const int64_t maps = x.extents[0] * x.extents[1], in_size = count_of(g.input),
                out_size = count_of(g.output);
  std::vector<double> pooled(maps * out_size);
  Ints indices(maps * out_size);
  parallel(args, maps, [&](int64_t map) {
    int64_t k = map * out_size;
    for_each_index(g.output, [&](const Extents& out) {
      const Pooled result = pool_window(attrs, g, values.data() + map * in_size, out);
      pooled[k] = result.value;
      indices[k++] = map * in_size + flat_index(g, result.index, attrs.column_major_indices);
    });
  });
  CAMSHAFT_TRY(apply_epilogue(attrs.epilogue, pooled, extents_of(y), args.inputs.subspan(1)));
  store(y, pooled);
  if (const TensorView where = output(args, 1); where.present()) store(where, indices);
  return ok_status();
}

}  // namespace

std::span<const KindRow> pooling_kinds() {
  static constexpr KindRow kRows[] = {{ir::LayerKind::kPooling, {pooling, nullptr}}};
  return kRows;
}

}  // namespace camshaft::kernels::reference
