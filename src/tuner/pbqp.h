// SPDX-License-Identifier: Apache-2.0
// Partitioned boolean quadratic programming: one choice per node, costs on nodes and on pairs of
// neighbours, minimum sum.
#pragma once

#include <limits>
#include <vector>

namespace camshaft::tuner {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Pbqp {
 public:
  // Gives the node's number. At least one cost should be finite.
  int add_node(std::vector<double> costs);
  // costs[i * choices(b) + j]: of choice i at `a` with choice j at `b`. Edges between the same
  // nodes add up; a != b.
  void add_edge(int a, int b, const std::vector<double>& costs);

  struct Solution {
    std::vector<int> choices;
    double cost = 0;
    bool optimal = true;  // only the exact reductions R0, R1 and R2 were needed
  };
  // Nodes with up to two neighbours are eliminated exactly; of the rest the one with most
  // neighbours is decided by the cheapest local choice (RN). Deterministic.
  Solution solve() const;

 private:
  struct Edge {
    int a, b;
    std::vector<double> costs;
  };
  std::vector<std::vector<double>> nodes_;
  std::vector<Edge> edges_;
};

}  // namespace camshaft::tuner
