// SPDX-License-Identifier: Apache-2.0
// The values of a plan's symbols, from the extents of its inputs; attributes with numbers for
// symbols.
#include <algorithm>

#include <fmt/ranges.h>

#include "runtime/schedule.h"

namespace camshaft::runtime {
namespace {

using engine::Plan;
using engine::PlanTensor;
using ir::Dim;

Status bind_inputs(const Plan& plan, std::span<const ir::Extents> inputs, Bindings& bindings) {
  for (size_t k = 0; k < inputs.size(); ++k) {
    const PlanTensor& t = plan.tensors[plan.inputs[k]];
    if (!t.has_rank) continue;
    if (inputs[k].size() != t.shape.size())
      return make_error(ErrorCode::kInvalidArgument, "input {}: rank {}, the model has {}", t.name,
                        inputs[k].size(), t.shape.size());
    for (size_t d = 0; d < t.shape.size(); ++d) {
      const Dim dim = t.shape[d];
      if (dim.is_known()) continue;
      const ir::SymbolOp op = plan.symbols.symbol(dim.symbol_id()).op;
      if (op != ir::SymbolOp::kInput && op != ir::SymbolOp::kRuntime) continue;
      if (!bindings.bound[dim.symbol_id()]) bindings.values[dim.symbol_id()] = inputs[k][d];
      bindings.bound[dim.symbol_id()] = true;
    }
  }
  plan.symbols.evaluate_all(bindings.values, bindings.bound);
  return ok_status();
}

Status check_inputs(const Plan& plan, std::span<const ir::Extents> inputs,
                    const Bindings& bindings) {
  for (size_t k = 0; k < inputs.size(); ++k) {
    const PlanTensor& t = plan.tensors[plan.inputs[k]];
    for (size_t d = 0; d < t.shape.size(); ++d)
      if (bindings.known(t.shape[d]) && bindings.value(t.shape[d]) != inputs[k][d])
        return make_error(ErrorCode::kInvalidArgument,
                          "input {}: extents {}, the model wants {} = {} in dimension {}", t.name,
                          fmt::join(inputs[k], "x"), plan.symbols.to_string(t.shape[d]),
                          bindings.value(t.shape[d]), d);
  }
  return ok_status();
}

struct Resolver {
  const Bindings& bindings;
  bool complete = true;
  template <class T>
  void operator()(const char*, T& field) {
    if constexpr (std::is_same_v<T, ir::Shape>) {
      for (Dim& dim : field) {
        if (bindings.known(dim))
          dim = Dim(std::max<int64_t>(bindings.value(dim), 0));
        else
          complete = false;
      }
    }
  }
};

}  // namespace

bool Bindings::known_all(std::span<const Dim> dims) const {
  return std::all_of(dims.begin(), dims.end(), [this](Dim dim) { return known(dim); });
}

Result<Bindings> bind_symbols(const Plan& plan, std::span<const ir::Extents> inputs,
                              const Bindings* outer) {
  Bindings bindings;
  if (outer) bindings = *outer;
  bindings.values.resize(plan.symbols.size());
  bindings.bound.resize(plan.symbols.size());
  CAMSHAFT_TRY(bind_inputs(plan, inputs, bindings));
  CAMSHAFT_TRY(check_inputs(plan, inputs, bindings));
  return bindings;
}

std::unique_ptr<ir::Layer> resolve_layer(const ir::Layer& layer, const Bindings& bindings) {
  auto resolved = std::make_unique<ir::Layer>();
  resolved->kind = layer.kind;
  resolved->name = layer.name;
  resolved->attrs = layer.attrs;
  Resolver resolver{bindings};
  std::visit([&](auto& a) { std::decay_t<decltype(a)>::fields(a, resolver); }, resolved->attrs);
  return resolver.complete ? std::move(resolved) : nullptr;
}

}  // namespace camshaft::runtime
