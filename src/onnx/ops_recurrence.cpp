// SPDX-License-Identifier: Apache-2.0
// RNN, GRU, LSTM.
#include "onnx/node.h"

namespace camshaft::onnx_import {
namespace {

Result<ir::RnnDirection> direction(Node& node) {
  const std::string text = node.text("direction", "forward");
  if (text == "forward") return ir::RnnDirection::kForward;
  if (text == "reverse") return ir::RnnDirection::kReverse;
  if (text == "bidirectional") return ir::RnnDirection::kBidirectional;
  return invalid("direction \"{}\"", text);
}

template <ir::RnnKind kind>
Status import_recurrence(Node& node) {
  CAMSHAFT_TRY(node.require(3, kind == ir::RnnKind::kLstm ? 8 : 6));
  ir::RnnAttrs attrs;
  attrs.kind = kind;
  CAMSHAFT_ASSIGN(attrs.direction, direction(node));
  attrs.hidden_size = node.integer("hidden_size", 0);
  const Tensor& recurrent = *node.input(2);
  if (attrs.hidden_size == 0 && recurrent.has_rank && recurrent.shape.size() == 3 &&
      recurrent.shape[2].is_known())
    attrs.hidden_size = recurrent.shape[2].extent();
  attrs.batch_first = node.flag("layout", false);
  attrs.clip = node.real("clip", 0);
  attrs.activations = node.texts("activations");
  // The schema's default, which ONNX Runtime writes out, is of two directions, whatever the node
  // has.
  if (kind == ir::RnnKind::kRnn && attrs.direction != ir::RnnDirection::kBidirectional &&
      attrs.activations == std::vector<std::string>{"Tanh", "Tanh"})
    attrs.activations.pop_back();
  attrs.activation_alpha = node.floats("activation_alpha");
  attrs.activation_beta = node.floats("activation_beta");
  node.ignore({"output_sequence"});
  if (kind == ir::RnnKind::kGru)
    attrs.linear_before_reset = node.flag("linear_before_reset", false);
  if (kind == ir::RnnKind::kLstm) attrs.input_forget = node.flag("input_forget", false);
  return node.emit(LayerKind::kRecurrence, std::move(attrs), node.inputs());
}

constexpr OperatorRow kOperators[] = {
    {"RNN", import_recurrence<ir::RnnKind::kRnn>},
    {"GRU", import_recurrence<ir::RnnKind::kGru>},
    {"LSTM", import_recurrence<ir::RnnKind::kLstm>},
};

}  // namespace

std::span<const OperatorRow> recurrence_operators() {
  return kOperators;
}

}  // namespace camshaft::onnx_import
