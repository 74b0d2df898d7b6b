// SPDX-License-Identifier: Apache-2.0
// The graph: layers in execution order, tensors in SSA form, provenance on both.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/attrs.h"
#include "ir/types.h"

namespace camshaft::ir {

class Graph;
struct Layer;
struct NarrowTypes;
struct SparsityMemo;

// Immutable bytes of a constant, row major. Shared: several tensors and graphs may point to the
// same ones.
struct ConstantData {
  std::vector<std::byte> bytes;     // empty when `view` points into memory kept alive by `owner`
  std::span<const std::byte> view;  // what readers use
  std::shared_ptr<const void> owner;
  mutable std::shared_ptr<const SparsityMemo> sparsity = {};  // of sparsity_of() (ir/sparsity.h)
  mutable std::shared_ptr<const NarrowTypes> narrow = {};     // of narrow_types_of()
};
std::shared_ptr<const ConstantData> make_constant(std::vector<std::byte> bytes);

// What is known of a tensor's values beyond its type and shape. Passes decide from these.
struct Facts {
  // Elements of a small integer tensor that does shape arithmetic, as symbols: a scalar has one.
  std::optional<std::vector<Dim>> shape_value;
  // Closed range every element is known to lie in (relu: [0, inf]).
  float minimum = -std::numeric_limits<float>::infinity();
  float maximum = std::numeric_limits<float>::infinity();
  // Real value = scale * (q - zero_point) for 8-bit tensors that are quantized; one element, or one
  // per channel of `axis`.
  std::vector<float> scale;
  std::vector<int32_t> zero_point;
  int64_t quantized_axis = -1;
};

struct Tensor {
  std::string name;
  DataType type = DataType::kUndefined;
  bool has_rank = true;  // false: rank unknown until run time; shape is empty
  Shape shape;
  Facts facts;
  std::shared_ptr<const ConstantData> constant;  // set: a constant, no producer
  Layer* producer = nullptr;                     // null: constant or graph input
  std::vector<Layer*> consumers;                 // one entry per use
  Graph* graph = nullptr;

  bool is_constant() const { return constant != nullptr; }
  template <class T>
  std::span<const T> values() const {  // of a constant
    return {reinterpret_cast<const T*>(constant->view.data()), constant->view.size() / sizeof(T)};
  }
};

struct Layer {
  LayerKind kind = LayerKind::kGeneric;
  std::string name;              // TensorRT's contract: "a + b", "PWN(a, b)", "a || b"
  std::vector<Tensor*> inputs;   // null: optional input not given
  std::vector<Tensor*> outputs;  // null: optional output not wanted
  Attrs attrs;
  std::vector<std::string> onnx_nodes;  // provenance: names of the ONNX nodes it came from
  std::vector<int> lineage;  // its own number first, then those of the layers it was made of
  std::vector<std::unique_ptr<Graph>>
      bodies;  // If: then, else; Loop, Scan: body. Captured tensors are passed as extra inputs:
               // the last body inputs, after the operator's own.

  int number() const { return lineage.empty() ? -1 : lineage[0]; }  // unique in the network
  bool came_from(int number) const {
    return std::find(lineage.begin(), lineage.end(), number) != lineage.end();
  }

  template <class T>
  T& as() {
    return std::get<T>(attrs);
  }
  template <class T>
  const T& as() const {
    return std::get<T>(attrs);
  }
};

class Graph {
 public:
  explicit Graph(std::string name);
  Graph(std::string name, std::shared_ptr<SymbolTable> symbols);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const std::string& name() const { return name_; }
  SymbolTable& symbols() { return *symbols_; }
  const SymbolTable& symbols() const { return *symbols_; }
  const std::shared_ptr<SymbolTable>& shared_symbols() const { return symbols_; }

  // Layers in execution order: every tensor is made before it is used.
  const std::vector<std::unique_ptr<Layer>>& layers() const { return layers_; }
  const std::vector<std::unique_ptr<Tensor>>& tensors() const { return tensors_; }
  const std::vector<Tensor*>& inputs() const { return inputs_; }
  const std::vector<Tensor*>& outputs() const { return outputs_; }
  bool is_output(const Tensor* tensor) const;

  // --- construction (importer, parser, Rewriter); names are made unique by appending _1, _2 …
  Tensor* add_tensor(std::string name, DataType type, const Shape& shape);
  Tensor* add_constant(std::string name, DataType type, std::span<const int64_t> extents,
                       std::shared_ptr<const ConstantData> data);
  // Appends a layer (or inserts it before `before`), takes over `outputs` and links consumers.
  Layer* add_layer(LayerKind kind, std::string name, Attrs attrs, std::vector<Tensor*> inputs,
                   std::vector<Tensor*> outputs, const Layer* before = nullptr);
  void add_input(Tensor* tensor) { inputs_.push_back(tensor); }
  void add_output(Tensor* tensor) { outputs_.push_back(tensor); }
  void set_output(size_t index, Tensor* tensor) { outputs_[index] = tensor; }

  // --- edits (only the Rewriter calls these)
  void set_input(Layer* layer, size_t index, Tensor* tensor);
  void append_input(Layer* layer, Tensor* tensor);
  void remove_layer(Layer* layer);  // its outputs must have no consumers
  void move_before(Layer* layer, const Layer* before);
  void rename(Layer* layer, std::string name);  // made unique
  void remove_unused_tensors();
  size_t position(const Layer* layer) const;

 private:
  std::string name_;
  std::shared_ptr<SymbolTable> symbols_;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<std::unique_ptr<Tensor>> tensors_;
  std::vector<Tensor*> inputs_, outputs_;
  struct Names;
  std::unique_ptr<Names> names_;
};

// Checks every invariant: types, ranks, arity per kind, order, links, programs. The first violation
// is named.
Status verify(const Graph& graph);

// The text form (docs/ir-text.md): to_text ∘ parse_graph is the identity on it.
std::string to_text(const Graph& graph,
                    bool elide_constants = false);  // elided constants cannot be parsed back
Result<std::unique_ptr<Graph>> parse_graph(std::string_view text);

}  // namespace camshaft::ir
