// SPDX-License-Identifier: Apache-2.0
// The records kernels put into their packed weights (packed_fields.h says how). Defined once, not
// per instruction set.
#pragma once

#include <span>
#include <string>

#include "kernels/epilogue/affine_program.h"
#include "kernels/epilogue/epilogue.h"
#include "kernels/epilogue/folded_epilogue.h"
#include "kernels/packed/packed_forest.h"

namespace camshaft::kernels {

// Of pointwise_table_i8: the number of the input the table is indexed with.
struct CodeTable {
  int32_t input = 0;
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(input))
};

// Of pointwise_planes_u8: the input that is not a constant, the program of each channel.
inline constexpr int kMaxPlaneChannels = 4;
struct PlaneChannels {
  int32_t image = -1;
  Affine affine[kMaxPlaneChannels];
  CAMSHAFT_FIELDS(CAMSHAFT_FIELD(image) CAMSHAFT_FIELD(affine))
};

#define CAMSHAFT_PACKED_RECORDS(X) \
  X(PackedEpilogue)                \
  X(FoldedHeader)                  \
  X(CodeTable)                     \
  X(PackedForest)                  \
  X(PlaneChannels)

// Bytes of a record in front of weights: its fields, rounded up to 64. store_record() fills all of
// them.
template <class Record>
size_t record_bytes();
template <class Record>
void store_record(const Record& record, std::byte* to);
template <class Record>
void read_record(const std::byte* from, Record& record);

// Of an epilogue that is packed: all its bytes, from its header on.
size_t packed_epilogue_bytes(const std::byte* packed);

// The instructions of a program, one after another.
size_t code_bytes(size_t length);
void store_code(std::span<const ir::Instruction> code, std::byte* to);
void read_code(const std::byte* from, int length, ir::Instruction* code);

// Every record's fields and their types: what must not change while engines are to be read again.
std::string record_layouts();

}  // namespace camshaft::kernels
