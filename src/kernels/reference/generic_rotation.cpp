// SPDX-License-Identifier: Apache-2.0
// Rotation, element by element.
#include "ir/rotation.h"
#include "kernels/reference/generic.h"

namespace camshaft::kernels::reference {
namespace {

Status rotation(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const int64_t half = ir::rotated_half(*args.layer);
  const int last = x.rank - 1;
  const int64_t width =
      args.inputs[ir::kRotationCosine].rank < 1
          ? 0
          : args.inputs[ir::kRotationCosine].extents[args.inputs[ir::kRotationCosine].rank - 1];
  if (half < 1 || last < 0 || x.extents[last] < 2 * half || (width != half && width != 2 * half))
    return make_error(ErrorCode::kInvalidArgument, "Rotation of {} pairs by {} cosines", half,
                      width);
  Extents spread = extents_of(x);
  spread[last] = width;
  const std::vector<double> values = load<double>(x),
                            cosine = load<double>(
                                broadcast_to(args.inputs[ir::kRotationCosine], spread)),
                            sine =
                                load<double>(broadcast_to(args.inputs[ir::kRotationSine], spread));
  std::vector<double> result = values;
  const int64_t depth = x.extents[last], rows = depth == 0 ? 0 : x.elements() / depth;
  const bool neighbours = ir::turns_neighbours(*args.layer), each = width == 2 * half;
  // Of a pair: where its first element is, how far the second; the same of its factors.
  const int64_t step = neighbours ? 2 : 1, apart = neighbours ? 1 : half;
  const int64_t factor_step = neighbours && each ? 2 : 1, factor_apart = each ? apart : 0;
  for (int64_t row = 0; row < rows; ++row) {
    const double* from = values.data() + row * depth;
    const double *c = cosine.data() + row * width, *s = sine.data() + row * width;
    double* to = result.data() + row * depth;
    for (int64_t k = 0; k < half; ++k) {
      const int64_t a = k * step, b = a + apart, i = k * factor_step, j = i + factor_apart;
      to[a] = from[a] * c[i] - from[b] * s[i];
      to[b] = from[b] * c[j] + from[a] * s[j];
    }
  }
  store(y, result);
  return ok_status();
}

}  // namespace

std::span<const GenericRow> generic_rotation_operators() {
  static constexpr GenericRow kRows[] = {{ir::kRotation, {rotation, nullptr}}};
  return kRows;
}

}  // namespace camshaft::kernels::reference
