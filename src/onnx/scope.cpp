// SPDX-License-Identifier: Apache-2.0
#include "onnx/scope.h"

#include <algorithm>

#include "base/log.h"

namespace camshaft::onnx_import {

ir::Graph* Session::add_draft(std::string name, std::shared_ptr<ir::SymbolTable> symbols) {
  drafts.push_back(std::make_unique<ir::Graph>(std::move(name), std::move(symbols)));
  return drafts.back().get();
}

std::unique_ptr<ir::Graph> Session::take_draft(const ir::Graph* graph) {
  const auto draft = std::find_if(drafts.begin(), drafts.end(),
                                  [graph](const auto& owned) { return owned.get() == graph; });
  std::unique_ptr<ir::Graph> taken = std::move(*draft);
  drafts.erase(draft);
  return taken;
}

Status Scope::declare_initializers(const GraphDef& def) {
  const auto duplicate = [](const std::string& name) {
    return make_error(ErrorCode::kInvalidModel, "there are two initializers \"{}\"", name);
  };
  for (const TensorDef& tensor : def.initializers) {
    if (tensor.name.empty())
      return make_error(ErrorCode::kInvalidModel, "an initializer has no name");
    if (!initializers_.emplace(tensor.name, &tensor).second) return duplicate(tensor.name);
  }
  for (const SparseTensorDef& tensor : def.sparse_initializers)
    if (has_initializer(tensor.values.name) || !sparse_.emplace(tensor.values.name, &tensor).second)
      return duplicate(tensor.values.name);
  return ok_status();
}

bool Scope::knows(const std::string& name) const {
  return values_.count(name) > 0 || has_initializer(name) ||
         (outer_ != nullptr && outer_->knows(name));
}

ir::Tensor* Scope::add_constant(const std::string& name, const TensorData& data) {
  const std::string unique = reserved.count(name) ? name + "_constant" : name;
  ir::Tensor* tensor = graph.add_constant(unique, data.type, data.extents, data.data);
  define(name, tensor);
  return tensor;
}

std::string Scope::tensor_name(const std::string& name) const {
  return is_function && reserved.count(name) ? prefix + name : name;
}

ir::Tensor* Scope::capture(ir::Tensor* outer) {
  if (outer->is_constant()) {
    ir::Tensor* tensor = graph.add_tensor(outer->name, outer->type, outer->shape);
    tensor->constant = outer->constant;
    return tensor;
  }
  ir::Tensor* inner = graph.add_tensor(outer->name, outer->type, outer->shape);
  inner->has_rank = outer->has_rank;
  inner->facts = outer->facts;
  if (session.unusable.count(outer)) session.unusable.insert(inner);
  session.evaluated.share(outer, inner);
  captures.push_back({outer, inner});
  return inner;
}

Result<ir::Tensor*> Scope::find(const std::string& name) {
  if (const auto value = values_.find(name); value != values_.end()) return value->second;
  const auto read = [&](auto&& result) -> Result<ir::Tensor*> {
    if (!result.ok()) return result.status().with_context(fmt::format("initializer \"{}\"", name));
    log(Severity::kVerbose, "Importing initializer: {}", name);
    return add_constant(name, *result);
  };
  if (const auto stored = initializers_.find(name); stored != initializers_.end())
    return read(read_tensor(*stored->second, session.external, session.model.owner));
  if (const auto stored = sparse_.find(name); stored != sparse_.end())
    return read(read_sparse_tensor(*stored->second, session.external, session.model.owner));
  if (outer_ == nullptr) return nullptr;
  CAMSHAFT_ASSIGN(ir::Tensor* const found, outer_->find(name));
  if (found == nullptr || found->graph == &graph) return found;
  ir::Tensor* const inner = capture(found);
  define(name, inner);
  return inner;
}

}  // namespace camshaft::onnx_import
