// SPDX-License-Identifier: Apache-2.0
// verify(): every invariant a pass must keep: links, order and arities; each kind's own rules are
// in verify_kinds.cpp.
#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "ir/kind_traits.h"
#include "ir/verify_internal.h"

namespace camshaft::ir {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  Status run() {
    CAMSHAFT_TRY(check_boundary());
    for (const auto& tensor : graph_.tensors()) CAMSHAFT_TRY(check_tensor(*tensor));
    for (const auto& layer : graph_.layers())
      CAMSHAFT_TRY(check_layer(*layer).with_context("layer '" + layer->name + "'"));
    return check_consumers();
  }

 private:
  Status check_boundary() {
    for (const Tensor* input : graph_.inputs()) {
      if (!input || input->graph != &graph_)
        return broken("a network input is not a tensor of this graph");
      if (input->producer || input->is_constant())
        return broken("network input '{}' has a producer", input->name);
      if (!available_.insert(input).second)
        return broken("network input '{}' is listed twice", input->name);
    }
    for (const Tensor* output : graph_.outputs()) {
      if (!output || output->graph != &graph_)
        return broken("a network output is not a tensor of this graph");
      if (!output->producer && !output->is_constant() && !available_.count(output))
        return broken("network output '{}' has no producer", output->name);
    }
    return ok_status();
  }

  Status check_tensor(const Tensor& tensor) {
    if (tensor.graph != &graph_)
      return broken("tensor '{}' says it is in another graph", tensor.name);
    if (tensor.name.empty() || !tensor_names_.insert(tensor.name).second)
      return broken("two tensors are called '{}'", tensor.name);
    if (!tensor.has_rank && !tensor.shape.empty())
      return broken("tensor '{}' has a shape but no rank", tensor.name);
    for (Dim dim : tensor.shape)
      if (!dim.is_known() && dim.symbol_id() >= graph_.symbols().size())
        return broken("tensor '{}' uses symbol {} that is not in the table", tensor.name,
                      dim.symbol_id());
    if (!tensor.is_constant()) return ok_status();
    int64_t count = 1;
    for (Dim dim : tensor.shape) {
      if (!dim.is_known()) return broken("constant '{}' has a symbolic extent", tensor.name);
      count *= dim.extent();
    }
    if (tensor.producer) return broken("constant '{}' has a producer", tensor.name);
    if (tensor.constant->view.size() != bytes_for(tensor.type, count))
      return broken("constant '{}' has {} bytes, its shape needs {}", tensor.name,
                    tensor.constant->view.size(), bytes_for(tensor.type, count));
    available_.insert(&tensor);
    return ok_status();
  }

  Status check_layer(const Layer& layer) {
    if (layer.name.empty() || !layer_names_.insert(layer.name).second)
      return broken("the name is used twice");
    if (layer.attrs.index() != default_attrs(layer.kind).index())
      return broken("the attributes are of another kind");
    CAMSHAFT_TRY(check_arity(layer));
    for (const Tensor* input : layer.inputs) {
      if (!input) continue;
      if (input->graph != &graph_)
        return broken("input '{}' belongs to another graph", input->name);
      if (!available_.count(input)) return broken("input '{}' is not available yet", input->name);
      if (input->type == DataType::kUndefined) return broken("input '{}' has no type", input->name);
      ++uses_[input][&layer];
    }
    CAMSHAFT_TRY(traits_of(layer.kind).check(layer));
    CAMSHAFT_TRY(check_bodies(layer));
    for (const Tensor* output : layer.outputs) {
      if (!output) continue;
      if (output->graph != &graph_ || output->producer != &layer)
        return broken("output '{}' has another producer", output->name);
      if (!available_.insert(output).second)
        return broken("output '{}' is made twice", output->name);
      if (output->type == DataType::kUndefined)
        return broken("output '{}' has no type", output->name);
    }
    return ok_status();
  }

  Status check_arity(const Layer& layer) {
    const Arity& arity = traits_of(layer.kind).arity;
    const int inputs = static_cast<int>(layer.inputs.size()),
              outputs = static_cast<int>(layer.outputs.size());
    if (inputs < arity.required_inputs || inputs > arity.most_inputs)
      return broken("{} inputs", inputs);
    if (outputs < arity.least_outputs || outputs > arity.most_outputs)
      return broken("{} outputs", outputs);
    for (int k = 0; k < arity.required_inputs; ++k)
      if (!layer.inputs[k]) return broken("required input {} is missing", k);
    return ok_status();
  }

  Status check_consumers() {
    for (const auto& tensor : graph_.tensors()) {
      std::unordered_map<const Layer*, int> listed;
      for (const Layer* consumer : tensor->consumers) ++listed[consumer];
      if (listed != uses_[tensor.get()])
        return broken("tensor '{}' does not list its consumers right", tensor->name);
      if (tensor->producer && !available_.count(tensor.get()))
        return broken("tensor '{}' names a producer that is not in the graph", tensor->name);
    }
    return ok_status();
  }

  Status check_bodies(const Layer& layer) {
    const auto wanted = static_cast<size_t>(traits_of(layer.kind).arity.bodies);
    if (layer.bodies.size() != wanted)
      return broken("{} bodies instead of {}", layer.bodies.size(), wanted);
    for (const auto& body : layer.bodies) {
      CAMSHAFT_TRY(verify(*body).with_context("body '" + body->name() + "'"));
      if (layer.kind == LayerKind::kIf && body->outputs().size() != layer.outputs.size())
        return broken("body '{}' has {} outputs", body->name(), body->outputs().size());
      // If: everything but the condition is captured. Loop: trip count and condition arrive as
      // iteration number and condition.
      const size_t passed = layer.inputs.size() - (layer.kind == LayerKind::kIf);
      if (body->inputs().size() != passed)
        return broken("body '{}' has {} inputs, not {}", body->name(), body->inputs().size(),
                      passed);
    }
    return ok_status();
  }

  const Graph& graph_;
  std::unordered_set<const Tensor*> available_;
  std::unordered_set<std::string_view> tensor_names_, layer_names_;
  std::unordered_map<const Tensor*, std::unordered_map<const Layer*, int>> uses_;
};

}  // namespace

Status verify(const Graph& graph) {
  return Verifier(graph).run().with_context("graph '" + graph.name() + "'");
}

}  // namespace camshaft::ir
