// SPDX-License-Identifier: Apache-2.0
// What passes look for, written out as exporters write it, and variations that must not match.
#include <cmath>

#include "fuzz/graphs/graph_maker.h"

namespace camshaft::fuzz {
namespace {

Tensor* number(GraphMaker& m, double value) {
  return m.scalar(DataType::kFloat, value);
}

// Now and then another number than the one the formula has.
Tensor* nearly(GraphMaker& m, double value) {
  return number(m, m.chance(90) ? value : value * 1.25);
}

Tensor* any_map(GraphMaker& m, int64_t least = 4, int64_t most = 4) {
  return m.any([&](Tensor* t) {
    return t->type == DataType::kFloat && t->has_rank && m.rank(t) >= least && m.rank(t) <= most &&
           t->shape[1].is_known() && t->shape[1].extent() > 0;
  });
}

bool gelu(GraphMaker& m) {
  Tensor* x = m.any_float(1);
  if (!x) return false;
  Tensor* half = nullptr;
  if (m.chance(60)) {
    Tensor* erf = m.unary(PointOp::kErf, m.binary(PointOp::kDiv, x, nearly(m, std::sqrt(2.0))));
    half = m.binary(PointOp::kAdd, erf, number(m, 1));
  } else {
    Tensor* cube = m.binary(PointOp::kPow, x, number(m, 3));
    Tensor* inner = m.binary(PointOp::kAdd, x, m.binary(PointOp::kMul, cube, nearly(m, 0.044715)));
    half =
        m.binary(PointOp::kAdd,
                 m.unary(PointOp::kTanh, m.binary(PointOp::kMul, inner, nearly(m, 0.7978845608))),
                 number(m, 1));
  }
  if (m.chance(50))
    return m.binary(PointOp::kMul, m.binary(PointOp::kMul, x, half), number(m, 0.5));
  return m.binary(PointOp::kMul, x, m.binary(PointOp::kMul, half, number(m, 0.5)));
}

bool swish(GraphMaker& m) {
  Tensor* x = m.any_float();
  if (!x) return false;
  switch (m.below(4)) {
    case 0:
      return m.binary(PointOp::kMul, x, m.unary(PointOp::kSigmoid, x));
    case 1:
      return m.binary(PointOp::kMul, m.unary(PointOp::kHardSigmoid, x, 1.0f / 6, 0.5f), x);
    case 2: {
      Tensor* shifted = m.binary(PointOp::kAdd, x, nearly(m, 3));
      Tensor* clipped = m.unary(PointOp::kClip, shifted, 0, 6);
      return m.binary(PointOp::kDiv, m.binary(PointOp::kMul, x, clipped), nearly(m, 6));
    }
    default:
      return m.binary(PointOp::kMul, x, m.unary(PointOp::kTanh, m.unary(PointOp::kSoftplus, x)));
  }
}

Tensor* mean(GraphMaker& m, Tensor* x, const Ints& axes) {
  ir::ReduceAttrs a;
  a.op = ir::ReduceOp::kMean;
  a.axes = axes;
  return x ? m.add(LayerKind::kReduce, a, {x}) : nullptr;
}

bool written_norm(GraphMaker& m) {
  Tensor* x = m.any_float(2, 5);
  if (!x || !x->has_rank) return false;
  const int64_t rank = m.rank(x);
  const Ints axes = rank == 4 && m.chance(30) ? Ints{2, 3}
                    : m.chance(80)            ? Ints{rank - 1}
                                              : Ints{1};
  const bool rms = m.chance(35);
  Tensor* centred = rms ? x : m.binary(PointOp::kSub, x, mean(m, x, axes));
  Tensor* square = m.chance(50) ? m.binary(PointOp::kMul, centred, centred)
                                : m.binary(PointOp::kPow, centred, number(m, 2));
  Tensor* variance =
      m.binary(PointOp::kAdd, mean(m, square, axes), number(m, m.pick({1e-5, 1e-3, 1e-6})));
  Tensor* root = variance ? m.unary(PointOp::kSqrt, variance) : nullptr;
  if (!root) return false;
  Tensor* y = m.chance(60) ? m.binary(PointOp::kDiv, centred, root)
                           : m.binary(PointOp::kMul, centred, m.unary(PointOp::kReciprocal, root));
  const auto last = static_cast<size_t>(axes[0]);
  if (!y || !x->shape[last].is_known() || m.chance(30)) return y;
  Extents extents = {x->shape[last].extent()};
  for (size_t d = last + 1; d < x->shape.size(); ++d) extents.push_back(1);
  y = m.binary(PointOp::kMul, y, m.floats(extents, 0.5f, 1.5f));
  return y && m.chance(70) ? m.binary(PointOp::kAdd, y, m.floats(extents, -1, 1)) : y;
}

bool written_softmax(GraphMaker& m) {
  Tensor* x = m.any_float(2, 4);
  if (!x) return false;
  ir::ReduceAttrs a;
  a.axes = {m.chance(70) ? m.rank(x) - 1 : m.below(m.rank(x))};
  a.op = ir::ReduceOp::kMax;
  Tensor* shifted =
      m.chance(70) ? m.binary(PointOp::kSub, x, m.add(LayerKind::kReduce, a, {x})) : x;
  Tensor* exponential = shifted ? m.unary(PointOp::kExp, shifted) : nullptr;
  a.op = ir::ReduceOp::kSum;
  return exponential &&
         m.binary(PointOp::kDiv, exponential, m.add(LayerKind::kReduce, a, {exponential}));
}

ir::ConvolutionAttrs square_window(int64_t size, int64_t padding) {
  ir::ConvolutionAttrs a;
  a.kernel = {size, size};
  a.stride = a.dilation = {1, 1};
  a.pre_padding = a.post_padding = {padding, padding};
  return a;
}

// Convolution, scale and shift per channel in one of several spellings, activation, residual.
bool residual_block(GraphMaker& m) {
  Tensor* x = any_map(m);
  if (!x) return false;
  const int64_t c = x->shape[1].extent(), size = m.pick({1, 3});
  ir::ConvolutionAttrs a = square_window(size, size / 2);
  Tensor* y = x;
  if (m.chance(25)) {  // a Pad of its own
    ir::PadAttrs pad;
    pad.pre = pad.post = {0, 0, size / 2, size / 2};
    y = m.add(LayerKind::kPad, pad, {x});
    a.pre_padding = a.post_padding = {0, 0};
  }
  y = m.add(LayerKind::kConvolution, a,
            {y, m.floats({c, c, size, size}, -0.4f, 0.4f),
             m.chance(50) ? m.floats({c}, -0.5f, 0.5f) : nullptr});
  if (!y) return false;
  if (m.chance(40))
    y = m.add(LayerKind::kScale, ir::ScaleAttrs{1},
              {y, m.floats({c}, 0.5f, 1.5f), m.floats({c}, -1, 1)});
  else if (m.chance(50))
    y = m.binary(PointOp::kMul, y, m.floats({c, 1, 1}, 0.5f, 1.5f));
  if (y && m.chance(50)) y = m.unary(m.pick({PointOp::kRelu, PointOp::kSilu}), y);
  y = m.chance(50) ? m.binary(PointOp::kAdd, y, x) : m.binary(PointOp::kAdd, x, y);
  return y && (m.chance(40) || m.unary(PointOp::kRelu, y));
}

bool squeeze_excite(GraphMaker& m) {
  Tensor* x = any_map(m);
  if (!x) return false;
  const int64_t c = x->shape[1].extent(), hidden = m.between(1, 6);
  Tensor* y = m.chance(60) ? mean(m, x, {2, 3})
                           : m.add(LayerKind::kPooling,
                                   [] {
                                     ir::PoolingAttrs a;
                                     a.type = ir::PoolingType::kAverage;
                                     a.global = true;
                                     return a;
                                   }(),
                                   {x});
  const ir::ConvolutionAttrs a = square_window(1, 0);
  y = y ? m.add(LayerKind::kConvolution, a, {y, m.floats({hidden, c, 1, 1}, -0.5f, 0.5f)})
        : nullptr;
  y = y ? m.unary(m.pick({PointOp::kRelu, PointOp::kSilu}), y) : nullptr;
  y = y ? m.add(LayerKind::kConvolution, a, {y, m.floats({c, hidden, 1, 1}, -0.5f, 0.5f)})
        : nullptr;
  y = y ? m.unary(m.pick({PointOp::kSigmoid, PointOp::kHardSigmoid}), y, 0.2f, 0.5f) : nullptr;
  return m.chance(50) ? m.binary(PointOp::kMul, x, y) : m.binary(PointOp::kMul, y, x);
}

// Heads split off, products, softmax, heads put together.
bool attention(GraphMaker& m) {
  Tensor* x = m.any_sequence();
  if (!x) return false;
  const int64_t width = x->shape[2].extent(), heads = width % 2 == 0 && m.chance(70) ? 2 : 1,
                depth = width / heads;
  const auto project = [&]() -> Tensor* {
    Tensor* p = m.add(LayerKind::kMatrixMultiply, ir::MatrixMultiplyAttrs{},
                      {x, m.floats({width, width}, -0.5f, 0.5f)});
    if (p && m.chance(50)) p = m.binary(PointOp::kAdd, p, m.floats({width}, -0.5f, 0.5f));
    return p ? m.reshape(p, {x->shape[0], x->shape[1], Dim(heads), Dim(depth)}) : nullptr;
  };
  // Channel-first networks keep all of them, and the result, as [depth, steps].
  const bool is_channel_first = m.chance(30);
  const std::vector<int64_t> steps_first = {0, 2, 1, 3}, depth_first = {0, 2, 3, 1};
  Tensor* q = m.transpose(project(), is_channel_first ? depth_first : steps_first);
  Tensor* k = m.transpose(project(), depth_first);
  Tensor* v = m.transpose(project(), is_channel_first ? depth_first : steps_first);
  if (!q || !k || !v) return false;
  const double scale = 1 / std::sqrt(static_cast<double>(depth));
  if (m.chance(40)) q = m.binary(PointOp::kMul, q, number(m, scale));
  ir::MatrixMultiplyAttrs turns_first, turns_second;
  turns_first.transpose_a = turns_second.transpose_b = is_channel_first;
  Tensor* scores = m.add(LayerKind::kMatrixMultiply, turns_first, {q, k});
  if (m.chance(60)) scores = m.binary(PointOp::kDiv, scores, number(m, std::sqrt(depth)));
  if (!scores) return false;
  if (m.chance(40) && x->shape[1].is_known()) {
    const int64_t t = x->shape[1].extent();
    Tensor* mask = m.whole(DataType::kBool, {t, t}, 0, 1);
    scores = m.chance(50) ? m.add(LayerKind::kSelect, ir::PointOpAttrs{PointOp::kSelect, 0, 0},
                                  {mask, scores, number(m, -10000)})
                          : m.binary(PointOp::kAdd, scores, m.floats({t, t}, -2, 0));
  }
  Tensor* weights =
      scores ? m.add(LayerKind::kSoftMax, ir::SoftMaxAttrs{3, 3, false, false}, {scores}) : nullptr;
  if (!weights) return false;
  Tensor* y =
      is_channel_first
          ? m.transpose(m.add(LayerKind::kMatrixMultiply, turns_second, {v, weights}), {0, 3, 1, 2})
          : m.transpose(m.add(LayerKind::kMatrixMultiply, turns_second, {weights, v}), steps_first);
  return y && m.reshape(y, x->shape);
}

// The layer Attention itself: shared heads, layouts, windows, lengths and masks of all kinds.
bool attention_layer(GraphMaker& m) {
  Tensor* x = m.any_sequence();
  if (!x) return false;
  const int64_t width = x->shape[2].extent(), kv_heads = m.between(1, 3),
                group = m.chance(60) ? 1 : m.between(2, 3), heads = kv_heads * group,
                depth = m.pick({1, 3, 8, 16, 20}), value_depth = m.chance(70) ? depth : 5;
  ir::AttentionAttrs a;
  a.heads = heads, a.kv_heads = kv_heads;
  a.scale = 1 / std::sqrt(static_cast<float>(depth));
  a.nan_is_zero = true;
  a.y_steps_first = m.chance(50);
  const auto project = [&](int64_t count, int64_t size, bool& steps_first) -> Tensor* {
    Tensor* p = m.add(LayerKind::kMatrixMultiply, ir::MatrixMultiplyAttrs{},
                      {x, m.floats({width, count * size}, -0.5f, 0.5f)});
    steps_first = m.chance(60);
    if (!p || (steps_first && m.chance(50))) return p;
    p = m.reshape(p, {x->shape[0], x->shape[1], Dim(count), Dim(size)});
    return steps_first ? p : m.transpose(p, {0, 2, 1, 3});
  };
  Tensor* q = project(heads, depth, a.q_steps_first);
  Tensor* k = project(kv_heads, depth, a.k_steps_first);
  Tensor* v = project(kv_heads, value_depth, a.v_steps_first);
  if (!q || !k || !v) return false;
  if (m.chance(30)) a.left_window = m.between(0, 4);
  if (m.chance(40)) a.right_window = m.chance(60) ? 0 : m.between(0, 4);
  if (m.chance(30)) a.first_query = {Dim(m.between(0, 3))};
  std::vector<Tensor*> inputs = {q, k, v, nullptr};
  if (m.is_static(x) && m.chance(30))
    inputs[3] = m.whole(DataType::kInt64, {x->shape[0].extent()}, 0, x->shape[1].extent());
  if (m.is_static(x) && m.chance(50)) {
    const int64_t t = x->shape[1].extent();
    a.epilogue.num_inputs = 2;
    if (m.chance(50)) {
      inputs.push_back(m.floats(m.chance(50) ? Extents{t, t} : Extents{heads, t, 1}, -2, 0));
      ir::append(a.epilogue, PointOp::kAdd, 0, 1);
    } else {
      inputs.push_back(m.whole(DataType::kBool, {t, t}, 0, 1));
      const int hidden = ir::append(a.epilogue, PointOp::kConst, -1, -1, -1, -1e4f);
      ir::append(a.epilogue, PointOp::kSelect, 1, 0, hidden);
    }
  } else if (m.chance(20)) {
    a.epilogue.num_inputs = 1;
    ir::append(a.epilogue, PointOp::kTanh, 0);
  }
  while (!inputs.back()) inputs.pop_back();
  return m.add(LayerKind::kAttention, std::move(a), inputs) != nullptr;
}

// Concat(x1 c - x2 s, x1 s + x2 c[, rest]); factors of rows or of all.
bool rotated_halves(GraphMaker& m, Tensor* x, int64_t half) {
  const size_t rank = x->shape.size(), last = rank - 1;
  const int64_t depth = x->shape[last].extent();
  const auto part = [&](int64_t first, int64_t count) {
    ir::SliceAttrs a;
    a.size = x->shape;
    a.size[last] = count;
    a.start = Shape(rank, Dim(0));
    a.start[last] = first;
    a.step = Ints(rank, 1);
    return m.add(LayerKind::kSlice, a, {x});
  };
  const auto factor = [&]() -> Tensor* {
    if (rank < 2 || !x->shape[last - 1].is_known() || m.chance(50)) return m.floats({half}, -1, 1);
    return m.floats({x->shape[last - 1].extent(), half}, -1, 1);
  };
  Tensor *low = part(0, half), *high = part(half, half), *cosine = factor(), *sine = factor();
  if (!low || !high || !cosine || !sine) return false;
  const auto product = [&](Tensor* a, Tensor* b) {
    return m.chance(50) ? m.binary(PointOp::kMul, a, b) : m.binary(PointOp::kMul, b, a);
  };
  std::vector<Tensor*> parts = {m.binary(PointOp::kSub, product(low, cosine), product(high, sine)),
                                m.binary(PointOp::kAdd, product(low, sine), product(high, cosine))};
  if (depth > 2 * half) parts.push_back(part(2 * half, depth - 2 * half));
  return std::all_of(parts.begin(), parts.end(), [](Tensor* t) { return t != nullptr; }) &&
         m.add(LayerKind::kConcatenation, ir::AxisAttrs{static_cast<int64_t>(last)}, parts);
}

// x * cos + concat(-x2, x1) * sin, or its halves put together, of all of x or of its first part
bool rotation(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) {
    const size_t r = t->shape.size();
    return t->type == DataType::kFloat && t->has_rank && r >= 2 && r <= 4 &&
           t->shape[r - 1].is_known() && t->shape[r - 1].extent() >= 2 &&
           t->shape[r - 1].extent() % 2 == 0;
  });
  if (!x) return false;
  const size_t last = x->shape.size() - 1;
  const int64_t depth = x->shape[last].extent();
  const auto half = [&](int64_t first) {
    ir::SliceAttrs a;
    a.size = x->shape;
    a.size[last] = depth / 2;
    a.start = Shape(x->shape.size(), Dim(0));
    a.start[last] = first;
    a.step = Ints(x->shape.size(), 1);
    return m.add(LayerKind::kSlice, a, {x});
  };
  if (depth > 2 && m.chance(40)) return rotated_halves(m, x, m.between(1, depth / 2));
  Tensor *low = half(0), *high = half(depth / 2);
  if (!low || !high) return false;
  Tensor* turned = m.add(LayerKind::kConcatenation, ir::AxisAttrs{static_cast<int64_t>(last)},
                         {m.unary(PointOp::kNeg, high), low});
  return m.binary(PointOp::kAdd, m.binary(PointOp::kMul, x, m.floats({depth}, -1, 1)),
                  m.binary(PointOp::kMul, turned, m.floats({depth}, -1, 1)));
}

// Channels shuffled, pixels gathered, windows cut: Reshape, Transpose, Reshape.
bool regroup(GraphMaker& m) {
  Tensor* x = any_map(m);
  if (!x || !m.is_static(x)) return false;
  const Extents& e = m.extents(x);
  if (e[1] % 2 == 0 && m.chance(50)) {
    Tensor* y = m.reshape(x, {Dim(e[0]), Dim(2), Dim(e[1] / 2), Dim(e[2]), Dim(e[3])});
    y = m.transpose(y, {0, 2, 1, 3, 4});
    return y && m.reshape(y, x->shape);
  }
  if (e[2] % 2 == 0 && e[3] % 2 == 0 && e[2] > 0 && e[3] > 0 && m.chance(60)) {
    Tensor* y = m.reshape(x, {Dim(e[0]), Dim(e[1]), Dim(e[2] / 2), Dim(2), Dim(e[3] / 2), Dim(2)});
    y = m.transpose(y, m.chance(50) ? Ints{0, 1, 3, 5, 2, 4} : Ints{0, 3, 5, 1, 2, 4});
    return y && m.reshape(y, {Dim(e[0]), Dim(e[1] * 4), Dim(e[2] / 2), Dim(e[3] / 2)});
  }
  if (e[1] % 4 != 0 || e[1] == 0) return false;
  Tensor* y = m.reshape(x, {Dim(e[0]), Dim(e[1] / 4), Dim(2), Dim(2), Dim(e[2]), Dim(e[3])});
  y = m.transpose(y, {0, 1, 4, 2, 5, 3});
  return y && m.reshape(y, {Dim(e[0]), Dim(e[1] / 4), Dim(e[2] * 2), Dim(e[3] * 2)});
}

// Several products of one tensor: they may become one.
bool siblings(GraphMaker& m) {
  Tensor* x = m.any_float(2, 4);
  if (!x || !x->has_rank) return false;
  const size_t rank = x->shape.size();
  const int64_t count = m.between(2, 3);
  bool any = false;
  for (int64_t k = 0; k < count; ++k) {
    if (rank == 4 && x->shape[1].is_known() && x->shape[1].extent() > 0) {
      const int64_t c = x->shape[1].extent(), outputs = m.between(1, 9), size = m.pick({1, 1, 3});
      any |= m.add(LayerKind::kConvolution, square_window(size, size / 2),
                   {x, m.floats({outputs, c, size, size}, -0.4f, 0.4f),
                    m.chance(70) ? m.floats({outputs}, -0.5f, 0.5f) : nullptr}) != nullptr;
    } else if (x->shape[rank - 1].is_known() && x->shape[rank - 1].extent() > 0) {
      any |= m.add(LayerKind::kMatrixMultiply, ir::MatrixMultiplyAttrs{},
                   {x, m.floats({x->shape[rank - 1].extent(), m.between(1, 9)}, -0.5f, 0.5f)}) !=
             nullptr;
    }
  }
  return any;
}

// Dense blocks: every layer reads all before it.
bool dense_block(GraphMaker& m) {
  Tensor* x = any_map(m);
  if (!x) return false;
  Tensor* all = x;
  for (int64_t k = m.between(2, 3); k > 0 && all; --k) {
    const int64_t c = all->shape[1].extent(), growth = m.between(1, 4);
    if (c > 64) break;
    Tensor* y = m.add(LayerKind::kConvolution, square_window(3, 1),
                      {all, m.floats({growth, c, 3, 3}, -0.4f, 0.4f)});
    y = y && m.chance(70) ? m.unary(PointOp::kRelu, y) : y;
    all = y ? m.add(LayerKind::kConcatenation, ir::AxisAttrs{1}, {all, y}) : nullptr;
  }
  return all;
}

// Sums of products of which a factor lacks dimensions: pooling by weights, all pairs, bilinear
// forms.
bool weighted_sum(GraphMaker& m) {
  Tensor* x = m.any_sequence();
  if (!x) return false;
  const Shape s = x->shape;
  const int64_t width = s[2].extent(), n = m.between(7, 20), form = m.below(4);
  Tensor* product = nullptr;
  int64_t axis = 3;
  if (form == 0) {
    product = m.binary(PointOp::kMul, x, mean(m, x, {2}));
    axis = 1;
  } else if (form == 1) {
    Tensor* a = m.reshape(x, {s[0], s[1], Dim(1), s[2]});
    product = a ? m.binary(PointOp::kMul, m.floats({n, width}, -0.5f, 0.5f), a) : nullptr;
  } else if (form == 2 && s[1].is_known()) {
    Tensor* a = m.reshape(x, {s[0], Dim(1), s[1], s[2]});
    product =
        a ? m.binary(PointOp::kMul, a, m.floats({n, s[1].extent(), width}, -0.5f, 0.5f)) : nullptr;
  } else {
    Tensor* a = m.reshape(x, {s[0], s[1], Dim(1), s[2]});
    Tensor* b = m.reshape(x, {s[0], Dim(1), s[1], s[2]});
    product = a && b ? m.binary(PointOp::kMul, a, b) : nullptr;
  }
  if (!product) return false;
  ir::ReduceAttrs sum;
  sum.op = m.chance(70) ? ir::ReduceOp::kSum : ir::ReduceOp::kMean;
  sum.keep_dims = m.chance(50);
  sum.axes = {axis};
  return m.add(LayerKind::kReduce, sum, {product}) != nullptr;
}

// Products with columns of one, and sums over one element.
bool column_product(GraphMaker& m) {
  Tensor* x = m.any_sequence();
  if (!x) return false;
  const Shape s = x->shape;
  Tensor* columns = m.reshape(x, {s[0], s[1], s[2], Dim(1)});
  if (!columns) return false;
  if (m.chance(35)) {
    Tensor* number = m.reshape(mean(m, x, {2}), {s[0], s[1], Dim(1), Dim(1)});
    return number &&
           m.add(LayerKind::kMatrixMultiply, ir::MatrixMultiplyAttrs{}, {columns, number});
  }
  ir::MatrixMultiplyAttrs attrs;
  attrs.transpose_a = m.chance(40);
  const int64_t width = s[2].extent(), n = m.between(2, 20);
  Tensor* matrix =
      attrs.transpose_a ? m.floats({width, n}, -0.5f, 0.5f) : m.floats({n, width}, -0.5f, 0.5f);
  Tensor* y = m.add(LayerKind::kMatrixMultiply, attrs, {matrix, columns});
  if (y && m.chance(60)) y = m.binary(PointOp::kAdd, y, m.floats({n, 1}, -0.5f, 0.5f));
  return y && (m.chance(40) || m.unary(m.pick({PointOp::kRelu, PointOp::kTanh}), y));
}

constexpr MakerRow kRows[] = {
    {"weighted_sum", 6, weighted_sum},
    {"column_product", 5, column_product},
    {"gelu", 8, gelu},
    {"swish", 8, swish},
    {"written_norm", 12, written_norm},
    {"written_softmax", 8, written_softmax},
    {"residual_block", 16, residual_block},
    {"squeeze_excite", 8, squeeze_excite},
    {"attention_heads", 10, attention},
    {"attention_layer", 5, attention_layer},
    {"rotation", 6, rotation},
    {"regroup", 10, regroup},
    {"siblings", 8, siblings},
    {"dense_block", 8, dense_block},
};

}  // namespace

MakerTable pattern_makers() {
  return kRows;
}

}  // namespace camshaft::fuzz
