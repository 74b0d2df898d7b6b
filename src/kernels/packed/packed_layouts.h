// SPDX-License-Identifier: Apache-2.0
// The fields of packed records that do not list them themselves, in the order they are stored. A
// test holds the lists to the structs' sizes.
#pragma once

#include "kernels/packed/packed_fields.h"
#include "kernels/packed/packed_records.h"

namespace camshaft::kernels {

#define CAMSHAFT_RECORD_FIELDS(Record, ...)                  \
  template <class Self, class V>                             \
  requires std::is_same_v<std::remove_const_t<Self>, Record> \
  void visit_fields(Self& s, V&& v) {                        \
    __VA_ARGS__                                              \
  }

CAMSHAFT_RECORD_FIELDS(ir::Instruction, CAMSHAFT_FIELD(op) CAMSHAFT_FIELD(a) CAMSHAFT_FIELD(b)
                                            CAMSHAFT_FIELD(c) CAMSHAFT_FIELD(x) CAMSHAFT_FIELD(y))

CAMSHAFT_RECORD_FIELDS(Gate, CAMSHAFT_FIELD(scale) CAMSHAFT_FIELD(shift) CAMSHAFT_FIELD(low)
                                 CAMSHAFT_FIELD(high))

CAMSHAFT_RECORD_FIELDS(Affine, CAMSHAFT_FIELD(inputs) CAMSHAFT_FIELD(scale) CAMSHAFT_FIELD(offset)
                                   CAMSHAFT_FIELD(shift) CAMSHAFT_FIELD(low) CAMSHAFT_FIELD(high)
                                       CAMSHAFT_FIELD(after) CAMSHAFT_FIELD(divisor))

CAMSHAFT_RECORD_FIELDS(
    PackedEpilogue,
    CAMSHAFT_FIELD(low) CAMSHAFT_FIELD(high) CAMSHAFT_FIELD(slope) CAMSHAFT_FIELD(post)
        CAMSHAFT_FIELD(offset) CAMSHAFT_FIELD(residual) CAMSHAFT_FIELD(residual_scale)
            CAMSHAFT_FIELD(rounds_first) CAMSHAFT_FIELD(is_gated) CAMSHAFT_FIELD(fits_int)
                CAMSHAFT_FIELD(gate) CAMSHAFT_FIELD(code_low) CAMSHAFT_FIELD(code_high)
                    CAMSHAFT_FIELD(code_scale) CAMSHAFT_FIELD(code_shift) CAMSHAFT_FIELD(last_scale)
                        CAMSHAFT_FIELD(last_shift) CAMSHAFT_FIELD(last_offset)
                            CAMSHAFT_FIELD(rest_length) CAMSHAFT_FIELD(table) CAMSHAFT_FIELD(bytes)
                                CAMSHAFT_FIELD(multiplier) CAMSHAFT_FIELD(addend)
                                    CAMSHAFT_FIELD(rest) CAMSHAFT_FIELD(bytes_operands)
                                        CAMSHAFT_FIELD(operands))

CAMSHAFT_RECORD_FIELDS(FoldedHeader,
                       CAMSHAFT_FIELD(is_folded) CAMSHAFT_FIELD(low) CAMSHAFT_FIELD(high)
                           CAMSHAFT_FIELD(after) CAMSHAFT_FIELD(is_gated) CAMSHAFT_FIELD(scale)
                               CAMSHAFT_FIELD(shift) CAMSHAFT_FIELD(gate) CAMSHAFT_FIELD(has_table))

}  // namespace camshaft::kernels
