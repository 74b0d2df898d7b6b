// SPDX-License-Identifier: Apache-2.0
#include "fuzz/graphs/minimize.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <unordered_map>

#include "ir/infer.h"
#include "tuner/specialize.h"

namespace camshaft::fuzz {
namespace {

using ir::Dim;
using ir::Graph;
using ir::Layer;
using ir::Tensor;

// What a copy of a graph leaves out or changes. Layers and tensors are numbered as in the original.
struct Edit {
  std::set<size_t> cut = {};                         // these layers' outputs become network inputs
  std::map<size_t, size_t> bypass = {};              // of these layers, output 0 becomes that input
  std::set<size_t> dropped_outputs = {};             // of the network
  std::set<std::pair<size_t, size_t>> dropped = {};  // optional inputs (layer, number)
  int64_t from = 0, to = 0;                          // an extent, wherever it stands
  std::map<size_t, std::vector<std::byte>> constants = {};  // tensor → other bytes
};

// The first `extents` of a constant.
std::vector<std::byte> crop(const Tensor& tensor, const ir::Extents& extents) {
  const size_t size = ir::bits_of(tensor.type) / 8;
  std::vector<std::byte> bytes(ir::bytes_for(tensor.type, ir::element_count(extents)));
  for (int64_t k = 0; k < ir::element_count(extents); ++k) {
    int64_t rest = k, from = 0, stride = 1;
    for (size_t d = extents.size(); d-- > 0; rest /= extents[d]) {
      from += rest % extents[d] * stride;
      stride *= tensor.shape[d].extent();
    }
    std::memcpy(bytes.data() + k * size, tensor.constant->view.data() + from * size, size);
  }
  return bytes;
}

struct ReplaceExtent {
  int64_t from, to;
  void operator()(const char* name, ir::Shape& shape) const {
    if (std::strcmp(name, "start") == 0) return;
    for (Dim& dim : shape)
      if (dim == Dim(from)) dim = to;
  }
  void operator()(const char* name, ir::Ints& list) const {
    if (std::strcmp(name, "kernel") != 0) return;
    for (int64_t& extent : list)
      if (extent == from) extent = to;
  }
  void operator()(const char* name, int64_t& value) const {
    if (std::strcmp(name, "groups") == 0 || std::strcmp(name, "hidden_size") == 0)
      if (value == from) value = to;
  }
  template <class T>
  void operator()(const char*, T&) const {}
};

class Copier {
 public:
  Copier(const Case& original, const Edit& edit) : original_(original), edit_(edit) {}

  // Empty: the edit leads to no valid graph.
  std::optional<Case> run() {
    // A symbol table of its own, as ids are kept.
    const auto whole = clone(*original_.graph);
    made_.graph = std::make_unique<Graph>(whole->name(), whole->shared_symbols());
    made_.symbols = original_.symbols;
    made_.runs = original_.runs;
    for (size_t k = 0; k < whole->tensors().size(); ++k) index_[whole->tensors()[k].get()] = k;
    find_needed(*whole);
    for (const Tensor* input : whole->inputs())
      if (needed_.count(input)) made_.graph->add_input(copy(*input));
    for (size_t k = 0; k < whole->layers().size(); ++k) {
      const Layer& layer = *whole->layers()[k];
      if (!needed_layers_.count(&layer)) continue;
      if (edit_.cut.count(k)) {
        for (const Tensor* output : layer.outputs)
          if (output && needed_.count(output) && !add_as_input(*output)) return std::nullopt;
        continue;
      }
      if (const auto bypassed = edit_.bypass.find(k); bypassed != edit_.bypass.end()) {
        copies_[layer.outputs[0]] = get(layer.inputs[bypassed->second]);
        continue;
      }
      if (!add_layer(layer, k)) return std::nullopt;
    }
    for (size_t k = 0; k < whole->outputs().size(); ++k) {
      if (edit_.dropped_outputs.count(k)) continue;
      Tensor* output = get(whole->outputs()[k]);
      if (!output->producer || made_.graph->is_output(output)) return std::nullopt;
      made_.graph->add_output(output);
    }
    made_.graph->remove_unused_tensors();
    drop_unused_symbols();
    if (!ir::verify(*made_.graph).ok()) return std::nullopt;
    return std::move(made_);
  }

 private:
  void find_needed(const Graph& graph) {
    for (size_t k = 0; k < graph.outputs().size(); ++k)
      if (!edit_.dropped_outputs.count(k)) needed_.insert(graph.outputs()[k]);
    for (size_t k = graph.layers().size(); k-- > 0;) {
      const Layer& layer = *graph.layers()[k];
      const bool is_needed = std::any_of(layer.outputs.begin(), layer.outputs.end(),
                                         [&](const Tensor* t) { return t && needed_.count(t); });
      if (!is_needed) continue;
      needed_layers_.insert(&layer);
      if (edit_.cut.count(k)) continue;
      const auto bypassed = edit_.bypass.find(k);
      for (size_t i = 0; i < layer.inputs.size(); ++i)
        if (layer.inputs[i] && !edit_.dropped.count({k, i}) &&
            (bypassed == edit_.bypass.end() || bypassed->second == i))
          needed_.insert(layer.inputs[i]);
    }
  }

  ir::Shape shrunk(ir::Shape shape) const {
    for (Dim& dim : shape)
      if (edit_.from != edit_.to && dim == Dim(edit_.from)) dim = edit_.to;
    return shape;
  }

  Tensor* copy(const Tensor& tensor) {
    Tensor*& made = copies_[&tensor];
    if (made) return made;
    const ir::Shape shape = shrunk(tensor.shape);
    made = made_.graph->add_tensor(tensor.name, tensor.type, shape);
    made->has_rank = tensor.has_rank;
    made->facts = tensor.facts;
    if (!tensor.is_constant()) return made;
    ir::Extents extents;
    for (const Dim dim : shape) extents.push_back(dim.extent());
    const auto other = edit_.constants.find(index_.at(&tensor));
    made->constant = other != edit_.constants.end() ? ir::make_constant(other->second)
                     : shape == tensor.shape        ? tensor.constant
                                                    : ir::make_constant(crop(tensor, extents));
    return made;
  }

  Tensor* get(const Tensor* tensor) {
    if (!tensor) return nullptr;
    const auto found = copies_.find(tensor);
    return found != copies_.end() ? found->second : copy(*tensor);
  }

  bool add_as_input(const Tensor& tensor) {
    if (!tensor.has_rank) return false;
    for (const Dim dim : tensor.shape)
      if (!dim.is_known() &&
          made_.graph->symbols().symbol(dim.symbol_id()).op != ir::SymbolOp::kInput)
        return false;
    Tensor* made = copy(tensor);
    made->facts = {};
    made_.graph->add_input(made);
    return true;
  }

  bool add_layer(const Layer& layer, size_t k) {
    std::vector<Tensor*> inputs, outputs;
    for (size_t i = 0; i < layer.inputs.size(); ++i)
      inputs.push_back(edit_.dropped.count({k, i}) ? nullptr : get(layer.inputs[i]));
    for (const Tensor* output : layer.outputs) outputs.push_back(output ? copy(*output) : nullptr);
    Layer* made = made_.graph->add_layer(layer.kind, layer.name, layer.attrs, inputs, outputs);
    for (const auto& body : layer.bodies) made->bodies.push_back(copy_body(*body));
    if (edit_.from == edit_.to) return true;
    if (!layer.bodies.empty()) return false;
    ReplaceExtent replace{edit_.from, edit_.to};
    std::visit([&](auto& a) { std::decay_t<decltype(a)>::fields(a, replace); }, made->attrs);
    return ir::infer_layer(*made_.graph, *made).ok();
  }

  // Bodies stay as they are.
  std::unique_ptr<Graph> copy_body(const Graph& body) {
    auto made = std::make_unique<Graph>(body.name(), made_.graph->shared_symbols());
    std::unordered_map<const Tensor*, Tensor*> copies;
    for (const auto& tensor : body.tensors()) {
      Tensor* t = made->add_tensor(tensor->name, tensor->type, tensor->shape);
      t->has_rank = tensor->has_rank;
      t->facts = tensor->facts;
      t->constant = tensor->constant;
      copies[tensor.get()] = t;
    }
    const auto all = [&](const std::vector<Tensor*>& tensors) {
      std::vector<Tensor*> list;
      for (const Tensor* t : tensors) list.push_back(t ? copies.at(t) : nullptr);
      return list;
    };
    for (Tensor* input : all(body.inputs())) made->add_input(input);
    for (const auto& layer : body.layers()) {
      Layer* l = made->add_layer(layer->kind, layer->name, layer->attrs, all(layer->inputs),
                                 all(layer->outputs));
      for (const auto& inner : layer->bodies) l->bodies.push_back(copy_body(*inner));
    }
    for (Tensor* output : all(body.outputs())) made->add_output(output);
    return made;
  }

  void drop_unused_symbols() {
    for (size_t k = made_.symbols.size(); k-- > 0;) {
      bool used = false;
      for (const Tensor* input : made_.graph->inputs())
        for (const Dim dim : input->shape)
          used |= !dim.is_known() &&
                  made_.graph->symbols().symbol(dim.symbol_id()).name == made_.symbols[k].name;
      if (used) continue;
      made_.symbols.erase(made_.symbols.begin() + static_cast<int64_t>(k));
      for (Point& point : made_.runs) point.erase(point.begin() + static_cast<int64_t>(k));
    }
  }

  const Case& original_;
  const Edit& edit_;
  Case made_;
  std::unordered_map<const Tensor*, Tensor*> copies_;
  std::unordered_map<const Tensor*, size_t> index_;
  std::set<const Tensor*> needed_;
  std::set<const Layer*> needed_layers_;
};

class Minimizer {
 public:
  Minimizer(Case test, const std::function<bool(const Case&)>& fails, int most_checks)
      : test_(std::move(test)), fails_(fails), checks_left_(most_checks) {}

  Case run() {
    for (bool smaller = true; smaller && checks_left_ > 0;) {
      smaller = drop_runs();
      smaller |= drop_outputs();
      smaller |= cut_layers();
      smaller |= bypass_layers();
      smaller |= drop_inputs();
      smaller |= fix_symbols();
      smaller |= shrink_extents();
    }
    simplify_constants();
    return std::move(test_);
  }

 private:
  bool take(std::optional<Case> smaller) {
    if (!smaller || smaller->graph->outputs().empty() || checks_left_-- <= 0) return false;
    if (!fails_(*smaller)) return false;
    test_ = std::move(*smaller);
    return true;
  }
  bool try_edit(const Edit& edit) { return take(Copier(test_, edit).run()); }

  bool drop_runs() {
    bool any = false;
    for (size_t k = test_.runs.size(); k-- > 0 && test_.runs.size() > 1;) {
      Case smaller = clone(test_);
      smaller.runs.erase(smaller.runs.begin() + static_cast<int64_t>(k));
      any |= take(std::move(smaller));
    }
    return any;
  }

  bool drop_outputs() {
    bool any = false;
    for (size_t kept = 0; kept < test_.graph->outputs().size(); ++kept) {
      Edit edit;  // all but one
      for (size_t k = 0; k < test_.graph->outputs().size(); ++k)
        if (k != kept) edit.dropped_outputs.insert(k);
      if (!edit.dropped_outputs.empty() && try_edit(edit)) return true;
    }
    for (size_t k = test_.graph->outputs().size(); k-- > 0;)
      any |= test_.graph->outputs().size() > 1 && try_edit({.dropped_outputs = {k}});
    return any;
  }

  bool cut_layers() {
    bool any = false;
    for (size_t k = test_.graph->layers().size(); k-- > 0;)
      if (k < test_.graph->layers().size()) any |= try_edit({.cut = {k}});
    return any;
  }

  bool bypass_layers() {
    bool any = false;
    for (size_t k = test_.graph->layers().size(); k-- > 0;) {
      if (k >= test_.graph->layers().size()) continue;
      const Layer& layer = *test_.graph->layers()[k];
      if (layer.outputs.empty() || !layer.outputs[0]) continue;
      for (size_t i = 0; i < layer.inputs.size(); ++i) {
        const Tensor *x = layer.inputs[i], *y = layer.outputs[0];
        if (!x || x->type != y->type || x->has_rank != y->has_rank || x->shape != y->shape)
          continue;
        if (!try_edit({.bypass = {{k, i}}})) continue;
        any = true;
        break;
      }
    }
    return any;
  }

  bool drop_inputs() {
    bool any = false;
    for (size_t k = 0; k < test_.graph->layers().size(); ++k)
      for (size_t i = 2; i < test_.graph->layers()[k]->inputs.size(); ++i)
        if (test_.graph->layers()[k]->inputs[i] && test_.graph->layers()[k]->bodies.empty())
          any |= try_edit({.dropped = {{k, i}}});
    return any;
  }

  // Dynamic extents become static ones.
  bool fix_symbols() {
    bool any = false;
    for (size_t k = 0; k < test_.symbols.size(); ++k) {
      Case smaller = clone(test_);
      const int64_t value = smaller.runs[0][k];
      smaller.symbols[k].min = smaller.symbols[k].opt = smaller.symbols[k].max = value;
      for (Point& point : smaller.runs) point[k] = value;
      if (tuner::specialize(*smaller.graph, profiles_of(smaller)) == 0) continue;
      smaller.symbols.erase(smaller.symbols.begin() + static_cast<int64_t>(k));
      for (Point& point : smaller.runs) point.erase(point.begin() + static_cast<int64_t>(k));
      if (take(std::move(smaller))) {
        any = true;
        --k;
      }
    }
    return any;
  }

  bool shrink_extents() {
    std::set<int64_t> extents;
    for (const auto& tensor : test_.graph->tensors())
      for (const Dim dim : tensor->shape)
        if (dim.is_known() && dim.extent() > 1) extents.insert(dim.extent());
    bool any = false;
    for (const int64_t extent : extents)
      for (const int64_t smaller : {int64_t{1}, extent / 2, extent - 1}) {
        if (smaller < 1 || smaller >= extent) continue;
        if (!try_edit({.from = extent, .to = smaller})) continue;
        any = true;
        break;
      }
    return any;
  }

  // Floats all 1 or all 0.5 where the failure does not mind: they print short.
  void simplify_constants() {
    for (size_t k = 0; k < test_.graph->tensors().size(); ++k) {
      const Tensor& tensor = *test_.graph->tensors()[k];
      if (!tensor.is_constant() || tensor.type != ir::DataType::kFloat) continue;
      for (const float number : {1.0f, 0.5f, 0.0f}) {
        std::vector<float> values(tensor.values<float>().size(), number);
        std::vector<std::byte> bytes(values.size() * sizeof(float));
        if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
        if (try_edit({.constants = {{k, bytes}}})) break;
      }
    }
  }

  Case test_;
  const std::function<bool(const Case&)>& fails_;
  int checks_left_;
};

}  // namespace

Case minimize(Case test, const std::function<bool(const Case&)>& fails, int most_checks) {
  return Minimizer(std::move(test), fails, most_checks).run();
}

}  // namespace camshaft::fuzz
