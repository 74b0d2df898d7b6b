// SPDX-License-Identifier: Apache-2.0
// What an operator's import function works with: the node's inputs, attributes and known values,
// and the means to add layers.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/infer.h"
#include "onnx/errors.h"
#include "onnx/scope.h"

namespace camshaft::onnx_import {

using ir::Attrs;
using ir::DataType;
using ir::Dim;
using ir::Ints;
using ir::LayerKind;
using ir::PointOp;
using ir::Shape;
using ir::Tensor;

// Float, or one of the types of 16 bits that become floats where they are multiplied.
inline bool computes_in_float(DataType type) {
  return type == DataType::kFloat || ir::is_16_bit_float(type);
}

class Node {
 public:
  Node(Scope& scope, const NodeDef& def, std::string name, int64_t opset,
       std::vector<Tensor*> inputs);

  Scope& scope() { return scope_; }
  ir::Graph& graph() { return scope_.graph; }
  ir::SymbolTable& symbols() { return scope_.graph.symbols(); }
  const NodeDef& def() const { return def_; }
  const std::string& name() const { return name_; }
  const std::string& op() const { return def_.op_type; }
  int64_t opset() const { return opset_; }

  // --- inputs; absent optional ones are null
  size_t input_count() const { return inputs_.size(); }
  Tensor* input(size_t k) const { return k < inputs_.size() ? inputs_[k] : nullptr; }
  const std::vector<Tensor*>& inputs() const { return inputs_; }
  bool has(size_t k) const { return input(k) != nullptr; }
  bool wants(size_t k) const { return k < def_.outputs.size() && !def_.outputs[k].empty(); }
  Status require(size_t least, size_t most = SIZE_MAX)
      const;  // that inputs 0 … least-1 are there, and no more than `most`
  Result<size_t> rank(size_t k) const;                     // kUnsupported if only running can tell
  Result<int64_t> axis(int64_t given, size_t rank) const;  // in [0, rank)

  // --- values known while importing
  std::optional<std::vector<Dim>> value(size_t k);
  std::optional<Ints> numbers(size_t k);
  std::optional<std::vector<double>> reals(size_t k) const;  // of a constant of any number type
  std::optional<double> scalar(size_t k) const;

  // --- attributes; reading one marks it as understood
  bool has_attribute(std::string_view name);
  int64_t integer(std::string_view name, int64_t fallback);
  bool flag(std::string_view name, bool fallback) { return integer(name, fallback ? 1 : 0) != 0; }
  float real(std::string_view name, float fallback);
  std::string text(std::string_view name, std::string_view fallback);
  Ints integers(std::string_view name);
  std::vector<float> floats(std::string_view name);
  std::vector<std::string> texts(std::string_view name);
  const AttributeDef* attribute(std::string_view name, AttributeType type);
  void ignore(std::initializer_list<std::string_view> names);
  // A wrongly typed attribute that was read, or one that nobody asked for.
  Status attribute_status() const;

  // --- layers
  // The layer that makes the node's outputs, all or the one numbered `k`.
  Status emit(LayerKind kind, Attrs attrs, std::vector<Tensor*> inputs);
  Status emit_to(size_t k, LayerKind kind, Attrs attrs, std::vector<Tensor*> inputs);
  // A layer inside a composition: `step` names it.
  Result<Tensor*> add(std::string_view step, LayerKind kind, Attrs attrs,
                      std::vector<Tensor*> inputs);
  // All outputs of the node from a layer that makes floats, which are cast to `type`: then `step`
  // names it.
  Status emit_as(DataType type, std::string_view step, LayerKind kind, Attrs attrs,
                 std::vector<Tensor*> inputs);
  Result<ir::Layer*> add_layer(LayerKind kind, const std::string& name, Attrs attrs,
                               std::vector<Tensor*> inputs, std::vector<Tensor*> outputs);
  // Output k is this tensor.
  void give(size_t k, Tensor* tensor);
  Tensor* output_tensor(size_t k);  // a new tensor with the output's name; null if not wanted

  Result<Tensor*> binary(std::string_view step, PointOp op, Tensor* a, Tensor* b);
  Result<Tensor*> unary(std::string_view step, PointOp op, Tensor* x);
  Result<Tensor*> reshape(std::string_view step, Tensor* x, const Shape& shape);
  Result<Tensor*> transpose(std::string_view step, Tensor* x, Ints order);
  Result<Tensor*> cast(std::string_view step, Tensor* x, DataType type);

  Tensor* constant(std::string_view step, DataType type, std::span<const int64_t> extents,
                   std::vector<std::byte> bytes);
  Tensor* float_constant(std::string_view step, std::span<const int64_t> extents,
                         std::span<const float> values);
  Tensor* int_constant(std::string_view step, std::span<const int64_t> extents,
                       std::span<const int64_t> values);
  // A number of a tensor's type, as a scalar.
  Tensor* scalar_like(std::string_view step, DataType type, double value);

 private:
  const AttributeDef* find_attribute(std::string_view name, AttributeType type);

  Scope& scope_;
  const NodeDef& def_;
  std::string name_;
  int64_t opset_;
  std::vector<Tensor*> inputs_;
  std::set<std::string, std::less<>> understood_;
  Status attribute_error_;
};

// Conversion of scalars for constants of any type.
double read_element(DataType type, const std::byte* bytes, int64_t k);
void write_element(DataType type, std::byte* bytes, int64_t k, double value);

using ImportFunction = Status (*)(Node&);
struct OperatorRow {
  std::string_view op_type;
  ImportFunction import;
  int64_t from_opset = 1;
};

// One table per family.
std::span<const OperatorRow> convolution_operators();
std::span<const OperatorRow> pointwise_operators();
std::span<const OperatorRow> matrix_operators();
std::span<const OperatorRow> einsum_operators();
std::span<const OperatorRow> attention_operators();
std::span<const OperatorRow> signal_operators();
std::span<const OperatorRow> normalization_operators();
std::span<const OperatorRow> reduce_operators();
std::span<const OperatorRow> shuffle_operators();
std::span<const OperatorRow> squeeze_operators();
std::span<const OperatorRow> slice_operators();
std::span<const OperatorRow> constant_operators();
std::span<const OperatorRow> gather_operators();
std::span<const OperatorRow> resize_operators();
std::span<const OperatorRow> quantize_operators();
std::span<const OperatorRow> recurrence_operators();
std::span<const OperatorRow> control_operators();
std::span<const OperatorRow> generic_operators();
std::span<const OperatorRow> learning_operators();
std::span<const OperatorRow> tree_operators();
std::span<const OperatorRow> svm_operators();
const OperatorRow* find_operator(std::string_view op_type);
const OperatorRow* find_microsoft_operator(std::string_view op_type);
const OperatorRow* find_sequence_operator(const NodeDef& def);  // of sequences.h

// The window and group attributes of Conv and its relatives, for these weights.
Result<ir::ConvolutionAttrs> read_convolution(Node& node, const Tensor* weights);

Result<ir::PoolingAttrs> read_average_pooling(Node& node);

// The node as a product of two factors. Vectors become matrices: no kernel but the reference one
// takes them.
Status emit_product(Node& node, ir::MatrixMultiplyAttrs attrs, std::vector<Tensor*> factors);

// The node as a Generic layer, with its attributes as they are.
Status import_generic(Node& node);
// Of operators on strings, on sequences.
Status refuse_strings(Node& node);
Status refuse_sequences(Node& node);

// Imports the nodes of a graph or function body into the scope, in topological order.
Status import_nodes(Scope& scope, const std::vector<NodeDef>& nodes);
// `tensor` if a layer of this graph made it and it is not an output yet, else a copy of it, named
// `name`.
Result<Tensor*> as_output(Scope& scope, const std::string& name, Tensor* tensor);
Result<Tensor*> copy_tensor(Scope& scope, const std::string& name, Tensor* tensor);
// The shape text of log lines: "(1, 3, 224, 224)[FLOAT]".
std::string describe(const Tensor* tensor);

}  // namespace camshaft::onnx_import
