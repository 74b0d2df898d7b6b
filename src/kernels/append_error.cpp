// SPDX-License-Identifier: Apache-2.0
#include "kernels/append_error.h"

namespace camshaft::kernels {

Status append_error(int64_t item, int64_t first, int64_t fresh, int64_t rows, int64_t room) {
  if (first < 0 || first > rows)
    return make_error(ErrorCode::kInvalidArgument,
                      "item {} of the batch goes on at row {} of a past of {}", item, first, rows);
  return make_error(ErrorCode::kInvalidArgument,
                    "item {} of the batch would have {} rows, there is room for {}", item,
                    first + fresh, room);
}

}  // namespace camshaft::kernels
