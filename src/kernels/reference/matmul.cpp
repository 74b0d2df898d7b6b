// SPDX-License-Identifier: Apache-2.0
// MatrixMultiply: numpy's matmul, accumulated in double, or in wrap-around int64 for integer types.
#include <algorithm>

#include "kernels/reference/access.h"
#include "kernels/reference/tables.h"

namespace camshaft::kernels::reference {
namespace {

// As a matrix: the transposition is an exchange of strides, a vector gets the missing dimension.
TensorView as_matrix(TensorView view, bool transpose, bool is_left) {
  if (view.rank == 1) {
    view.rank = 2;
    const int kept = is_left ? 1 : 0;
    view.extents[kept] = view.extents[0];
    view.strides[kept] = view.strides[0];
    view.extents[1 - kept] = 1;
    view.strides[1 - kept] = 0;
  } else if (transpose) {
    std::swap(view.extents[view.rank - 1], view.extents[view.rank - 2]);
    std::swap(view.strides[view.rank - 1], view.strides[view.rank - 2]);
  }
  return view;
}

// Batch dimensions broadcast by strides, the last two kept.
TensorView with_batch(const TensorView& matrix, std::span<const int64_t> batch) {
  Extents extents(batch.begin(), batch.end());
  extents.push_back(matrix.extents[matrix.rank - 2]);
  extents.push_back(matrix.extents[matrix.rank - 1]);
  return broadcast_to(matrix, extents);
}

template <class T, class Sum>
void multiply(const KernelArgs& args, std::span<const T> a, std::span<const T> b, int64_t m,
              int64_t n, int64_t k, Sum* y) {
  const int64_t rows = n == 0 ? 0 : static_cast<int64_t>(a.size()) / std::max<int64_t>(k, 1);
  parallel(args, k == 0 ? 0 : rows, [&](int64_t row) {
    Sum* out = y + row * n;
    const T* matrix = b.data() + row / m * k * n;
    for (int64_t p = 0; p < k; ++p) {
      const Sum factor = static_cast<Sum>(a[row * k + p]);
      const T* line = matrix + p * n;
      for (int64_t col = 0; col < n; ++col) out[col] += factor * static_cast<Sum>(line[col]);
    }
  });
}

std::vector<float> load_from(const TensorView& view, int64_t zero_point) {
  std::vector<float> values = load<float>(view);
  if (zero_point != 0)
    for (float& value : values) value -= static_cast<float>(zero_point);
  return values;
}

Status matrix_multiply(const KernelArgs& args) {
  const auto& attrs = args.layer->as<ir::MatrixMultiplyAttrs>();
  if (args.inputs[0].rank < 1 || args.inputs[1].rank < 1)
    return make_error(ErrorCode::kInvalidArgument, "a matrix product of scalars");
  TensorView a = as_matrix(args.inputs[0], attrs.transpose_a, true),
             b = as_matrix(args.inputs[1], attrs.transpose_b, false);
  const TensorView& y = args.outputs[0];
  const int64_t m = a.extents[a.rank - 2], k = a.extents[a.rank - 1], n = b.extents[b.rank - 1];
  if (b.extents[b.rank - 2] != k)
    return make_error(ErrorCode::kInvalidArgument,
                      "inner extents {} and {} of a matrix product differ", k,
                      b.extents[b.rank - 2]);
  TensorView batch_views[] = {a, b};
  for (TensorView& view : batch_views) view.rank -= 2;
  CAMSHAFT_ASSIGN(const Extents batch, broadcast_extents(batch_views));
  a = with_batch(a, batch);
  b = with_batch(b, batch);
  const int64_t count = count_of(batch) * m * n;
  if (count != y.elements())
    return make_error(ErrorCode::kInternal, "a matrix product gives {} elements, not {}", count,
                      y.elements());
  if (count == 0) return ok_status();

  const TensorView bias = input(args, 2);
  const bool exact = ir::is_integer(a.type) && ir::is_integer(y.type) &&
                     !ir::is_quantized(y.type) && attrs.epilogue.empty() && attrs.alpha == 1 &&
                     attrs.a_zero_point == 0 && attrs.b_zero_point == 0;
  if (exact) {  // wrap-around in uint64 is defined
    std::vector<uint64_t> sums(count);
    const Ints left = load<int64_t>(a), right = load<int64_t>(b);
    multiply<int64_t, uint64_t>(args, left, right, m, n, k, sums.data());
    if (bias.present()) {
      const Ints addend = load<int64_t>(broadcast_to(bias, extents_of(y)));
      for (int64_t i = 0; i < count; ++i) sums[i] += static_cast<uint64_t>(addend[i]);
    }
    store<int64_t>(y, Ints(sums.begin(), sums.end()));
    return ok_status();
  }
  std::vector<double> sums(count);
  if (a.type == DataType::kDouble) {
    const std::vector<double> left = load<double>(a), right = load<double>(b);
    multiply<double, double>(args, left, right, m, n, k, sums.data());
  } else {
    const std::vector<float> left = load_from(a, attrs.a_zero_point),
                             right = load_from(b, attrs.b_zero_point);
    multiply<float, double>(args, left, right, m, n, k, sums.data());
  }
  if (attrs.alpha != 1)
    for (double& sum : sums) sum *= attrs.alpha;
  if (bias.present()) {
    const std::vector<double> addend = load<double>(broadcast_to(bias, extents_of(y)));
    for (int64_t i = 0; i < count; ++i) sums[i] += addend[i];
  }
  CAMSHAFT_TRY(apply_epilogue(attrs.epilogue, sums, extents_of(y),
                              args.inputs.subspan(std::min<size_t>(3, args.inputs.size()))));
  store(y, sums);
  return ok_status();
}

}  // namespace

std::span<const KindRow> matmul_kinds() {
  static constexpr KindRow kRows[] = {{ir::LayerKind::kMatrixMultiply, {matrix_multiply, nullptr}}};
  return kRows;
}

}  // namespace camshaft::kernels::reference
