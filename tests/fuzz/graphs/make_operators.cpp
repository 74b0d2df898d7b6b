// SPDX-License-Identifier: Apache-2.0
// Generic operators of signals, recurrent attention, regions, losses, caches and training.
#include <algorithm>

#include "fuzz/graphs/generic_layers.h"
#include "fuzz/graphs/graph_maker.h"
#include "ir/append_rows.h"

namespace camshaft::fuzz {
namespace {

Tensor* any_static(GraphMaker& m, int64_t least, int64_t most) {
  return m.any([&](Tensor* t) {
    return t->type == DataType::kFloat && m.rank(t) >= least && m.rank(t) <= most &&
           m.is_static(t) && ir::element_count(m.extents(t)) > 0;
  });
}

bool any_made(const std::vector<Tensor*>& outputs) {
  return std::any_of(outputs.begin(), outputs.end(), [](const Tensor* t) { return t != nullptr; });
}

// query, key, value [batch, steps, heads * depth], a state, decay and beta as the rule has them.
bool linear_attention(GraphMaker& m) {
  Tensor* x = any_static(m, 3, 3);
  if (!x) return false;
  const Extents e = m.extents(x);
  const int64_t heads = e[2] % 2 == 0 ? 2 : 1, depth = e[2] / heads;
  const char* rule = m.pick({"linear", "gated", "delta", "gated_delta"});
  const std::string name = rule;
  std::vector<Tensor*> inputs = {x, m.chance(50) ? x : m.floats(e, -1, 1), m.floats(e, -1, 1)};
  inputs.push_back(m.chance(50) ? m.floats({e[0], heads, depth, depth}, -1, 1) : nullptr);
  const bool gated = name.starts_with("gated");
  inputs.push_back(gated ? m.floats({e[0], e[1], heads * (m.chance(50) ? 1 : depth)}, -2, 0)
                         : nullptr);
  if (name.ends_with("delta"))
    inputs.push_back(m.floats({e[0], e[1], m.chance(50) ? heads : 1}, 0, 0.5f));
  while (!inputs.back()) inputs.pop_back();
  return any_made(
      m.add_many(LayerKind::kGeneric,
                 ir::GenericAttrs{"LinearAttention",
                                  27,
                                  {integer("q_num_heads", heads), integer("kv_num_heads", heads),
                                   text("update_rule", rule)}},
                 inputs, {true, m.chance(50)}));
}

bool causal_convolution(GraphMaker& m) {
  Tensor* x = any_float(m, 3, 3);
  if (!x || !x->shape[1].is_known() || x->shape[1].extent() < 1) return false;
  const int64_t channels = x->shape[1].extent(), taps = m.between(1, 4);
  std::vector<Tensor*> inputs = {x, m.floats({channels, 1, taps}, -1, 1),
                                 m.chance(50) ? m.floats({channels}, -1, 1) : nullptr};
  if (x->shape[0].is_known() && m.chance(50))
    inputs.push_back(m.floats({x->shape[0].extent(), channels, taps - 1}, -1, 1));
  return any_made(m.add_many(
      LayerKind::kGeneric,
      ir::GenericAttrs{"CausalConvWithState", 27, {text("activation", m.pick({"none", "silu"}))}},
      inputs, {true, m.chance(50)}));
}

// New rows into a buffer, by item or for all.
bool append_rows(GraphMaker& m) {
  Tensor* past = any_static(m, 3, 4);
  if (!past) return false;
  const Extents e = m.extents(past);
  const int64_t axis = m.between(1, m.rank(past) - 1), rows = e[static_cast<size_t>(axis)];
  Extents fresh = e;
  fresh[static_cast<size_t>(axis)] = m.between(1, 3);
  const int64_t room = m.chance(60) ? rows + 3 : rows,
                most = room - fresh[static_cast<size_t>(axis)];
  if (most < 0) return false;
  Tensor* made = m.any(
      [&](Tensor* t) { return t->type == past->type && m.is_static(t) && m.extents(t) == fresh; });
  Tensor* first = m.whole(DataType::kInt64, {m.chance(50) ? e[0] : 1}, 0, std::min(most, rows));
  return m.add(LayerKind::kGeneric, ir::append_attributes(axis),
               {past, made ? made : m.floats(fresh, -1, 1), first,
                room > rows ? m.scalar(DataType::kInt64, static_cast<double>(room)) : nullptr});
}

Tensor* signal(GraphMaker& m, Tensor* x) {
  if (!x || m.rank(x) == 2) return x;
  return m.reshape(x, {x->shape[0], m.symbols().mul(x->shape[1], x->shape[2])});
}

bool stft(GraphMaker& m) {
  Tensor* x = signal(m, any_float(m, 2, 3));
  if (!x || m.least(x, 1) < 2 || m.most(x, 1) > 200) return false;
  const int64_t most = m.least(x, 1),
                length = m.chance(70) ? m.between(2, std::min<int64_t>(most, 16)) : most;
  const double step = static_cast<double>(m.between(1, length));
  std::vector<Tensor*> inputs = {x, m.scalar(DataType::kInt64, step),
                                 m.chance(60) ? m.floats({length}, 0, 1) : nullptr};
  if (!inputs[2] || m.chance(50))
    inputs.push_back(m.scalar(DataType::kInt64, static_cast<double>(length)));
  return m.generic("STFT", 17, inputs, {integer("onesided", m.below(2))});
}

// Bins, real and imaginary, back to a signal.
bool inverse_dft(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) {
    return t->type == DataType::kFloat && t->has_rank && m.rank(t) == 3 && t->shape[2] == Dim(2) &&
           m.least(t, 1) > 1 && m.most(t, 1) <= 400;
  });
  return x &&
         m.generic("DFT", 17, {x},
                   {integer("axis", 1), integer("inverse", 1), integer("onesided", m.below(2))});
}

bool window(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) {
    return t->type == DataType::kFloat && t->has_rank && m.rank(t) >= 1 &&
           t->shape.back().is_known() && t->shape.back().extent() > 1;
  });
  if (!x) return false;
  Tensor* made =
      m.generic(m.pick({"HannWindow", "HammingWindow", "BlackmanWindow"}), 17,
                {m.scalar(DataType::kInt64, static_cast<double>(x->shape.back().extent()))},
                {integer("periodic", m.below(2))});
  return m.binary(PointOp::kMul, x, made);
}

bool loss(GraphMaker& m) {
  Tensor* x = any_static(m, 2, 4);
  if (!x) return false;
  const Extents& e = m.extents(x);
  const int64_t classes = e[1];
  Extents labels = {e[0]};
  for (size_t d = 2; d < e.size(); ++d) labels.push_back(e[d]);
  std::vector<Tensor*> inputs = {x, m.whole(DataType::kInt64, labels, 0, classes - 1)};
  if (m.chance(40)) inputs.push_back(m.floats({classes}, 0.5f, 1.5f));
  std::vector<ir::GenericAttribute> attributes = {
      text("reduction", m.pick({"none", "sum", "mean"}))};
  if (m.chance(30)) attributes.push_back(integer("ignore_index", m.below(classes)));
  return m.generic(m.pick({"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"}), 13, inputs,
                   attributes);
}

// A BatchNormalization that still learns: statistics of what it reads, and the running ones.
bool training_normalization(GraphMaker& m) {
  Tensor* x = any_float(m, 2, 4);
  if (!x || !x->shape[1].is_known() || x->shape[1].extent() < 1) return false;
  for (int64_t d = 0; d < m.rank(x); ++d)
    if (m.least(x, d) < 1) return false;
  const Extents channels = {x->shape[1].extent()};
  return any_made(m.add_many(
      LayerKind::kGeneric,
      ir::GenericAttrs{"BatchNormalization",
                       15,
                       {integer("training_mode", 1), real("epsilon", m.pick({0.1f, 1e-3f}))}},
      {x, m.floats(channels, 0.5f, 1.5f), m.floats(channels, -1, 1), m.floats(channels, -1, 1),
       m.floats(channels, 0.5f, 1.5f)},
      {true, m.chance(40), m.chance(40)}));
}

// Regions of a map stretched to one size through a grid.
bool affine_grid(GraphMaker& m) {
  Tensor* x = any_static(m, 4, 4);
  if (!x) return false;
  const Extents e = m.extents(x);
  Tensor* grid = m.generic("AffineGrid", 20,
                           {m.floats({e[0], 2, 3}, -0.7f, 0.7f),
                            m.vector({e[0], e[1], m.between(1, 5), m.between(1, 5)})},
                           {integer("align_corners", m.below(2))});
  return grid && m.generic("GridSample", 20, {x, grid},
                           {text("mode", "linear"), text("padding_mode", "zeros"),
                            integer("align_corners", m.below(2))});
}

bool max_roi_pool(GraphMaker& m) {
  Tensor* x = any_float(m, 4, 4);
  if (!x || m.least(x, 0) < 1 || m.least(x, 2) < 1 || m.least(x, 3) < 1) return false;
  return m.generic("MaxRoiPool", 1,
                   {x, m.constant(DataType::kFloat, {2, 5}, {0, 0, 0, 3, 3, 0, 1, 1, 4, 5})},
                   {list("pooled_shape", {2, 3}), real("spatial_scale", m.pick({1.0f, 0.5f}))});
}

bool bit_cast(GraphMaker& m) {
  constexpr int64_t kOnnxFloat = 1, kOnnxInt32 = 6;
  Tensor* x = m.any([&](Tensor* t) { return t->type == DataType::kFloat && m.is_exact(t); });
  if (!x) return false;
  Tensor* bits = m.generic("BitCast", 26, {x}, {integer("to", kOnnxInt32)});
  return bits && m.generic("BitCast", 26, {bits}, {integer("to", kOnnxFloat)});
}

// One step of training: weights and states after it.
bool optimizer(GraphMaker& m) {
  Tensor* x = any_static(m, 1, 3);
  if (!x) return false;
  const Extents e = m.extents(x);
  const int64_t which = m.below(3);
  std::vector<Tensor*> inputs = {m.scalar(DataType::kFloat, 0.1),
                                 m.scalar(DataType::kInt64, static_cast<double>(m.below(3))),
                                 m.floats(e, -1, 1), x, m.floats(e, 0.1f, 1)};
  if (which == 2) inputs.push_back(m.floats(e, 0.1f, 1));
  std::vector<ir::GenericAttribute> attributes = {real("norm_coefficient", 0.01f)};
  if (which == 0) attributes.push_back(real("epsilon", 0.1f));
  if (which == 1)
    attributes.insert(attributes.end(), {real("alpha", 0.9f), real("beta", 0.5f),
                                         text("mode", m.pick({"standard", "nesterov"}))});
  if (which == 2) attributes.push_back(real("epsilon", 0.1f));
  const char* names[] = {"Adagrad", "Momentum", "Adam"};
  std::vector<bool> wanted = {true, m.chance(60)};
  if (which == 2) wanted.push_back(m.chance(60));
  return any_made(m.add_many(LayerKind::kGeneric, ir::GenericAttrs{names[which], 1, attributes},
                             inputs, wanted));
}

constexpr MakerRow kRows[] = {
    {"linear_attention", 6, linear_attention},
    {"causal_convolution", 6, causal_convolution},
    {"append_rows", 6, append_rows},
    {"stft", 4, stft},
    {"inverse_dft", 6, inverse_dft},
    {"window", 3, window},
    {"loss", 5, loss},
    {"training_normalization", 4, training_normalization},
    {"affine_grid", 4, affine_grid},
    {"max_roi_pool", 3, max_roi_pool},
    {"bit_cast", 6, bit_cast},
    {"optimizer", 3, optimizer},
};

}  // namespace

MakerTable operator_makers() {
  return kRows;
}

}  // namespace camshaft::fuzz
