// SPDX-License-Identifier: Apache-2.0
// Evaluates a graph directly, layer by layer with the reference kernels: the oracle of tests and
// `verify`, and what constant folding uses. Slow on purpose, right on purpose.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ir/graph.h"
#include "kernels/kernel.h"

namespace camshaft::kernels {

// A tensor with its elements, row major. The bytes are shared and immutable: copying a Value is
// cheap, and a result can become a constant of a graph as it is.
struct Value {
  DataType type = DataType::kUndefined;
  ir::Extents extents;
  std::shared_ptr<const ir::ConstantData> data;

  std::span<const std::byte> bytes() const {
    return data ? data->view : std::span<const std::byte>();
  }
  int64_t elements() const { return ir::element_count(extents); }
  template <class T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes().data()), bytes().size() / sizeof(T)};
  }
  // For reading only: kernels take views without const.
  TensorView view() const;
  // Elements converted to double, whatever the type.
  std::vector<double> to_doubles() const;
};

// kInvalidArgument when the number of bytes is not that of the type and extents.
Result<Value> make_value(DataType type, const ir::Extents& extents, std::vector<std::byte> bytes);
Value constant_value(const ir::Tensor& constant);

// Makes something else every time it runs.
bool is_random(const ir::Layer& layer);

struct EvaluateOptions {
  ThreadPool* pool = nullptr;
  // Called after every layer (those in bodies too) with its outputs; null where an output is not
  // wanted.
  std::function<void(const ir::Layer& layer, std::span<const Value* const> outputs)> observer;
  // Asked after the observer for every output of a layer: what the layers behind read instead, such
  // as what an engine made of the tensor, to judge every layer on its own. Empty: the result.
  std::function<std::optional<Value>(const ir::Tensor& tensor)> substitute;
  // A Loop that goes on longer is an error.
  int64_t max_iterations = int64_t{1} << 24;
};

// The outputs of `graph` for `inputs`, in the graph's order. Checks the inputs' types and extents,
// and every layer's output extents against what shape inference said of the tensor.
Result<std::vector<Value>> evaluate(const ir::Graph& graph, std::span<const Value> inputs,
                                    const EvaluateOptions& options = {});

// One layer; null: an optional input that is absent. Attributes must hold numbers, not symbols. One
// Value per output of the layer (empty where the layer has a null output).
Result<std::vector<Value>> evaluate_layer(const ir::Layer& layer,
                                          std::span<const Value* const> inputs,
                                          const EvaluateOptions& options = {});

}  // namespace camshaft::kernels
