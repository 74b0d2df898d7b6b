// SPDX-License-Identifier: Apache-2.0
// Indexed reading and writing.
#include "onnx/node.h"

namespace camshaft::onnx_import {
namespace {

template <ir::GatherMode mode>
Status import_gather(Node& node) {
  CAMSHAFT_TRY(node.require(2, 2));
  ir::GatherAttrs attrs;
  attrs.mode = mode;
  if (mode == ir::GatherMode::kNd) {
    attrs.batch_dims = node.integer("batch_dims", 0);
  } else {
    attrs.axis = node.integer("axis", 0);
    if (attrs.axis < 0 || node.input(0)->has_rank) {
      CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
      CAMSHAFT_ASSIGN(attrs.axis, node.axis(attrs.axis, rank));
    }
  }
  return node.emit(LayerKind::kGather, attrs, node.inputs());
}

Result<ir::ScatterReduction> reduction(Node& node) {
  const std::string name = node.text("reduction", "none");
  if (name == "none") return ir::ScatterReduction::kNone;
  if (name == "add") return ir::ScatterReduction::kAdd;
  if (name == "mul") return ir::ScatterReduction::kMul;
  if (name == "min") return ir::ScatterReduction::kMin;
  if (name == "max") return ir::ScatterReduction::kMax;
  return invalid("reduction \"{}\"", name);
}

template <ir::ScatterMode mode>
Status import_scatter(Node& node) {
  CAMSHAFT_TRY(node.require(3, 3));
  ir::ScatterAttrs attrs;
  attrs.mode = mode;
  CAMSHAFT_ASSIGN(attrs.reduction, reduction(node));
  if (mode == ir::ScatterMode::kElements) {
    CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
    CAMSHAFT_ASSIGN(attrs.axis, node.axis(node.integer("axis", 0), rank));
  }
  return node.emit(LayerKind::kScatter, attrs, node.inputs());
}

Status import_nonzero(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  return node.emit(LayerKind::kNonZero, ir::NoAttrs{}, node.inputs());
}

}  // namespace

std::span<const OperatorRow> gather_operators() {
  static constexpr OperatorRow kOperators[] = {
      {"Gather", import_gather<ir::GatherMode::kDefault>},
      {"GatherElements", import_gather<ir::GatherMode::kElements>},
      {"GatherND", import_gather<ir::GatherMode::kNd>},
      {"Scatter", import_scatter<ir::ScatterMode::kElements>},
      {"ScatterElements", import_scatter<ir::ScatterMode::kElements>},
      {"ScatterND", import_scatter<ir::ScatterMode::kNd>},
      {"NonZero", import_nonzero},
  };
  return kOperators;
}

}  // namespace camshaft::onnx_import
