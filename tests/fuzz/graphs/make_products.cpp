// SPDX-License-Identifier: Apache-2.0
// Convolution, Deconvolution, MatrixMultiply, Pooling.
#include <algorithm>

#include "fuzz/graphs/graph_maker.h"

namespace camshaft::fuzz {
namespace {

// [N, C, spatial…] with a known number of channels.
Tensor* any_map(GraphMaker& m, int64_t least_rank = 3, int64_t most_rank = 5) {
  return m.any([&](Tensor* t) {
    return t->type == DataType::kFloat && t->has_rank && m.rank(t) >= least_rank &&
           m.rank(t) <= most_rank && t->shape[1].is_known() && t->shape[1].extent() > 0 &&
           (m.rank(t) == 4 || m.chance(50));
  });
}

// Widths around those of tiles, small ones mostly.
int64_t any_channels(GraphMaker& m) {
  if (m.chance(5)) return m.pick({95, 96, 100, 128, 130});
  return m.chance(18) ? m.pick({16, 17, 24, 31, 32, 33, 40, 48, 50, 64, 65}) : m.between(1, 14);
}

template <class Attrs>
bool choose_window(GraphMaker& m, Tensor* x, Attrs& a, int64_t largest) {
  for (int64_t d = 2; d < m.rank(x); ++d) {
    const int64_t room = m.least(x, d);
    if (room < 1) return false;
    int64_t size = m.pick({1, 1, 2, 3, 3, 3, 4, 5, 7});
    if (d > 2 && m.chance(80)) size = a.kernel[0];
    size = std::min(size, largest);
    const int64_t dilation = m.chance(12) ? 2 : 1, padding = m.chance(50) ? size / 2 : 0;
    int64_t pre = padding, post = m.chance(85) ? padding : m.between(0, size - 1);
    if ((size - 1) * dilation + 1 > room + pre + post) size = std::min<int64_t>(room, 1);
    if (size == 1 && m.chance(90)) pre = post = 0;
    a.kernel.push_back(size);
    a.dilation.push_back(size == 1 ? 1 : dilation);
    a.stride.push_back(m.chance(70) ? 1 : m.between(2, 3));
    a.pre_padding.push_back(pre);
    a.post_padding.push_back(post);
  }
  if (m.chance(15))
    a.padding_mode = m.pick({ir::PaddingMode::kSameUpper, ir::PaddingMode::kSameLower});
  return true;
}

// An epilogue over the accumulator and, sometimes, a residual.
void choose_epilogue(GraphMaker& m, ir::Program& program, Tensor* residual) {
  program.num_inputs = residual ? 2 : 1;
  int last = residual ? ir::append(program, PointOp::kAdd, 0, 1) : 0;
  if (!residual || m.chance(60))
    last = ir::append(program,
                      m.pick({PointOp::kRelu, PointOp::kHardSwish, PointOp::kSigmoid,
                              PointOp::kTanh, PointOp::kGelu}),
                      last);
}

// Weights that are constant mostly, else scaled by what is computed from x.
Tensor* any_weights(GraphMaker& m, Tensor* x, const Extents& extents) {
  Tensor* constant = m.floats(extents, -0.4f, 0.4f);
  if (m.chance(90)) return constant;
  ir::ReduceAttrs mean;
  mean.op = ir::ReduceOp::kMean;
  mean.keep_dims = true;
  for (int64_t d = 0; d < m.rank(x); ++d) mean.axes.push_back(d);
  Tensor* scale = m.add(LayerKind::kReduce, mean, {x});
  scale = scale ? m.unary(PointOp::kTanh, scale) : nullptr;
  Tensor* scaled = scale ? m.binary(PointOp::kMul, constant, scale) : nullptr;
  return scaled ? scaled : constant;
}

bool convolution(GraphMaker& m) {
  Tensor* x = any_map(m);
  if (!x) return false;
  const int64_t channels = x->shape[1].extent();
  ir::ConvolutionAttrs a;
  if (!choose_window(m, x, a, 7)) return false;
  const int64_t form = m.below(6);
  if (form == 0) a.groups = channels;
  for (const int64_t groups : {2, 3, 4})
    if (form == 1 && channels % groups == 0) a.groups = groups;
  const int64_t outputs = a.groups == channels
                              ? channels * (m.chance(80) ? 1 : 2)
                              : a.groups * std::max<int64_t>(any_channels(m) / a.groups, 1);
  Extents weights = {outputs, channels / a.groups};
  for (const int64_t size : a.kernel) weights.push_back(size);
  std::vector<Tensor*> inputs = {x, any_weights(m, x, weights),
                                 m.chance(60) ? m.floats({outputs}, -0.5f, 0.5f) : nullptr};
  if (m.chance(15)) choose_epilogue(m, a.epilogue, nullptr);
  Tensor* y = m.add(LayerKind::kConvolution, a, inputs);
  if (!y || m.chance(50)) return y;
  // What follows a convolution most often.
  y = m.chance(70) ? m.unary(m.pick({PointOp::kRelu, PointOp::kSilu, PointOp::kHardSwish}), y) : y;
  if (y && m.chance(40) && y->shape == x->shape) y = m.binary(PointOp::kAdd, y, x);
  return true;
}

// The windows that kernels of their own have, on maps they fit.
bool depthwise(GraphMaker& m) {
  const int64_t size = m.pick({3, 3, 5, 5, 7}), stride = m.pick({1, 1, 2});
  Tensor* x = m.any([&](Tensor* t) {
    return t->type == DataType::kFloat && t->has_rank && m.rank(t) == 4 && t->shape[1].is_known() &&
           t->shape[1].extent() > 0 && m.least(t, 2) >= 2 && m.least(t, 3) >= 2;
  });
  if (!x) return false;
  const int64_t channels = x->shape[1].extent();
  ir::ConvolutionAttrs a;
  a.groups = channels;
  a.kernel = {size, size};
  a.stride = {stride, stride};
  a.dilation = {1, 1};
  a.pre_padding = {size / 2, size / 2};
  a.post_padding = stride == 2 && m.chance(30) ? Ints{size / 2 - 1, size / 2 - 1} : a.pre_padding;
  const int64_t outputs = channels * (m.chance(75) ? 1 : m.between(2, 5));
  Tensor* y = m.add(LayerKind::kConvolution, a,
                    {x, m.floats({outputs, 1, size, size}, -0.4f, 0.4f),
                     m.chance(60) ? m.floats({outputs}, -0.5f, 0.5f) : nullptr});
  return y && (m.chance(50) || m.unary(m.pick({PointOp::kRelu, PointOp::kHardSwish}), y));
}

bool deconvolution(GraphMaker& m) {
  Tensor* x = any_map(m);
  if (!x) return false;
  const int64_t channels = x->shape[1].extent();
  ir::ConvolutionAttrs a;
  if (!choose_window(m, x, a, 4)) return false;
  for (int64_t& stride : a.stride) stride = m.between(1, 3);
  if (a.padding_mode != ir::PaddingMode::kExplicit) a.padding_mode = ir::PaddingMode::kExplicit;
  if (m.chance(20))
    for (const int64_t stride : a.stride) a.output_padding.push_back(m.below(stride));
  if (m.chance(25)) a.groups = channels % 2 == 0 && m.chance(50) ? 2 : channels;
  const int64_t per_group = a.groups > 2   ? m.between(1, 3)
                            : m.chance(15) ? m.pick({16, 33, 48, 64, 128})
                                           : m.between(1, 8);
  Extents weights = {channels, per_group};
  for (const int64_t size : a.kernel) weights.push_back(size);
  return m.add(LayerKind::kDeconvolution, a,
               {x, any_weights(m, x, weights),
                m.chance(60) ? m.floats({per_group * a.groups}, -0.5f, 0.5f) : nullptr});
}

// ONNX Runtime refuses the mean of an image without pixels; here it is 0, or the code 0.
bool has_pixels(const GraphMaker& m, const Tensor* x) {
  for (int64_t d = 2; d < m.rank(x); ++d)
    if (m.least(x, d) == 0) return false;
  return true;
}

// What may become its epilogue.
bool behind_pooling(GraphMaker& m, Tensor* x, Tensor* y) {
  if (y->type != DataType::kFloat) return true;
  if (x->shape == y->shape && m.chance(50)) y = m.binary(PointOp::kSub, y, x);
  if (y && m.chance(30)) {
    Extents channels(y->shape.size() - 1, 1);
    channels[0] = y->shape[1].extent();
    y = m.binary(PointOp::kMul, y, m.floats(channels, -1, 1));
  }
  return y && (m.chance(40) || (m.chance(50) ? m.unary(PointOp::kRelu, y)
                                             : m.unary(PointOp::kHardSigmoid, y, 0.2f, 0.5f)));
}

bool pooling(GraphMaker& m) {
  Tensor* x = any_map(m);
  if (!x) return false;
  ir::PoolingAttrs a;
  a.type = m.pick({ir::PoolingType::kMax, ir::PoolingType::kMax, ir::PoolingType::kAverage,
                   ir::PoolingType::kAverage, ir::PoolingType::kLp});
  a.global = m.chance(15) && (a.type != ir::PoolingType::kAverage || has_pixels(m, x));
  if (!a.global && !choose_window(m, x, a, 5)) return false;
  if (!a.global && a.padding_mode == ir::PaddingMode::kExplicit && m.chance(15))
    a.padding_mode = ir::PaddingMode::kExplicitRoundUp;
  for (size_t d = 0; d < a.kernel.size(); ++d) {  // every window has an element of the input
    a.pre_padding[d] = std::min(a.pre_padding[d], a.kernel[d] - 1);
    a.post_padding[d] = std::min(a.post_padding[d], a.kernel[d] - 1);
  }
  a.count_includes_padding = m.chance(30);
  if (a.type != ir::PoolingType::kAverage) a.count_includes_padding = false;
  a.p = a.type == ir::PoolingType::kLp ? m.between(1, 3) : 2;
  const bool indices =
      a.type == ir::PoolingType::kMax && !a.global && m.chance(15) && m.is_exact(x);
  a.column_major_indices = indices && m.chance(30);
  Tensor* y = m.add_many(LayerKind::kPooling, a, {x}, {true, indices})[0];
  return y && (m.chance(60) || behind_pooling(m, x, y));
}

// x with a second factor that is a constant: projections.
bool projection(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) {
    return t->type == DataType::kFloat && t->has_rank && m.rank(t) >= 1 && m.rank(t) <= 5 &&
           t->shape[t->shape.size() - 1].is_known();
  });
  if (!x) return false;
  ir::MatrixMultiplyAttrs a;
  const int64_t depth = x->shape[x->shape.size() - 1].extent();
  const int64_t columns = m.chance(15) ? 1 : any_channels(m);
  a.transpose_b = m.chance(30);
  if (m.chance(10)) a.alpha = m.pick({0.5f, 2.0f, -1.0f});
  Extents weights = a.transpose_b ? Extents{columns, depth} : Extents{depth, columns};
  if (m.chance(10)) {
    weights.insert(0, int64_t{1});
    if (m.chance(50) && m.rank(x) >= 3 && m.is_static(x))
      weights[0] = m.extents(x)[static_cast<size_t>(m.rank(x) - 3)];
  }
  if (m.chance(5) && !a.transpose_b) weights = {depth};
  Tensor* bias = m.chance(40) && weights.size() > 1
                     ? m.floats(m.chance(70) ? Extents{columns} : Extents{1}, -0.5f, 0.5f)
                     : nullptr;
  Tensor* y = m.add(LayerKind::kMatrixMultiply, a, {x, m.floats(weights, -0.5f, 0.5f), bias});
  if (y && m.chance(30)) m.unary(m.pick({PointOp::kRelu, PointOp::kGelu, PointOp::kSilu}), y);
  return y;
}

// Two activations: what fits as it is or transposed.
bool product(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) {
    return t->type == DataType::kFloat && t->has_rank && m.rank(t) >= 2 && m.rank(t) <= 5;
  });
  if (!x) return false;
  ir::MatrixMultiplyAttrs a;
  a.transpose_a = m.chance(25);
  const size_t rank = x->shape.size();
  const Dim depth = x->shape[a.transpose_a ? rank - 2 : rank - 1];
  Tensor* y = m.any([&](Tensor* t) {
    const size_t r = t->shape.size();
    return t->type == DataType::kFloat && t->has_rank && r >= 2 && r <= 5 &&
           (t->shape[r - 1] == depth || t->shape[r - 2] == depth);
  });
  if (!y) return false;
  a.transpose_b = y->shape[y->shape.size() - 1] == depth &&
                  (y->shape[y->shape.size() - 2] != depth || m.chance(50));
  if (m.chance(10)) a.alpha = 0.25f;
  return m.add(LayerKind::kMatrixMultiply, a, {x, y});
}

constexpr MakerRow kRows[] = {
    {"depthwise", 8, depthwise},         {"convolution", 40, convolution},
    {"deconvolution", 6, deconvolution}, {"pooling", 12, pooling},
    {"projection", 24, projection},      {"product", 10, product},
};

}  // namespace

MakerTable product_makers() {
  return kRows;
}

}  // namespace camshaft::fuzz
