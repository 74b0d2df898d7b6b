// SPDX-License-Identifier: Apache-2.0
#include "tuner/substitution.h"

namespace camshaft::tuner {

using ir::Dim;
using ir::SymbolOp;

namespace {

struct AttributeVisitor {
  Substitution& substitution;
  template <class T>
  void operator()(const char*, T& field) {
    if constexpr (std::is_same_v<T, ir::Shape>) substitution.apply(field);
  }
};

}  // namespace

Dim Substitution::operator()(Dim dim) {
  if (dim.is_known()) return dim;
  const auto found = known_.find(dim.symbol_id());
  if (found != known_.end()) return found->second;
  const Dim result = rebuild(dim);
  known_[dim.symbol_id()] = result;
  return result;
}

void Substitution::apply(ir::Shape& shape) {
  for (Dim& dim : shape) dim = (*this)(dim);
}

Dim Substitution::rebuild(Dim dim) {
  const ir::Symbol symbol = symbols_.symbol(dim.symbol_id());  // a copy: the table may grow
  if (symbol.op == SymbolOp::kInput || symbol.op == SymbolOp::kRuntime ||
      symbol.op == SymbolOp::kConstant)
    return dim;
  const Dim a = (*this)(symbol.a), b = (*this)(symbol.b);
  if (a == symbol.a && b == symbol.b) return dim;
  switch (symbol.op) {
    case SymbolOp::kAdd:
      return symbols_.add(a, b);
    case SymbolOp::kSub:
      return symbols_.sub(a, b);
    case SymbolOp::kMul:
      return symbols_.mul(a, b);
    case SymbolOp::kFloorDiv:
      return symbols_.floor_div(a, b);
    case SymbolOp::kCeilDiv:
      return symbols_.ceil_div(a, b);
    case SymbolOp::kMod:
      return symbols_.mod(a, b);
    case SymbolOp::kMin:
      return symbols_.min(a, b);
    case SymbolOp::kMax:
      return symbols_.max(a, b);
    case SymbolOp::kBroadcast:
      return symbols_.broadcast(a, b);
    default:
      return dim;
  }
}

void Substitution::apply(ir::Graph& graph) {
  for (const auto& tensor : graph.tensors()) {
    apply(tensor->shape);
    if (tensor->facts.shape_value)
      for (Dim& dim : *tensor->facts.shape_value) dim = (*this)(dim);
  }
  for (const auto& layer : graph.layers()) {
    AttributeVisitor visitor{*this};
    std::visit([&](auto& a) { std::decay_t<decltype(a)>::fields(a, visitor); }, layer->attrs);
    for (const auto& body : layer->bodies) apply(*body);
  }
}

}  // namespace camshaft::tuner
