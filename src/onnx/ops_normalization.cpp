// SPDX-License-Identifier: Apache-2.0
// Normalizations.
#include <algorithm>
#include <cmath>

#include "onnx/node.h"

namespace camshaft::onnx_import {
namespace {

// [C] → [C,1,1…], to broadcast along channels.
Result<Tensor*> per_channel(Node& node, std::string_view step, Tensor* vector, size_t rank) {
  Shape shape = vector->shape;
  while (shape.size() + 1 < rank) shape.push_back(1);
  return shape.size() == vector->shape.size() ? Result<Tensor*>(vector)
                                              : node.reshape(step, vector, shape);
}

// (x - mean) / sqrt(variance + epsilon) * scale + bias, for parameters that are not float
// constants.
Status compose_batch_normalization(Node& node, float epsilon) {
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  Tensor* parameters[5] = {};
  const char* names[] = {"", "scale", "bias", "mean", "variance"};
  for (size_t k = 1; k < 5; ++k) {
    CAMSHAFT_TRY(node.rank(k).status());
    CAMSHAFT_ASSIGN(parameters[k], per_channel(node, names[k], node.input(k), rank));
  }
  Tensor* x = node.input(0);
  CAMSHAFT_ASSIGN(Tensor* const shifted,
                  node.binary("variance_epsilon", PointOp::kAdd, parameters[4],
                              node.scalar_like("epsilon", parameters[4]->type, epsilon)));
  CAMSHAFT_ASSIGN(Tensor * deviation, node.unary("deviation", PointOp::kSqrt, shifted));
  CAMSHAFT_ASSIGN(Tensor* const mean, node.cast("mean_cast", parameters[3], x->type));
  CAMSHAFT_ASSIGN(deviation, node.cast("deviation_cast", deviation, x->type));
  CAMSHAFT_ASSIGN(Tensor* const scale, node.cast("scale_cast", parameters[1], x->type));
  CAMSHAFT_ASSIGN(Tensor* const bias, node.cast("bias_cast", parameters[2], x->type));
  CAMSHAFT_ASSIGN(Tensor * y, node.binary("center", PointOp::kSub, x, mean));
  CAMSHAFT_ASSIGN(y, node.binary("normalize", PointOp::kDiv, y, deviation));
  CAMSHAFT_ASSIGN(y, node.binary("scaled", PointOp::kMul, y, scale));
  return node.emit_to(0, LayerKind::kElementWise, ir::PointOpAttrs{PointOp::kAdd}, {y, bias});
}

Status import_batch_normalization(Node& node) {
  CAMSHAFT_TRY(node.require(5, 5));
  const float epsilon = node.real("epsilon", 1e-5f);
  node.ignore({"momentum", "is_test"});
  if (node.flag("training_mode", false)) return import_generic(node);
  if (node.opset() < 9 && !node.flag("spatial", true))
    return unsupported("spatial = 0: only statistics per channel are supported");
  for (size_t k = 1; k < 5; ++k)
    if (node.wants(k)) return unsupported("output {} exists only in training", k);
  bool constants = node.input(0)->type == DataType::kFloat;
  for (size_t k = 1; k < 5; ++k)
    constants =
        constants && node.input(k)->is_constant() && node.input(k)->type == DataType::kFloat;
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  if (!constants || rank < 2) return compose_batch_normalization(node, epsilon);

  const std::vector<double> scale = *node.reals(1), bias = *node.reals(2), mean = *node.reals(3),
                            variance = *node.reals(4);
  const size_t channels = scale.size();
  if (bias.size() != channels || mean.size() != channels || variance.size() != channels)
    return invalid("scale, bias, mean and variance differ in length");
  std::vector<float> factor(channels), shift(channels);
  for (size_t c = 0; c < channels; ++c) {
    const double multiplier = scale[c] / std::sqrt(variance[c] + static_cast<double>(epsilon));
    factor[c] = static_cast<float>(multiplier);
    shift[c] = static_cast<float>(bias[c] - mean[c] * multiplier);
  }
  const int64_t extents[] = {static_cast<int64_t>(channels)};
  return node.emit_to(0, LayerKind::kScale, ir::ScaleAttrs{1},
                      {node.input(0), node.float_constant("scale", extents, factor),
                       node.float_constant("shift", extents, shift)});
}

Status import_instance_normalization(Node& node) {
  CAMSHAFT_TRY(node.require(3, 3));
  ir::NormalizationAttrs attrs;
  attrs.kind = ir::NormKind::kInstance;
  attrs.epsilon = node.real("epsilon", 1e-5f);
  return node.emit(LayerKind::kNormalization, std::move(attrs), node.inputs());
}

Status import_group_normalization(Node& node) {
  CAMSHAFT_TRY(node.require(3, 3));
  node.ignore({"stash_type"});
  ir::NormalizationAttrs attrs;
  attrs.kind = ir::NormKind::kGroup;
  attrs.epsilon = node.real("epsilon", 1e-5f);
  attrs.groups = node.integer("num_groups", 0);
  std::vector<Tensor*> inputs = node.inputs();
  if (node.opset() < 21) {  // one factor per group: repeated for its channels
    CAMSHAFT_TRY(node.rank(0).status());
    const Shape& x = node.input(0)->shape;
    if (x.size() < 2 || !x[1].is_known() || attrs.groups < 1 || x[1].extent() % attrs.groups != 0)
      return unsupported("{} groups of an unknown or indivisible number of channels", attrs.groups);
    const Dim groups = attrs.groups, channels = x[1].extent() / attrs.groups;
    for (size_t k = 1; k < 3; ++k) {
      const std::string name = k == 1 ? "scale" : "bias";
      CAMSHAFT_ASSIGN(Tensor * column,
                      node.reshape(name + "_column", inputs[k], Shape{groups, Dim(1)}));
      CAMSHAFT_ASSIGN(column, node.add(name + "_expand", LayerKind::kExpand,
                                       ir::ShapeAttrs{true, Shape{groups, channels}}, {column}));
      CAMSHAFT_ASSIGN(inputs[k], node.reshape(name, column, Shape{x[1]}));
    }
  }
  return node.emit(LayerKind::kNormalization, std::move(attrs), std::move(inputs));
}

// Mean and 1/deviation are wanted, too: everything from reductions.
Status compose_layer_normalization(Node& node, int64_t axis, float epsilon) {
  Tensor* x = node.input(0);
  ir::ReduceAttrs mean_attrs;
  mean_attrs.op = ir::ReduceOp::kMean;
  for (int64_t d = axis; d < static_cast<int64_t>(x->shape.size()); ++d)
    mean_attrs.axes.push_back(d);
  CAMSHAFT_ASSIGN(Tensor* const mean, node.add("mean", LayerKind::kReduce, mean_attrs, {x}));
  CAMSHAFT_ASSIGN(Tensor* const centered, node.binary("center", PointOp::kSub, x, mean));
  CAMSHAFT_ASSIGN(Tensor* const square, node.binary("square", PointOp::kMul, centered, centered));
  CAMSHAFT_ASSIGN(Tensor * variance,
                  node.add("variance", LayerKind::kReduce, mean_attrs, {square}));
  CAMSHAFT_ASSIGN(variance, node.binary("variance_epsilon", PointOp::kAdd, variance,
                                        node.scalar_like("epsilon", x->type, epsilon)));
  CAMSHAFT_ASSIGN(Tensor* const deviation, node.unary("deviation", PointOp::kSqrt, variance));
  CAMSHAFT_ASSIGN(Tensor* const inverse, node.unary("inverse", PointOp::kReciprocal, deviation));
  if (node.wants(1))
    CAMSHAFT_TRY(node.emit_to(1, LayerKind::kUnary, ir::PointOpAttrs{PointOp::kIdentity}, {mean}));
  if (node.wants(2))
    CAMSHAFT_TRY(
        node.emit_to(2, LayerKind::kUnary, ir::PointOpAttrs{PointOp::kIdentity}, {inverse}));
  CAMSHAFT_ASSIGN(Tensor * y, node.binary("normalize", PointOp::kMul, centered, inverse));
  CAMSHAFT_ASSIGN(y, node.binary("scaled", PointOp::kMul, y, node.input(1)));
  if (!node.has(2))
    return node.emit_to(0, LayerKind::kUnary, ir::PointOpAttrs{PointOp::kIdentity}, {y});
  return node.emit_to(0, LayerKind::kElementWise, ir::PointOpAttrs{PointOp::kAdd},
                      {y, node.input(2)});
}

template <ir::NormKind kind>
Status import_axis_normalization(Node& node) {  // LayerNormalization, RMSNormalization
  CAMSHAFT_TRY(node.require(2, kind == ir::NormKind::kLayer ? 3 : 2));
  node.ignore({"stash_type"});
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  ir::NormalizationAttrs attrs;
  attrs.kind = kind;
  attrs.epsilon = node.real("epsilon", 1e-5f);
  CAMSHAFT_ASSIGN(attrs.axis, node.axis(node.integer("axis", -1), rank));
  if (node.wants(1) || node.wants(2))
    return compose_layer_normalization(node, attrs.axis, attrs.epsilon);
  return node.emit_to(0, LayerKind::kNormalization, std::move(attrs), node.inputs());
}

Status import_mean_variance_normalization(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  Ints axes = node.integers("axes");
  if (axes.empty()) axes = {0, 2, 3};
  ir::ReduceAttrs mean_attrs;
  mean_attrs.op = ir::ReduceOp::kMean;
  for (int64_t given : axes) {
    CAMSHAFT_ASSIGN(const int64_t axis, node.axis(given, rank));
    mean_attrs.axes.push_back(axis);
  }
  std::sort(mean_attrs.axes.begin(), mean_attrs.axes.end());
  Tensor* x = node.input(0);
  CAMSHAFT_ASSIGN(Tensor* const mean, node.add("mean", LayerKind::kReduce, mean_attrs, {x}));
  CAMSHAFT_ASSIGN(Tensor* const centered, node.binary("center", PointOp::kSub, x, mean));
  CAMSHAFT_ASSIGN(Tensor* const square, node.binary("square", PointOp::kMul, centered, centered));
  CAMSHAFT_ASSIGN(Tensor* const variance,
                  node.add("variance", LayerKind::kReduce, mean_attrs, {square}));
  CAMSHAFT_ASSIGN(Tensor * deviation, node.unary("deviation", PointOp::kSqrt, variance));
  CAMSHAFT_ASSIGN(deviation, node.binary("deviation_epsilon", PointOp::kAdd, deviation,
                                         node.scalar_like("epsilon", x->type, 1e-9)));
  return node.emit(LayerKind::kElementWise, ir::PointOpAttrs{PointOp::kDiv}, {centered, deviation});
}

Status import_lp_normalization(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  CAMSHAFT_ASSIGN(const size_t rank, node.rank(0));
  const int64_t p = node.integer("p", 2);
  if (p != 1 && p != 2) return invalid("p = {}", p);
  CAMSHAFT_ASSIGN(const int64_t axis, node.axis(node.integer("axis", -1), rank));
  ir::ReduceAttrs attrs;
  attrs.op = p == 1 ? ir::ReduceOp::kL1 : ir::ReduceOp::kL2;
  attrs.axes = {axis};
  CAMSHAFT_ASSIGN(Tensor * norm, node.add("norm", LayerKind::kReduce, attrs, {node.input(0)}));
  // Zeros stay zeros: they are divided by the least positive number.
  const DataType type = node.input(0)->type;
  const double least = type == DataType::kHalf ? 6e-8 : 1e-38;
  CAMSHAFT_ASSIGN(norm, node.binary("norm_or_least", PointOp::kMax, norm,
                                    node.scalar_like("least", type, least)));
  return node.emit(LayerKind::kElementWise, ir::PointOpAttrs{PointOp::kDiv}, {node.input(0), norm});
}

}  // namespace

std::span<const OperatorRow> normalization_operators() {
  static constexpr OperatorRow kOperators[] = {
      {"BatchNormalization", import_batch_normalization},
      {"InstanceNormalization", import_instance_normalization},
      {"GroupNormalization", import_group_normalization},
      {"LayerNormalization", import_axis_normalization<ir::NormKind::kLayer>},
      {"RMSNormalization", import_axis_normalization<ir::NormKind::kRms>},
      {"MeanVarianceNormalization", import_mean_variance_normalization},
      {"LpNormalization", import_lp_normalization},
  };
  return kOperators;
}

}  // namespace camshaft::onnx_import
