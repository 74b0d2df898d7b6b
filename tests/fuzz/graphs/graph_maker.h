// SPDX-License-Identifier: Apache-2.0
// Makes random graphs layer by layer. Every layer is evaluated as it is added, at every run the
// graph will be tested at: what the oracle refuses, or would give NaN or numbers too large to
// compare, is taken back. Each kind of layer is a row of one of the tables below.
#pragma once

#include <functional>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "fuzz/graphs/graph_case.h"
#include "runtime/schedule.h"

namespace camshaft::fuzz {

using ir::DataType;
using ir::Dim;
using ir::Extents;
using ir::Ints;
using ir::LayerKind;
using ir::PointOp;
using ir::Shape;
using ir::Tensor;
using kernels::Value;

using Random = std::mt19937_64;

class GraphMaker {
 public:
  // One set of bindings per run. `outer`: the graph around this one, a body.
  GraphMaker(ir::Graph& graph, Random& random, std::vector<runtime::Bindings> bindings)
      : graph_(graph), random_(random), bindings_(std::move(bindings)) {}

  ir::Graph& graph() { return graph_; }
  Random& random() { return random_; }
  ir::SymbolTable& symbols() { return graph_.symbols(); }
  const std::vector<runtime::Bindings>& bindings() const { return bindings_; }
  size_t runs() const { return bindings_.size(); }

  // --- chance
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  bool chance(int percent) { return below(100) < percent; }
  template <class T>
  const T& pick(const std::vector<T>& list) {
    return list[static_cast<size_t>(below(static_cast<int64_t>(list.size())))];
  }
  template <class T>
  T pick(std::initializer_list<T> list) {
    return list.begin()[below(static_cast<int64_t>(list.size()))];
  }
  float real(float low, float high);

  // --- tensors
  Tensor* input(const std::string& name, DataType type, const Shape& shape);
  // Takes over a tensor of the graph with its values, one per run: an input of a body.
  void adopt(Tensor* tensor, std::vector<Value> values, bool exact);
  Tensor* floats(const Extents& extents, float low, float high);
  Tensor* constant(DataType type, const Extents& extents, const std::vector<double>& values);
  Tensor* whole(DataType type, const Extents& extents, int64_t low, int64_t high);
  Tensor* scalar(DataType type, double value) { return constant(type, {}, {value}); }
  Tensor* vector(const Ints& values, DataType type = DataType::kInt64);

  // A tensor made so far that fits, the last ones preferred; null: there is none.
  using Predicate = std::function<bool(Tensor*)>;
  Tensor* any(const Predicate& fits);
  Tensor* any_float(size_t least_rank = 0, size_t most_rank = 6);
  Tensor* any_sequence();  // floats [batch, steps, width] of a known width
  const std::vector<Tensor*>& tensors() const { return tensors_; }

  const Value& value(const Tensor* tensor, size_t run) const {
    return nodes_.at(tensor).values[run];
  }
  const Extents& extents(const Tensor* tensor, size_t run = 0) const {
    return value(tensor, run).extents;
  }
  int64_t rank(const Tensor* tensor) const { return static_cast<int64_t>(extents(tensor).size()); }
  int64_t least(const Tensor* tensor, int64_t d) const;  // smallest extent in any run
  int64_t most(const Tensor* tensor, int64_t d) const;
  bool is_static(const Tensor* tensor) const;  // every extent is a number
  // Every engine has the same bits: inputs, moved inputs, whole numbers that stay small.
  bool is_exact(const Tensor* tensor) const { return nodes_.at(tensor).exact; }
  // No element is so near to a place where `jumps` changes its mind that rounding could decide.
  bool is_clear(const Tensor* tensor, const std::function<double(double)>& distance) const;

  // --- layers; null: taken back
  Tensor* add(LayerKind kind, ir::Attrs attrs, const std::vector<Tensor*>& inputs,
              std::vector<std::unique_ptr<ir::Graph>> bodies = {}) {
    return add_many(kind, std::move(attrs), inputs, {true}, std::move(bodies))[0];
  }
  // One entry per output, null where it is not wanted; all null: taken back.
  std::vector<Tensor*> add_many(LayerKind kind, ir::Attrs attrs, const std::vector<Tensor*>& inputs,
                                const std::vector<bool>& wanted,
                                std::vector<std::unique_ptr<ir::Graph>> bodies = {});
  Tensor* unary(PointOp op, Tensor* x, float a = 0, float b = 0);
  Tensor* binary(PointOp op, Tensor* x, Tensor* y);
  Tensor* generic(const std::string& op_type, int64_t opset, const std::vector<Tensor*>& inputs,
                  std::vector<ir::GenericAttribute> attributes, size_t outputs = 1,
                  size_t output = 0);
  Tensor* transpose(Tensor* x, const Ints& order);
  Tensor* reshape(Tensor* x, const Shape& shape);

  int layers() const { return static_cast<int>(graph_.layers().size()); }
  int refused() const { return refused_; }

 private:
  struct Node {
    std::vector<Value> values;
    bool exact = false;
  };
  Status evaluate(const ir::Layer& layer, std::vector<std::vector<Value>>& results);
  Status evaluate_at(const ir::Layer& layer, size_t run, std::vector<Value>& results);
  Status bind(const Tensor& tensor, const Value& value, runtime::Bindings& bindings) const;
  static bool is_tame(const Value& value);
  bool stays_exact(const ir::Layer& layer, const std::vector<Value>& values) const;

  ir::Graph& graph_;
  Random& random_;
  std::vector<runtime::Bindings> bindings_;
  std::vector<Tensor*> tensors_;
  std::unordered_map<const Tensor*, Node> nodes_;
  int count_ = 0, refused_ = 0;
};

// One way to go on; false: nothing here fits it.
struct MakerRow {
  const char* name;
  int weight;
  bool (*make)(GraphMaker&);
};
using MakerTable = std::span<const MakerRow>;
MakerTable pointwise_makers();
MakerTable movement_makers();
MakerTable index_makers();
MakerTable product_makers();
MakerTable number_makers();
MakerTable reduction_makers();
MakerTable quantized_makers();
MakerTable late_makers();
MakerTable control_makers();
MakerTable generic_makers();
MakerTable pattern_makers();
MakerTable recurrence_makers();
MakerTable learning_makers();
MakerTable operator_makers();

}  // namespace camshaft::fuzz
