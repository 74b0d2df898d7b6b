// SPDX-License-Identifier: Apache-2.0
#include "tuner/specialize.h"

#include <optional>
#include <unordered_map>

namespace camshaft::tuner {
namespace {

using ir::Dim;
using ir::SymbolOp;

// Rewrites expressions under the assumption that some input symbols are numbers.
class Substitution {
 public:
  explicit Substitution(ir::SymbolTable& symbols) : symbols_(symbols) {}

  void fix(int symbol, int64_t value) { known_[symbol] = Dim(value); }
  int size() const { return static_cast<int>(known_.size()); }

  Dim operator()(Dim dim) {
    if (dim.is_known()) return dim;
    const auto found = known_.find(dim.symbol_id());
    if (found != known_.end()) return found->second;
    const Dim result = rebuild(dim);
    known_[dim.symbol_id()] = result;
    return result;
  }
  void apply(ir::Shape& shape) {
    for (Dim& dim : shape) dim = (*this)(dim);
  }

 private:
  Dim rebuild(Dim dim) {
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
      default:
        return dim;
    }
  }

  ir::SymbolTable& symbols_;
  std::unordered_map<int, Dim> known_;
};

struct AttributeVisitor {
  Substitution& substitution;
  template <class T>
  void operator()(const char*, T& field) {
    if constexpr (std::is_same_v<T, ir::Shape>) substitution.apply(field);
  }
};

void apply(ir::Graph& graph, Substitution& substitution) {
  for (const auto& tensor : graph.tensors()) {
    substitution.apply(tensor->shape);
    if (tensor->facts.shape_value)
      for (Dim& dim : *tensor->facts.shape_value) dim = substitution(dim);
  }
  for (const auto& layer : graph.layers()) {
    AttributeVisitor visitor{substitution};
    std::visit([&](auto& a) { std::decay_t<decltype(a)>::fields(a, visitor); }, layer->attrs);
    for (const auto& body : layer->bodies) apply(*body, substitution);
  }
}

// The one value dimension d of an input has in every profile.
std::optional<int64_t> only_value(const std::vector<engine::Profile>& profiles,
                                  const std::string& input, size_t d) {
  std::optional<int64_t> value;
  for (const engine::Profile& profile : profiles) {
    bool found = false;
    for (const engine::ShapeRange& range : profile) {
      if (range.input != input || d >= range.min.size()) continue;
      found = true;
      if (range.min[d] != range.max[d] || (value && *value != range.min[d])) return {};
      value = range.min[d];
    }
    if (!found) return {};
  }
  return value;
}

}  // namespace

int specialize(ir::Graph& graph, const std::vector<engine::Profile>& profiles) {
  Substitution substitution(graph.symbols());
  for (const ir::Tensor* input : graph.inputs())
    for (size_t d = 0; d < input->shape.size(); ++d) {
      const Dim dim = input->shape[d];
      if (dim.is_known() || graph.symbols().symbol(dim.symbol_id()).op != SymbolOp::kInput)
        continue;
      if (const auto value = only_value(profiles, input->name, d))
        substitution.fix(dim.symbol_id(), *value);
    }
  const int fixed = substitution.size();
  if (fixed > 0) apply(graph, substitution);
  return fixed;
}

}  // namespace camshaft::tuner
