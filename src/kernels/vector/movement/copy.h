// SPDX-License-Identifier: Apache-2.0
// Copies between strided views: the one kernel of all layers that only move elements.
#pragma once

#include "kernels/kernel.h"
#include "kernels/nest.h"
#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// Copies elements of 1, 2, 4 or 8 bytes; nest: tensor 0 is where to, tensor 1 where from (stride 0:
// repeated). Dimensions in any order.
void copy_nest(const Nest& nest, const void* from, void* to, int64_t element_bytes,
               ThreadPool* pool);

// The same in two steps: what follows from the shapes, and the copy.
struct CopyPlan {
  Nest nest;
  int64_t elements, element_bytes;
  bool transposes = false;
  double predicted_us = 0;
};
CopyPlan plan_copy(const Nest& nest, int64_t element_bytes);
void run_copy(const CopyPlan& plan, const void* from, void* to, ThreadPool* pool);

// `from` broadcast to the shape of `to`; same type.
void copy_view(const TensorView& from, const TensorView& to, ThreadPool* pool);

// Sets all elements to the one of `element_bytes` at `value`.
void fill_view(const TensorView& to, const void* value, ThreadPool* pool);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
