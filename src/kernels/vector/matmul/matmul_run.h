// SPDX-License-Identifier: Apache-2.0
// A matrix product as the kernels see it: strided matrices over up to two batch dimensions (image,
// row), the rest an outer loop; where every item has a packed right factor of its own, all of them.
#pragma once

#include "kernels/vector/convolution/conv_gemm.h"
#include "kernels/vector/prepare.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// Strides in bytes; 0 where a factor is broadcast.
struct Factor {
  const std::byte* data = nullptr;
  int64_t image = 0, row = 0;   // batch dimensions
  int64_t m = 0, n = 0, k = 0;  // of these, two are used
};

inline constexpr size_t kFirstMatmulOperand = 3;  // after a, b, bias

struct MatmulRun {
  int64_t m = 0, n = 0, k = 0;
  int64_t images = 1, rows = 1;
  int inner = 4;      // dimensions that are no part of the outer loop: image, row, m, n, or two
  int64_t outer = 1;  // product of the dimensions before them
  Factor a, b;
  float alpha = 1;
  TileFinish finish;
};

// m, n, k of a problem; false for vectors, scalars or a rank above kMaxRank.
bool matmul_extents(const Problem& problem, int64_t& m, int64_t& n, int64_t& k);
double matmul_batch(const Problem& problem);

// Matrices that a right factor of these extents holds.
int64_t matrices_of(std::span<const int64_t> extents);
int64_t matrices_of(const TensorView& b);

// Everything but k, the factors and the bias: extents of the output, where it is, and the epilogue.
void set_result(const KernelArgs& args, const ir::Program& epilogue, const std::byte* packed,
                MatmulRun& run);
// The left factor, its rows as they are or transposed.
Factor left_factor(const TensorView& a, bool transposed);
// Fills everything but the bias. Views of rank 1 are refused before.
// `packed`: the epilogue of bytes.
void set_matmul(const KernelArgs& args, const std::byte* packed, MatmulRun& run);
// As a 1x1 convolution whose pixels are the rows of A: shape, tensors, epilogue.
void set_conv(const KernelArgs& args, const MatmulRun& matmul, ConvRun& run);
// Moves data pointers to item `outer` of the outer loop.
void move_outer(const KernelArgs& args, int64_t outer, MatmulRun& run);
// Which of the right factor's matrices, if there are several, item `outer` of all batch dimensions
// is multiplied by.
int64_t matrix_of(const KernelArgs& args, int64_t outer);
// The addresses of a call, in place of those set_matmul() saw; those of `packed` are kept.
void set_addresses(const KernelCall& call, MatmulRun& run);

// A product whose right factor only running tells: batches of A with one B are one matrix.
MatmulRun dynamic_product(const KernelArgs& args);
double macs_of(const MatmulRun& run);

// The items of the outer loop: of more than one, the views tell where each of them is.
struct OuterItems {
  int64_t count = 1;
  KeptViews views{};
};
OuterItems outer_items(const KernelArgs& args, const MatmulRun& run, PreparedKernel& kernel);

// Calls body() for each of them, the pointers of `run` being set.
template <class Body>
void for_outer_items(OuterItems& items, const KernelCall& call, MatmulRun& run, const Body& body) {
  set_addresses(call, run);
  if (items.count == 1) return body();
  const KernelArgs& args = items.views.at(call);
  for (int64_t outer = 0; outer < items.count; ++outer) {
    move_outer(args, outer, run);
    body();
  }
}

// A product in units of its `work`, over the items of the outer loop.
template <class Work>
struct UnitsKernel {
  Work work;
  OuterItems outer;
  bool alone;  // on the calling thread
};

// Whether threads share many items each of which is too short for them.
template <class Work>
bool shares_items(const UnitsKernel<Work>& kernel, const KernelCall& call) {
  constexpr double kMacsWorthSharing = 200e3, kMacsOfItem = 2000;  // one is begun for as long
  const int64_t threads = threads_of(call), items = kernel.outer.count;
  return kernel.alone && threads > 1 && items >= 2 * threads &&
         static_cast<double>(items) * (macs_of(kernel.work.run) + kMacsOfItem) >= kMacsWorthSharing;
}

// Calls body(work, worker, first, last) for ranges of units of each item.
template <class Work, class Body>
void run_units(UnitsKernel<Work>& kernel, const KernelCall& call, const Body& body) {
  Work& work = kernel.work;
  if (shares_items(kernel, call)) {
    set_addresses(call, work.run);
    const KernelArgs& args = kernel.outer.views.at(call);
    return call.pool->parallel_ranges(kernel.outer.count,
                                      [&](int worker, int64_t first, int64_t last) {
                                        Work own = work;
                                        for (int64_t outer = first; outer < last; ++outer) {
                                          move_outer(args, outer, own.run);
                                          body(own, worker, 0, own.units());
                                        }
                                      });
  }
  for_outer_items(kernel.outer, call, work.run, [&] {
    if (kernel.alone)
      body(work, 0, 0, work.units());
    else
      call.pool->parallel_ranges(work.units(), [&](int worker, int64_t first, int64_t last) {
        body(work, worker, first, last);
      });
  });
}

// What every tactic refuses: types, ranks, operands.
std::string refuse_matmul(const Problem& problem, Numeric numeric);
// Why the right factor, one matrix or with `batches` several, cannot be packed while building: null
// where it can.
const char* refuse_packing(const Problem& problem, bool batches = false);
// Input 2 when it is the same for every row: a constant per column that can be packed.
bool has_packed_bias(const Problem& problem);
// That input per column, or zeros; `padded`: so many values.
template <class T>
void pack_column_bias(const Problem& problem, int64_t padded, T* bias) {
  for (int64_t col = 0; col < padded; ++col) bias[col] = 0;
  if (!has_packed_bias(problem)) return;
  const ProblemTensor& values = problem.inputs[2];
  const bool scalar = values.extents.empty() || values.extents.back() == 1;
  for (int64_t col = 0; col < problem.outputs[0].extents.back(); ++col)
    bias[col] = constant_values<T>(values)[scalar ? 0 : col];
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
