// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel.h"

namespace camshaft::kernels {

int64_t TensorView::elements() const {
  int64_t count = 1;
  for (int d = 0; d < rank; ++d) count *= extents[d];
  return count;
}

void set_dense_strides(TensorView& view) {
  int64_t stride = 1;
  const bool channel_last = view.format == Format::kChannelLast && view.rank >= 3;
  if (channel_last) {
    view.strides[1] = stride;
    stride *= view.extents[1];
  }
  for (int d = view.rank - 1; d >= 0; --d) {
    if (channel_last && d == 1) continue;
    view.strides[d] = stride;
    stride *= view.extents[d];
  }
}

TensorView make_view(void* data, DataType type, Format format, std::span<const int64_t> extents) {
  TensorView view;
  view.data = data;
  view.type = type;
  view.format = format;
  view.rank = static_cast<int>(extents.size());
  for (size_t d = 0; d < extents.size(); ++d) view.extents[d] = extents[d];
  set_dense_strides(view);
  return view;
}

bool is_dense(const TensorView& view) {
  TensorView dense = view;
  set_dense_strides(dense);
  for (int d = 0; d < view.rank; ++d)
    if (view.extents[d] > 1 && view.strides[d] != dense.strides[d]) return false;
  return true;
}

}  // namespace camshaft::kernels
