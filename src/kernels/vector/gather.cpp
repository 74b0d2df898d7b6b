// SPDX-License-Identifier: Apache-2.0
// Gather along an axis by constant indices, checked while building: one strided copy per index.
// Indices known only when running stay with the reference kernel, which can report a bad one.
#include "kernels/vector/copy.h"
#include "kernels/vector/tactic_util.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {
namespace {

const ir::GatherAttrs& attrs_of(const ir::Layer& layer) {
  return *std::get_if<ir::GatherAttrs>(&layer.attrs);
}

int64_t index_at(const void* data, DataType type, int64_t k) {
  return type == DataType::kInt64 ? static_cast<const int64_t*>(data)[k]
                                  : static_cast<const int32_t*>(data)[k];
}

std::string refusal(const Problem& p) {
  const ProblemTensor &x = p.inputs[0], &indices = p.inputs[1];
  if (attrs_of(*p.layer).mode != ir::GatherMode::kDefault) return "not along one axis";
  if (indices.constant == nullptr) return "indices are known only when running";
  if (indices.type != DataType::kInt64 && indices.type != DataType::kInt32)
    return "indices are neither int64 nor int32";
  if (x.type == DataType::kInt4 || x.type == DataType::kUInt4) return "4-bit elements";
  const int64_t extent = x.extents[static_cast<size_t>(attrs_of(*p.layer).axis)],
                count = count_of(indices);
  for (int64_t k = 0; k < count; ++k) {
    const int64_t index = index_at(indices.constant->view.data(), indices.type, k);
    if (index < -extent || index >= extent) return "an index is out of range";
  }
  return "";
}

double cost_us(const Problem& p) {
  const double bytes = static_cast<double>(count_of(p.outputs[0]) * bytes_of(p.outputs[0].type));
  return 0.1 * static_cast<double>(count_of(p.inputs[1])) + 2 * bytes / kBytesPerUs;
}

void run(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &indices = args.inputs[1], &y = args.outputs[0];
  const int axis = static_cast<int>(attrs_of(*args.layer).axis);
  if (count_of(y) == 0) return;
  // One slice of each side: x without its axis, y without the dimensions of the indices.
  TensorView from = x, to = y;
  from.rank = to.rank = x.rank - 1;
  for (int d = axis; d < from.rank; ++d)
    from.extents[d] = x.extents[d + 1], from.strides[d] = x.strides[d + 1];
  for (int d = axis; d < to.rank; ++d)
    to.extents[d] = y.extents[d + indices.rank], to.strides[d] = y.strides[d + indices.rank];
  const int64_t count = count_of(indices), bytes = bytes_of(y.type);
  int64_t position[ir::kMaxRank] = {}, target = 0;
  for (int64_t k = 0; k < count; ++k) {
    int64_t index = index_at(indices.data, indices.type, k);
    if (index < 0) index += x.extents[axis];
    from.data = x.as<char>() + index * x.strides[axis] * bytes;
    to.data = y.as<char>() + target * bytes;
    copy_view(from, to, args.pool);
    for (int d = indices.rank - 1; d >= 0; --d) {
      target += y.strides[axis + d];
      if (++position[d] < indices.extents[d]) break;
      target -= indices.extents[d] * y.strides[axis + d];
      position[d] = 0;
    }
  }
}

constexpr Tactic kTactics[] = {
    {"gather_copy", ir::LayerKind::kGather, kIsa, FormatRule::kAny, 1, refusal, cost_us,
     CAMSHAFT_NOTHING_PACKED, run},
};

}  // namespace

std::span<const Tactic> gather_tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
