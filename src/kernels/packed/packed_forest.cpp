// SPDX-License-Identifier: Apache-2.0
#include "kernels/packed/packed_forest.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <vector>

#include "kernels/packed/packed_layouts.h"
#include "kernels/packed/packed_records.h"

namespace camshaft::kernels {
namespace {

enum Input : size_t { kX, kNodes, kSplits, kTargets, kWeights, kRoots, kMembers, kInputs };
enum Aggregate : int64_t { kAverage, kSum };
constexpr int32_t kLastMode = 3, kLeaf = 7;  // BRANCH_LEQ, LT, GTE, GT; what is no branch

// As the importer lays it out; of a leaf, of_true is its first weight and of_false their number.
struct Node {
  int32_t feature, mode, of_true, of_false, missing_is_true;
};

template <class T>
std::span<const T> values_of(const Problem& problem, size_t k) {
  if (problem.inputs[k].constant == nullptr) return {};  // it has no elements
  const auto bytes = problem.inputs[k].constant->view;
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

struct Forest {
  std::span<const Node> nodes;
  std::span<const float> splits, weights;
  std::span<const int32_t> targets, roots;
  int64_t num_targets = 1, aggregate = kSum;

  explicit Forest(const Problem& problem)
      : nodes(values_of<Node>(problem, kNodes)),
        splits(values_of<float>(problem, kSplits)),
        weights(values_of<float>(problem, kWeights)),
        targets(values_of<int32_t>(problem, kTargets)),
        roots(values_of<int32_t>(problem, kRoots)) {
    for (const auto& attribute : problem.layer->as<ir::GenericAttrs>().attributes) {
      if (attribute.ints.empty()) continue;
      if (attribute.name == "n_targets") num_targets = attribute.ints[0];
      if (attribute.name == "aggregate_function") aggregate = attribute.ints[0];
    }
  }

  // As lists.
  size_t leaf_words() const {
    size_t words = 0;
    for (const Node& node : nodes)
      if (node.mode == kLeaf) words += 1 + 2 * static_cast<size_t>(node.of_false);
    return words;
  }

  // Some leaf does not have one weight for each target, in order.
  bool has_lists() const {
    return std::ranges::any_of(nodes, [&](const Node& node) {
      if (node.mode != kLeaf) return false;
      if (node.of_false != num_targets) return true;
      for (int32_t t = 0; t < node.of_false; ++t)
        if (targets[static_cast<size_t>(node.of_true + t)] != t) return true;
      return false;
    });
  }

  // Steps from a root to the nearest leaf, level by level; of a tree.
  int32_t nearest_leaf(int32_t root) const {
    std::vector<int32_t> level = {root};
    for (int32_t steps = 0;; ++steps) {
      std::vector<int32_t> below;
      for (const int32_t k : level) {
        const Node& node = nodes[static_cast<size_t>(k)];
        if (node.mode == kLeaf) return steps;
        below.insert(below.end(), {node.of_true, node.of_false});
      }
      level = std::move(below);
    }
  }
};

bool has_types(const Problem& problem) {
  if (problem.inputs.size() != kInputs || problem.inputs[kX].type != DataType::kFloat) return false;
  for (size_t k = kNodes; k < kInputs; ++k) {
    const bool is_float = k == kSplits || k == kWeights || k == kMembers;
    if (problem.inputs[k].type != (is_float ? DataType::kFloat : DataType::kInt32)) return false;
  }
  return true;
}

// Nodes and weights that are there, and features that x has.
std::string refuse_nodes(const Forest& forest, int64_t features) {
  const auto count = static_cast<int64_t>(forest.nodes.size());
  const auto inside = [count](int64_t k) { return k >= 0 && k < count; };
  int32_t mode = kLeaf;
  for (const Node& node : forest.nodes) {
    if (node.mode == kLeaf) {
      if (node.of_true < 0 || node.of_false < 0 ||
          int64_t{node.of_true} + node.of_false > static_cast<int64_t>(forest.weights.size()))
        return "a leaf's weights are not there";
      continue;
    }
    if (node.feature < 0 || node.feature >= features) return "a feature is not there";
    if (!inside(node.of_true) || !inside(node.of_false)) return "a node is not there";
    if (node.mode < 0 || node.mode > kLastMode) return "it looks for equal values or members";
    if (mode != kLeaf && mode != node.mode) return "its nodes compare in several ways";
    mode = node.mode;
  }
  for (int32_t target : forest.targets)
    if (target < 0 || target >= forest.num_targets) return "a target is not there";
  for (int32_t root : forest.roots)
    if (!inside(root)) return "a root is not there";
  return {};
}

// Every walk ends: no node has two parents.
bool has_trees_only(const Forest& forest) {
  std::vector<bool> seen(forest.nodes.size());
  std::vector<int32_t> open(forest.roots.begin(), forest.roots.end());
  while (!open.empty()) {
    const auto k = static_cast<size_t>(open.back());
    open.pop_back();
    if (seen[k]) return false;
    seen[k] = true;
    if (forest.nodes[k].mode == kLeaf) continue;
    open.push_back(forest.nodes[k].of_true);
    open.push_back(forest.nodes[k].of_false);
  }
  return true;
}

// An engine keeps a constant's bytes only where another layer reads it: what the trees are was seen
// when it was built.
bool has_bytes(const Problem& problem) {
  for (size_t k = kNodes; k < kInputs; ++k) {
    const ProblemTensor& tensor = problem.inputs[k];
    const size_t wanted = ir::bytes_for(tensor.type, ir::element_count(tensor.extents));
    if (wanted > 0 && tensor.constant->view.size() != wanted) return false;
  }
  return true;
}

bool has_fitting_extents(const Problem& problem) {
  const auto extents = [&](size_t k) -> const ir::Extents& { return problem.inputs[k].extents; };
  return !extents(kX).empty() && extents(kNodes).size() == 2 && extents(kSplits).size() == 1 &&
         extents(kNodes)[0] == extents(kSplits)[0] && extents(kTargets) == extents(kWeights);
}

// By extents alone: an engine knows no more of constants that are packed. Every node may be a leaf.
size_t nodes_offset(const Problem& problem) {
  const auto count = [&](size_t k) {
    const int64_t extent = problem.inputs[k].extents.empty() ? 1 : problem.inputs[k].extents[0];
    return static_cast<size_t>(std::max<int64_t>(extent, 0));
  };
  const size_t words = 2 * count(kRoots) + count(kNodes) + 2 * count(kWeights);
  return (record_bytes<PackedForest>() + sizeof(int32_t) * words + 63) / 64 * 64;
}

int32_t offset_of(size_t node) {
  return static_cast<int32_t>(node * sizeof(ForestNode));
}

}  // namespace

std::string refuse_forest(const Problem& problem) {
  const auto* generic = std::get_if<ir::GenericAttrs>(&problem.layer->attrs);
  if (generic == nullptr || generic->op_type != "TreeEnsemble") return "another operator";
  if (!has_types(problem)) return "not float";
  for (size_t k = kNodes; k < kInputs; ++k)
    if (problem.inputs[k].constant == nullptr && ir::element_count(problem.inputs[k].extents) > 0)
      return "its trees are known only when running";
  if (!has_fitting_extents(problem)) return "inputs that do not fit";
  if (!has_bytes(problem)) return {};
  const Forest forest(problem);
  if (forest.aggregate != kSum && forest.aggregate != kAverage)
    return "it looks for the least or largest leaf";
  if (forest.nodes.size() >= (size_t{1} << 27) || forest.weights.size() >= (size_t{1} << 29))
    return "it has too many nodes";
  if (std::string reason = refuse_nodes(forest, problem.inputs[kX].extents.back()); !reason.empty())
    return reason;
  if (!has_trees_only(forest)) return "a node has two parents";
  const bool shares = forest.leaf_words() > forest.nodes.size() + 2 * forest.weights.size();
  return shares ? "leaves share weights" : "";
}

size_t packed_forest_bytes(const Problem& problem) {
  const auto nodes = static_cast<size_t>(problem.inputs[kNodes].extents[0]);
  return nodes_offset(problem) + nodes * sizeof(ForestNode);
}

void pack_forest(const Problem& problem, std::byte* packed) {
  const Forest forest(problem);
  PackedForest head;
  head.trees = static_cast<int32_t>(forest.roots.size());
  head.targets = static_cast<int32_t>(forest.num_targets);
  head.averages = forest.aggregate == kAverage;
  head.has_lists = forest.has_lists();
  head.leaf_words = static_cast<int32_t>(forest.leaf_words());
  head.nodes_at = static_cast<int64_t>(nodes_offset(problem));
  std::memset(packed, 0, nodes_offset(problem));
  auto* words = reinterpret_cast<int32_t*>(packed + record_bytes<PackedForest>());
  for (const int32_t root : forest.roots) {
    *words++ = offset_of(static_cast<size_t>(root));
    *words++ = forest.nearest_leaf(root);
  }
  const int32_t* const leaves = words;
  FieldWriter nodes{packed + head.nodes_at};
  const auto put = [&nodes](const ForestNode& node) { visit_fields(node, nodes); };
  for (size_t k = 0; k < forest.nodes.size(); ++k) {
    const Node& node = forest.nodes[k];
    if (node.mode != kLeaf) {
      head.mode = static_cast<PackedForest::Mode>(node.mode);
      head.tells_missing |= node.missing_is_true != 0;
      put({forest.splits[k],
           node.missing_is_true != 0 ? ~node.feature : node.feature,
           {offset_of(static_cast<size_t>(node.of_false)),
            offset_of(static_cast<size_t>(node.of_true))}});
      continue;
    }
    put({std::bit_cast<float>(static_cast<int32_t>(words - leaves)),
         0,
         {offset_of(k), offset_of(k)}});
    if (head.has_lists != 0) *words++ = node.of_false;
    for (int32_t w = node.of_true; w < node.of_true + node.of_false; ++w) {
      if (head.has_lists != 0) *words++ = forest.targets[static_cast<size_t>(w)];
      *words++ = std::bit_cast<int32_t>(forest.weights[static_cast<size_t>(w)]);
    }
  }
  store_record(head, packed);
}

ForestView::ForestView(const std::byte* packed) {
  read_record(packed, static_cast<PackedForest&>(*this));
  roots = reinterpret_cast<const ForestTree*>(packed + record_bytes<PackedForest>());
  leaves = reinterpret_cast<const int32_t*>(roots + trees);
  nodes = packed + nodes_at;
}

}  // namespace camshaft::kernels
