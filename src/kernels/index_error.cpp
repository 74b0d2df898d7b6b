// SPDX-License-Identifier: Apache-2.0
#include "kernels/index_error.h"

#include <algorithm>
#include <cmath>

#include "kernels/reference/access.h"

namespace camshaft::kernels {

Status index_error(const TensorView& indices, std::span<const int64_t> extents) {
  const ir::Ints given = reference::load_ints(indices);
  for (size_t k = 0; k < given.size(); ++k)
    if (const int64_t extent = extents[k % extents.size()];
        given[k] < -extent || given[k] >= extent)
      return make_error(ErrorCode::kInvalidArgument, "index {} is out of range for extent {}",
                        given[k], extent);
  return ok_status();
}

Status chosen_error(const TensorView& chosen, int64_t experts) {
  for (const int64_t expert : reference::load_ints(chosen))
    if (expert < 0 || expert >= experts)
      return make_error(ErrorCode::kInvalidArgument, "expert {} is chosen of {}", expert, experts);
  return ok_status();
}

Status pads_error(const TensorView& x, const TensorView& y, const TensorView& pads,
                  const TensorView& axes) {
  const auto text = [](const ir::Ints& numbers) {
    std::string list;
    for (const int64_t number : numbers)
      list += (list.empty() ? "" : ", ") + std::to_string(number);
    return "[" + list + "]";
  };
  const auto extents = [](const TensorView& t) { return ir::Ints(t.extents, t.extents + t.rank); };
  return make_error(ErrorCode::kInvalidArgument, "padding {} by {}{} does not give {}",
                    text(extents(x)), text(reference::load_ints(pads)),
                    axes.present() ? " along axes " + text(reference::load_ints(axes)) : "",
                    text(extents(y)));
}

Status regions_error(const TensorView& regions, double scale) {
  for (const double value : reference::load<double>(regions))
    if (!(std::abs(value * scale) < 1e5) || !(std::abs(value) < 1e9))
      return make_error(ErrorCode::kInvalidArgument, "a region with the coordinate {}", value);
  return ok_status();
}

Status pooled_regions_error(const TensorView& regions, double scale, int64_t images) {
  CAMSHAFT_TRY(regions_error(regions, scale));
  const std::vector<double> values = reference::load<double>(regions);
  for (size_t k = 0; k < values.size(); k += 5)
    if (const auto image = static_cast<int64_t>(values[k]); image < 0 || image >= images)
      return make_error(ErrorCode::kInvalidArgument, "MaxRoiPool: batch index {} of {}", image,
                        images);
  return ok_status();
}

Status places_error(const TensorView& indices, int64_t places) {
  for (const int64_t index : reference::load_ints(indices))
    if (index < 0 || index >= places)
      return make_error(ErrorCode::kInvalidArgument, "MaxUnpool: index {} of {} elements", index,
                        places);
  return ok_status();
}

Status lengths_error(const TensorView& lengths, int64_t steps) {
  for (const int64_t length : reference::load_ints(lengths))
    if (length < 0 || length > steps)
      return make_error(ErrorCode::kInvalidArgument, "sequence length {} of {}", length, steps);
  return ok_status();
}

Status images_error(const TensorView& indices, int64_t images) {
  for (const int64_t image : reference::load_ints(indices))
    if (image < 0 || image >= images)
      return make_error(ErrorCode::kInvalidArgument, "RoiAlign: batch index {} of {}", image,
                        images);
  return ok_status();
}

Status divisor_error(const TensorView& divisors) {
  for (const int64_t divisor : reference::load_ints(divisors))
    if (divisor == 0) return make_error(ErrorCode::kInvalidArgument, "integer division by zero");
  return ok_status();
}

Status category_error(const TensorView& x, std::span<const int64_t> categories) {
  for (const int64_t number : reference::load<int64_t>(x))
    if (std::find(categories.begin(), categories.end(), number) == categories.end())
      return make_error(ErrorCode::kInvalidArgument, "OneHotEncoder: {} is no category", number);
  return ok_status();
}

}  // namespace camshaft::kernels
