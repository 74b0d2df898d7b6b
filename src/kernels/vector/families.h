// SPDX-License-Identifier: Apache-2.0
// The kernel families: each names a function `std::span<const Row> NAME_tactics()` per instruction
// set, its table of tactics. Row is PreparedTactic for a P (kernels/prepared.h), Tactic for an X. A
// new family is one file vector/NAME.cpp and one P here.
#pragma once

#define CAMSHAFT_KERNEL_FAMILIES(X, P) \
  P(attention)                         \
  P(attention_few)                     \
  X(cast)                              \
  X(col2im)                            \
  P(conv)                              \
  X(conv_dynamic)                      \
  X(convert)                           \
  X(cumsum)                            \
  P(deconv)                            \
  X(deconv_dynamic)                    \
  P(depthwise)                         \
  P(depthwise_bf16)                    \
  P(depthwise_bytes)                   \
  P(depthwise_interleaved)             \
  P(depthwise_lines)                   \
  X(gather)                            \
  X(generate)                          \
  X(grid_sample)                       \
  P(grouped_lines)                     \
  X(integers)                          \
  P(matmul)                            \
  X(matmul_dynamic)                    \
  X(matmul_dynamic_bytes)              \
  P(matmul_nbits)                      \
  P(matmul_nbits_float)                \
  X(norm)                              \
  X(order)                             \
  P(pointwise)                         \
  X(pointwise_planes)                  \
  P(pointwise_table)                   \
  P(pool)                              \
  P(pool_16_bit)                       \
  X(pool_bytes)                        \
  X(quantize)                          \
  X(recurrence)                        \
  X(reduce)                            \
  X(resize)                            \
  X(scatter)                           \
  P(shuffle)                           \
  X(slice)                             \
  X(softmax)                           \
  P(sparse_floats)                     \
  X(trees)                             \
  P(winograd)                          \
  P(winograd_bytes)

// Those of them with kernels that check their data (kernels/checked.h): each names a function
// `std::span<const CheckedKernel> NAME_checked()` as well.
#define CAMSHAFT_CHECKED_FAMILIES(X) \
  X(gather)                          \
  X(integers)                        \
  X(scatter)
