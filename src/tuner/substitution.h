// SPDX-License-Identifier: Apache-2.0
// Symbols of a graph replaced by numbers or other expressions, wherever they occur.
#pragma once

#include <unordered_map>

#include "ir/graph.h"

namespace camshaft::tuner {

class Substitution {
 public:
  explicit Substitution(ir::SymbolTable& symbols) : symbols_(symbols) {}

  // From now on `symbol` is `value`.
  void fix(int symbol, ir::Dim value) { known_[symbol] = value; }
  bool empty() const { return known_.empty(); }

  ir::Dim operator()(ir::Dim dim);
  void apply(ir::Shape& shape);
  // Shapes, known values and attributes, bodies included.
  void apply(ir::Graph& graph);

 private:
  ir::Dim rebuild(ir::Dim dim);

  ir::SymbolTable& symbols_;
  std::unordered_map<int, ir::Dim> known_;
};

}  // namespace camshaft::tuner
