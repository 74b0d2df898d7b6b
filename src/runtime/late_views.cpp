// SPDX-License-Identifier: Apache-2.0
// Late tensors that lie in others: views of the plan, and slices that turn out to be one piece.
#include <algorithm>

#include "kernels/reference/slice_range.h"
#include "runtime/executor.h"
#include "runtime/placing.h"

namespace camshaft::runtime {

using engine::PlanStep;
using engine::PlanTensor;
using ir::Dim;

Status Executor::place_late_view(int t) {
  const PlanTensor& tensor = plan().tensors[t];
  const TensorView parent = this->tensor(tensor.parent);
  ir::Extents extents;
  if (!tensor.has_rank) {
    extents.assign(parent.extents, parent.extents + std::max(parent.rank, 0));
  } else if (!parent.present() || !current_->bindings.known(tensor.shape)) {
    return make_error(ErrorCode::kInternal, "tensor {}: its shape is not known when it is needed",
                      tensor.name);
  } else {
    for (const Dim dim : tensor.shape) extents.push_back(current_->bindings.value(dim));
  }
  TensorView view = kernels::make_view(nullptr, tensor.type, tensor.format, extents);
  size_t offset = 0;
  if (tensor.parent_axis < 0 && view.elements() != parent.elements())
    return make_error(ErrorCode::kInternal, "view {} does not fit its parent", tensor.name);
  CAMSHAFT_TRY(place_in_parent(tensor, parent, current_->bindings, view, offset));
  view.data = static_cast<std::byte*>(parent.data) + offset;
  current_->tensors[t] = view;
  return place_aliases(t);
}

Status Executor::place_aliases(int t) {
  for (const int alias : facts_.tensors[t].aliases)
    if (current_->locations[alias].space == Space::kLate) CAMSHAFT_TRY(place_late_view(alias));
  return ok_status();
}

namespace {

// The dimension whose range is taken of a dense x, where what is taken is one piece; -1: it is not.
int piece_dimension(const TensorView& x, std::span<const int64_t> y) {
  int d = x.rank - 1;
  while (d > 0 && y[d] == x.extents[d]) --d;
  return std::all_of(y.begin(), y.begin() + std::max(d, 0), [](int64_t n) { return n == 1; }) ? d
                                                                                              : -1;
}

}  // namespace

Result<bool> Executor::view_slice(const PlanStep& step, const KernelArgs& args,
                                  const kernels::reference::SliceRange& range) {
  const std::span<const int64_t> extents = range.size;
  const TensorView& x = args.inputs[0];
  const int t = step.outputs[0];
  if (!x.data || current_->locations[t].space != Space::kLate || !kernels::is_dense(x) ||
      x.format != ir::Format::kLinear || plan().tensors[t].format != ir::Format::kLinear ||
      plan().tensors[t].type != x.type || ir::bits_of(x.type) < 8 || x.rank == 0 ||
      ir::element_count(extents) == 0)
    return false;
  const int piece = piece_dimension(x, extents);
  if (piece < 0 || (extents[piece] > 1 && range.step[piece] != 1)) return false;
  int64_t offset = 0;
  for (int d = 0; d < x.rank; ++d) {
    if (range.start[d] < 0 || range.start[d] + extents[d] > x.extents[d]) return false;
    offset += range.start[d] * x.strides[d];
  }
  CAMSHAFT_TRY(define_late(
      t, extents, x.as<std::byte>() + offset * static_cast<int64_t>(ir::bits_of(x.type) / 8)));
  return true;
}

}  // namespace camshaft::runtime
