// SPDX-License-Identifier: Apache-2.0
#include "tuner/specialize.h"

#include <algorithm>
#include <optional>

#include "tuner/substitution.h"

namespace camshaft::tuner {
namespace {

using ir::Dim;
using ir::SymbolOp;

// The values dimension d of an input has in all profiles; empty where one does not say.
std::optional<ir::SymbolTable::Bounds> range_of(const std::vector<engine::Profile>& profiles,
                                                const std::string& input, size_t d) {
  std::optional<ir::SymbolTable::Bounds> range;
  for (const engine::Profile& profile : profiles) {
    bool found = false;
    for (const engine::ShapeRange& given : profile) {
      if (given.input != input || d >= given.min.size()) continue;
      found = true;
      if (!range) range = {given.min[d], given.max[d]};
      range->low = std::min(range->low, given.min[d]);
      range->high = std::max(range->high, given.max[d]);
    }
    if (!found) return {};
  }
  return range;
}

// Extents that a layer needs to be equal.
using Equation = std::pair<Dim, Dim>;

std::optional<Equation> inner_extents(const ir::Layer& layer) {
  const auto& attrs = layer.as<ir::MatrixMultiplyAttrs>();
  const ir::Tensor &a = *layer.inputs[0], &b = *layer.inputs[1];
  if (!a.has_rank || !b.has_rank || a.shape.empty() || b.shape.empty()) return {};
  const size_t m = a.shape.size(), n = b.shape.size();
  const Dim left = a.shape[m > 1 && attrs.transpose_a ? m - 2 : m - 1];
  const Dim right = b.shape[n > 1 && !attrs.transpose_b ? n - 2 : n - 1];
  return Equation(left, right);
}

std::optional<Equation> equation_of(const ir::Layer& layer, ir::SymbolTable& symbols) {
  const auto shape = [&](size_t k) -> const ir::Shape* {
    const bool there = k < layer.inputs.size() && layer.inputs[k] && layer.inputs[k]->has_rank;
    return there ? &layer.inputs[k]->shape : nullptr;
  };
  switch (layer.kind) {
    case ir::LayerKind::kMatrixMultiply:
      return inner_extents(layer);
    case ir::LayerKind::kConvolution:
      if (shape(0) && shape(1) && shape(0)->size() > 1 && shape(1)->size() > 1)
        return Equation((*shape(0))[1],
                        symbols.mul((*shape(1))[1], layer.as<ir::ConvolutionAttrs>().groups));
      return {};
    case ir::LayerKind::kDeconvolution:
      if (shape(0) && shape(1) && shape(0)->size() > 1 && !shape(1)->empty())
        return Equation((*shape(0))[1], (*shape(1))[0]);
      return {};
    case ir::LayerKind::kScale:
      if (shape(0) && shape(1) && shape(1)->size() == 1)
        return Equation((*shape(0))[layer.as<ir::ScaleAttrs>().axis], (*shape(1))[0]);
      return {};
    default:
      return {};
  }
}

}  // namespace

int resolve_extents(ir::Graph& graph) {
  ir::SymbolTable& symbols = graph.symbols();
  int resolved = 0;
  for (bool changed = true; changed;) {
    changed = false;
    Substitution substitution(symbols);
    for (const auto& layer : graph.layers()) {
      std::optional<Equation> equation = equation_of(*layer, symbols);
      if (!equation) continue;
      auto& [a, b] = *equation;
      if (a.is_known()) std::swap(a, b);
      if (a.is_known() || symbols.is_number(a) || !b.is_known()) continue;
      substitution.fix(a.symbol_id(), b);
      changed = true;
      ++resolved;
      break;  // other equations hold what this one has found
    }
    if (changed) substitution.apply(graph);
  }
  return resolved;
}

int specialize(ir::Graph& graph, const std::vector<engine::Profile>& profiles) {
  ir::SymbolTable& symbols = graph.symbols();
  // An input of at least 5 is 5 + m for a while, so that bounds of m decide what 5 + m - 3 is.
  Substitution substitution(symbols), back(symbols);
  int fixed = 0;
  for (const ir::Tensor* input : graph.inputs())
    for (size_t d = 0; d < input->shape.size(); ++d) {
      const Dim dim = input->shape[d];
      if (dim.is_known() || symbols.symbol(dim.symbol_id()).op != SymbolOp::kInput) continue;
      const auto range = range_of(profiles, input->name, d);
      if (!range) continue;
      if (range->low == range->high) {
        substitution.fix(dim.symbol_id(), range->low);
        ++fixed;
      } else if (range->low > 0) {
        const Dim more = symbols.input(symbols.to_string(dim) + " beyond its least");
        substitution.fix(dim.symbol_id(), symbols.add(more, range->low));
        back.fix(more.symbol_id(), symbols.sub(dim, range->low));
      }
    }
  if (!substitution.empty()) substitution.apply(graph);
  if (!back.empty()) back.apply(graph);
  return fixed;
}

}  // namespace camshaft::tuner
