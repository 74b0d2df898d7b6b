// SPDX-License-Identifier: Apache-2.0
// The epilogue of kernels that store their results first: a program over these and its operands,
// over all of them once they are there, or over some units of them (rows, maps) at a time, while
// they are in cache.
#pragma once

#include <string>

#include "kernels/nest.h"
#include "kernels/prepared.h"
#include "kernels/vector/program/compiled_code.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

struct ResultEpilogue {
  bool present = false;
  CompiledCode code;
  Nest nest;  // the output, the results, the operands
  DataType types[kMaxNestTensors] = {};
  size_t first_operand = 0;
  double predicted_us = 0;
  int64_t unit_rows = 1;    // rows of the nest that are a unit
  int64_t block_units = 1;  // as many are finished together
};

inline constexpr size_t kMaxResultOperands = kMaxNestTensors - 2;

// Why such an epilogue does not run here; empty: it does. Operands are floats or of type `other`.
static inline std::string refuse_result_epilogue(const Problem& p, const ir::Program& program,
                                                 size_t first_operand,
                                                 DataType other = DataType::kFloat) {
  if (p.inputs.size() > first_operand + kMaxResultOperands) return "too many epilogue operands";
  if (!program_fits(program)) return "the epilogue is too long";
  for (size_t k = first_operand; k < p.inputs.size(); ++k)
    if (p.inputs[k].type != DataType::kFloat && p.inputs[k].type != other)
      return "an epilogue operand of another type";
  return "";
}

// The nest of all dimensions as they are; the results lie as `results` does, or in the output.
static inline ResultEpilogue open_result_epilogue(const ir::Program& program,
                                                  const KernelArgs& args, size_t first_operand,
                                                  const TensorView& results) {
  ResultEpilogue e;
  if (program.empty()) return e;
  const TensorView& y = args.outputs[0];
  e.present = true;
  e.nest = make_nest(y);
  e.types[0] = y.type;
  e.first_operand = first_operand;
  add_tensor(e.nest, results);
  for (size_t k = first_operand; k < args.inputs.size(); ++k) {
    e.types[e.nest.tensors] = args.inputs[k].type;
    add_tensor(e.nest, args.inputs[k]);
  }
  e.predicted_us = static_cast<double>(count_of(y)) / 16000 *
                   code_ns_per_16(program.code.data(), static_cast<int>(program.code.size()));
  return e;
}

static inline void compile_result_epilogue(const ir::Program& program, ResultEpilogue& e) {
  TileOperand operands[kMaxNestTensors] = {};
  for (int t = 1; t < e.nest.tensors; ++t)
    operands[t - 1] = {nullptr, 0, e.nest.col_stride(t), t == 1 ? DataType::kFloat : e.types[t]};
  compile_code(program.code.data(), static_cast<int>(program.code.size()), program.num_inputs,
               operands, e.types[0], e.code);
}

// Over all results, which lie in the output.
static inline ResultEpilogue make_result_epilogue(const ir::Program& program,
                                                  const KernelArgs& args, size_t first_operand) {
  ResultEpilogue e = open_result_epilogue(program, args, first_operand, args.outputs[0]);
  if (!e.present) return e;
  collapse(e.nest);
  compile_result_epilogue(program, e);
  return e;
}

// Makes one of dimensions d and d + 1 if it can; the last one stays contiguous in the output.
static inline void fold_dimensions(Nest& nest, int d) {
  const bool last = d + 2 == nest.rank;
  bool follows = true;
  for (int t = 0; t < nest.tensors; ++t)
    follows &= nest.strides[t][d] == nest.strides[t][d + 1] * nest.extents[d + 1];
  const bool drops_second = nest.extents[d + 1] == 1 && (!last || nest.strides[0][d] == 1);
  if (nest.extents[d] != 1 && !drops_second && !follows) return;
  const int64_t extent = nest.extents[d] * nest.extents[d + 1];
  for (int k = nest.extents[d] != 1 && drops_second ? d + 1 : d; k + 1 < nest.rank; ++k)
    move_dimension(nest, k + 1, k);
  --nest.rank;
  nest.extents[d] = extent;
}

// By units: elements of the first `outer` dimensions (one or two) of `order`, which names all of
// the output's; one or two more are a unit's.
static inline ResultEpilogue make_unit_epilogue(const ir::Program& program, const KernelArgs& args,
                                                size_t first_operand, const TensorView& results,
                                                const int* order, int outer) {
  ResultEpilogue e = open_result_epilogue(program, args, first_operand, results);
  if (!e.present) return e;
  constexpr int64_t kBlock = 4096;  // elements, of every tensor
  const Nest nest = e.nest;
  int64_t unit = 1;
  for (int d = 0; d < nest.rank; ++d) {
    e.nest.extents[d] = nest.extents[order[d]];
    if (d >= outer) unit *= nest.extents[order[d]];
    for (int t = 0; t < nest.tensors; ++t) e.nest.strides[t][d] = nest.strides[t][order[d]];
  }
  e.block_units = unit < kBlock ? kBlock / unit : 1;
  const int inner = nest.rank - outer;
  if (inner == 2) fold_dimensions(e.nest, outer);
  const bool flat = e.nest.rank == outer + 1;
  if (outer == 2) fold_dimensions(e.nest, 0);
  e.unit_rows = flat ? 1 : e.nest.rows();
  compile_result_epilogue(program, e);
  return e;
}

// One tile; results[0] is what offset `first` of them names.
static inline void run_result_tile(const ResultEpilogue& e, const KernelCall& call,
                                   const float* results, int64_t first, const int64_t* offsets,
                                   int64_t rows, int64_t cols) {
  const Nest& nest = e.nest;
  TileOperand operands[kMaxNestTensors] = {
      {results + (offsets[1] - first), nest.row_stride(1), nest.col_stride(1)}};
  for (int t = 2; t < nest.tensors; ++t)
    operands[t - 1] = {call.input<const std::byte>(e.first_operand + static_cast<size_t>(t) - 2) +
                           offsets[t] * bytes_of(e.types[t]),
                       nest.row_stride(t), nest.col_stride(t), e.types[t]};
  run_code(e.code, operands,
           {call.output<std::byte>(0) + offsets[0] * bytes_of(e.types[0]), nest.row_stride(0),
            e.types[0]},
           rows, cols);
}

static inline void run_result_epilogue(const ResultEpilogue& e, const KernelCall& call) {
  if (!e.present) return;
  for_tiles(e.nest, call.pool, e.predicted_us,
            [&](const int64_t* offsets, int64_t rows, int64_t cols) {
              run_result_tile(e, call, call.output<float>(0), 0, offsets, rows, cols);
            });
}

// Of units [first, last), on the thread that calls it.
static inline void run_unit_epilogue(const ResultEpilogue& e, const KernelCall& call,
                                     const float* results, int64_t first_result, int64_t first,
                                     int64_t last) {
  for_rows(e.nest, first * e.unit_rows, last * e.unit_rows,
           [&](const int64_t* offsets, int64_t rows) {
             run_result_tile(e, call, results, first_result, offsets, rows, e.nest.cols());
           });
}

// body(first, last) stores the results of some units at a time; the epilogue follows it.
template <class Body>
static inline void for_unit_blocks(const ResultEpilogue& e, const KernelCall& call, int64_t first,
                                   int64_t last, const Body& body) {
  if (!e.present) return body(first, last);
  for (int64_t unit = first; unit < last; unit += e.block_units) {
    const int64_t end = unit + e.block_units < last ? unit + e.block_units : last;
    body(unit, end);
    run_unit_epilogue(e, call, call.output<float>(0), 0, unit, end);
  }
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
