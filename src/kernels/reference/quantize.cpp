// SPDX-License-Identifier: Apache-2.0
// Quantize, Dequantize (one scale, one per channel, or one per block) and Cast.
#include <algorithm>
#include <limits>

#include "kernels/reference/access.h"
#include "kernels/reference/tables.h"

namespace camshaft::kernels::reference {
namespace {

// Scale and zero point of every element, by its row-major position.
class Grid {
 public:
  static Result<Grid> make(const KernelArgs& args) {
    const auto& attrs = args.layer->as<ir::QuantizeAttrs>();
    const TensorView &x = args.inputs[0], &scale = args.inputs[1];
    Grid grid;
    grid.scales_ = load<float>(scale);
    grid.zeros_ = load_ints(input(args, 2));
    if (!grid.zeros_.empty() && grid.zeros_.size() != grid.scales_.size())
      return make_error(ErrorCode::kInvalidArgument, "{} scales and {} zero points",
                        grid.scales_.size(), grid.zeros_.size());
    if (grid.scales_.size() == 1 && attrs.block_size == 0) return grid;
    CAMSHAFT_ASSIGN(const int64_t axis, normalize_axis(attrs.axis, x.rank));
    const Extents extents = extents_of(x);
    grid.inner_ = count_of(std::span<const int64_t>(extents).subspan(axis + 1));
    grid.count_ = extents[axis];
    grid.block_ = std::max<int64_t>(attrs.block_size, 1);
    grid.blocks_ = (grid.count_ + grid.block_ - 1) / grid.block_;
    grid.is_blocked_ = attrs.block_size > 0;
    const int64_t outer =
        grid.is_blocked_ ? count_of(std::span<const int64_t>(extents).first(axis)) * grid.inner_
                         : 1;
    if (static_cast<int64_t>(grid.scales_.size()) != outer * grid.blocks_)
      return make_error(ErrorCode::kInvalidArgument, "{} scales along an axis of {}",
                        grid.scales_.size(), grid.count_);
    return grid;
  }

  float scale(int64_t k) const { return scales_[position(k)]; }
  int64_t zero_point(int64_t k) const { return zeros_.empty() ? 0 : zeros_[position(k)]; }

 private:
  int64_t position(int64_t k) const {
    if (inner_ == 0) return 0;
    const int64_t along = k / inner_ % count_;
    if (!is_blocked_) return along;
    return (k / (inner_ * count_) * blocks_ + along / block_) * inner_ + k % inner_;
  }

  std::vector<float> scales_;
  Ints zeros_;
  int64_t inner_ = 0, count_ = 1, block_ = 1, blocks_ = 1;  // inner_ 0: one scale for all
  bool is_blocked_ = false;
};

// Float arithmetic on purpose: halfway cases depend on it.
Status quantize(const KernelArgs& args) {
  const DataType type = args.layer->as<ir::QuantizeAttrs>().type;
  CAMSHAFT_ASSIGN(const Grid grid, Grid::make(args));
  const std::vector<float> x = load<float>(args.inputs[0]);
  const auto low = static_cast<double>(lowest(type)), high = static_cast<double>(highest(type));
  Ints q(x.size());
  for (size_t k = 0; k < x.size(); ++k) {
    const float steps = std::nearbyint(x[k] / grid.scale(static_cast<int64_t>(k)));
    const double shifted =
        static_cast<double>(steps) + static_cast<double>(grid.zero_point(static_cast<int64_t>(k)));
    q[k] = std::isnan(shifted) ? grid.zero_point(static_cast<int64_t>(k))
                               : static_cast<int64_t>(std::clamp(shifted, low, high));
  }
  store(args.outputs[0], q);
  return ok_status();
}

Status dequantize(const KernelArgs& args) {
  CAMSHAFT_ASSIGN(const Grid grid, Grid::make(args));
  const Ints q = load_ints(args.inputs[0]);
  std::vector<float> x(q.size());
  for (size_t k = 0; k < q.size(); ++k) {
    const auto position = static_cast<int64_t>(k);
    x[k] = static_cast<float>(q[k] - grid.zero_point(position)) * grid.scale(position);
  }
  store(args.outputs[0], x);
  return ok_status();
}

// Cut off towards zero, wrapped to the type's width; out of int64's range the nearest number, NaN
// 0.
int64_t cut_off(double value, bool is_uint64) {
  if (is_uint64 && value >= 0x1p63)
    return static_cast<int64_t>(value >= 0x1p64 ? std::numeric_limits<uint64_t>::max()
                                                : static_cast<uint64_t>(value));
  if (std::isnan(value)) return 0;
  if (value >= 0x1p63) return std::numeric_limits<int64_t>::max();
  if (value < -0x1p63) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(value);
}

Status cast(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const bool from_whole = ir::is_integer(x.type) || x.type == DataType::kBool;
  if (y.type == DataType::kBool) {
    const std::vector<double> values = load<double>(x);
    Ints truth(values.size());
    for (size_t k = 0; k < values.size(); ++k) truth[k] = values[k] != 0;
    store(y, truth);
  } else if (ir::is_integer(y.type)) {
    if (from_whole) {
      store(y, load<int64_t>(x));
      return ok_status();
    }
    const std::vector<double> values = load<double>(x);
    Ints whole(values.size());
    for (size_t k = 0; k < values.size(); ++k)
      whole[k] = cut_off(values[k], y.type == DataType::kUInt64);
    store(y, whole);
  } else if (from_whole && x.type != DataType::kUInt64) {
    store(y, load<int64_t>(x));
  } else {
    store(y, load<double>(x));
  }
  return ok_status();
}

}  // namespace

std::span<const KindRow> quantize_kinds() {
  static constexpr KindRow kRows[] = {
      {ir::LayerKind::kQuantize, {quantize, nullptr}},
      {ir::LayerKind::kDequantize, {dequantize, nullptr}},
      {ir::LayerKind::kCast, {cast, nullptr}},
  };
  return kRows;
}

}  // namespace camshaft::kernels::reference
