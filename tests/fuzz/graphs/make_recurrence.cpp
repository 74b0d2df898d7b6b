// SPDX-License-Identifier: Apache-2.0
// Recurrence: RNN, GRU and LSTM with what ONNX lets them have: lengths per item, states, peepholes,
// other activations.
#include <algorithm>

#include "fuzz/graphs/graph_maker.h"
#include "ir/extents.h"

namespace camshaft::fuzz {
namespace {

// A layer of x [time, batch, inputs], or [batch, time, inputs].
struct Layout {
  Tensor* x;
  bool batch_first;

  size_t time_axis() const { return batch_first ? 1 : 0; }
  size_t batch_axis() const { return batch_first ? 0 : 1; }
  Dim batch() const { return x->shape[batch_axis()]; }
};

int64_t gates_of(ir::RnnKind kind) {
  return kind == ir::RnnKind::kLstm ? 4 : kind == ir::RnnKind::kGru ? 3 : 1;
}

// A whole number for each item, of as many items as only running may tell: 3, 6, 9 …
Tensor* multiples(GraphMaker& m, Dim count, int64_t factor) {
  ir::FillAttrs fill;
  fill.type = DataType::kInt32;
  fill.value = static_cast<double>(factor);
  fill.shape = {count};
  Tensor* filled = m.add(LayerKind::kFill, fill, {});
  return filled
             ? m.add(LayerKind::kCumSum, ir::CumSumAttrs{}, {filled, m.scalar(DataType::kInt64, 0)})
             : nullptr;
}

// Numbers of the graph, one for each item.
Tensor* any_numbers(GraphMaker& m, Dim count) {
  Tensor* numbers = m.any([&](Tensor* t) {
    return (t->type == DataType::kInt32 || t->type == DataType::kInt64) && t->has_rank &&
           t->shape == Shape{count};
  });
  return numbers && numbers->type == DataType::kInt64
             ? m.add(LayerKind::kCast, ir::CastAttrs{DataType::kInt32}, {numbers})
             : numbers;
}

// How long each item is, in [0, steps]: none, some or all of the steps.
Tensor* lengths(GraphMaker& m, const Layout& layout) {
  const int64_t steps = m.least(layout.x, static_cast<int64_t>(layout.time_axis()));
  const Dim batch = layout.batch();
  if (batch.is_known() && m.chance(40))
    return m.whole(DataType::kInt32, {batch.extent()}, m.chance(70) ? 1 : 0,
                   std::max<int64_t>(steps, 1));
  Tensor* numbers = m.chance(30) ? any_numbers(m, batch) : nullptr;
  if (!numbers) numbers = multiples(m, batch, m.between(1, 7));
  return numbers ? m.binary(PointOp::kMod, numbers,
                            m.scalar(DataType::kInt32, static_cast<double>(steps + 1)))
                 : nullptr;
}

int64_t directions_of(const ir::RnnAttrs& a) {
  return a.direction == ir::RnnDirection::kBidirectional ? 2 : 1;
}

void choose_activations(GraphMaker& m, ir::RnnAttrs& a) {
  static const std::vector<std::string> names = {"Tanh",      "Sigmoid",    "Relu",        "Affine",
                                                 "LeakyRelu", "ScaledTanh", "HardSigmoid", "Elu",
                                                 "Softsign",  "Softplus"};
  const int64_t functions = a.kind == ir::RnnKind::kLstm ? 3 : a.kind == ir::RnnKind::kGru ? 2 : 1;
  for (int64_t k = 0; k < functions * directions_of(a); ++k) a.activations.push_back(m.pick(names));
  const auto takes = [](const std::string& name, std::initializer_list<const char*> list) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  if (m.chance(50)) return;
  for (const std::string& name : a.activations) {
    if (takes(name, {"Affine", "LeakyRelu", "ScaledTanh", "HardSigmoid", "Elu"}))
      a.activation_alpha.push_back(m.real(0.1f, 0.6f));
    if (takes(name, {"Affine", "ScaledTanh", "HardSigmoid"}))
      a.activation_beta.push_back(m.real(0.1f, 0.6f));
  }
}

ir::RnnAttrs any_attributes(GraphMaker& m) {
  ir::RnnAttrs a;
  a.kind = m.pick({ir::RnnKind::kRnn, ir::RnnKind::kGru, ir::RnnKind::kLstm});
  a.direction = m.pick({ir::RnnDirection::kForward, ir::RnnDirection::kForward,
                        ir::RnnDirection::kReverse, ir::RnnDirection::kBidirectional});
  a.hidden_size = m.chance(85) ? m.between(1, 9) : 17;
  a.batch_first = m.chance(25);
  a.linear_before_reset = a.kind == ir::RnnKind::kGru && m.chance(50);
  a.input_forget = a.kind == ir::RnnKind::kLstm && m.chance(8);
  if (m.chance(10)) a.clip = 0.7f;
  if (m.chance(15)) choose_activations(m, a);
  return a;
}

// Weights of an LSTM as 8-bit codes, with their scales and zero points in the last four inputs.
void quantize_weights(GraphMaker& m, int64_t directions, int64_t rows,
                      std::vector<Tensor*>& inputs) {
  const DataType type = m.chance(50) ? DataType::kInt8 : DataType::kUInt8;
  const int64_t low = type == DataType::kInt8 ? -128 : 0;
  inputs.resize(12);
  for (size_t k = 1; k < 3; ++k) {
    const Tensor* floats = inputs[k];
    inputs[k] = m.whole(type, ir::extents_of(floats->shape), low, low + 255);
    inputs[6 + 2 * k] = m.floats({directions, rows}, 0.001f, 0.004f);
    inputs[7 + 2 * k] = m.whole(type, {directions, rows}, low + 100, low + 150);
  }
}

bool recurrence(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) {
    return t->type == DataType::kFloat && t->has_rank && m.rank(t) == 3 && t->shape[2].is_known() &&
           t->shape[2].extent() > 0 && m.most(t, 0) * m.most(t, 1) <= 60;
  });
  if (!x) return false;
  const ir::RnnAttrs a = any_attributes(m);
  const Layout layout{x, a.batch_first};
  const int64_t directions = directions_of(a);
  const int64_t rows = gates_of(a.kind) * a.hidden_size, h = a.hidden_size;
  std::vector<Tensor*> inputs = {
      x, m.floats({directions, rows, x->shape[2].extent()}, -0.5f, 0.5f),
      m.floats({directions, rows, h}, -0.5f, 0.5f),
      m.chance(60) ? m.floats({directions, 2 * rows}, -0.5f, 0.5f) : nullptr,
      m.chance(35) ? lengths(m, layout) : nullptr};
  inputs.resize(8);
  if (m.chance(25) && layout.batch().is_known()) {
    const int64_t batch = layout.batch().extent();
    const Extents state =
        a.batch_first ? Extents{batch, directions, h} : Extents{directions, batch, h};
    inputs[5] = m.floats(state, -1, 1);
    if (a.kind == ir::RnnKind::kLstm && m.chance(60)) inputs[6] = m.floats(state, -1, 1);
  }
  if (a.kind == ir::RnnKind::kLstm && m.chance(10))
    inputs[7] = m.floats({directions, 3 * h}, -0.5f, 0.5f);
  if (a.kind == ir::RnnKind::kLstm && m.chance(30)) quantize_weights(m, directions, rows, inputs);
  while (!inputs.back()) inputs.pop_back();
  const std::vector<bool> wanted = {m.chance(85), m.chance(60),
                                    a.kind == ir::RnnKind::kLstm && m.chance(40)};
  if (!wanted[0] && !wanted[1]) return false;
  const std::vector<Tensor*> outputs = m.add_many(LayerKind::kRecurrence, a, inputs, wanted);
  return outputs[0] || outputs[1];
}

constexpr MakerRow kRows[] = {{"recurrence", 1, recurrence}};

}  // namespace

MakerTable recurrence_makers() {
  return kRows;
}

}  // namespace camshaft::fuzz
