// SPDX-License-Identifier: Apache-2.0
#include "kernels/index_error.h"

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

Status divisor_error(const TensorView& divisors) {
  for (const int64_t divisor : reference::load_ints(divisors))
    if (divisor == 0) return make_error(ErrorCode::kInvalidArgument, "integer division by zero");
  return ok_status();
}

}  // namespace camshaft::kernels
