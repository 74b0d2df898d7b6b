// SPDX-License-Identifier: Apache-2.0
// LowBitMultiply: weights as the records say, in double; rows as they are.
#include <algorithm>

#include "ir/weight_records.h"
#include "kernels/reference/tables.h"

namespace camshaft::kernels::reference {
namespace {

// Column `column` of the weights.
void unpack(const ir::RecordReader& records, int64_t column, std::vector<double>& weights) {
  const ir::RecordLayout& layout = records.layout();
  for (int64_t b = 0; b < layout.blocks(); ++b) {
    const double scale = records.scale(column, b), zero = records.zero(column, b);
    for (int64_t k = 0; k < layout.count_of(b); ++k)
      weights[b * layout.block + k] = (records.code(column, b, k) - zero) * scale;
  }
}

Status low_bit_multiply(const KernelArgs& args) {
  const TensorView &a = args.inputs[0], &y = args.outputs[0];
  const auto& attrs = args.layer->as<ir::LowBitMultiplyAttrs>();
  const ir::RecordLayout layout(attrs);
  if (a.rank < 1 || a.extents[a.rank - 1] != layout.depth ||
      args.inputs[1].elements() != layout.bytes())
    return make_error(ErrorCode::kInvalidArgument, "rows and weights of few bits do not match");
  const std::vector<double> rows = load<double>(a);
  const int64_t count = static_cast<int64_t>(rows.size()) / layout.depth;
  std::vector<double> sums(count * layout.columns);
  const ir::RecordReader records(layout, args.inputs[1].as<const std::byte>());
  parallel(args, layout.columns, [&](int64_t column) {
    std::vector<double> weights(layout.depth);
    unpack(records, column, weights);
    for (int64_t row = 0; row < count; ++row) {
      double sum = 0;
      for (int64_t k = 0; k < layout.depth; ++k) sum += rows[row * layout.depth + k] * weights[k];
      sums[row * layout.columns + column] = sum;
    }
  });
  if (const TensorView bias = input(args, 2); bias.present()) {
    const std::vector<double> addend = load<double>(broadcast_to(bias, extents_of(y)));
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += addend[i];
  }
  CAMSHAFT_TRY(apply_epilogue(attrs.epilogue, sums, extents_of(y),
                              args.inputs.subspan(std::min<size_t>(3, args.inputs.size()))));
  store(y, sums);
  return ok_status();
}

}  // namespace

std::span<const KindRow> low_bits_kinds() {
  static constexpr KindRow kRows[] = {
      {ir::LayerKind::kLowBitMultiply, {low_bit_multiply, nullptr}}};
  return kRows;
}

}  // namespace camshaft::kernels::reference
