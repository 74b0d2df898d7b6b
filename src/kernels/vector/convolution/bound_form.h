// SPDX-License-Identifier: Apache-2.0
// Tactics whose tables are rows of a Form (conv_form.h, matmul_form.h). A row only binds its Form:
// what it calls takes it as an argument and is compiled once, not for every row.
#pragma once

#include "kernels/vector/convolution/conv_gemm.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// The functions called are those beside the Form.
template <auto F>
constexpr Tactic bound_form(const char* name, ir::LayerKind kind, FormatRule formats, int version,
                            uint32_t (*packed_inputs)(const Problem&)) {
  return {
      .name = name,
      .kind = kind,
      .isa = kIsa,
      .formats = formats,
      .version = version,
      .refusal = [](const Problem& problem) { return refusal(F, problem); },
      .cost_us = [](const Problem& problem) { return cost_us(F, problem); },
      .packed_inputs = packed_inputs,
      .packed_bytes = [](const Problem& problem) { return packed_bytes(F, problem); },
      .pack = [](const Problem& problem, std::byte* packed) { pack(F, problem, packed); },
      .prepare = [](const KernelArgs& args, PreparedKernel& kernel) { prepare(F, args, kernel); },
      .arithmetic = tells_arithmetic(F)
                        ? +[](const Problem& problem,
                              const std::byte* packed) { return arithmetic(F, problem, packed); }
                        : nullptr,
      .precision = F.numeric == Numeric::kBf16 ? DataType::kBFloat16 : DataType::kUndefined,
      .needs = F.in_matrices                    ? Features{Feature::kAmx}
               : F.sparse != SparseIndex::kNone ? sparse_needs(F.numeric)
                                                : Features{}};
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
