// SPDX-License-Identifier: Apache-2.0
// How many elements and bytes a layer reads and writes: what most tactics' costs and refusals ask.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"

namespace camshaft::kernels {

int64_t count_of(const ProblemTensor& tensor);
int64_t count_of(const TensorView& view);

int64_t bytes_of(DataType type);  // of an element

// All bytes read and written, and the time they take at a rate between cache and memory: a ranking,
// not a promise.
inline constexpr double kBytesPerUs = 60000;
double traffic_us(const Problem& p);

bool all_float(const Problem& p);

}  // namespace camshaft::kernels
