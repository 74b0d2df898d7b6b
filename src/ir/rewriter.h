// SPDX-License-Identifier: Apache-2.0
// The one way to edit a graph: keeps links, order, names and provenance right, and records what was
// done and what was declined.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace camshaft::ir {

// One line of the build record. kFused etc. carry the text that is logged; kDeclined the reason a
// user would ask for.
struct RewriteRecord {
  enum class Kind : uint8_t { kRunning, kApplied, kDeclined };
  Kind kind;
  std::string pass;
  std::string layer;  // the layer the pass looked at
  std::string text;   // "Fusing conv1 with relu1", or the reason
};

class Rewriter {
 public:
  Rewriter(Graph& graph, std::string pass, std::vector<RewriteRecord>* record);

  Graph& graph() { return graph_; }

  // "Running: PASS on LAYER" (verbose).
  void running(const Layer& layer);
  // "PASS: TEXT" (verbose): "Fusing a with b", "Removing a", "Swapping a with b", "Eliminating a".
  void applied(const Layer& layer, std::string text);
  // Why something a user would expect was not done.
  void declined(const Layer& layer, std::string reason);

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
  void set_input(Layer* layer, size_t index, Tensor* tensor) {
    graph_.set_input(layer, index, tensor);
  }
  void append_input(Layer* layer, Tensor* tensor) { graph_.append_input(layer, tensor); }
  void drop_output(Layer* layer, size_t index);  // of which there are no uses: becomes null
  void remove(Layer* layer) { graph_.remove_layer(layer); }
  Tensor* add_constant(std::string name, DataType type, std::span<const int64_t> extents,
                       std::vector<std::byte> bytes);
  Tensor* add_float_constant(std::string name, std::span<const int64_t> extents,
                             std::span<const float> values);

  int edits() const { return edits_; }

 private:
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
