// SPDX-License-Identifier: Apache-2.0
// RNN, GRU, LSTM, and the LSTM with weights of 8 bits that ONNX Runtime's quantize_dynamic makes.
#include "onnx/ops_attention.h"

namespace camshaft::onnx_import {
namespace {

Result<ir::RnnDirection> direction(Node& node) {
  const std::string text = node.text("direction", "forward");
  if (text == "forward") return ir::RnnDirection::kForward;
  if (text == "reverse") return ir::RnnDirection::kReverse;
  if (text == "bidirectional") return ir::RnnDirection::kBidirectional;
  return invalid("direction \"{}\"", text);
}

Status emit_recurrence(Node& node, ir::RnnKind kind, std::vector<Tensor*> inputs) {
  ir::RnnAttrs attrs;
  attrs.kind = kind;
  CAMSHAFT_ASSIGN(attrs.direction, direction(node));
  attrs.hidden_size = node.integer("hidden_size", 0);
  const Tensor& recurrent = *inputs[2];
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
  return node.emit(LayerKind::kRecurrence, std::move(attrs), std::move(inputs));
}

template <ir::RnnKind kind>
Status import_recurrence(Node& node) {
  CAMSHAFT_TRY(node.require(3, kind == ir::RnnKind::kLstm ? 8 : 6));
  return emit_recurrence(node, kind, node.inputs());
}

// Codes [directions, K, 4 H] as the weights [directions, 4 H, K] of an LSTM. There is a scale (and
// a zero point) per direction or per column.
Result<Tensor*> lstm_weights(Node& node, std::string_view step, const Tensor* codes,
                             const Tensor* scales, const Tensor* zeros) {
  for (const Tensor* part : {codes, scales, zeros})
    if (part == nullptr || !part->is_constant())
      return unsupported("{}: its codes, scales or zero points are no constants", step);
  const bool coded = codes->type == DataType::kInt8 || codes->type == DataType::kUInt8;
  if (codes->shape.size() != 3 || !coded || zeros->type != codes->type)
    return invalid("{} is not [directions, rows, columns] of 8 bits with zero points", step);
  const int64_t directions = codes->shape[0].extent(), rows = codes->shape[1].extent(),
                columns = codes->shape[2].extent(), each = directions * columns;
  const auto size = static_cast<int64_t>(scales->constant->view.size() / sizeof(float));
  const auto zero_count = static_cast<int64_t>(zeros->constant->view.size());
  if (scales->type != DataType::kFloat || (size != directions && size != each) ||
      (zero_count != directions && zero_count != each))
    return invalid("{}: {} scales and {} zero points of {} directions and {} columns", step, size,
                   zero_count, directions, columns);
  const auto at = [&](const Tensor* tensor, int64_t k) {
    return read_element(tensor->type, tensor->constant->view.data(), k);
  };
  std::vector<float> weights(static_cast<size_t>(each * rows));
  for (int64_t column = 0; column < each; ++column) {
    const int64_t direction = column / columns;
    const double scale = at(scales, size == each ? column : direction),
                 zero = at(zeros, zero_count == each ? column : direction);
    for (int64_t row = 0; row < rows; ++row)
      weights[static_cast<size_t>(column * rows + row)] = static_cast<float>(
          (at(codes, (direction * rows + row) * columns + column % columns) - zero) * scale);
  }
  const int64_t extents[] = {directions, columns, rows};
  return node.float_constant(step, extents, weights);
}

// Inputs: those of LSTM, its weights as codes and transposed, then their scales and zero points.
// Rows stay floats: what ONNX Runtime rounds to codes anew in every step is exact here.
Status import_dynamic_quantize_lstm(Node& node) {
  CAMSHAFT_TRY(node.require(3, 12));
  std::vector<Tensor*> inputs;
  for (size_t k = 0; k < 8; ++k) inputs.push_back(node.input(k));
  CAMSHAFT_ASSIGN(inputs[1], lstm_weights(node, "W", node.input(1), node.input(8), node.input(9)));
  CAMSHAFT_ASSIGN(inputs[2],
                  lstm_weights(node, "R", node.input(2), node.input(10), node.input(11)));
  while (inputs.back() == nullptr) inputs.pop_back();
  return emit_recurrence(node, ir::RnnKind::kLstm, std::move(inputs));
}

constexpr OperatorRow kMicrosoft[] = {
    {"DynamicQuantizeLSTM", import_dynamic_quantize_lstm},
};

}  // namespace

std::span<const OperatorRow> recurrence_operators() {
  static constexpr OperatorRow kOperators[] = {
      {"RNN", import_recurrence<ir::RnnKind::kRnn>},
      {"GRU", import_recurrence<ir::RnnKind::kGru>},
      {"LSTM", import_recurrence<ir::RnnKind::kLstm>},
  };
  return kOperators;
}
std::span<const OperatorRow> microsoft_recurrence_operators() {
  return kMicrosoft;
}

}  // namespace camshaft::onnx_import
