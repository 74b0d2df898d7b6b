// SPDX-License-Identifier: Apache-2.0
// What is wrong with rows to append: told here, outside the files compiled per instruction set.
#pragma once

#include "kernels/kernel.h"

namespace camshaft::kernels {

// Item `item` of the batch wants `fresh` rows at `first`, of a past of `rows` in a y of `room`.
Status append_error(int64_t item, int64_t first, int64_t fresh, int64_t rows, int64_t room);

}  // namespace camshaft::kernels
