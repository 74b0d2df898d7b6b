// SPDX-License-Identifier: Apache-2.0
// ai.onnx.ml: trees and encoders, which are Generic layers, and what the importer makes of support
// vector machines, linear models and scalers (onnx/ops_svm.cpp, ops_learning.cpp).
#include <algorithm>
#include <cmath>
#include <limits>

#include "fuzz/graphs/generic_layers.h"
#include "fuzz/graphs/graph_maker.h"

namespace camshaft::fuzz {
namespace {

// Rows [rows, features] of a known number of features, at least `least`: a tensor or one reshaped.
Tensor* any_rows(GraphMaker& m, int64_t least = 1, bool floats = true) {
  Tensor* x = m.any([&](Tensor* t) {
    const bool fits = t->type == DataType::kFloat || (!floats && ir::is_integer(t->type));
    return fits && t->has_rank && m.rank(t) >= 1 && m.rank(t) <= 4 && t->shape.back().is_known() &&
           t->shape.back().extent() >= least && t->shape.back().extent() <= 40;
  });
  if (!x || m.rank(x) == 2) return x;
  Dim rows = Dim(1);
  for (size_t d = 0; d + 1 < x->shape.size(); ++d) rows = m.symbols().mul(rows, x->shape[d]);
  return m.reshape(x, {rows, x->shape.back()});
}

int64_t features_of(const Tensor* rows) {
  return rows->shape.back().extent();
}

Tensor* product(GraphMaker& m, Tensor* a, int64_t depth, int64_t columns, bool with_bias) {
  ir::MatrixMultiplyAttrs attrs;
  attrs.transpose_b = m.chance(50);
  std::vector<Tensor*> inputs = {
      a, m.floats(attrs.transpose_b ? Extents{columns, depth} : Extents{depth, columns}, -1, 1)};
  if (with_bias) inputs.push_back(m.floats({columns}, -1, 1));
  return a ? m.add(LayerKind::kMatrixMultiply, attrs, inputs) : nullptr;
}

// Trees as the importer lays them out (kernels/reference/generic_trees.cpp).
class Forest {
 public:
  Forest(GraphMaker& m, Tensor* x) : m_(m), x_(x) {
    type_ = m.chance(85) ? DataType::kFloat : DataType::kDouble;
    targets_ = m.chance(50) ? 1 : m.between(2, 5);
    mixes_ = m.chance(25);
    mode_ = m.below(4);
    for (int64_t k = m.between(1, 12); k > 0; --k) roots_.push_back(grow(m.below(5)));
  }

  bool add_layer() {
    if (!is_clear_) return false;
    const std::vector<Tensor*> inputs = {
        x_,
        m_.constant(DataType::kInt32, {static_cast<int64_t>(splits_.size()), 5}, nodes_),
        reals(splits_),
        integers(leaf_targets_),
        reals(weights_),
        integers(roots_),
        reals(members_)};
    const std::vector<ir::GenericAttribute> attributes = {
        integer("n_targets", targets_),
        integer("aggregate_function", m_.chance(70) ? 1 : m_.below(4))};
    const auto outputs =
        m_.add_many(LayerKind::kGeneric, ir::GenericAttrs{"TreeEnsemble", 5, attributes}, inputs,
                    {true, m_.chance(40)});
    return outputs[0];
  }

 private:
  static constexpr int64_t kEqual = 4, kNotEqual = 5, kMember = 6, kLeaf = 7;

  Tensor* reals(const std::vector<double>& values) {
    return m_.constant(type_, {static_cast<int64_t>(values.size())}, values);
  }
  Tensor* integers(const std::vector<double>& values) {
    return m_.constant(DataType::kInt32, {static_cast<int64_t>(values.size())}, values);
  }

  // Children lie before their parents now and then: nothing says they may not.
  double grow(int64_t depth) {
    if (depth == 0 || m_.chance(15)) return add_leaf();
    if (m_.chance(50)) {
      const double on_true = grow(depth - 1), on_false = grow(depth - 1);
      return add_branch(on_true, on_false);
    }
    const double self = add_branch(0, 0);
    const double on_true = grow(depth - 1), on_false = grow(depth - 1);
    nodes_[static_cast<size_t>(self) * 5 + 2] = on_true;
    nodes_[static_cast<size_t>(self) * 5 + 3] = on_false;
    return self;
  }

  double add_branch(double on_true, double on_false) {
    const int64_t mode = mixes_ ? m_.below(7) : mode_;
    const auto feature = static_cast<double>(m_.below(features_of(x_)));
    const bool compares_equal = mode >= kEqual;
    double split = compares_equal ? static_cast<double>(m_.between(-4, 4)) : m_.real(-1.5f, 1.5f);
    if (!compares_equal && m_.chance(20)) split = std::round(split);
    is_clear_ = is_clear_ && m_.is_clear(x_, [&](double v) { return std::fabs(v - split); });
    if (mode == kMember) split = add_members();
    return add_node(
        {feature, static_cast<double>(mode), on_true, on_false, static_cast<double>(m_.below(2))},
        split);
  }

  double add_members() {
    const auto first = static_cast<double>(members_.size());
    is_clear_ = is_clear_ && m_.is_exact(x_);
    for (int64_t k = m_.between(1, 4); k > 0; --k)
      members_.push_back(static_cast<double>(m_.between(-4, 4)));
    members_.push_back(std::numeric_limits<double>::quiet_NaN());
    return first;
  }

  double add_leaf() {
    const auto first = static_cast<double>(weights_.size());
    const int64_t count = m_.chance(10) ? 0 : m_.between(1, targets_);
    for (int64_t k = 0; k < count; ++k) {
      leaf_targets_.push_back(static_cast<double>(count == targets_ ? k : m_.below(targets_)));
      weights_.push_back(m_.real(-1, 1));
    }
    return add_node({0, static_cast<double>(kLeaf), first, static_cast<double>(count), 0}, 0);
  }

  double add_node(std::initializer_list<double> fields, double split) {
    nodes_.insert(nodes_.end(), fields);
    splits_.push_back(split);
    return static_cast<double>(splits_.size()) - 1;
  }

  GraphMaker& m_;
  Tensor* x_;
  DataType type_;
  int64_t targets_, mode_;
  bool mixes_, is_clear_ = true;
  std::vector<double> nodes_, splits_, leaf_targets_, weights_, roots_, members_;
};

bool tree_ensemble(GraphMaker& m) {
  Tensor* x = any_rows(m, 1, m.chance(85));
  return x && Forest(m, x).add_layer();
}

// What labels and codes are looked up by: integers, floats no rounding has touched.
Tensor* any_keys(GraphMaker& m, bool floats) {
  return m.any([&](Tensor* t) {
    return (t->type == DataType::kInt64 ||
            (floats && t->type == DataType::kFloat && m.is_exact(t))) &&
           m.rank(t) <= 4;
  });
}

bool label_encoder(GraphMaker& m) {
  Tensor* x = any_keys(m, true);
  if (!x) return false;
  const int64_t count = m.between(1, 8);
  Tensor* keys = x->type == DataType::kInt64 || m.chance(70) ? m.whole(x->type, {count}, -4, 4)
                                                             : m.floats({count}, -2, 2);
  const DataType type = m.pick({DataType::kInt64, DataType::kFloat});
  const auto numbers = [&](const Extents& extents) {
    return type == DataType::kFloat ? m.floats(extents, -2, 2) : m.whole(type, extents, -9, 9);
  };
  return m.generic("LabelEncoder", m.pick({2, 4}), {x, keys, numbers({count}), numbers({})}, {});
}

bool one_hot_encoder(GraphMaker& m) {
  Tensor* x = any_keys(m, true);
  if (!x) return false;
  Ints categories;
  for (int64_t k = -4; k <= 4; ++k)
    if (m.chance(60)) categories.push_back(k);
  return m.generic("OneHotEncoder", 1, {x},
                   {list("cats_int64s", categories), integer("zeros", m.chance(80))});
}

bool array_feature_extractor(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) { return t->has_rank && m.rank(t) >= 1 && m.rank(t) <= 4; });
  if (!x || m.least(x, m.rank(x) - 1) < 1) return false;
  return m.generic(
      "ArrayFeatureExtractor", 1,
      {x, m.whole(DataType::kInt64, {m.between(1, 5)}, 0, m.least(x, m.rank(x) - 1) - 1)}, {});
}

bool tf_idf(GraphMaker& m) {
  Tensor* x = m.any([&](Tensor* t) {
    return (t->type == DataType::kInt64 || t->type == DataType::kInt32) && t->has_rank &&
           m.rank(t) >= 1 && m.rank(t) <= 2;
  });
  if (!x) return false;
  Ints items, indexes;
  const int64_t singles = m.between(0, 4), pairs = m.between(1, 4);
  for (int64_t k = 0; k < singles + 2 * pairs; ++k) items.push_back(m.between(-3, 3));
  for (int64_t k = 0; k < singles + pairs; ++k) indexes.push_back(k);
  std::shuffle(indexes.begin(), indexes.end(), m.random());
  std::vector<float> weights;
  for (int64_t k = 0; k < singles + pairs; ++k) weights.push_back(m.real(0.1f, 2));
  return m.generic("TfIdfVectorizer", 9, {x},
                   {list("pool_int64s", items),
                    list("ngram_counts", {0, singles}),
                    list("ngram_indexes", indexes),
                    {"weights", {}, weights, ""},
                    integer("min_gram_length", m.between(1, 2)),
                    integer("max_gram_length", 2),
                    integer("max_skip_count", m.below(3)),
                    {"mode", {}, {}, m.pick({"TF", "IDF", "TFIDF"})}});
}

Tensor* radial(GraphMaker& m, Tensor* x, int64_t vectors) {
  Tensor* distance = product(m, x, features_of(x), vectors, true);
  ir::ReduceAttrs squares;
  squares.op = ir::ReduceOp::kSumSquare;
  squares.axes = {1};
  distance = m.binary(PointOp::kAdd, distance, m.add(LayerKind::kReduce, squares, {x}));
  distance = m.unary(PointOp::kRelu, distance);
  return m.unary(PointOp::kExp,
                 m.binary(PointOp::kMul, distance, m.scalar(DataType::kFloat, -0.25)));
}

Tensor* kernel_values(GraphMaker& m, Tensor* x, int64_t vectors) {
  if (m.chance(50)) return radial(m, x, vectors);
  Tensor* dot = product(m, x, features_of(x), vectors, false);
  if (m.chance(30)) return dot;
  Tensor* scaled = m.binary(PointOp::kMul, dot, m.scalar(DataType::kFloat, 0.25));
  Tensor* shifted = m.binary(PointOp::kAdd, scaled, m.scalar(DataType::kFloat, 0.5));
  if (m.chance(50)) return m.unary(PointOp::kTanh, shifted);
  return m.binary(PointOp::kPow, shifted, m.scalar(DataType::kFloat, m.pick({2, 3})));
}

// The class that most pairs vote for.
bool vote(GraphMaker& m, Tensor* pairs, int64_t count, int64_t classes) {
  if (!m.is_clear(pairs, [](double v) { return std::fabs(v); })) return false;
  Tensor* above = m.binary(PointOp::kGreater, pairs, m.scalar(DataType::kFloat, 0));
  if (!above) return false;
  Tensor* ones = m.add(LayerKind::kCast, ir::CastAttrs{DataType::kFloat}, {above});
  Tensor* factor = m.whole(DataType::kFloat, {count, classes}, -1, 1);
  Tensor* votes = ones ? m.add(LayerKind::kMatrixMultiply, ir::MatrixMultiplyAttrs{},
                               {ones, factor, m.whole(DataType::kFloat, {classes}, 0, 2)})
                       : nullptr;
  if (!votes) return false;
  ir::TopKAttrs best;
  best.axis = 1;
  best.keep_dims = false;
  Tensor* index = m.add(LayerKind::kArgMinMax, best, {votes});
  return index && m.add(LayerKind::kGather, ir::GatherAttrs{},
                        {m.whole(DataType::kInt64, {classes}, -9, 9), index});
}

bool support_vectors(GraphMaker& m) {
  Tensor* x = any_rows(m);
  if (!x) return false;
  const int64_t classes = m.between(2, 5), count = classes * (classes - 1) / 2,
                vectors = m.between(1, 20);
  Tensor* pairs = product(m, kernel_values(m, x, vectors), vectors, count, true);
  if (!pairs) return false;
  if (m.chance(60) && vote(m, pairs, count, classes)) return true;
  Tensor* odds = m.binary(PointOp::kMul, pairs, m.floats({count}, 0.5f, 1.5f));
  Tensor* either =
      m.unary(PointOp::kSigmoid, m.binary(PointOp::kAdd, odds, m.floats({count}, -1, 1)));
  return either && m.generic("PairwiseCoupling", 1, {either}, {integer("classes", classes)});
}

bool normalizer(GraphMaker& m) {
  Tensor* x = any_rows(m);
  if (!x) return false;
  ir::ReduceAttrs attrs;
  attrs.axes = {1};
  attrs.op = m.pick({ir::ReduceOp::kMax, ir::ReduceOp::kL1, ir::ReduceOp::kL2});
  Tensor* length = m.add(LayerKind::kReduce, attrs, {x});
  if (!length || !m.is_clear(length, [](double v) { return std::fabs(v); })) return false;
  Tensor* is_zero = m.binary(PointOp::kEqual, length, m.scalar(DataType::kFloat, 0));
  Tensor* divisor = is_zero ? m.add(LayerKind::kSelect, ir::PointOpAttrs{PointOp::kSelect, 0, 0},
                                    {is_zero, m.scalar(DataType::kFloat, 1), length})
                            : nullptr;
  return m.binary(PointOp::kDiv, x, divisor);
}

bool imputer(GraphMaker& m) {
  Tensor* x = any_rows(m);
  if (!x || !m.is_exact(x)) return false;
  Tensor* missing =
      m.chance(50) ? m.unary(PointOp::kIsNan, x)
                   : m.binary(PointOp::kEqual, x, m.scalar(DataType::kFloat, m.between(-4, 4)));
  Tensor* values = m.floats({m.chance(50) ? features_of(x) : 1}, -1, 1);
  return missing &&
         m.add(LayerKind::kSelect, ir::PointOpAttrs{PointOp::kSelect, 0, 0}, {missing, values, x});
}

constexpr MakerRow kRows[] = {
    {"tree_ensemble", 16, tree_ensemble},
    {"label_encoder", 6, label_encoder},
    {"one_hot_encoder", 5, one_hot_encoder},
    {"array_feature_extractor", 4, array_feature_extractor},
    {"tf_idf", 4, tf_idf},
    {"support_vectors", 8, support_vectors},
    {"normalizer", 4, normalizer},
    {"imputer", 3, imputer},
};

}  // namespace

MakerTable learning_makers() {
  return kRows;
}

}  // namespace camshaft::fuzz
