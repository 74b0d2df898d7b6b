// SPDX-License-Identifier: Apache-2.0
// Quantize, Dequantize and the layers between them, as quantized networks have them; integer
// products.
#include <algorithm>
#include <cmath>

#include "fuzz/graphs/graph_maker.h"

namespace camshaft::fuzz {
namespace {

bool is_codes(const Tensor* t) {
  return t->type == DataType::kInt8 || t->type == DataType::kUInt8;
}

// A scale that x's values fill well, or a power of two.
float scale_for(GraphMaker& m, const Tensor* x) {
  if (m.chance(30)) return m.pick({0.0625f, 0.03125f, 0.015625f, 0.125f});
  double largest = 0.1;
  for (const double v : m.value(x, 0).to_doubles()) largest = std::max(largest, std::abs(v));
  return static_cast<float>(largest / 127 * (0.7 + 0.5 * m.real(0, 1)));
}

struct Grid {
  Tensor *scale, *zero_point;
  DataType type;
};

Grid grid_for(GraphMaker& m, const Tensor* x) {
  Grid grid;
  grid.type = m.chance(60) ? DataType::kInt8 : DataType::kUInt8;
  grid.scale = m.scalar(DataType::kFloat, scale_for(m, x));
  const int64_t zero =
      grid.type == DataType::kUInt8 ? m.pick({128, 0, 117}) : m.pick({0, 0, -5, -128});
  grid.zero_point = zero == 0 && grid.type == DataType::kUInt8 && m.chance(30)
                        ? nullptr
                        : m.scalar(grid.type, static_cast<double>(zero));
  return grid;
}

// 256 times finer.
Grid wide_grid_for(GraphMaker& m, const Tensor* x) {
  Grid grid;
  grid.type = m.chance(50) ? DataType::kInt16 : DataType::kUInt16;
  grid.scale = m.scalar(DataType::kFloat, scale_for(m, x) / 256);
  const int64_t zero = grid.type == DataType::kUInt16 ? m.pick({32768, 0, 30011, 65535})
                                                      : m.pick({0, 0, -5, -32768});
  grid.zero_point = zero == 0 && grid.type == DataType::kInt16 && m.chance(30)
                        ? nullptr
                        : m.scalar(grid.type, static_cast<double>(zero));
  return grid;
}

Tensor* quantize(GraphMaker& m, Tensor* x, const Grid& grid) {
  ir::QuantizeAttrs a;
  a.type = grid.type;
  return m.add(LayerKind::kQuantize, a, {x, grid.scale, grid.zero_point});
}

Tensor* dequantize(GraphMaker& m, Tensor* q, const Grid& grid) {
  ir::QuantizeAttrs a;
  a.type = grid.type;
  return q ? m.add(LayerKind::kDequantize, a, {q, grid.scale, grid.zero_point}) : nullptr;
}

// Q and DQ on one grid.
Tensor* rounded(GraphMaker& m, Tensor* x) {
  if (!x) return nullptr;
  const Grid grid = m.chance(10) ? wide_grid_for(m, x) : grid_for(m, x);
  Tensor* codes = quantize(m, x, grid);
  if (codes && m.chance(10)) dequantize(m, codes, grid);  // a second reader
  return dequantize(m, codes, grid);
}

bool round_trip(GraphMaker& m) {
  return rounded(m, m.any_float());
}

bool lone_quantize(GraphMaker& m) {
  Tensor* x = m.any_float();
  return x && quantize(m, x, m.chance(20) ? wide_grid_for(m, x) : grid_for(m, x));
}

bool lone_dequantize(GraphMaker& m) {
  Tensor* q = m.any([](Tensor* t) { return is_codes(t); });
  if (!q) return false;
  Grid grid = {m.scalar(DataType::kFloat, m.real(0.01f, 0.1f)),
               m.chance(50) ? m.scalar(q->type, q->type == DataType::kUInt8 ? 128 : 3) : nullptr,
               q->type};
  return dequantize(m, q, grid);
}

// 8-bit weights with a scale per channel of `axis`, or one: int8 with zero point 0 mostly.
Tensor* weights(GraphMaker& m, const Extents& extents, int64_t axis) {
  const bool per_channel = m.chance(70), is_unsigned = m.chance(20);
  const int64_t channels = extents[static_cast<size_t>(axis)];
  const DataType type = is_unsigned ? DataType::kUInt8 : DataType::kInt8;
  Tensor* codes = is_unsigned ? m.whole(type, extents, 0, 255)
                              : m.whole(type, extents, m.chance(80) ? -127 : -128, 127);
  Tensor* scale = per_channel ? m.floats({channels}, 0.001f, 0.006f)
                              : m.scalar(DataType::kFloat, m.real(0.001f, 0.006f));
  const double at = is_unsigned ? m.pick({0, 3, 100, 128, 255}) : m.chance(95) ? 0 : 9;
  Tensor* zero = at == 0 && m.chance(50) ? nullptr
                 : per_channel           ? m.constant(type, {channels},
                                                      std::vector<double>(static_cast<size_t>(channels), at))
                                         : m.scalar(type, at);
  ir::QuantizeAttrs a;
  a.axis = per_channel ? axis : 1;
  a.type = type;
  return m.add(LayerKind::kDequantize, a, {codes, scale, zero});
}

// A bias as a float constant, or as int32 codes behind a DQ.
Tensor* bias(GraphMaker& m, int64_t channels) {
  if (m.chance(30)) return nullptr;
  if (m.chance(60)) return m.floats({channels}, -0.5f, 0.5f);
  ir::QuantizeAttrs a;
  a.type = DataType::kInt32;
  a.axis = 0;
  return m.add(LayerKind::kDequantize, a,
               {m.whole(DataType::kInt32, {channels}, -1000, 1000),
                m.scalar(DataType::kFloat, 0.0005), nullptr});
}

// What often stands behind a product, then Q and DQ.
bool finish(GraphMaker& m, Tensor* y, Tensor* residual) {
  if (!y) return false;
  if (residual && m.chance(40) && residual->shape == y->shape)
    if (Tensor* sum = m.binary(PointOp::kAdd, y, residual)) y = sum;
  if (m.chance(60))
    if (Tensor* active = m.unary(m.pick({PointOp::kRelu, PointOp::kRelu, PointOp::kHardSwish,
                                         PointOp::kSilu, PointOp::kSigmoid}),
                                 y))
      y = active;
  if (m.chance(75)) rounded(m, y);
  return true;
}

// Widths around those of tiles, small ones mostly.
int64_t any_columns(GraphMaker& m) {
  return m.chance(25) ? m.pick({16, 17, 24, 32, 33, 48, 64, 96, 128}) : m.between(1, 9);
}

bool deconvolution(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) {
    return t->type == DataType::kFloat && t->has_rank && m.rank(t) == 4 && t->shape[1].is_known() &&
           t->shape[1].extent() > 0;
  });
  Tensor* input = rounded(m, x);
  if (!input) return false;
  ir::ConvolutionAttrs a;
  const int64_t size = m.pick({2, 3, 4}), outputs = any_columns(m);
  a.kernel = {size, size};
  a.stride = {2, 2};
  a.dilation = {1, 1};
  a.pre_padding = a.post_padding = {(size - 1) / 2, (size - 1) / 2};
  Tensor* w = weights(m, {x->shape[1].extent(), outputs, size, size}, 1);
  return finish(m, m.add(LayerKind::kDeconvolution, a, {input, w, bias(m, outputs)}), nullptr);
}

bool convolution(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) {
    return t->type == DataType::kFloat && t->has_rank && m.rank(t) >= 3 && m.rank(t) <= 4 &&
           t->shape[1].is_known() && t->shape[1].extent() > 0;
  });
  if (!x) return false;
  const int64_t channels = x->shape[1].extent();
  ir::ConvolutionAttrs a;
  const bool depthwise = m.chance(30);
  const int64_t size = depthwise ? m.pick({3, 5}) : m.pick({1, 1, 3, 3, 5, 2}),
                stride = m.chance(70) ? 1 : 2;
  const int64_t padding = m.chance(65) ? size / 2 : 0;
  for (int64_t d = 2; d < m.rank(x); ++d) {
    a.kernel.push_back(size);
    a.stride.push_back(stride);
    a.dilation.push_back(1);
    a.pre_padding.push_back(padding);
    a.post_padding.push_back(padding);
  }
  a.groups = depthwise ? channels : m.chance(10) && channels % 2 == 0 ? 2 : 1;
  const int64_t outputs = depthwise ? channels : a.groups * any_columns(m);
  Extents extents = {outputs, channels / a.groups};
  for (const int64_t k : a.kernel) extents.push_back(k);
  Tensor* input = m.chance(90) ? rounded(m, x) : x;
  if (!input) return false;
  Tensor* w = weights(m, extents, 0);
  return finish(m, m.add(LayerKind::kConvolution, a, {input, w, bias(m, outputs)}), input);
}

bool projection(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) {
    return t->type == DataType::kFloat && t->has_rank && m.rank(t) >= 2 && m.rank(t) <= 4 &&
           t->shape[t->shape.size() - 1].is_known() && t->shape[t->shape.size() - 1].extent() > 0;
  });
  if (!x) return false;
  ir::MatrixMultiplyAttrs a;
  const int64_t depth = x->shape[x->shape.size() - 1].extent();
  const int64_t columns = any_columns(m);
  a.transpose_b = m.chance(40);
  Tensor* input = rounded(m, x);
  if (!input) return false;
  Tensor* w = a.transpose_b ? weights(m, {columns, depth}, 0) : weights(m, {depth, columns}, 1);
  Tensor* y = m.add(LayerKind::kMatrixMultiply, a, {input, w});
  if (y && m.chance(50))
    if (Tensor* b = bias(m, columns)) y = m.binary(PointOp::kAdd, y, b);
  return finish(m, y, input);
}

bool product(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) {
    return t->type == DataType::kFloat && t->has_rank && m.rank(t) >= 2 && m.rank(t) <= 4;
  });
  Tensor *a = rounded(m, x), *b = rounded(m, x);
  if (!a || !b) return false;
  ir::MatrixMultiplyAttrs attrs;
  (m.chance(50) ? attrs.transpose_a : attrs.transpose_b) = true;
  return finish(m, m.add(LayerKind::kMatrixMultiply, attrs, {a, b}), nullptr);
}

bool sum(GraphMaker& m) {
  Tensor* x = m.any_float();
  if (!x) return false;
  Tensor* y = m.any([&](Tensor* t) { return t->type == x->type && t->shape == x->shape; });
  Tensor *a = rounded(m, x), *b = rounded(m, y);
  return a && b && finish(m, m.binary(m.pick({PointOp::kAdd, PointOp::kMul}), a, b), nullptr);
}

// Layers that hand on codes, between Q and DQ.
bool moved(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) {
    return t->type == DataType::kFloat && t->has_rank && m.rank(t) == 4 && m.least(t, 2) >= 2 &&
           m.least(t, 3) >= 2;
  });
  Tensor* y = rounded(m, x);
  if (!y) return false;
  switch (m.below(5)) {
    case 0: {
      ir::PoolingAttrs a;
      a.type = m.pick({ir::PoolingType::kMax, ir::PoolingType::kAverage});
      const int64_t size = m.pick({2, 2, 3, 5});
      a.kernel = {size, size};
      a.stride = size == 2 ? Ints{2, 2} : Ints{1, 1};
      a.dilation = {1, 1};
      a.pre_padding = a.post_padding = {(size - 1) / 2, (size - 1) / 2};
      return finish(m, m.add(LayerKind::kPooling, a, {y}), nullptr);
    }
    case 1: {
      ir::PoolingAttrs a;
      a.type = ir::PoolingType::kAverage;
      a.global = true;
      return finish(m, m.add(LayerKind::kPooling, a, {y}), nullptr);
    }
    case 2:
      return finish(m, m.transpose(y, {0, 2, 3, 1}), nullptr);
    case 3: {
      Tensor* other = rounded(m, x);
      return other &&
             finish(m, m.add(LayerKind::kConcatenation, ir::AxisAttrs{1}, {y, other}), nullptr);
    }
    default: {
      ir::ResizeAttrs a;
      a.transform = ir::CoordinateTransform::kAsymmetric;
      a.rounding = ir::NearestRounding::kFloor;
      a.scales = {1, 1, 2, 2};
      return finish(m, m.add(LayerKind::kResize, a, {y}), nullptr);
    }
  }
}

// ConvInteger and MatMulInteger with constant weights: accumulators.
bool integer_product(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) {
    return is_codes(t) && t->has_rank && m.rank(t) >= 2 && m.rank(t) <= 4 &&
           t->shape[1].is_known() && t->shape[t->shape.size() - 1].is_known() &&
           t->shape[1].extent() > 0 && t->shape[t->shape.size() - 1].extent() > 0;
  });
  if (!x) return false;
  const int64_t zero = x->type == DataType::kUInt8 ? m.pick({0, 128, 7}) : m.pick({0, -3});
  const bool is_unsigned = m.chance(25);
  const int64_t w_zero = is_unsigned ? m.pick({0, 90, 128}) : m.chance(90) ? 0 : 5;
  const auto codes = [&m, is_unsigned](const Extents& extents) {
    return is_unsigned ? m.whole(DataType::kUInt8, extents, 0, 255)
                       : m.whole(DataType::kInt8, extents, -128, 127);
  };
  if (m.rank(x) == 4 && m.chance(60)) {
    ir::ConvolutionAttrs a;
    const int64_t size = m.pick({1, 3});
    a.kernel = {size, size};
    a.stride = a.dilation = {1, 1};
    a.pre_padding = a.post_padding = {size / 2, size / 2};
    a.zero_point = zero, a.w_zero_point = w_zero;
    a.type = DataType::kInt32;
    const int64_t outputs = m.between(1, 9);
    return m.add(LayerKind::kConvolution, a,
                 {x, codes({outputs, x->shape[1].extent(), size, size})});
  }
  ir::MatrixMultiplyAttrs a;
  a.a_zero_point = zero, a.b_zero_point = w_zero;
  a.type = DataType::kInt32;
  return m.add(LayerKind::kMatrixMultiply, a,
               {x, codes({x->shape[x->shape.size() - 1].extent(), m.between(1, 9)})});
}

// A scale, perhaps a zero point, for every block of elements along an axis: of weights and of what
// the graph has computed.
bool blocks(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) {
    return t->type == DataType::kFloat && m.rank(t) >= 1 && m.rank(t) <= 4 && m.is_static(t) &&
           ir::element_count(m.extents(t)) > 0;
  });
  if (!x) return false;
  ir::QuantizeAttrs a;
  a.axis = m.below(m.rank(x));
  a.block_size = m.pick({2, 3, 4, 16});
  a.type = m.pick({DataType::kInt8, DataType::kUInt8});
  Extents extents = m.extents(x);
  int64_t& along = extents[static_cast<size_t>(a.axis)];
  along = (along + a.block_size - 1) / a.block_size;
  Tensor* scale = m.floats(extents, 0.02f, 0.1f);
  Tensor* zero = m.chance(50) ? m.whole(a.type, extents, -3, 3) : nullptr;
  Tensor* codes = m.chance(50) ? m.whole(a.type, m.extents(x), -128, 127) : nullptr;
  if (!codes) codes = m.add(LayerKind::kQuantize, a, {x, scale, zero});
  Tensor* floats = codes ? m.add(LayerKind::kDequantize, a, {codes, scale, zero}) : nullptr;
  return floats && m.binary(m.pick({PointOp::kAdd, PointOp::kMul}), x, floats);
}

// DynamicQuantizeLinear, the integer product, its scale: what onnxruntime's dynamic quantization
// writes.
bool dynamic_product(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) {
    return t->type == DataType::kFloat && t->has_rank && m.rank(t) >= 2 && m.rank(t) <= 4 &&
           t->shape[t->shape.size() - 1].is_known() && t->shape[t->shape.size() - 1].extent() > 0;
  });
  if (!x) return false;
  const auto q = m.add_many(LayerKind::kGeneric, ir::GenericAttrs{"DynamicQuantizeLinear", 11, {}},
                            {x}, {true, true, true});
  if (!q[0]) return false;
  const Extents extents = {x->shape[x->shape.size() - 1].extent(), m.between(1, 9)};
  Tensor* product = m.generic("MatMulInteger", 10,
                              {q[0], m.whole(DataType::kInt8, extents, -127, 127), q[2],
                               m.chance(50) ? m.scalar(DataType::kInt8, 0) : nullptr},
                              {});
  Tensor* floats =
      product ? m.add(LayerKind::kCast, ir::CastAttrs{DataType::kFloat}, {product}) : nullptr;
  Tensor* scale = m.binary(PointOp::kMul, q[1], m.scalar(DataType::kFloat, 0.01));
  return floats && scale && finish(m, m.binary(PointOp::kMul, floats, scale), nullptr);
}

// Both products of attention on codes, weights included.
bool attention(GraphMaker& m) {
  Tensor* x = m.any_sequence();
  if (!x) return false;
  const int64_t width = x->shape[2].extent(), heads = width % 2 == 0 && m.chance(70) ? 2 : 1,
                depth = width / heads;
  const auto project = [&]() -> Tensor* {
    Tensor* p = m.add(LayerKind::kMatrixMultiply, ir::MatrixMultiplyAttrs{},
                      {x, m.floats({width, width}, -0.5f, 0.5f)});
    if (p && m.chance(50)) p = rounded(m, p);
    p = p ? m.reshape(p, {x->shape[0], x->shape[1], Dim(heads), Dim(depth)}) : nullptr;
    return p;
  };
  Tensor* q = rounded(m, m.transpose(project(), {0, 2, 1, 3}));
  Tensor* k = rounded(m, m.transpose(project(), {0, 2, 3, 1}));
  Tensor* v = rounded(m, m.transpose(project(), {0, 2, 1, 3}));
  if (!q || !k || !v) return false;
  Tensor* scores = m.add(LayerKind::kMatrixMultiply, ir::MatrixMultiplyAttrs{}, {q, k});
  if (scores && m.chance(60))
    scores = m.binary(PointOp::kDiv, scores, m.scalar(DataType::kFloat, std::sqrt(depth)));
  if (scores && m.chance(40) && x->shape[1].is_known()) {
    const int64_t t = x->shape[1].extent();
    scores = m.binary(PointOp::kAdd, scores,
                      m.floats(m.chance(50) ? Extents{t, t} : Extents{1, 1, t}, -2, 0));
  }
  Tensor* weights =
      scores ? m.add(LayerKind::kSoftMax, ir::SoftMaxAttrs{3, 3, false, false}, {scores}) : nullptr;
  weights = rounded(m, weights);
  Tensor* y = weights ? m.add(LayerKind::kMatrixMultiply, ir::MatrixMultiplyAttrs{}, {weights, v})
                      : nullptr;
  if (m.chance(60)) y = rounded(m, y);
  y = m.transpose(y, {0, 2, 1, 3});
  return y && m.reshape(y, x->shape);
}

constexpr MakerRow kRows[] = {
    {"blocks", 5, blocks},
    {"round_trip", 12, round_trip},
    {"lone_quantize", 4, lone_quantize},
    {"lone_dequantize", 4, lone_dequantize},
    {"quantized_convolution", 30, convolution},
    {"quantized_deconvolution", 4, deconvolution},
    {"quantized_projection", 16, projection},
    {"quantized_product", 5, product},
    {"quantized_attention", 8, attention},
    {"quantized_sum", 8, sum},
    {"quantized_moved", 12, moved},
    {"integer_product", 5, integer_product},
    {"dynamic_product", 5, dynamic_product},
};

}  // namespace

MakerTable quantized_makers() {
  return kRows;
}

}  // namespace camshaft::fuzz
