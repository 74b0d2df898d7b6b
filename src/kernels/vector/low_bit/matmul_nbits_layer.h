// SPDX-License-Identifier: Apache-2.0
// What the kernels of LowBitMultiply share: refusals, packed weights, the run's matrices.
#pragma once

#include "kernels/vector/low_bit/matmul_nbits.h"
#include "kernels/vector/matmul/matmul_run.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

inline const ir::LowBits& low_bits_of(const Problem& problem) {
  return problem.layer->as<ir::LowBits>();
}
int64_t low_bit_rows(const Problem& problem);
std::string refuse_low_bits(const Problem& problem);
// "weights of 4 bits, blocks of 32, rows as …"
std::string describe_low_bits(const Problem& problem, const char* rows);

// Records as panels of that geometry.
void pack_panels(const BitGeometry& geometry, const ir::LowBits& weights, const std::byte* data,
                 std::byte* packed);
uint32_t packed_low_bits(const Problem& problem);
size_t packed_low_bits_bytes(const Problem& problem);
void pack_low_bits(const Problem& problem, std::byte* packed);

// The kernel that makes 24-bit integers of rows.
void prepare_integer_rows(const KernelArgs& args, PreparedKernel& kernel);

// Batches whose rows lie evenly become one matrix.
void set_low_bits(const KernelArgs& args, MatmulRun& run);

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
