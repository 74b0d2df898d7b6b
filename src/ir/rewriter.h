// SPDX-License-Identifier: Apache-2.0
// The one way to edit a graph: keeps links, order, names and provenance right, and records what was
// done and what was declined.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/refusal.h"

namespace camshaft::ir {

enum class Action : uint8_t {
  kRunning,  // a pass looks at a layer
  kFuse,     // layers become one
  kRemove,   // a layer goes: nothing, or another layer, stands for it
  kSwap,     // two layers change places
  kMerge,    // siblings become one
  kSplit,    // one becomes several
  kConvert,  // another kind, type or form
  kEdit,     // attributes, constants or codes change in place
  kDecline,  // a user would expect it, and it was not done
};
const char* action_name(Action action);  // "fuse"

// One line of the build record.
struct RewriteRecord {
  Action action = Action::kRunning;
  std::string pass;
  std::vector<std::string> layers;  // as they were called then; the first was looked at
  int subject = -1;                 // the first one's number, for Layer::lineage; -1: none
  std::string text;                 // "Fusing conv1 with relu1", or the reason why not
  Reason reason = Reason::kNone;    // of kDecline: the code of that

  bool operator==(const RewriteRecord&) const = default;
};

// What is worth keeping: without kRunning, and each thing that was declined time and again once.
std::vector<RewriteRecord> told_once(std::vector<RewriteRecord> records);

class Rewriter {
 public:
  Rewriter(Graph& graph, std::string pass, std::vector<RewriteRecord>* record);

  const Graph& graph() const { return graph_; }
  SymbolTable& symbols() { return graph_.symbols(); }

  // --- what is told (log, `camshaft explain`)
  // "Running: PASS on LAYER" (verbose).
  void running(const Layer& layer);
  // "PASS: Fusing A with B", "Swapping A with B", "Removing A".
  void fused(const Layer& a, const Layer& b);
  void swapped(const Layer& a, const Layer& b);
  void removed(const Layer& layer);
  // Anything else in words of its own.
  void applied(Action action, const Layer& layer, std::string text);
  // Why something a user would expect was not done.
  void declined(const Layer& layer, Refusal refusal);

  // --- edits
  // `second`, the sole consumer of a `first` output, is absorbed: first moves to second's place and
  // gets its outputs, its provenance and the name "first + second" (or `name`); second is removed.
  // What second reads besides may be appended to first.
  void absorb(Layer* first, Layer* second, std::string name = "");
  // A new layer takes the place, the outputs and the provenance of `group`; its last layer goes,
  // and those of the others that nobody needs any more. The name is made of the group's ("a + b")
  // unless given.
  Layer* replace(std::span<Layer* const> group, LayerKind kind, Attrs attrs,
                 std::vector<Tensor*> inputs, std::string name = "");
  // All uses of `from` (also as network output, keeping the output's name) become uses of `to`.
  // Network outputs are always made by a layer of their own: where `to` is an input, a constant or
  // another output, a copy is inserted; can_replace says so before.
  bool can_replace(const Tensor* from, const Tensor* to) const;
  void replace_uses(Tensor* from, Tensor* to);
  Layer* insert_before(const Layer* before, LayerKind kind, std::string name, Attrs attrs,
                       std::vector<Tensor*> inputs, std::vector<Tensor*> outputs,
                       const std::vector<const Layer*>& provenance);
  // `x` as `shape`, by a reshape named `name` where it is another one.
  Tensor* reshaped_before(const Layer* before, std::string name, Tensor* x, const Shape& shape,
                          const Layer& origin);
  // `made` also stands for what `origin` came from.
  void inherit(Layer* made, const Layer& origin);
  void rename(Layer* layer, std::string name) { graph_.rename(layer, std::move(name)); }
  void set_input(Layer* layer, size_t index, Tensor* tensor) {
    graph_.set_input(layer, index, tensor);
  }
  void append_input(Layer* layer, Tensor* tensor) { graph_.append_input(layer, tensor); }
  void drop_output(Layer* layer, size_t index);  // of which there are no uses: becomes null
  void remove(Layer* layer) { graph_.remove_layer(layer); }
  template <class T>
  T& attrs(Layer* layer) {
    return std::get<T>(layer->attrs);
  }
  void set_attrs(Layer* layer, Attrs attrs) { layer->attrs = std::move(attrs); }
  Program& program(Layer* layer);  // of a PointWise layer, or the epilogue; must have one
  // What a convolution, a product or a PointWise layer stores (kUndefined: as it computes).
  void set_stored_type(Layer* layer, DataType type);

  Tensor* add_tensor(std::string name, DataType type, const Shape& shape) {
    return graph_.add_tensor(std::move(name), type, shape);
  }
  Tensor* add_tensor_like(const Tensor& model, std::string name, DataType type);  // its shape
  void set_type(Tensor* tensor, DataType type) { tensor->type = type; }
  void set_shape(Tensor* tensor, Shape shape);
  void set_facts(Tensor* tensor, Facts facts) { tensor->facts = std::move(facts); }
  void set_constant(Tensor* tensor, std::vector<std::byte> bytes);  // of the same type and shape
  void swap_names(Tensor* a, Tensor* b) { std::swap(a->name, b->name); }
  void add_input(Tensor* tensor) { graph_.add_input(tensor); }
  void set_output(size_t index, Tensor* tensor) { graph_.set_output(index, tensor); }
  Tensor* add_constant(std::string name, DataType type, std::span<const int64_t> extents,
                       std::vector<std::byte> bytes);
  Tensor* add_constant(std::string name, DataType type, std::span<const int64_t> extents,
                       std::shared_ptr<const ConstantData> data) {
    return graph_.add_constant(std::move(name), type, extents, std::move(data));
  }
  Tensor* add_constant_like(const Tensor& model);  // the same bytes, of any graph
  Tensor* add_float_constant(std::string name, std::span<const int64_t> extents,
                             std::span<const float> values);

  int edits() const { return edits_; }

 private:
  void record(Action action, std::initializer_list<const Layer*> layers, std::string text,
              Reason reason = Reason::kNone);
  void tell(Action action, std::initializer_list<const Layer*> layers, std::string text);

  Graph& graph_;
  std::string pass_;
  std::vector<RewriteRecord>* record_;
  int edits_ = 0;
};

// Predicates shared by the passes.
Layer* sole_consumer(
    const Tensor* tensor);  // the one layer using it once, if it is not a network output; else null
bool same_shape(const Tensor* a, const Tensor* b);

}  // namespace camshaft::ir
