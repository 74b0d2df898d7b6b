// SPDX-License-Identifier: Apache-2.0
// Walks of tree ensembles against the reference kernel: the same bits, for every instruction set,
// number of rows and threads; and what they refuse.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/prepared.h"

namespace camshaft::kernels {
namespace {

constexpr int32_t kLeaf = 7;
enum Aggregate : int64_t { kAverage, kSum, kMin };

struct ForestCase {
  int64_t rows = 1, features = 5, targets = 1, trees = 3;
  int depth = 4;
  int32_t mode = 0;
  bool tells_missing = false;
  int64_t aggregate = kSum;
  bool one_weight = false;  // of a leaf; else up to all targets
  bool each = false;        // of a leaf: one weight for each target, in order
  int64_t gap = 0;          // of rows of x
};

class TestForest {
 public:
  explicit TestForest(const ForestCase& c) : case_(c), random_(7) {
    for (int64_t tree = 0; tree < c.trees; ++tree) roots.push_back(grow(c.depth));
    x.resize(static_cast<size_t>(c.rows * (c.features + c.gap)));
    for (float& value : x)
      value = random_() % 9 == 0 ? std::numeric_limits<float>::quiet_NaN() : uniform();
    ir::GenericAttrs attrs{"TreeEnsemble", 1, {}};
    attrs.attributes.push_back({"n_targets", {c.targets}, {}, {}});
    attrs.attributes.push_back({"aggregate_function", {c.aggregate}, {}, {}});
    layer.kind = ir::LayerKind::kGeneric;
    layer.name = "forest";
    layer.attrs = attrs;
  }

  // Views of x and of the constants, and the problem they are.
  std::vector<TensorView> views() {
    const auto count = static_cast<int64_t>(splits.size());
    std::vector<TensorView> all = {view(x, {case_.rows, case_.features}),
                                   view(nodes, {count, 5}),
                                   view(splits, {count}),
                                   view(targets, {static_cast<int64_t>(targets.size())}),
                                   view(weights, {static_cast<int64_t>(weights.size())}),
                                   view(roots, {static_cast<int64_t>(roots.size())}),
                                   view(members, {1})};
    all[0].strides[0] = case_.features + case_.gap;
    return all;
  }
  Problem problem(int threads) {
    const auto all = views();
    Problem p;
    p.layer = &layer;
    p.threads = threads;
    constants_.assign(all.size(), {});
    for (size_t k = 0; k < all.size(); ++k) {
      const size_t bytes = static_cast<size_t>(all[k].elements()) * 4;
      constants_[k].view = {static_cast<const std::byte*>(all[k].data), bytes};
      p.inputs.push_back({true, all[k].type, Format::kLinear,
                          ir::Extents(all[k].extents, all[k].extents + all[k].rank),
                          k == 0 ? nullptr : &constants_[k]});
    }
    const ir::Extents out = {case_.rows, case_.targets};
    p.outputs = {{true, DataType::kFloat, Format::kLinear, out, nullptr},
                 {true, DataType::kBool, Format::kLinear, out, nullptr}};
    return p;
  }

  ir::Layer layer;
  std::vector<float> x, splits, weights, members = {std::numeric_limits<float>::quiet_NaN()};
  std::vector<int32_t> nodes, targets, roots;

 private:
  static TensorView view(std::vector<float>& v, std::vector<int64_t> extents) {
    return make_view(v.data(), DataType::kFloat, Format::kLinear, extents);
  }
  static TensorView view(std::vector<int32_t>& v, std::vector<int64_t> extents) {
    return make_view(v.data(), DataType::kInt32, Format::kLinear, extents);
  }
  float uniform() { return static_cast<float>(random_() % 2001) / 1000 - 1; }

  // Its root; trees are not balanced.
  int32_t grow(int depth) {
    const auto k = static_cast<int32_t>(splits.size());
    splits.push_back(uniform());
    nodes.insert(nodes.end(), 5, 0);
    int32_t node[5] = {0, kLeaf, static_cast<int32_t>(weights.size()), 0, 0};
    if (depth == 0 || random_() % 5 == 0) {
      const auto most = static_cast<uint32_t>(case_.targets);
      node[3] = case_.one_weight ? 1 : static_cast<int32_t>(random_() % (most + 1));
      if (case_.each) node[3] = static_cast<int32_t>(most);
      for (int32_t w = 0; w < node[3]; ++w) {
        targets.push_back(case_.each ? w : static_cast<int32_t>(random_() % most));
        weights.push_back(uniform());
      }
    } else {
      node[0] = static_cast<int32_t>(random_() % static_cast<uint32_t>(case_.features));
      node[1] = case_.mode;
      node[2] = grow(depth - 1);
      node[3] = grow(depth - 1);
      node[4] = case_.tells_missing && random_() % 2 == 0;
    }
    std::copy_n(node, 5, nodes.begin() + k * 5);
    return k;
  }

  ForestCase case_;
  std::mt19937 random_;
  std::vector<ir::ConstantData> constants_;
};

std::vector<const Tactic*> tree_tactics() {
  std::vector<const Tactic*> found;
  for (const Tactic* tactic : tactics_for(ir::LayerKind::kGeneric))
    if (std::string_view(tactic->name) == "tree_walks_f32") found.push_back(tactic);
  return found;
}

struct Scores {
  std::vector<float> sums;
  std::vector<uint8_t> reached;
};

Scores reference_scores(TestForest& forest, size_t count) {
  ThreadPool pool(1);
  const auto inputs = forest.views();
  KernelArgs args;
  args.layer = &forest.layer;
  args.inputs = inputs;
  args.pool = &pool;
  std::vector<DynamicOutput> outputs;
  const Status status = reference_kernel(forest.layer)->run_dynamic(args, outputs);
  EXPECT_TRUE(status.ok()) << status.message();
  Scores scores{std::vector<float>(count), std::vector<uint8_t>(count)};
  std::memcpy(scores.sums.data(), outputs.at(0).bytes.data(), count * sizeof(float));
  std::memcpy(scores.reached.data(), outputs.at(1).bytes.data(), count);
  return scores;
}

Scores tactic_scores(TestForest& forest, const Tactic& tactic, int threads, size_t count) {
  ThreadPool pool(threads);
  const Problem problem = forest.problem(threads);
  EXPECT_EQ(tactic.refusal(problem), "");
  EXPECT_GT(tactic.cost_us(problem), 0);
  const auto buffer = [](size_t bytes) { return std::vector<std::max_align_t>(bytes / 16 + 1); };
  auto packed = buffer(tactic.packed_bytes(problem));
  tactic.pack(problem, reinterpret_cast<std::byte*>(packed.data()));
  auto inputs = forest.views();
  for (size_t k = 1; k < inputs.size(); ++k) inputs[k].data = nullptr;
  Scores scores{std::vector<float>(count, -7), std::vector<uint8_t>(count, 9)};
  const auto& extents = problem.outputs[0].extents;
  const TensorView outputs[] = {
      make_view(scores.sums.data(), DataType::kFloat, Format::kLinear, extents),
      make_view(scores.reached.data(), DataType::kBool, Format::kLinear, extents)};
  KernelArgs args{&forest.layer, inputs, outputs, reinterpret_cast<std::byte*>(packed.data()),
                  nullptr,       &pool};
  EXPECT_TRUE(run_once(tactic, args).ok());
  return scores;
}

void expect_same_bits(const ForestCase& c) {
  TestForest forest(c);
  const auto count = static_cast<size_t>(c.rows * c.targets);
  const Scores expected = reference_scores(forest, count);
  ASSERT_FALSE(tree_tactics().empty());
  for (const Tactic* tactic : tree_tactics())
    for (const int threads : {1, 3}) {
      const Scores got = tactic_scores(forest, *tactic, threads, count);
      SCOPED_TRACE(std::string(isa_name(tactic->isa)) + ", threads " + std::to_string(threads) +
                   ", rows " + std::to_string(c.rows) + ", mode " + std::to_string(c.mode));
      EXPECT_EQ(got.sums, expected.sums);
      EXPECT_EQ(got.reached, expected.reached);
    }
}

TEST(Trees, RowsAndTrees) {
  for (int64_t rows : {1, 3, 7, 8, 9, 16, 31, 64, 100})
    for (int64_t trees : {1, 5, 8, 13}) expect_same_bits({.rows = rows, .trees = trees});
}

TEST(Trees, ModesAndMissingValues) {
  for (int32_t mode : {0, 1, 2, 3})
    for (const bool tells : {false, true})
      for (int64_t rows : {5, 24})
        expect_same_bits(
            {.rows = rows, .trees = 20, .depth = 7, .mode = mode, .tells_missing = tells});
}

TEST(Trees, TargetsAveragesAndLeavesAlone) {
  for (int64_t targets : {1, 2, 5, 300})
    for (const int64_t aggregate : {kAverage, kSum})
      expect_same_bits(
          {.rows = 77, .targets = targets, .trees = 9, .aggregate = aggregate, .gap = 3});
  for (int64_t targets : {1, 2, 5})
    for (int64_t rows : {7, 40})
      for (const bool tells : {false, true})
        expect_same_bits({.rows = rows,
                          .targets = targets,
                          .trees = 19,
                          .depth = 6,
                          .tells_missing = tells,
                          .each = true});
  expect_same_bits({.rows = 10, .trees = 4, .depth = 0, .one_weight = true});
  expect_same_bits({.rows = 700, .features = 30, .trees = 60, .depth = 9});  // several threads
}

TEST(Trees, SaysWhatItCannotTake) {
  const auto refusal = [](TestForest& forest) {
    return tree_tactics().at(0)->refusal(forest.problem(1));
  };
  ForestCase c{.rows = 4, .depth = 5, .one_weight = true};
  TestForest equal({.rows = 4, .mode = 4});
  EXPECT_EQ(refusal(equal), "it looks for equal values or members");
  TestForest least({.rows = 4, .aggregate = kMin});
  EXPECT_EQ(refusal(least), "it looks for the least or largest leaf");
  TestForest shared(c);
  shared.roots[1] = shared.roots[0];
  EXPECT_EQ(refusal(shared), "a node has two parents");
  TestForest beyond(c);
  beyond.roots[1] = static_cast<int32_t>(beyond.splits.size());
  EXPECT_EQ(refusal(beyond), "a root is not there");
  TestForest target(c);
  target.targets[0] = 1;
  EXPECT_EQ(refusal(target), "a target is not there");
  TestForest feature(c);
  for (size_t k = 0; k < feature.splits.size(); ++k)
    if (feature.nodes[k * 5 + 1] != kLeaf) feature.nodes[k * 5] = 5;
  EXPECT_EQ(refusal(feature), "a feature is not there");
}

}  // namespace
}  // namespace camshaft::kernels
