// SPDX-License-Identifier: Apache-2.0
// Tree ensembles of ai.onnx.ml. All spellings (TreeEnsembleClassifier and …Regressor of versions 1
// to 3, TreeEnsemble of version 5) become one Generic TreeEnsemble whose trees are constant inputs
// (kernels/reference/generic_trees.cpp lists them); base values, labels and what follows the scores
// are layers of their own.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "onnx/ops_learning.h"

namespace camshaft::onnx_import {
namespace {

// As TreeEnsemble of version 5 numbers them, and one for leaves.
constexpr std::string_view kBranchModes[] = {"BRANCH_LEQ",    "BRANCH_LT", "BRANCH_GTE",
                                             "BRANCH_GT",     "BRANCH_EQ", "BRANCH_NEQ",
                                             "BRANCH_MEMBER", "LEAF"};
constexpr int32_t kMember = 6, kLeaf = 7;
constexpr std::string_view kAggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};

// of_true, of_false: nodes; of a leaf: the first of its weights and how many it has.
struct TreeNode {
  int32_t feature = 0, mode = kLeaf, of_true = 0, of_false = 0, missing_is_true = 0;
};
struct Forest {
  std::vector<TreeNode> nodes;
  std::vector<double> splits;  // per node; of a MEMBER the first of its members
  std::vector<int32_t> targets, roots;
  std::vector<double> weights, members;  // the members of a node end at a NaN
  DataType type = DataType::kFloat;
};

template <class T>
Tensor* constant_of(Node& node, std::string_view step, DataType type, Ints extents,
                    const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return node.constant(step, type, extents, {bytes.begin(), bytes.end()});
}
Tensor* reals_of(Node& node, std::string_view step, DataType type,
                 const std::vector<double>& values) {
  const Ints extents = {static_cast<int64_t>(values.size())};
  if (type == DataType::kDouble) return constant_of(node, step, type, extents, values);
  return constant_of(node, step, type, extents, std::vector<float>(values.begin(), values.end()));
}

// That every walk from a root ends at a leaf.
Status check_forest(const Forest& forest, size_t targets) {
  const auto count = static_cast<int32_t>(forest.nodes.size());
  std::vector<uint8_t> seen(forest.nodes.size());
  std::vector<int32_t> open(forest.roots.begin(), forest.roots.end());
  if (open.empty()) return invalid("there are no trees");
  while (!open.empty()) {
    const int32_t k = open.back();
    open.pop_back();
    if (k < 0 || k >= count) return invalid("there is no tree node {}", k);
    if (seen[k]++) return invalid("tree node {} has two parents", k);
    const TreeNode& node = forest.nodes[k];
    if (node.mode == kLeaf) continue;
    if (node.feature < 0) return invalid("feature {}", node.feature);
    open.push_back(node.of_false);
    open.push_back(node.of_true);
  }
  // A circle hangs on no root. (A tree of version 5 that is one leaf hangs on a node of its own.)
  for (int32_t k = 0; k < count; ++k)
    if (!seen[k] && forest.nodes[k].mode != kLeaf &&
        forest.nodes[k].of_true != forest.nodes[k].of_false)
      return invalid("tree node {} is in no tree", k);
  for (int32_t target : forest.targets)
    if (target < 0 || target >= static_cast<int64_t>(targets))
      return invalid("a leaf of target {}, there are {}", target, targets);
  return ok_status();
}

// The scores [rows, targets] of the trees, and which of them any leaf was added to.
Result<std::pair<Tensor*, Tensor*>> add_forest(Node& node, const Forest& forest, int64_t targets,
                                               int64_t aggregate) {
  if (targets < 1 || targets > (int64_t{1} << 24)) return invalid("{} targets", targets);
  CAMSHAFT_TRY(check_forest(forest, static_cast<size_t>(targets)));
  ir::GenericAttrs attrs{"TreeEnsemble", node.opset(), {}};
  attrs.attributes.push_back({"n_targets", {targets}, {}, {}});
  attrs.attributes.push_back({"aggregate_function", {aggregate}, {}, {}});
  const auto count = static_cast<int64_t>(forest.nodes.size());
  std::vector<Tensor*> inputs = {
      node.input(0),
      constant_of(node, "nodes", DataType::kInt32, {count, 5}, forest.nodes),
      reals_of(node, "splits", forest.type, forest.splits),
      constant_of(node, "targets", DataType::kInt32, {static_cast<int64_t>(forest.targets.size())},
                  forest.targets),
      reals_of(node, "weights", forest.type, forest.weights),
      constant_of(node, "roots", DataType::kInt32, {static_cast<int64_t>(forest.roots.size())},
                  forest.roots),
      reals_of(node, "members", forest.type, forest.members)};
  Tensor* scores = node.graph().add_tensor(node.name() + "/scores", DataType::kUndefined, {});
  Tensor* reached = node.graph().add_tensor(node.name() + "/reached", DataType::kUndefined, {});
  CAMSHAFT_TRY(node.add_layer(LayerKind::kGeneric, node.name() + "/trees", std::move(attrs),
                              std::move(inputs), {scores, reached})
                   .status());
  return std::pair{scores, reached};
}

// --- versions 1 to 3: parallel lists over (tree, node)

struct NodeKey {
  int64_t tree, node;
  auto operator<=>(const NodeKey&) const = default;
};

struct NodeLists {
  Ints trees, ids, features, of_true, of_false, missing;
  std::vector<std::string> modes;
  std::vector<double> values;
  DataType type = DataType::kFloat;
};

Result<NodeLists> read_nodes(Node& node) {
  node.ignore({"nodes_hitrates", "nodes_hitrates_as_tensor"});  // nothing depends on them
  NodeLists lists;
  lists.trees = node.integers("nodes_treeids");
  lists.ids = node.integers("nodes_nodeids");
  lists.features = node.integers("nodes_featureids");
  lists.of_true = node.integers("nodes_truenodeids");
  lists.of_false = node.integers("nodes_falsenodeids");
  lists.missing = node.integers("nodes_missing_value_tracks_true");
  lists.modes = node.texts("nodes_modes");
  CAMSHAFT_ASSIGN(const RealList values, read_reals(node, "nodes_values"));
  lists.values = values.values;
  lists.type = values.type;
  const size_t count = lists.ids.size();
  lists.missing.resize(lists.missing.empty() ? count : lists.missing.size());
  for (size_t size :
       {lists.trees.size(), lists.features.size(), lists.of_true.size(), lists.of_false.size(),
        lists.missing.size(), lists.modes.size(), lists.values.size()})
    if (size != count) return invalid("lists of {} and {} nodes", count, size);
  return lists;
}

Status fill_nodes(const NodeLists& lists, const std::map<NodeKey, int32_t>& index, Forest& forest) {
  for (size_t k = 0; k < lists.ids.size(); ++k) {
    TreeNode& node = forest.nodes[k];
    const auto mode = std::find(std::begin(kBranchModes), std::end(kBranchModes), lists.modes[k]);
    node.mode = static_cast<int32_t>(mode - std::begin(kBranchModes));
    if (mode == std::end(kBranchModes) || node.mode == kMember)
      return invalid("branch mode \"{}\"", lists.modes[k]);
    if (node.mode == kLeaf) continue;
    const auto on_true = index.find({lists.trees[k], lists.of_true[k]}),
               on_false = index.find({lists.trees[k], lists.of_false[k]});
    if (on_true == index.end() || on_false == index.end())
      return invalid("tree {}: node {} branches to a node that is not there", lists.trees[k],
                     lists.ids[k]);
    if (lists.features[k] < 0 || lists.features[k] > std::numeric_limits<int32_t>::max())
      return invalid("feature {}", lists.features[k]);
    node = {static_cast<int32_t>(lists.features[k]), node.mode, on_true->second, on_false->second,
            lists.missing[k] != 0};
  }
  return ok_status();
}

// `what`: "target" or "class".
Result<Forest> read_forest(Node& node, const std::string& what) {
  CAMSHAFT_ASSIGN(const NodeLists lists, read_nodes(node));
  Forest forest;
  forest.type = lists.type;
  forest.splits = lists.values;
  forest.nodes.resize(lists.ids.size());
  std::map<NodeKey, int32_t> index;
  for (size_t k = 0; k < lists.ids.size(); ++k)
    if (!index.emplace(NodeKey{lists.trees[k], lists.ids[k]}, static_cast<int32_t>(k)).second)
      return invalid("tree {}: node {} stands twice", lists.trees[k], lists.ids[k]);
  CAMSHAFT_TRY(fill_nodes(lists, index, forest));

  std::vector<uint8_t> has_parent(forest.nodes.size());
  for (const TreeNode& parent : forest.nodes)
    if (parent.mode != kLeaf) has_parent[parent.of_true] = has_parent[parent.of_false] = 1;
  std::set<int64_t> rooted;
  for (size_t k = 0; k < has_parent.size(); ++k)
    if (!has_parent[k] && !rooted.insert(lists.trees[k]).second)
      return invalid("tree {} has two roots", lists.trees[k]);
    else if (!has_parent[k])
      forest.roots.push_back(static_cast<int32_t>(k));
  for (int64_t tree : lists.trees)
    if (!rooted.count(tree)) return invalid("tree {} has no root", tree);

  const Ints trees = node.integers(what + "_treeids"), ids = node.integers(what + "_nodeids"),
             targets = node.integers(what + "_ids");
  CAMSHAFT_ASSIGN(const RealList weights, read_reals(node, what + "_weights"));
  if (trees.size() != ids.size() || targets.size() != ids.size() ||
      weights.values.size() != ids.size())
    return invalid("lists of {} and {} leaf weights", ids.size(), weights.values.size());
  // A leaf's weights side by side, in the order they are given.
  std::vector<std::vector<size_t>> of_leaf(forest.nodes.size());
  for (size_t k = 0; k < ids.size(); ++k) {
    const auto leaf = index.find({trees[k], ids[k]});
    if (leaf == index.end() || forest.nodes[leaf->second].mode != kLeaf)
      return invalid("a weight of node {} of tree {}, which is no leaf", ids[k], trees[k]);
    of_leaf[leaf->second].push_back(k);
  }
  for (size_t leaf = 0; leaf < of_leaf.size(); ++leaf) {
    if (forest.nodes[leaf].mode != kLeaf) continue;
    forest.nodes[leaf].of_true = static_cast<int32_t>(forest.weights.size());
    forest.nodes[leaf].of_false = static_cast<int32_t>(of_leaf[leaf].size());
    for (size_t k : of_leaf[leaf]) {
      forest.targets.push_back(static_cast<int32_t>(
          std::clamp<int64_t>(targets[k], -1, std::numeric_limits<int32_t>::max())));
      forest.weights.push_back(weights.values[k]);
    }
  }
  return forest;
}

Result<int64_t> aggregate_named(const std::string& name) {
  const auto found = std::find(std::begin(kAggregates), std::end(kAggregates), name);
  if (found == std::end(kAggregates)) return invalid("aggregate_function \"{}\"", name);
  return found - std::begin(kAggregates);
}

// scores + base values [targets] or [1], as floats.
Result<Tensor*> add_base(Node& node, Tensor* scores, int64_t targets) {
  CAMSHAFT_ASSIGN(const RealList base, read_reals(node, "base_values"));
  const auto count = static_cast<int64_t>(base.values.size());
  if (count != 0 && count != 1 && count != targets)
    return invalid("{} base values of {} targets", count, targets);
  if (count > 0) {
    Tensor* values = reals_of(node, "base", scores->type, base.values);
    CAMSHAFT_ASSIGN(scores, node.binary("with_base", PointOp::kAdd, scores, values));
  }
  return node.cast("float", scores, DataType::kFloat);
}

Status import_tree_regressor(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  CAMSHAFT_ASSIGN(const Forest forest, read_forest(node, "target"));
  CAMSHAFT_ASSIGN(const int64_t aggregate, aggregate_named(node.text("aggregate_function", "SUM")));
  const int64_t targets = node.integer("n_targets", 1);
  CAMSHAFT_ASSIGN(const auto trees, add_forest(node, forest, targets, aggregate));
  CAMSHAFT_ASSIGN(Tensor* const scores, add_base(node, trees.first, targets));
  return finish_scores(node, 0, scores, node.text("post_transform", "NONE"));
}

// Leaves weigh one class of two: its score decides for or against the second label. ONNX leaves
// open how; this is what ONNX Runtime does and what exporters count on: weights that are all
// positive are probabilities, others are margins.
Status import_one_sided(Node& node, const Forest& forest, Tensor* trees, const Labels& labels) {
  const std::string post = node.text("post_transform", "NONE");
  const bool second = forest.targets.front() == 1;
  const bool positive = std::none_of(forest.weights.begin(), forest.weights.end(),
                                     [](double weight) { return weight < 0; });
  CAMSHAFT_ASSIGN(const RealList base, read_reals(node, "base_values"));
  if (base.values.size() > 1)
    return unsupported("base values of both classes where leaves weigh one");
  CAMSHAFT_ASSIGN(Tensor * scores, node.cast("float", trees, DataType::kFloat));
  const int64_t column[] = {second ? 1 : 0};
  Tensor* const which = node.int_constant("column", std::array<int64_t, 1>{1}, column);
  ir::GatherAttrs gather;
  gather.axis = 1;
  CAMSHAFT_ASSIGN(Tensor * score, node.add("score", LayerKind::kGather, gather, {scores, which}));
  if (!second && base.values.size() == 1) {
    CAMSHAFT_ASSIGN(score, node.binary("with_base", PointOp::kAdd, score,
                                       node.scalar_like("base", DataType::kFloat, base.values[0])));
  }
  CAMSHAFT_TRY(give_one_sided_labels(node, score, positive ? 0.5 : 0, labels));
  if (second) return finish_scores(node, 1, scores, post);  // the first class stays at 0
  return give_pair(node, score, post, positive);
}

Status import_tree_classifier(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  CAMSHAFT_ASSIGN(const Labels labels, read_labels(node, "classlabels_int64s"));
  CAMSHAFT_ASSIGN(const Forest forest, read_forest(node, "class"));
  const auto classes = static_cast<int64_t>(labels.size());
  CAMSHAFT_ASSIGN(const auto trees, add_forest(node, forest, classes, 1));
  const bool one_class =
      !forest.targets.empty() && std::adjacent_find(forest.targets.begin(), forest.targets.end(),
                                                    std::not_equal_to<>()) == forest.targets.end();
  if (classes == 2 && one_class) return import_one_sided(node, forest, trees.first, labels);
  const bool has_base =
      node.has_attribute("base_values") || node.has_attribute("base_values_as_tensor");
  CAMSHAFT_ASSIGN(Tensor* const scores, add_base(node, trees.first, classes));
  Tensor* among = scores;
  if (!has_base) {  // a class that no leaf speaks for is not chosen
    Tensor* lowest =
        node.scalar_like("lowest", DataType::kFloat, -std::numeric_limits<double>::infinity());
    CAMSHAFT_ASSIGN(among, node.add("among", LayerKind::kSelect, ir::PointOpAttrs{PointOp::kSelect},
                                    {trees.second, scores, lowest}));
  }
  CAMSHAFT_TRY(give_best_labels(node, among, labels));
  return finish_scores(node, 1, scores, node.text("post_transform", "NONE"));
}

// --- version 5: nodes by index, leaves apart from them

Status import_ensemble(Node& node) {
  CAMSHAFT_TRY(node.require(1, 1));
  const Ints features = node.integers("nodes_featureids"),
             of_true = node.integers("nodes_truenodeids"),
             of_false = node.integers("nodes_falsenodeids"),
             true_leafs = node.integers("nodes_trueleafs"),
             false_leafs = node.integers("nodes_falseleafs"),
             missing = node.integers("nodes_missing_value_tracks_true"),
             leaf_targets = node.integers("leaf_targetids"), roots = node.integers("tree_roots");
  node.ignore({"nodes_hitrates"});
  CAMSHAFT_ASSIGN(const RealList splits, read_tensor_reals(node, "nodes_splits"));
  CAMSHAFT_ASSIGN(const RealList modes, read_tensor_reals(node, "nodes_modes"));
  CAMSHAFT_ASSIGN(const RealList weights, read_tensor_reals(node, "leaf_weights"));
  CAMSHAFT_ASSIGN(const RealList members, read_tensor_reals(node, "membership_values"));
  const size_t nodes = features.size(), leaves = leaf_targets.size();
  for (size_t size : {of_true.size(), of_false.size(), true_leafs.size(), false_leafs.size(),
                      splits.values.size(), modes.values.size()})
    if (size != nodes) return invalid("lists of {} and {} nodes", nodes, size);
  if (weights.values.size() != leaves || (!missing.empty() && missing.size() != nodes))
    return invalid("{} leaves, {} weights", leaves, weights.values.size());

  Forest forest;
  forest.type = splits.type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
  forest.members = members.values;
  forest.members.push_back(std::numeric_limits<double>::quiet_NaN());
  size_t next_member = 0;
  const auto child = [&](int64_t id, bool is_leaf) -> int32_t {
    const auto most = static_cast<int64_t>(is_leaf ? leaves : nodes);
    return id < 0 || id >= most ? -1 : static_cast<int32_t>(is_leaf ? id + nodes : id);
  };
  for (size_t k = 0; k < nodes; ++k) {
    const double mode = modes.values[k];
    if (!(mode >= 0 && mode <= kMember)) return invalid("branch mode {}", mode);
    double split = splits.values[k];
    if (static_cast<int32_t>(mode) == kMember) {
      split = static_cast<double>(next_member);
      if (next_member >= forest.members.size()) return invalid("too few membership values");
      while (!std::isnan(forest.members[next_member])) ++next_member;
      ++next_member;
    }
    forest.splits.push_back(split);
    forest.nodes.push_back({static_cast<int32_t>(std::clamp<int64_t>(features[k], -1, 1 << 30)),
                            static_cast<int32_t>(mode), child(of_true[k], true_leafs[k] != 0),
                            child(of_false[k], false_leafs[k] != 0),
                            !missing.empty() && missing[k] != 0});
  }
  for (size_t leaf = 0; leaf < leaves; ++leaf) {
    forest.nodes.push_back({0, kLeaf, static_cast<int32_t>(leaf), 1, 0});
    forest.splits.push_back(0);
    forest.targets.push_back(
        static_cast<int32_t>(std::clamp<int64_t>(leaf_targets[leaf], -1, 1 << 30)));
    forest.weights.push_back(weights.values[leaf]);
  }
  // A tree that is one leaf is a node whose branches both lead there.
  for (int64_t root : roots) {
    const bool inside = root >= 0 && root < static_cast<int64_t>(nodes);
    const bool is_leaf =
        inside && true_leafs[root] && false_leafs[root] && of_true[root] == of_false[root];
    forest.roots.push_back(is_leaf ? child(of_true[root], true)
                                   : static_cast<int32_t>(inside ? root : -1));
  }
  const int64_t aggregate = node.integer("aggregate_function", 1);
  if (aggregate < 0 || aggregate > 3) return invalid("aggregate_function {}", aggregate);
  constexpr std::string_view kPost[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const int64_t post = node.integer("post_transform", 0);
  if (post < 0 || post >= static_cast<int64_t>(std::size(kPost)))
    return invalid("post_transform {}", post);
  CAMSHAFT_ASSIGN(const auto trees,
                  add_forest(node, forest, node.integer("n_targets", 1), aggregate));
  return finish_scores(node, 0, trees.first, kPost[post]);
}

}  // namespace

std::span<const OperatorRow> tree_operators() {
  static constexpr OperatorRow kOperators[] = {
      {"TreeEnsembleRegressor", import_tree_regressor},
      {"TreeEnsembleClassifier", import_tree_classifier},
      {"TreeEnsemble", import_ensemble},
  };
  return kOperators;
}

}  // namespace camshaft::onnx_import
