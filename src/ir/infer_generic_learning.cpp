// SPDX-License-Identifier: Apache-2.0
// Shapes of Generic operators: those of ai.onnx.ml.
#include "ir/infer_generic.h"

namespace camshaft::ir {
namespace {

// x [rows, features] or one row, the trees → scores [rows, targets], which of them were reached.
Status tree_ensemble(GenericRule& g) {
  Inference& f = g.f;
  CAMSHAFT_TRY(f.require(5));
  if (f.ranked(0) && (f.rank(0) == 0 || f.rank(0) > 2))
    return invalid("x of rank {} is neither a row nor rows of features", f.rank(0));
  const Dim rows = f.ranked(0) ? (f.rank(0) == 2 ? f.shape(0)[0] : Dim(1)) : f.unknown();
  const Shape shape = {rows, Dim(g.integer("n_targets", 1))};
  CAMSHAFT_TRY(f.give(f.in(4).type, shape));
  return f.outputs.size() > 1 ? f.give(DataType::kBool, shape, 1) : ok_status();
}

Status label_encoder(GenericRule& g) {
  Inference& f = g.f;
  CAMSHAFT_TRY(f.require(3));
  return f.ranked(0) ? f.give(f.in(2).type, f.shape(0)) : f.unranked(f.in(2).type);
}

Status one_hot_encoder(GenericRule& g) {
  Inference& f = g.f;
  CAMSHAFT_TRY(f.require(1));
  if (!f.ranked(0)) return f.unranked(DataType::kFloat);
  if (f.rank(0) + 1 > kMaxRank)
    return make_error(ErrorCode::kUnsupported, "more than {} dimensions", kMaxRank);
  Shape shape = f.shape(0);
  shape.push_back(static_cast<int64_t>(g.list("cats_int64s").size()));
  return f.give(DataType::kFloat, shape);
}

Status pairwise_coupling(GenericRule& g) {
  Inference& f = g.f;
  CAMSHAFT_TRY(f.require(1));
  const int64_t classes = g.integer("classes", 0), pairs = classes * (classes - 1) / 2;
  if (classes < 2 || !f.ranked(0) || f.rank(0) != 2 || f.shape(0)[1] != Dim(pairs))
    return invalid("probabilities of the pairs of {} classes expected", classes);
  return f.give(f.in(0).type, {f.shape(0)[0], Dim(classes)});
}

}  // namespace

std::span<const GenericRow> generic_learning_rules() {
  static constexpr GenericRow kRows[] = {
      {"TreeEnsemble", tree_ensemble},
      {"LabelEncoder", label_encoder},
      {"OneHotEncoder", one_hot_encoder},
      {"PairwiseCoupling", pairwise_coupling},
  };
  return kRows;
}

}  // namespace camshaft::ir
