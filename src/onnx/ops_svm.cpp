// SPDX-License-Identifier: Apache-2.0
// Support vector machines of ai.onnx.ml as products: kernel values of x with all support vectors,
// times the coefficients.
#include <array>
#include <cmath>
#include <numeric>

#include "onnx/ops_learning.h"

namespace camshaft::onnx_import {
namespace {

struct Machine {
  std::vector<float> vectors, coefficients, rho;
  int64_t features = 0, count = 0;  // count: of support vectors; 0: the machine is linear in x
  std::string kernel;
  float gamma = 1, coef0 = 0, degree = 1;
};

Result<Tensor*> float_rows(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  CAMSHAFT_ASSIGN(Tensor* const x, node.cast("float", node.input(0), DataType::kFloat));
  if (!x->has_rank || x->shape.size() != 2 || !node.symbols().is_number(x->shape[1]))
    return unsupported("x is not rows of a known number of features");
  return x;
}

Result<Machine> read_machine(Node& node, const Tensor* x) {
  Machine machine;
  machine.vectors = node.floats("support_vectors");
  machine.coefficients = node.floats("coefficients");
  machine.rho = node.floats("rho");
  machine.kernel = node.text("kernel_type", "LINEAR");
  machine.features = node.symbols().number(x->shape[1]);
  const std::vector<float> params = node.floats("kernel_params");
  if (params.size() >= 3) {
    machine.gamma = params[0];
    machine.coef0 = params[1];
    machine.degree = params[2];
  }
  const auto size = static_cast<int64_t>(machine.vectors.size());
  if (machine.features < 1 || size % machine.features != 0)
    return invalid("{} numbers of support vectors of {} features", size, machine.features);
  machine.count = size / machine.features;
  if (machine.rho.empty()) return invalid("no rho");
  return machine;
}

// a [rows, k] · b [k, n] (given row by row) + bias
Result<Tensor*> product(Node& node, const std::string& step, Tensor* a, int64_t k, int64_t n,
                        const std::vector<float>& b, const std::vector<float>& bias,
                        bool transposed = false) {
  const Ints extents = transposed ? Ints{n, k} : Ints{k, n}, bias_extents = {n};
  std::vector<Tensor*> inputs = {a, node.float_constant(step + "_factor", extents, b)};
  if (!bias.empty()) inputs.push_back(node.float_constant(step + "_bias", bias_extents, bias));
  ir::MatrixMultiplyAttrs attrs;
  attrs.transpose_b = transposed;
  return node.add(step, LayerKind::kMatrixMultiply, std::move(attrs), std::move(inputs));
}

// exp(-gamma |x - v|²) with |x - v|² = |x|² - 2 x·v + |v|²: one product for all pairs.
Result<Tensor*> radial(Node& node, const Machine& machine, Tensor* x) {
  std::vector<float> squares, twice = machine.vectors;
  for (int64_t v = 0; v < machine.count; ++v) {
    const auto row = machine.vectors.begin() + v * machine.features;
    squares.push_back(
        static_cast<float>(std::inner_product(row, row + machine.features, row, 0.0)));
  }
  for (float& value : twice) value *= -2;
  CAMSHAFT_ASSIGN(Tensor * distance, product(node, "products", x, machine.features, machine.count,
                                             twice, squares, true));
  ir::ReduceAttrs attrs;
  attrs.op = ir::ReduceOp::kSumSquare;
  attrs.axes = {1};
  CAMSHAFT_ASSIGN(Tensor* const own, node.add("square", LayerKind::kReduce, attrs, {x}));
  CAMSHAFT_ASSIGN(distance, node.binary("distance", PointOp::kAdd, distance, own));
  CAMSHAFT_ASSIGN(distance, node.add("positive", LayerKind::kActivation,
                                     ir::PointOpAttrs{PointOp::kRelu}, {distance}));
  Tensor* const factor = node.scalar_like("minus_gamma", DataType::kFloat, -machine.gamma);
  CAMSHAFT_ASSIGN(distance, node.binary("scaled", PointOp::kMul, distance, factor));
  return node.unary("kernel", PointOp::kExp, distance);
}

Result<Tensor*> kernel_values(Node& node, const Machine& machine, Tensor* x) {
  if (machine.kernel == "RBF") return radial(node, machine, x);
  CAMSHAFT_ASSIGN(Tensor* const dot, product(node, "products", x, machine.features, machine.count,
                                             machine.vectors, {}, true));
  if (machine.kernel == "LINEAR") return dot;
  Tensor* const gamma = node.scalar_like("gamma", DataType::kFloat, machine.gamma);
  Tensor* const coef0 = node.scalar_like("coef0", DataType::kFloat, machine.coef0);
  CAMSHAFT_ASSIGN(Tensor* const scaled, node.binary("scaled", PointOp::kMul, dot, gamma));
  CAMSHAFT_ASSIGN(Tensor* const shifted, node.binary("shifted", PointOp::kAdd, scaled, coef0));
  if (machine.kernel == "SIGMOID")
    return node.add("kernel", LayerKind::kActivation, ir::PointOpAttrs{PointOp::kTanh}, {shifted});
  if (machine.kernel != "POLY") return invalid("kernel_type \"{}\"", machine.kernel);
  return node.binary("kernel", PointOp::kPow, shifted,
                     node.scalar_like("degree", DataType::kFloat, machine.degree));
}

Status import_svm_regressor(Node& node) {
  CAMSHAFT_ASSIGN(Tensor* const x, float_rows(node));
  CAMSHAFT_ASSIGN(const Machine machine, read_machine(node, x));
  node.ignore({"n_supports"});  // as many as there are vectors
  const int64_t k = machine.count > 0 ? machine.count : machine.features;
  if (static_cast<int64_t>(machine.coefficients.size()) != k)
    return invalid("{} coefficients of {}", machine.coefficients.size(), k);
  Tensor* values = x;
  if (machine.count > 0) {
    CAMSHAFT_ASSIGN(values, kernel_values(node, machine, x));
  }
  CAMSHAFT_ASSIGN(Tensor* const score,
                  product(node, "score", values, k, 1, machine.coefficients, {machine.rho[0]}));
  if (!node.flag("one_class", false))
    return finish_scores(node, 0, score, node.text("post_transform", "NONE"));
  node.ignore({"post_transform"});
  const auto number = [&](std::string_view step, double value) {
    return node.scalar_like(step, DataType::kFloat, value);
  };
  CAMSHAFT_ASSIGN(Tensor* const inside,
                  node.binary("inside", PointOp::kGreater, score, number("zero", 0)));
  return node.emit(LayerKind::kSelect, ir::PointOpAttrs{PointOp::kSelect},
                   {inside, number("one", 1), number("minus_one", -1)});
}

// Of each pair of classes i < j: sum over the vectors of both of coefficient · kernel, + rho.
// Coefficients are [classes - 1][vectors]: a vector of class i has its coefficient against j in row
// j - 1 if j > i, else in row j.
Result<Tensor*> pair_scores(Node& node, const Machine& machine, Tensor* kernel, int64_t classes,
                            const Ints& per_class) {
  const int64_t pairs = classes * (classes - 1) / 2;
  if (static_cast<int64_t>(machine.coefficients.size()) != (classes - 1) * machine.count ||
      static_cast<int64_t>(machine.rho.size()) != pairs)
    return invalid("{} coefficients and {} rho of {} classes and {} vectors",
                   machine.coefficients.size(), machine.rho.size(), classes, machine.count);
  std::vector<float> factor(static_cast<size_t>(machine.count * pairs));
  Ints first(per_class.size() + 1);
  for (size_t c = 0; c < per_class.size(); ++c) first[c + 1] = first[c] + per_class[c];
  int64_t pair = 0;
  for (int64_t i = 0; i < classes; ++i)
    for (int64_t j = i + 1; j < classes; ++j, ++pair) {
      for (int64_t v = first[i]; v < first[i + 1]; ++v)
        factor[v * pairs + pair] = machine.coefficients[(j - 1) * machine.count + v];
      for (int64_t v = first[j]; v < first[j + 1]; ++v)
        factor[v * pairs + pair] = machine.coefficients[i * machine.count + v];
    }
  return product(node, "pairs", kernel, machine.count, pairs, factor, machine.rho);
}

// Each pair votes for one of its classes, the first if its score is above 0.
Result<Tensor*> votes_of(Node& node, Tensor* pairs, int64_t classes) {
  const int64_t count = classes * (classes - 1) / 2;
  std::vector<float> factor(static_cast<size_t>(count * classes)),
      bias(static_cast<size_t>(classes));
  int64_t pair = 0;
  for (int64_t i = 0; i < classes; ++i)
    for (int64_t j = i + 1; j < classes; ++j, ++pair) {
      factor[pair * classes + i] = 1;
      factor[pair * classes + j] = -1;
      bias[j] += 1;
    }
  CAMSHAFT_ASSIGN(Tensor* const above, node.binary("above", PointOp::kGreater, pairs,
                                                   node.scalar_like("zero", DataType::kFloat, 0)));
  CAMSHAFT_ASSIGN(Tensor* const ones, node.cast("above_float", above, DataType::kFloat));
  return product(node, "votes", ones, count, classes, factor, bias);
}

// Platt's: the first class of a pair has 1 / (1 + exp(a · score + b)).
Result<Tensor*> probabilities(Node& node, Tensor* pairs, int64_t classes, std::vector<float> slopes,
                              std::vector<float> offsets) {
  const Ints extents = {classes * (classes - 1) / 2};
  if (static_cast<int64_t>(slopes.size()) != extents[0] || offsets.size() != slopes.size())
    return invalid("{} of prob_a and {} of prob_b for {} pairs of classes", slopes.size(),
                   offsets.size(), extents[0]);
  for (float& value : slopes) value = -value;
  for (float& value : offsets) value = -value;
  CAMSHAFT_ASSIGN(Tensor * odds, node.binary("odds", PointOp::kMul, pairs,
                                             node.float_constant("slopes", extents, slopes)));
  CAMSHAFT_ASSIGN(odds, node.binary("shifted_odds", PointOp::kAdd, odds,
                                    node.float_constant("offsets", extents, offsets)));
  CAMSHAFT_ASSIGN(Tensor* const either, node.add("of_pairs", LayerKind::kActivation,
                                                 ir::PointOpAttrs{PointOp::kSigmoid}, {odds}));
  return node.add("probabilities", LayerKind::kGeneric,
                  ir::GenericAttrs{"PairwiseCoupling", 1, {{"classes", {classes}, {}, ""}}},
                  {either});
}

Status import_svm_classifier(Node& node) {
  CAMSHAFT_ASSIGN(Tensor* const x, float_rows(node));
  CAMSHAFT_ASSIGN(const Machine machine, read_machine(node, x));
  CAMSHAFT_ASSIGN(const Labels labels, read_labels(node, "classlabels_ints"));
  const std::vector<float> slopes = node.floats("prob_a"), offsets = node.floats("prob_b");
  const std::string post = node.text("post_transform", "NONE");
  const auto classes = static_cast<int64_t>(labels.size());
  const Ints per_class = node.integers("vectors_per_class");
  if (machine.count == 0) {
    if (!slopes.empty()) return unsupported("prob_a without support vectors");
    const std::vector<float> bias(static_cast<size_t>(classes), machine.rho[0]);
    if (static_cast<int64_t>(machine.coefficients.size()) != classes * machine.features)
      return invalid("{} coefficients of {} classes and {} features", machine.coefficients.size(),
                     classes, machine.features);
    CAMSHAFT_ASSIGN(Tensor* const scores, product(node, "scores", x, machine.features, classes,
                                                  machine.coefficients, bias, true));
    CAMSHAFT_TRY(give_best_labels(node, scores, labels));
    return finish_scores(node, 1, scores, post);
  }
  int64_t vectors = 0;
  for (int64_t count : per_class) vectors += count >= 0 ? count : machine.count + 1;
  if (classes < 2 || static_cast<int64_t>(per_class.size()) != classes || vectors != machine.count)
    return invalid("{} support vectors of {} classes, vectors_per_class has {} of {}",
                   machine.count, classes, vectors, per_class.size());
  CAMSHAFT_ASSIGN(Tensor* const kernel, kernel_values(node, machine, x));
  CAMSHAFT_ASSIGN(Tensor* const pairs, pair_scores(node, machine, kernel, classes, per_class));
  CAMSHAFT_ASSIGN(Tensor* const votes, votes_of(node, pairs, classes));
  CAMSHAFT_TRY(give_best_labels(node, votes, labels));
  if (!slopes.empty()) {
    CAMSHAFT_ASSIGN(Tensor* const p, probabilities(node, pairs, classes, slopes, offsets));
    return finish_scores(node, 1, p, post);
  }
  if (classes == 2) return give_pair(node, pairs, post, false);
  return finish_scores(node, 1, pairs, post);
}

}  // namespace

std::span<const OperatorRow> svm_operators() {
  static constexpr OperatorRow kOperators[] = {
      {"SVMRegressor", import_svm_regressor},
      {"SVMClassifier", import_svm_classifier},
  };
  return kOperators;
}

}  // namespace camshaft::onnx_import
