// SPDX-License-Identifier: Apache-2.0
// Generic operators: those that only have a reference kernel, and neighbours that may get others.
#include <algorithm>

#include "fuzz/graphs/generic_layers.h"
#include "fuzz/graphs/graph_maker.h"
#include "ir/expert_weights.h"

namespace camshaft::fuzz {
namespace {

bool einsum(GraphMaker& m) {
  Tensor* x = any_float(m, 2, 4);
  if (!x) return false;
  const auto equation = [](const char* value) {
    return std::vector<ir::GenericAttribute>{text("equation", value)};
  };
  const auto extent = [&](size_t d) { return x->shape[d].is_known() ? x->shape[d].extent() : 0; };
  switch (m.rank(x)) {
    case 2:
      if (m.chance(30)) return m.generic("Einsum", 12, {x, x}, equation("ij,ij->i"));
      if (m.chance(40))
        return m.generic("Einsum", 12, {x}, equation(m.pick({"ij->ji", "ij->", "ij->j"})));
      return extent(1) &&
             m.generic("Einsum", 12, {x, m.floats({extent(1), 3}, -1, 1)}, equation("ij,jk->ik"));
    case 3:
      if (m.chance(40)) return m.generic("Einsum", 12, {x, x}, equation("bij,bkj->bik"));
      return extent(2) && m.generic("Einsum", 12, {x, m.floats({extent(2), 2, 3}, -1, 1)},
                                    equation("bij,jhd->bhid"));
    default:
      if (m.chance(40)) return m.generic("Einsum", 12, {x, x}, equation("bhid,bhjd->bhij"));
      if (m.chance(40)) return m.generic("Einsum", 12, {x}, equation("...ij->...ji"));
      return extent(1) && m.generic("Einsum", 12, {x, m.floats({extent(1), 4}, -1, 1)},
                                    equation("nchw,cd->ndhw"));
  }
}

bool trilu(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) { return t->has_rank && m.rank(t) >= 2 && m.rank(t) <= 4; });
  return x && m.generic("Trilu", 14, {x, m.scalar(DataType::kInt64, m.between(-2, 2))},
                        {integer("upper", m.below(2))});
}

bool local_response(GraphMaker& m) {
  Tensor* x = any_float(m, 3, 5);
  return x &&
         m.generic("LRN", 13, {x},
                   {integer("size", m.pick({3, 5, 2})), real("alpha", 0.01f), real("beta", 0.75f)});
}

bool one_hot(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) { return t->type == DataType::kInt64 && m.rank(t) <= 3; });
  if (!x) return false;
  const int64_t depth = m.between(2, 7);
  Tensor* made = m.generic("OneHot", 11,
                           {x, m.scalar(DataType::kInt64, static_cast<double>(depth)),
                            m.constant(DataType::kFloat, {2}, {0, 1})},
                           {integer("axis", m.chance(75) ? -1 : 0)});
  if (!made || m.chance(50)) return made;
  return m.add(LayerKind::kMatrixMultiply, ir::MatrixMultiplyAttrs{},
               {made, m.floats({depth, m.between(1, 9)}, -1, 1)});
}

bool grid_sample(GraphMaker& m) {
  Tensor* x = any_float(m, 3, 5);
  if (!x || !m.is_static(x)) return false;
  const int64_t axes = m.rank(x) - 2;
  Extents extents = {m.extents(x)[0]};
  for (int64_t d = 0; d < axes; ++d) extents.push_back(m.between(1, axes == 3 ? 3 : 5));
  extents.push_back(axes);
  Tensor* grid = m.floats(extents, -1.2f, 1.2f);
  return m.generic("GridSample", 20, {x, grid},
                   {text("mode", m.pick({"linear", "cubic", "nearest"})),
                    text("padding_mode", m.pick({"zeros", "border", "reflection"})),
                    integer("align_corners", m.below(2))});
}

bool col2im(GraphMaker& m) {
  Tensor* x = any_float(m, 3, 3);
  if (!x || !x->shape[1].is_known() || !x->shape[2].is_known()) return false;
  const int64_t blocks = x->shape[2].extent();
  if (x->shape[1].extent() % 4 == 0)
    return m.generic("Col2Im", 18, {x, m.vector({2, blocks + 1}), m.vector({2, 2})}, {});
  return m.generic("Col2Im", 18, {x, m.vector({1, blocks}), m.vector({1, 1})}, {});
}

bool center_crop_pad(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) { return t->has_rank && m.rank(t) >= 2 && m.rank(t) <= 4; });
  return x && m.generic("CenterCropPad", 18, {x, m.vector({m.between(1, 9), m.between(1, 9)})},
                        {list("axes", {0, 1})});
}

bool reverse_sequence(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) { return m.rank(t) >= 2 && m.rank(t) <= 4 && m.is_static(t); });
  if (!x || m.extents(x)[0] < 1) return false;
  return m.generic("ReverseSequence", 10,
                   {x, m.whole(DataType::kInt64, {m.extents(x)[1]}, 1, m.extents(x)[0])},
                   {integer("time_axis", 0), integer("batch_axis", 1)});
}

bool attention(GraphMaker& m) {
  Tensor* x = any_float(m, 4, 4);
  if (!x || !x->shape[3].is_known() || x->shape[3].extent() < 1) return false;
  std::vector<Tensor*> inputs = {x, x, x};
  if (m.chance(50)) {
    Tensor* y =
        m.any([&](Tensor* t) { return t->type == DataType::kFloat && t->shape == x->shape; });
    inputs[2] = y;
  }
  return m.generic("Attention", 23, inputs, {integer("is_causal", m.below(2))});
}

// The bytes of its records.
std::vector<double> random_records(GraphMaker& m, const ir::LowBits& weights) {
  const ir::RecordLayout layout(weights);
  std::vector<std::byte> bytes(static_cast<size_t>(layout.bytes()));
  ir::RecordWriter records(layout, bytes.data());
  for (int64_t column = 0; column < layout.columns; ++column)
    for (int64_t b = 0; b < layout.blocks(); ++b) {
      const bool centred = weights.zero == DataType::kUndefined;
      records.set_block(
          column, b, static_cast<float>(m.between(1, 9)) / 64,
          static_cast<float>(centred ? 1 << (weights.bits - 1) : m.below(1 << weights.bits)));
      for (int64_t k = 0; k < layout.count_of(b); ++k)
        records.set_code(column, b, k, static_cast<int>(m.below(1 << weights.bits)));
    }
  std::vector<double> values;
  for (const std::byte byte : bytes) values.push_back(std::to_integer<int>(byte));
  return values;
}

bool low_bit_multiply(GraphMaker& m) {
  Tensor* x = any_float(m, 1, 4);
  if (!x || !x->shape.back().is_known() || x->shape.back().extent() < 1) return false;
  ir::LowBits weights;
  weights.columns = m.between(1, 40);
  weights.depth = x->shape.back().extent();
  weights.bits = m.pick({2, 4, 4, 8});
  weights.block = m.pick({16, 16, 3, 32});
  if (m.chance(50)) weights.zero = m.chance(50) ? DataType::kUInt8 : DataType::kFloat;
  const ir::RecordLayout layout(weights);
  std::vector<Tensor*> inputs = {
      x, m.constant(DataType::kUInt8, {layout.columns, layout.blocks(), layout.record()},
                    random_records(m, weights))};
  if (m.chance(50)) inputs.push_back(m.floats({layout.columns}, -1, 1));
  return m.add(LayerKind::kLowBitMultiply, weights, inputs);
}

Tensor* expert_weights(GraphMaker& m, const ir::ExpertProduct& product, int64_t experts) {
  if (product.is_float()) return m.floats(product.extents(experts), -0.5f, 0.5f);
  ir::ExpertProduct all = product;
  all.columns *= experts;
  return m.constant(DataType::kUInt8, product.extents(experts), random_records(m, all.low_bits()));
}

// Rows at random among the experts: what the layer reads, not what chooses.
bool experts(GraphMaker& m) {
  Tensor* x = any_float(m, 1, 4);
  if (!x || !m.is_static(x) || m.extents(x).back() < 1) return false;
  ir::ExpertsAttrs a;
  a.experts = m.between(1, 6), a.width = m.extents(x).back(), a.hidden = m.between(1, 24);
  if (m.chance(70)) {
    a.up_bits = m.pick({2, 4, 4, 8}), a.down_bits = m.pick({2, 4, 4, 8});
    a.up_block = m.pick({16, 3, 32}), a.down_block = m.pick({16, 3, 32});
    if (m.chance(50)) a.up_zero = DataType::kUInt8;
    if (m.chance(50)) a.down_zero = DataType::kFloat;
  }
  if (m.chance(60))
    a.activation = ir::parse_program(2, "v2 = silu v0 1; v3 = mul v2 v1").value();
  else if (m.chance(60))
    a.activation = ir::parse_program(1, "v1 = relu v0").value();
  Extents choices = m.extents(x);
  choices.back() = m.between(1, a.experts);
  std::vector<Tensor*> inputs = {x, m.whole(DataType::kInt64, choices, 0, a.experts - 1),
                                 m.floats(choices, 0, 1),
                                 expert_weights(m, ir::up_product(a), a.experts),
                                 expert_weights(m, ir::down_product(a), a.experts)};
  if (m.chance(50)) {
    inputs.push_back(m.floats({a.experts, ir::up_product(a).columns}, -1, 1));
    inputs.push_back(m.floats({a.experts, a.width}, -1, 1));
  }
  return m.add(LayerKind::kExperts, a, inputs);
}

bool rotary_embedding(GraphMaker& m) {
  Tensor* x = any_float(m, 4, 4);
  if (!x || !m.is_static(x) || m.extents(x)[3] % 2 != 0 || m.extents(x)[3] == 0) return false;
  const Extents cache = {m.extents(x)[0], m.extents(x)[2], m.extents(x)[3] / 2};
  return m.generic("RotaryEmbedding", 23, {x, m.floats(cache, -1, 1), m.floats(cache, -1, 1)},
                   {integer("interleaved", m.below(2))});
}

bool dft(GraphMaker& m) {
  Tensor* x = any_float(m, 3, 3);
  if (!x) return false;
  Tensor* y = m.add(LayerKind::kShuffle,
                    [&] {
                      ir::ShuffleAttrs a;
                      a.has_reshape = true;
                      a.reshape = {x->shape[0], m.symbols().mul(x->shape[1], x->shape[2]), Dim(1)};
                      return a;
                    }(),
                    {x});
  return y && m.most(y, 1) <= 400 && m.least(y, 1) > 0 &&
         m.generic("DFT", 17, {y}, {integer("axis", 1), integer("onesided", m.below(2))});
}

bool elementwise_operator(GraphMaker& m) {
  Tensor* x = any_float(m, 4, 4);
  if (!x) return false;
  if (m.chance(50)) return m.generic("CumProd", 26, {x, m.scalar(DataType::kInt64, 1)}, {});
  return m.is_exact(x) && m.generic("Binarizer", 1, {x}, {real("threshold", 0.3f)});
}

bool determinant(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) {
    const int64_t r = m.rank(t);
    return t->type == DataType::kFloat && t->has_rank && r >= 2 && r <= 4 &&
           t->shape[t->shape.size() - 1] == t->shape[t->shape.size() - 2] && m.most(t, r - 1) <= 5;
  });
  return x && m.generic("Det", 11, {x}, {});
}

bool eye_like(GraphMaker& m) {
  Tensor* x = any_float(m, 2, 2);
  return x && m.generic("EyeLike", 9, {x}, {integer("k", m.between(-1, 1))});
}

bool max_unpool(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) {
    return t->type == DataType::kFloat && t->has_rank && m.rank(t) == 4 && m.is_exact(t) &&
           m.is_static(t) && m.extents(t)[2] % 2 == 0 && m.extents(t)[3] % 2 == 0 &&
           m.extents(t)[2] > 0 && m.extents(t)[3] > 0;
  });
  if (!x) return false;
  ir::PoolingAttrs a;
  a.kernel = a.stride = {2, 2};
  a.dilation = {1, 1};
  a.pre_padding = a.post_padding = {0, 0};
  const auto y = m.add_many(LayerKind::kPooling, a, {x}, {true, true});
  return y[0] && m.generic("MaxUnpool", 11, {y[0], y[1]},
                           {list("kernel_shape", {2, 2}), list("strides", {2, 2})});
}

bool roi_align(GraphMaker& m) {
  Tensor* x = any_float(m, 4, 4);
  if (!x || m.least(x, 0) < 1 || m.least(x, 2) < 1 || m.least(x, 3) < 1) return false;
  return m.generic(
      "RoiAlign", 16,
      {x, m.constant(DataType::kFloat, {2, 4}, {0, 0, 3, 3, 1, 1, 4, 5}), m.vector({0, 0})},
      {integer("output_height", 2), integer("output_width", 3), integer("sampling_ratio", 2),
       text("mode", m.pick({"avg", "max"}))});
}

bool non_max_suppression(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) {
    return t->type == DataType::kFloat && t->has_rank && m.rank(t) == 3 && m.is_exact(t) &&
           m.is_static(t) && t->shape[0] == Dim(1) && m.extents(t)[2] > 0;
  });
  if (!x) return false;
  const int64_t boxes = m.extents(x)[2];
  Tensor* corners = m.floats({1, boxes, 2}, 0, 0.5f);
  Tensor* sides = m.floats({1, boxes, 2}, 0.5f, 1);
  Tensor* both = m.add(LayerKind::kConcatenation, ir::AxisAttrs{2}, {corners, sides});
  return both && m.generic("NonMaxSuppression", 11,
                           {both, x, m.vector({3}), m.constant(DataType::kFloat, {1}, {0.5}),
                            m.constant(DataType::kFloat, {1}, {0.1})},
                           {});
}

bool deform_conv(GraphMaker& m) {
  Tensor* x = any_float(m, 4, 4);
  if (!x || !m.is_static(x) || m.least(x, 2) < 3 || m.least(x, 3) < 3) return false;
  const Extents& e = m.extents(x);
  return m.generic("DeformConv", 19,
                   {x, m.floats({2, e[1], 3, 3}, -0.4f, 0.4f),
                    m.floats({e[0], 18, e[2] - 2, e[3] - 2}, -0.4f, 0.4f)},
                   {list("kernel_shape", {3, 3}), list("pads", {0, 0, 0, 0})});
}

constexpr MakerRow kRows[] = {
    {"einsum", 12, einsum},
    {"trilu", 6, trilu},
    {"local_response", 5, local_response},
    {"one_hot", 8, one_hot},
    {"grid_sample", 5, grid_sample},
    {"col2im", 5, col2im},
    {"center_crop_pad", 5, center_crop_pad},
    {"reverse_sequence", 5, reverse_sequence},
    {"attention", 8, attention},
    {"low_bit_multiply", 8, low_bit_multiply},
    {"experts", 8, experts},
    {"rotary_embedding", 6, rotary_embedding},
    {"dft", 4, dft},
    {"elementwise_operator", 3, elementwise_operator},
    {"determinant", 2, determinant},
    {"eye_like", 3, eye_like},
    {"max_unpool", 4, max_unpool},
    {"roi_align", 4, roi_align},
    {"non_max_suppression", 4, non_max_suppression},
    {"deform_conv", 3, deform_conv},
};

}  // namespace

MakerTable generic_makers() {
  return kRows;
}

}  // namespace camshaft::fuzz
