// SPDX-License-Identifier: Apache-2.0
// What the rows of tactic tables share: the answers of kernels that pack nothing.
#pragma once

#include "kernels/kernel.h"
#include "kernels/problem_size.h"
#include "kernels/simd/simd.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

static inline uint32_t no_packed_inputs(const Problem&) {
  return 0;
}
static inline size_t no_packed_bytes(const Problem&) {
  return 0;
}
static inline void pack_nothing(const Problem&, std::byte*) {}
static inline int threads_of(const KernelArgs& args) {
  return args.pool ? args.pool->threads() : 1;
}
// Of convolutions: inputs are x, w, bias.
static inline bool has_bias(const Problem& problem) {
  return problem.inputs.size() > 2 && problem.inputs[2].present;
}
// The three functions of a kernel without packed inputs.
#define CAMSHAFT_NOTHING_PACKED no_packed_inputs, no_packed_bytes, pack_nothing

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
