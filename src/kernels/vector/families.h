// SPDX-License-Identifier: Apache-2.0
// The kernel families: each names a function `std::span<const Tactic> NAME_tactics()` per
// instruction set, its table of tactics. A new family is one file NAME.cpp in a folder of vector/
// and one line here.
#pragma once

#define CAMSHAFT_KERNEL_FAMILIES(X) \
  X(affine_grid)                    \
  X(append_rows)                    \
  X(attention)                      \
  X(attention_few)                  \
  X(cast)                           \
  X(chosen_product)                 \
  X(col2im)                         \
  X(conv)                           \
  X(conv_amx)                       \
  X(conv_dynamic)                   \
  X(convert)                        \
  X(cumsum)                         \
  X(deconv)                         \
  X(deconv_columns)                 \
  X(deconv_dynamic)                 \
  X(deformed_columns)               \
  X(depthwise)                      \
  X(depthwise_bf16)                 \
  X(depthwise_bytes)                \
  X(depthwise_dynamic)              \
  X(depthwise_interleaved)          \
  X(depthwise_lines)                \
  X(doubles)                        \
  X(experts)                        \
  X(gather)                         \
  X(generate)                       \
  X(grid_sample)                    \
  X(grouped_lines)                  \
  X(hardmax)                        \
  X(integers)                       \
  X(label_encoder)                  \
  X(matmul)                         \
  X(matmul_amx)                     \
  X(matmul_dynamic)                 \
  X(matmul_dynamic_bytes)           \
  X(matmul_nbits)                   \
  X(matmul_nbits_float)             \
  X(matmul_numbers)                 \
  X(matmul_stream)                  \
  X(max_roi_pool)                   \
  X(max_unpool)                     \
  X(norm)                           \
  X(order)                          \
  X(pointwise)                      \
  X(pointwise_planes)               \
  X(pointwise_table)                \
  X(pool)                           \
  X(pool_16_bit)                    \
  X(pool_bytes)                     \
  X(pool_indices)                   \
  X(quantize)                       \
  X(recurrence)                     \
  X(recurrence_codes)               \
  X(reduce)                         \
  X(reduce_numbers)                 \
  X(resize)                         \
  X(reverse_sequence)               \
  X(roi_align)                      \
  X(rotation)                       \
  X(scatter)                        \
  X(shuffle)                        \
  X(slice)                          \
  X(softmax)                        \
  X(softmax_doubles)                \
  X(sparse_bytes)                   \
  X(sparse_floats)                  \
  X(tf_idf)                         \
  X(trees)                          \
  X(truth)                          \
  X(winograd)                       \
  X(winograd_bytes)
