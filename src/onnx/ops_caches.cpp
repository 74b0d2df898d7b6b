// SPDX-License-Identifier: Apache-2.0
// TensorScatter, as the static caches of decoders are written, by the layer AppendRows.
#include "ir/append_rows.h"
#include "onnx/ops_attention.h"

namespace camshaft::onnx_import {

// New rows of a cache of fixed size.
Status import_tensor_scatter(Node& node) {
  CAMSHAFT_TRY(node.require(2, 3));
  const Tensor *past = node.input(0), *fresh = node.input(1), *first = node.input(2);
  if (!past->has_rank || !fresh->has_rank || past->shape.size() != fresh->shape.size() ||
      (first && (!first->has_rank || first->shape.size() != 1)) ||
      node.text("mode", "linear") != "linear")
    return import_generic(node);
  CAMSHAFT_ASSIGN(const int64_t axis, node.axis(node.integer("axis", -2), past->shape.size()));
  for (size_t d = 0; d < past->shape.size(); ++d)
    if (axis == 0 || (static_cast<int64_t>(d) != axis && past->shape[d] != fresh->shape[d]))
      return import_generic(node);
  std::vector<Tensor*> inputs = {node.input(0), node.input(1)};
  if (first) inputs.push_back(node.input(2));
  return node.emit(LayerKind::kGeneric, ir::append_attributes(axis), std::move(inputs));
}

}  // namespace camshaft::onnx_import
