// SPDX-License-Identifier: Apache-2.0
// What is wrong with indices, amounts and divisors: made here, outside the files compiled per
// instruction set.
#pragma once

#include <span>

#include "kernels/kernel.h"

namespace camshaft::kernels {

// The first index outside [-extent, extent). `extents`: one for all, or one per element of an index
// tuple (the last dimension).
Status index_error(const TensorView& indices, std::span<const int64_t> extents);

// The first number that is none of `experts`.
Status chosen_error(const TensorView& chosen, int64_t experts);

// That padding `x` by these amounts does not give `y`, or not along these axes (of all, where
// absent).
Status pads_error(const TensorView& x, const TensorView& y, const TensorView& pads,
                  const TensorView& axes);

// The first coordinate of a region that whole numbers of pixels cannot be made of.
Status regions_error(const TensorView& regions, double scale);

// The same of regions [count, 5] that begin with the index of one of `images`.
Status pooled_regions_error(const TensorView& regions, double scale, int64_t images);

// The first index that is none of `places` elements.
Status places_error(const TensorView& indices, int64_t places);

// The first length of a sequence that is none of 0 to `steps`.
Status lengths_error(const TensorView& lengths, int64_t steps);

// The first index that is none of `images`.
Status images_error(const TensorView& indices, int64_t images);

// That an integer divisor is 0, if one is.
Status divisor_error(const TensorView& divisors);

// The first number that is none of OneHotEncoder's categories.
Status category_error(const TensorView& x, std::span<const int64_t> categories);

}  // namespace camshaft::kernels
