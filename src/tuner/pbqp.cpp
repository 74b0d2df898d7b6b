// SPDX-License-Identifier: Apache-2.0
#include "tuner/pbqp.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>

namespace camshaft::tuner {
namespace {

// A matrix seen from one side: rows are this node's choices.
using Matrix = std::vector<double>;

class Solver {
 public:
  explicit Solver(std::vector<std::vector<double>> nodes)
      : costs_(std::move(nodes)), neighbours_(costs_.size()) {
    for (size_t k = 0; k < costs_.size(); ++k) queue_.insert({0, static_cast<int>(k)});
  }

  // Adds `matrix` (rows: a) to the edge a-b.
  void connect(int a, int b, const Matrix& matrix) {
    Matrix& forward = neighbours_[a][b];
    Matrix& backward = neighbours_[b][a];
    const size_t rows = costs_[a].size(), columns = costs_[b].size();
    const bool is_new = forward.empty();
    if (is_new) {
      queue_.erase({degree(a) - 1, a});
      queue_.erase({degree(b) - 1, b});
      queue_.insert({degree(a), a});
      queue_.insert({degree(b), b});
      forward.assign(rows * columns, 0);
      backward.assign(rows * columns, 0);
    }
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < columns; ++j) {
        forward[i * columns + j] += matrix[i * columns + j];
        backward[j * rows + i] = forward[i * columns + j];
      }
  }

  bool reduce_all() {
    bool optimal = true;
    while (!queue_.empty()) {
      const auto [fewest, node] = *queue_.begin();
      if (fewest <= 2) {
        fewest == 2 ? reduce_two(node) : reduce_one(node);
      } else {
        optimal = false;
        decide(queue_.rbegin()->second);
      }
    }
    return optimal;
  }

  // Choices of the eliminated nodes, last one first: each sees the choices of the neighbours it
  // had.
  std::vector<int> choices() const {
    std::vector<int> choice(costs_.size(), 0);
    for (auto step = stack_.rbegin(); step != stack_.rend(); ++step) {
      std::vector<double> total = costs_[step->node];
      for (const auto& [other, matrix] : step->neighbours)
        for (size_t i = 0; i < total.size(); ++i)
          total[i] += matrix[i * costs_[other].size() + choice[other]];
      choice[step->node] =
          static_cast<int>(std::min_element(total.begin(), total.end()) - total.begin());
    }
    return choice;
  }

 private:
  int degree(int node) const { return static_cast<int>(neighbours_[node].size()); }

  // Takes the node out of the graph; choices() decides it later.
  void eliminate(int node) {
    queue_.erase({degree(node), node});
    for (const auto& [other, matrix] : neighbours_[node]) {
      queue_.erase({degree(other), other});
      neighbours_[other].erase(node);
      queue_.insert({degree(other), other});
    }
    stack_.push_back({node, std::move(neighbours_[node])});
    neighbours_[node].clear();
  }

  // R0 and R1: the best answer to each choice of the only neighbour joins that neighbour's costs.
  void reduce_one(int node) {
    if (degree(node) == 1) {
      const auto& [other, matrix] = *neighbours_[node].begin();
      std::vector<double>& target = costs_[other];
      for (size_t j = 0; j < target.size(); ++j) {
        double best = kInfinity;
        for (size_t i = 0; i < costs_[node].size(); ++i)
          best = std::min(best, costs_[node][i] + matrix[i * target.size() + j]);
        target[j] += best;
      }
    }
    eliminate(node);
  }

  // R2: the best answer to each pair of choices of the two neighbours becomes an edge between them.
  void reduce_two(int node) {
    const auto first = neighbours_[node].begin(), second = std::next(first);
    const int a = first->first, b = second->first;
    const size_t rows = costs_[a].size(), columns = costs_[b].size();
    Matrix combined(rows * columns);
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < columns; ++j) {
        double best = kInfinity;
        for (size_t k = 0; k < costs_[node].size(); ++k)
          best = std::min(best, costs_[node][k] + first->second[k * rows + i] +
                                    second->second[k * columns + j]);
        combined[i * columns + j] = best;
      }
    eliminate(node);
    connect(a, b, combined);
  }

  // RN: fixes the choice with the least cost when every neighbour answers as it likes best.
  void decide(int node) {
    size_t chosen = 0;
    double least = kInfinity;
    for (size_t i = 0; i < costs_[node].size(); ++i) {
      double total = costs_[node][i];
      for (const auto& [other, matrix] : neighbours_[node]) {
        double best = kInfinity;
        for (size_t j = 0; j < costs_[other].size(); ++j)
          best = std::min(best, matrix[i * costs_[other].size() + j] + costs_[other][j]);
        total += best;
      }
      if (total < least) {
        least = total;
        chosen = i;
      }
    }
    for (size_t i = 0; i < costs_[node].size(); ++i)
      if (i != chosen) costs_[node][i] = kInfinity;
    for (const auto& [other, matrix] : neighbours_[node])
      for (size_t j = 0; j < costs_[other].size(); ++j)
        costs_[other][j] += matrix[chosen * costs_[other].size() + j];
    eliminate(node);
  }

  struct Eliminated {
    int node;
    std::map<int, Matrix> neighbours;
  };
  std::vector<std::vector<double>> costs_;
  std::vector<std::map<int, Matrix>> neighbours_;
  std::set<std::pair<int, int>> queue_;  // degree, node
  std::vector<Eliminated> stack_;
};

}  // namespace

int Pbqp::add_node(std::vector<double> costs) {
  nodes_.push_back(std::move(costs));
  return static_cast<int>(nodes_.size()) - 1;
}

void Pbqp::add_edge(int a, int b, const std::vector<double>& costs) {
  edges_.push_back({a, b, costs});
}

Pbqp::Solution Pbqp::solve() const {
  Solver solver(nodes_);
  for (const Edge& edge : edges_) solver.connect(edge.a, edge.b, edge.costs);
  Solution solution;
  solution.optimal = solver.reduce_all();
  solution.choices = solver.choices();
  for (size_t k = 0; k < nodes_.size(); ++k) solution.cost += nodes_[k][solution.choices[k]];
  for (const Edge& e : edges_)
    solution.cost += e.costs[solution.choices[e.a] * nodes_[e.b].size() + solution.choices[e.b]];
  return solution;
}

}  // namespace camshaft::tuner
