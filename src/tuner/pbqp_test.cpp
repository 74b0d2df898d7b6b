// SPDX-License-Identifier: Apache-2.0
// The solver against brute force on random graphs.
#include "tuner/pbqp.h"

#include <gtest/gtest.h>
#include <random>

namespace camshaft::tuner {
namespace {

struct Instance {
  std::vector<std::vector<double>> nodes;
  struct Edge {
    int a, b;
    std::vector<double> costs;
  };
  std::vector<Edge> edges;

  double cost(const std::vector<int>& choices) const {
    double total = 0;
    for (size_t k = 0; k < nodes.size(); ++k) total += nodes[k][choices[k]];
    for (const Edge& e : edges) total += e.costs[choices[e.a] * nodes[e.b].size() + choices[e.b]];
    return total;
  }
  double best() const {
    std::vector<int> choices(nodes.size(), 0);
    double least = cost(choices);
    for (;;) {
      size_t k = 0;
      while (k < nodes.size() && ++choices[k] == static_cast<int>(nodes[k].size()))
        choices[k++] = 0;
      if (k == nodes.size()) return least;
      least = std::min(least, cost(choices));
    }
  }
  Pbqp::Solution solve() const {
    Pbqp problem;
    for (const auto& costs : nodes) problem.add_node(costs);
    for (const Edge& e : edges) problem.add_edge(e.a, e.b, e.costs);
    return problem.solve();
  }
};

// Every further node is joined to at most `links` earlier ones.
Instance random_instance(std::mt19937& generator, int num_nodes, int links) {
  const auto below = [&](int n) { return static_cast<int>(generator() % n); };
  Instance instance;
  for (int k = 0; k < num_nodes; ++k) {
    std::vector<double> costs(1 + below(3));
    for (double& cost : costs) cost = below(100);
    instance.nodes.push_back(costs);
    for (int link = 0; k > 0 && link < links; ++link) {
      const int other = below(k);
      std::vector<double> matrix(instance.nodes[other].size() * costs.size());
      for (double& cost : matrix) cost = below(8) == 0 ? kInfinity : below(50);
      instance.edges.push_back({other, k, matrix});
    }
  }
  return instance;
}

TEST(Pbqp, ExactOnTrees) {
  std::mt19937 generator(1);
  for (int round = 0; round < 300; ++round) {
    const Instance instance = random_instance(generator, 8, 1);
    const Pbqp::Solution solution = instance.solve();
    EXPECT_TRUE(solution.optimal);
    EXPECT_EQ(solution.cost, instance.best());
    EXPECT_EQ(solution.cost, instance.cost(solution.choices));
  }
}

TEST(Pbqp, ExactWheneverItSaysSoAndNearOtherwise) {
  std::mt19937 generator(2);
  int proven = 0, matched = 0, rounds = 400;
  for (int round = 0; round < rounds; ++round) {
    const Instance instance = random_instance(generator, 8, 2);
    const Pbqp::Solution solution = instance.solve();
    const double best = instance.best();
    EXPECT_EQ(solution.cost, instance.cost(solution.choices));
    EXPECT_GE(solution.cost, best);
    if (solution.optimal) {
      EXPECT_EQ(solution.cost, best);
    }
    proven += solution.optimal;
    matched += solution.cost == best;
  }
  EXPECT_GT(proven, rounds / 4);
  EXPECT_GT(matched, rounds * 3 / 4);
}

TEST(Pbqp, ForbiddenPairsAreAvoided) {
  Pbqp problem;
  const int a = problem.add_node({0, 5}), b = problem.add_node({0, 1});
  problem.add_edge(a, b, {kInfinity, kInfinity, kInfinity, 0});
  const Pbqp::Solution solution = problem.solve();
  EXPECT_EQ(solution.choices, (std::vector<int>{1, 1}));
  EXPECT_EQ(solution.cost, 6);
}

}  // namespace
}  // namespace camshaft::tuner
