// SPDX-License-Identifier: Apache-2.0
#include "fuzz/graphs/graph_maker.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ir/infer.h"
#include "kernels/reference/access.h"

namespace camshaft::fuzz {
namespace {

constexpr int64_t kMostElements = 1 << 15;
constexpr double kSmallest = 1e-30, kLargest = 1e5, kLargestInteger = 1e9, kLargestExact = 1 << 20;

std::vector<std::byte> bytes_of(DataType type, const Extents& extents,
                                const std::vector<double>& values) {
  std::vector<std::byte> bytes(ir::bytes_for(type, static_cast<int64_t>(values.size())));
  kernels::reference::store<double>(
      kernels::make_view(bytes.data(), type, ir::Format::kLinear, extents), values);
  return bytes;
}

// Will some output have more elements than graphs should? What only running can tell counts as 1.
bool is_huge(const ir::Layer& layer, const runtime::Bindings& bindings) {
  return std::any_of(layer.outputs.begin(), layer.outputs.end(), [&](const Tensor* tensor) {
    double elements = 1;
    if (tensor && tensor->has_rank)
      for (const ir::Dim dim : tensor->shape)
        if (bindings.known(dim)) elements *= static_cast<double>(bindings.value(dim));
    return elements > kMostElements;
  });
}

// Layers that hand on bits as they are.
bool only_moves(LayerKind kind) {
  switch (kind) {
    case LayerKind::kShuffle:
    case LayerKind::kSlice:
    case LayerKind::kPad:
    case LayerKind::kConcatenation:
    case LayerKind::kGather:
    case LayerKind::kExpand:
    case LayerKind::kTile:
    case LayerKind::kFill:
    case LayerKind::kShapeOf:
    case LayerKind::kTopK:
    case LayerKind::kArgMinMax:
    case LayerKind::kNonZero:
    case LayerKind::kDepthToSpace:
    case LayerKind::kSpaceToDepth:
    case LayerKind::kSelect:
      return true;
    default:
      return false;
  }
}

// Kinds whose sums of small whole numbers are whole numbers in any order.
bool keeps_whole(LayerKind kind) {
  switch (kind) {
    case LayerKind::kActivation:
    case LayerKind::kUnary:
    case LayerKind::kElementWise:
    case LayerKind::kMatrixMultiply:
    case LayerKind::kReduce:
    case LayerKind::kCumSum:
    case LayerKind::kScatter:
    case LayerKind::kCast:
    case LayerKind::kRange:
    case LayerKind::kPooling:
      return true;
    default:
      return false;
  }
}

// Rounds floats, wherever they are.
bool makes_codes(const ir::Layer& layer) {
  const auto* generic = std::get_if<ir::GenericAttrs>(&layer.attrs);
  return layer.kind == LayerKind::kQuantize ||
         (generic && generic->op_type == "DynamicQuantizeLinear");
}

bool is_small_whole(const Value& value) {
  for (const double v : value.to_doubles())
    if (v != std::floor(v) || std::fabs(v) > kLargestExact) return false;
  return true;
}

}  // namespace

float GraphMaker::real(float low, float high) {
  return low + (high - low) * static_cast<float>(below(1 << 20)) / (1 << 20);
}

// --- tensors

void GraphMaker::adopt(Tensor* tensor, std::vector<Value> values, bool exact) {
  nodes_[tensor] = {std::move(values), exact};
  tensors_.push_back(tensor);
}

Tensor* GraphMaker::input(const std::string& name, DataType type, const Shape& shape) {
  Tensor* tensor = graph_.add_tensor(name, type, shape);
  graph_.add_input(tensor);
  return tensor;
}

Tensor* GraphMaker::constant(DataType type, const Extents& extents,
                             const std::vector<double>& values) {
  Tensor* tensor = graph_.add_constant(fmt::format("c{}", count_++), type, extents,
                                       ir::make_constant(bytes_of(type, extents, values)));
  nodes_[tensor] = {std::vector<Value>(runs(), kernels::constant_value(*tensor)), true};
  return tensor;
}

Tensor* GraphMaker::floats(const Extents& extents, float low, float high) {
  // The same constant again now and then: layers share weights.
  if (chance(10))
    for (const auto& tensor : graph_.tensors())
      if (tensor->is_constant() && tensor->type == DataType::kFloat && !extents.empty() &&
          nodes_.count(tensor.get()) && extents == this->extents(tensor.get()) && chance(50))
        return tensor.get();
  std::vector<double> values(ir::element_count(extents));
  for (double& v : values) v = real(low, high);
  return constant(DataType::kFloat, extents, values);
}

Tensor* GraphMaker::whole(DataType type, const Extents& extents, int64_t low, int64_t high) {
  if (type == DataType::kBool || type == DataType::kUInt8) low = std::max<int64_t>(low, 0);
  std::vector<double> values(ir::element_count(extents));
  for (double& v : values) v = static_cast<double>(between(low, high));
  return constant(type, extents, values);
}

Tensor* GraphMaker::vector(const Ints& values, DataType type) {
  return constant(type, {static_cast<int64_t>(values.size())},
                  std::vector<double>(values.begin(), values.end()));
}

Tensor* GraphMaker::any(const Predicate& fits) {
  std::vector<Tensor*> fitting;
  for (Tensor* tensor : tensors_)
    if (fits(tensor)) fitting.push_back(tensor);
  if (fitting.empty()) return nullptr;
  // Half the time one of the last three: chains grow, and branches do as well.
  const auto count = static_cast<int64_t>(fitting.size());
  const int64_t back = chance(50) ? below(std::min<int64_t>(3, count)) : below(count);
  return fitting[static_cast<size_t>(count - 1 - back)];
}

Tensor* GraphMaker::any_float(size_t least_rank, size_t most_rank) {
  return any([&](Tensor* t) {
    return t->type == DataType::kFloat && extents(t).size() >= least_rank &&
           extents(t).size() <= most_rank;
  });
}

Tensor* GraphMaker::any_sequence() {
  return any([&](Tensor* t) {
    return t->type == DataType::kFloat && t->has_rank && rank(t) == 3 && t->shape[2].is_known() &&
           t->shape[2].extent() > 0;
  });
}

int64_t GraphMaker::least(const Tensor* tensor, int64_t d) const {
  int64_t extent = extents(tensor)[static_cast<size_t>(d)];
  for (size_t k = 1; k < runs(); ++k)
    extent = std::min(extent, extents(tensor, k)[static_cast<size_t>(d)]);
  return extent;
}

int64_t GraphMaker::most(const Tensor* tensor, int64_t d) const {
  int64_t extent = extents(tensor)[static_cast<size_t>(d)];
  for (size_t k = 1; k < runs(); ++k)
    extent = std::max(extent, extents(tensor, k)[static_cast<size_t>(d)]);
  return extent;
}

bool GraphMaker::is_static(const Tensor* tensor) const {
  return tensor->has_rank && std::all_of(tensor->shape.begin(), tensor->shape.end(),
                                         [](Dim dim) { return dim.is_known(); });
}

bool GraphMaker::is_clear(const Tensor* tensor,
                          const std::function<double(double)>& distance) const {
  if (is_exact(tensor) || !ir::is_floating(tensor->type)) return true;
  for (size_t run = 0; run < runs(); ++run)
    for (const double v : value(tensor, run).to_doubles())
      if (distance(v) < 2e-3 * std::max(1.0, std::fabs(v))) return false;
  return true;
}

// --- layers

Status GraphMaker::bind(const Tensor& tensor, const Value& value,
                        runtime::Bindings& bindings) const {
  const auto set = [&](Dim dim, int64_t actual) {
    if (dim.is_known() || bindings.bound[dim.symbol_id()]) return;
    if (graph_.symbols().symbol(dim.symbol_id()).op != ir::SymbolOp::kRuntime) return;
    bindings.values[dim.symbol_id()] = actual;
    bindings.bound[dim.symbol_id()] = true;
    graph_.symbols().evaluate_all(bindings.values, bindings.bound);
  };
  for (size_t d = 0; d < tensor.shape.size() && d < value.extents.size(); ++d)
    set(tensor.shape[d], value.extents[d]);
  if (!tensor.facts.shape_value || !ir::is_integer(value.type)) return ok_status();
  const Ints elements = kernels::reference::load_ints(value.view());
  for (size_t k = 0; k < elements.size() && k < tensor.facts.shape_value->size(); ++k)
    set((*tensor.facts.shape_value)[k], elements[k]);
  return ok_status();
}

Status GraphMaker::evaluate_at(const ir::Layer& layer, size_t run, std::vector<Value>& results) {
  if (!layer.bodies.empty()) {  // within its graph
    std::vector<Value> inputs;
    for (const Tensor* tensor : graph_.inputs()) inputs.push_back(value(tensor, run));
    kernels::EvaluateOptions options;
    options.max_iterations = 100;
    options.observer = [&](const ir::Layer& seen, std::span<const Value* const> outputs) {
      if (&seen != &layer) return;
      results.clear();
      for (const Value* output : outputs) results.push_back(output ? *output : Value());
    };
    return kernels::evaluate(graph_, inputs, options).status();
  }
  std::unique_ptr<ir::Layer> resolved = runtime::resolve_layer(layer, bindings_[run]);
  if (!resolved) return make_error(ErrorCode::kInternal, "a symbol has no value");
  resolved->inputs = layer.inputs;
  resolved->outputs = layer.outputs;
  std::vector<const Value*> inputs;
  for (const Tensor* tensor : layer.inputs)
    inputs.push_back(tensor ? &value(tensor, run) : nullptr);
  CAMSHAFT_ASSIGN(results, kernels::evaluate_layer(*resolved, inputs));
  return ok_status();
}

Status GraphMaker::evaluate(const ir::Layer& layer, std::vector<std::vector<Value>>& results) {
  results.resize(runs());
  for (size_t run = 0; run < runs(); ++run) {
    bindings_[run].values.resize(symbols().size());
    bindings_[run].bound.resize(symbols().size());
    symbols().evaluate_all(bindings_[run].values, bindings_[run].bound);
    if (is_huge(layer, bindings_[run]))
      return make_error(ErrorCode::kInvalidArgument, "too many elements");
    CAMSHAFT_TRY(evaluate_at(layer, run, results[run]));
  }
  return ok_status();
}

bool GraphMaker::is_tame(const Value& value) {
  if (value.elements() > kMostElements) return false;
  if (value.type == DataType::kBool) return true;
  const double largest = ir::is_floating(value.type) ? kLargest : kLargestInteger;
  const std::vector<double> elements = value.to_doubles();
  return std::all_of(elements.begin(), elements.end(), [&](double v) {
    return v == 0 || (std::fabs(v) >= kSmallest && std::fabs(v) <= largest);
  });
}

bool GraphMaker::stays_exact(const ir::Layer& layer, const std::vector<Value>& values) const {
  const bool from_exact = std::all_of(layer.inputs.begin(), layer.inputs.end(),
                                      [&](const Tensor* t) { return !t || is_exact(t); });
  if (!values.empty() && !ir::is_floating(values[0].type)) {
    // Makers see to it that rounding does not decide, but for codes and what is made of them.
    const bool of_codes = std::any_of(layer.inputs.begin(), layer.inputs.end(), [&](Tensor* t) {
      return t && ir::is_integer(t->type) && !is_exact(t);
    });
    return from_exact || !(of_codes || makes_codes(layer));
  }
  if (!from_exact || only_moves(layer.kind)) return from_exact;
  if (!keeps_whole(layer.kind)) return false;
  for (const Tensor* tensor : layer.inputs)
    for (size_t run = 0; tensor && run < runs(); ++run)
      if (!is_small_whole(value(tensor, run))) return false;
  return std::all_of(values.begin(), values.end(), is_small_whole);
}

std::vector<Tensor*> GraphMaker::add_many(LayerKind kind, ir::Attrs attrs,
                                          const std::vector<Tensor*>& inputs,
                                          const std::vector<bool>& wanted,
                                          std::vector<std::unique_ptr<ir::Graph>> bodies) {
  std::vector<Tensor*> outputs(wanted.size(), nullptr);
  for (const size_t required : {0, 1})  // what could not be made before
    if (inputs.size() > required && !inputs[required] && kind != LayerKind::kLoop &&
        kind != LayerKind::kResize)
      return outputs;
  const std::string name = fmt::format("{}{}", ir::kind_name(kind), count_++);
  for (size_t k = 0; k < wanted.size(); ++k)
    if (wanted[k])
      outputs[k] = graph_.add_tensor(
          k ? fmt::format("t{}.{}", count_, k) : fmt::format("t{}", count_), DataType::kFloat, {});
  ir::Layer* layer = graph_.add_layer(kind, name, std::move(attrs), inputs, outputs);
  layer->bodies = std::move(bodies);
  const std::vector<runtime::Bindings> before = bindings_;
  std::vector<std::vector<Value>> results;
  Status status = ir::infer_layer(graph_, *layer);
  if (status.ok()) status = evaluate(*layer, results);
  bool fine = status.ok();
  for (size_t run = 0; fine && run < runs(); ++run)
    for (size_t k = 0; fine && k < outputs.size(); ++k)
      if (outputs[k]) fine = is_tame(results[run][k]);
  if (!fine) {
    ++refused_;
    bindings_ = before;
    graph_.remove_layer(layer);
    return std::vector<Tensor*>(wanted.size(), nullptr);
  }
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (!outputs[k]) continue;
    std::vector<Value> values;
    for (size_t run = 0; run < runs(); ++run) values.push_back(results[run][k]);
    const bool exact = stays_exact(*layer, values);
    for (size_t run = 0; run < runs(); ++run) bind(*outputs[k], values[run], bindings_[run]).ok();
    adopt(outputs[k], std::move(values), exact);
  }
  return outputs;
}

Tensor* GraphMaker::unary(PointOp op, Tensor* x, float a, float b) {
  const bool activation =
      op == PointOp::kIdentity || (op >= PointOp::kRelu && op <= PointOp::kClip);
  return x ? add(activation ? LayerKind::kActivation : LayerKind::kUnary,
                 ir::PointOpAttrs{op, a, b}, {x})
           : nullptr;
}

Tensor* GraphMaker::binary(PointOp op, Tensor* x, Tensor* y) {
  return x && y ? add(LayerKind::kElementWise, ir::PointOpAttrs{op, 0, 0}, {x, y}) : nullptr;
}

Tensor* GraphMaker::generic(const std::string& op_type, int64_t opset,
                            const std::vector<Tensor*>& inputs,
                            std::vector<ir::GenericAttribute> attributes, size_t outputs,
                            size_t output) {
  std::vector<bool> wanted(outputs, false);
  wanted[output] = true;
  return add_many(LayerKind::kGeneric, ir::GenericAttrs{op_type, opset, std::move(attributes)},
                  inputs, wanted)[output];
}

Tensor* GraphMaker::transpose(Tensor* x, const Ints& order) {
  ir::ShuffleAttrs a;
  a.first_transpose = order;
  return x ? add(LayerKind::kShuffle, a, {x}) : nullptr;
}

Tensor* GraphMaker::reshape(Tensor* x, const Shape& shape) {
  ir::ShuffleAttrs a;
  a.has_reshape = true;
  a.reshape = shape;
  return x ? add(LayerKind::kShuffle, a, {x}) : nullptr;
}

}  // namespace camshaft::fuzz
