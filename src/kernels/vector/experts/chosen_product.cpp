// SPDX-License-Identifier: Apache-2.0
// ChosenProduct: rows sorted by the matrix chosen for them, so that each matrix that is chosen is
// read once for up to kMostChoices rows. Gathered and multiplied apart, 192 rows of 8 matrices of
// 512 x 2048 write and read 400 MB; here 33.
#include "ir/chosen_product.h"
#include "kernels/index_error.h"
#include "kernels/vector/experts/experts.h"
#include "kernels/vector/gemm/gemm_cost.h"
#include "kernels/vector/generic.h"
#include "kernels/vector/movement/indices.h"
#include "kernels/vector/prepare.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::chosen_product {
namespace {

ir::ExpertProduct product_of(const ir::Extents& weights) {
  return {.columns = weights[1], .depth = weights[2]};
}

struct ChosenProduct {
  ExpertsRun run;
  TensorView chosen;
  bool shares;
};

struct ChosenMemory {
  int64_t* matrix;  // of each row, counted from the beginning
  SortedChoices sorted;
  ExpertsBatch batch;
};

int64_t take_memory(const ExpertsRun& run, std::byte* workspace, ChosenMemory& memory) {
  Pieces pieces(workspace);
  memory.matrix = pieces.take<int64_t>(run.rows);
  memory.sorted = take_sorted(run, pieces);
  memory.batch.segment = pieces.take<ExpertSegment>(run.most_choices());
  memory.batch.rows = pieces.take<float>(run.most_choices() * run.row_stride);
  memory.batch.sums = pieces.take<float>(run.most_choices() * run.sum_stride);
  return pieces.bytes();
}

template <class Body>
void share(const ChosenProduct& p, const KernelCall& call, int64_t count, const Body& body) {
  if (p.shares)
    call.pool->parallel_ranges(count, body);
  else
    body(0, int64_t{0}, count);
}

void run_batch(const ChosenProduct& p, const KernelCall& call, const ExpertsBatch& batch) {
  const ExpertsRun& run = p.run;
  share(p, call, batch.choices, [&](int, int64_t first, int64_t last) {
    for (int64_t k = first; k < last; ++k)
      __builtin_memcpy(batch.rows + k * run.row_stride,
                       call.input<const float>(ir::kChosenRows) + batch.chosen[k] * run.x_stride,
                       static_cast<size_t>(run.up.product.depth) * sizeof(float));
  });
  const ExpertsMultiply multiply{&run.up,    call.packed,    batch.rows, run.row_stride,
                                 batch.sums, run.sum_stride, run.planes};
  share(p, call, batch.segments * run.up.panels(), [&](int worker, int64_t first, int64_t last) {
    for (int64_t unit = first; unit < last; ++unit) multiply_unit(batch, multiply, unit, worker);
  });
  share(p, call, batch.choices, [&](int, int64_t first, int64_t last) {
    for (int64_t k = first; k < last; ++k)
      __builtin_memcpy(call.output<float>(0) + batch.chosen[k] * run.y_stride,
                       batch.sums + k * run.sum_stride,
                       static_cast<size_t>(run.up.product.columns) * sizeof(float));
  });
}

// False: a matrix that there is not.
bool find_matrices(const TensorView& chosen, int64_t matrices, int64_t* matrix) {
  bool inside = true;
  with_index(chosen.type, [&](auto type) {
    inside = for_indices(chosen.as<const decltype(type)>(), chosen.strides[0], chosen.extents[0],
                         matrices, [matrix](int64_t row, int64_t index) { matrix[row] = index; });
  });
  return inside;
}

Status run(ChosenProduct& p, const KernelCall& call) {
  ChosenMemory memory{};
  take_memory(p.run, call.workspace, memory);
  p.chosen.data = call.inputs[ir::kChosenMatrix];
  if (!find_matrices(p.chosen, p.run.experts, memory.matrix) ||
      !sort_choices(p.run, memory.matrix, memory.sorted))
    return index_error(p.chosen, {&p.run.experts, 1});
  int64_t matrix = 0;
  for (int64_t from = 0; from < p.run.choices();) {
    fill_batch(p.run, memory.sorted, matrix, from, memory.batch);
    run_batch(p, call, memory.batch);
  }
  return Status();
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  const TensorView &x = args.inputs[ir::kChosenRows], &w = args.inputs[ir::kChosenWeights],
                   &y = args.outputs[0];
  const ExpertProductRun product({.columns = w.extents[1], .depth = w.extents[2]});
  ChosenProduct p{
      .run = {product, product}, .chosen = args.inputs[ir::kChosenMatrix], .shares = {}};
  p.run.experts = w.extents[0];
  p.run.rows = y.extents[0];
  p.run.choices_of_row = 1;
  p.run.x_stride = x.strides[0];
  p.run.y_stride = y.strides[0];
  // Rows begin in different sets of L1.
  p.run.row_stride = round_up(product.product.depth, 16) + 16;
  p.run.sum_stride = round_up(product.product.columns, 16) + 16;
  const double macs = static_cast<double>(p.run.rows) *
                      static_cast<double>(product.product.columns * product.product.depth);
  p.shares = threads_of(args) > 1 && macs > kMacsWorthThreads;
  ChosenMemory memory{};
  kernel.workspace_bytes = static_cast<size_t>(take_memory(p.run, nullptr, memory));
  keep_checked_state<run>(kernel, p);
}

bool has_even_rows(const ProblemTensor& t) {
  return t.dense || t.extents.size() <= 2;
}

std::string refusal(const Problem& p) {
  if (!is_operator(p, ir::kChosenProduct)) return "another operator";
  if (!p.inputs[ir::kChosenWeights].constant) return "the weights are not constant";
  if (!has_even_rows(p.inputs[ir::kChosenRows]) || !has_even_rows(p.outputs[0]))
    return "a part of a larger tensor";
  const DataType chosen = p.inputs[ir::kChosenMatrix].type;
  if (chosen != DataType::kInt64 && chosen != DataType::kInt32)
    return "numbers that are neither int32 nor int64";
  return "";
}

// Rows are taken to be spread evenly over the matrices.
double cost_us(const Problem& p) {
  const ir::Extents& weights = p.inputs[ir::kChosenWeights].extents;
  const ir::ExpertProduct product = product_of(weights);
  const int64_t rows = at_least_one(count_of(p.inputs[ir::kChosenMatrix]));
  const double multiply = tile_cost_us(Numeric::kFloat, 1, ceil_div(rows, at_least_one(weights[0])),
                                       product.columns, product.depth, kUnpackedVecs);
  const double stream = static_cast<double>(product.bytes()) / 30e3;
  return 1 + static_cast<double>(smaller(rows, weights[0])) *
                 (multiply > stream ? multiply : stream) / p.threads;
}

uint32_t packed_inputs(const Problem&) {
  return 1u << ir::kChosenWeights;
}

size_t packed_bytes(const Problem& p) {
  const ir::Extents& weights = p.inputs[ir::kChosenWeights].extents;
  return static_cast<size_t>(weights[0] * ExpertProductRun(product_of(weights)).expert_bytes);
}

void pack(const Problem& p, std::byte* packed) {
  const ProblemTensor& weights = p.inputs[ir::kChosenWeights];
  pack_expert_product(ExpertProductRun(product_of(weights.extents)), weights.extents[0],
                      constant_values<std::byte>(weights), packed);
}

std::string arithmetic(const Problem& p, const std::byte*) {
  return std::to_string(p.inputs[ir::kChosenWeights].extents[0]) + " matrices";
}

constexpr Tactic kTactics[] = {{.name = "chosen_product_f32",
                                .kind = ir::LayerKind::kGeneric,
                                .isa = kIsa,
                                .formats = FormatRule::kLinear,
                                .version = 1,
                                .refusal = refusal,
                                .cost_us = cost_us,
                                .packed_inputs = packed_inputs,
                                .packed_bytes = packed_bytes,
                                .pack = pack,
                                .prepare = prepare,
                                .arithmetic = arithmetic}};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::chosen_product
