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

// The weights of an LSTM as codes.
struct LstmCodes {
  const Tensor *codes, *scales, *zeros;
  int64_t directions = 0, rows = 0, columns = 0;

  int64_t each() const { return directions * columns; }
};

Result<LstmCodes> lstm_codes(std::string_view step, const Tensor* codes, const Tensor* scales,
                             const Tensor* zeros) {
  for (const Tensor* part : {codes, scales, zeros})
    if (part == nullptr || !part->is_constant())
      return unsupported("{}: its codes, scales or zero points are no constants", step);
  if (codes->shape.size() != 3 || !ir::is_quantized(codes->type) || zeros->type != codes->type)
    return invalid("{} is not [directions, rows, columns] of 8 bits with zero points", step);
  LstmCodes w{codes,
              scales,
              zeros,
              codes->shape[0].extent(),
              codes->shape[1].extent(),
              codes->shape[2].extent()};
  const auto size = static_cast<int64_t>(scales->constant->view.size() / sizeof(float));
  const auto zero_count = static_cast<int64_t>(zeros->constant->view.size());
  if (scales->type != DataType::kFloat || (size != w.directions && size != w.each()) ||
      (zero_count != w.directions && zero_count != w.each()))
    return invalid("{}: {} scales and {} zero points of {} directions and {} columns", step, size,
                   zero_count, w.directions, w.columns);
  return w;
}

// [directions, K, 4 H] becomes [directions, 4 H, K].
Tensor* transposed_codes(Node& node, std::string_view step, const LstmCodes& w) {
  const std::byte* from = w.codes->constant->view.data();
  std::vector<std::byte> codes(w.codes->constant->view.size());
  for (int64_t column = 0; column < w.each(); ++column)
    for (int64_t row = 0; row < w.rows; ++row)
      codes[static_cast<size_t>(column * w.rows + row)] =
          from[(column / w.columns * w.rows + row) * w.columns + column % w.columns];
  const int64_t extents[] = {w.directions, w.columns, w.rows};
  return node.constant(step, w.codes->type, extents, std::move(codes));
}

// One element per direction or column: per column.
Tensor* per_column(Node& node, std::string_view step, const LstmCodes& w, const Tensor* part) {
  const size_t bytes = ir::bytes_for(part->type, 1);
  const auto from = part->constant->view;
  const bool has_all = from.size() == static_cast<size_t>(w.each()) * bytes;
  std::vector<std::byte> elements(static_cast<size_t>(w.each()) * bytes);
  for (int64_t column = 0; column < w.each(); ++column)
    std::copy_n(
        from.begin() + static_cast<int64_t>(bytes) * (has_all ? column : column / w.columns), bytes,
        elements.begin() + static_cast<int64_t>(bytes) * column);
  const int64_t extents[] = {w.directions, w.columns};
  return node.constant(step, part->type, extents, std::move(elements));
}

// Inputs: those of LSTM, its weights as codes and transposed, then their scales and zero points.
Status import_dynamic_quantize_lstm(Node& node) {
  CAMSHAFT_TRY(node.require(3, 12));
  std::vector<Tensor*> inputs;
  for (size_t k = 0; k < 8; ++k) inputs.push_back(node.input(k));
  inputs.resize(12);
  const std::string_view names[2][3] = {{"W", "W_scale", "W_zero_point"},
                                        {"R", "R_scale", "R_zero_point"}};
  for (size_t k = 0; k < 2; ++k) {
    const size_t grid = 8 + 2 * k;
    CAMSHAFT_ASSIGN(const LstmCodes w, lstm_codes(names[k][0], node.input(1 + k), node.input(grid),
                                                  node.input(grid + 1)));
    inputs[1 + k] = transposed_codes(node, names[k][0], w);
    inputs[grid] = per_column(node, names[k][1], w, w.scales);
    inputs[grid + 1] = per_column(node, names[k][2], w, w.zeros);
  }
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
