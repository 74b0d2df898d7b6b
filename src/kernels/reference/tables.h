// SPDX-License-Identifier: Apache-2.0
// The tables of this folder, one function per file, collected in tables.cpp.
#pragma once

#include "kernels/reference/access.h"

// Files with layer kinds, and files with Generic operators.
#define CAMSHAFT_REFERENCE_KINDS(X) \
  X(attention)                      \
  X(convolution)                    \
  X(matmul)                         \
  X(low_bits)                       \
  X(experts)                        \
  X(pooling)                        \
  X(pointwise) X(movement) X(reduce) X(search) X(gather) X(resize) X(recurrence) X(quantize)
#define CAMSHAFT_REFERENCE_GENERIC(X) \
  X(generic_algebra)                  \
  X(generic_signal)                   \
  X(generic_vision)                   \
  X(generic_boxes)                    \
  X(generic_attention)                \
  X(generic_trees)                    \
  X(generic_append)                   \
  X(generic_rotation)                 \
  X(generic_chosen)                   \
  X(generic_encoders)                 \
  X(generic_coupling)                 \
  X(generic_quantized) X(generic_sets) X(generic_norm) X(generic_random)

namespace camshaft::kernels::reference {

#define CAMSHAFT_DECLARE(file) std::span<const KindRow> file##_kinds();
CAMSHAFT_REFERENCE_KINDS(CAMSHAFT_DECLARE)
#undef CAMSHAFT_DECLARE
#define CAMSHAFT_DECLARE(file) std::span<const GenericRow> file##_operators();
CAMSHAFT_REFERENCE_GENERIC(CAMSHAFT_DECLARE)
#undef CAMSHAFT_DECLARE

}  // namespace camshaft::kernels::reference
