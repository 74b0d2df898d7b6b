// SPDX-License-Identifier: Apache-2.0
// One file: layers, graphs and what Loop and If run in them call each other.
#include "kernels/interpreter.h"

#include <fmt/format.h>

#include <cstring>
#include <unordered_map>

#include "ir/infer.h"
#include "kernels/reference/access.h"

namespace camshaft::kernels {

using ir::Dim;
using ir::Extents;
using ir::Graph;
using ir::Layer;
using ir::LayerKind;
using ir::Tensor;

TensorView Value::view() const {
  return make_view(const_cast<std::byte*>(bytes().data()), type, Format::kLinear, extents);
}

std::vector<double> Value::to_doubles() const {
  return reference::load<double>(view());
}

Result<Value> make_value(DataType type, const Extents& extents, std::vector<std::byte> bytes) {
  const size_t wanted = ir::bytes_for(type, ir::element_count(extents));
  if (bytes.size() != wanted)
    return make_error(ErrorCode::kInvalidArgument, "{} bytes for a tensor of {}", bytes.size(),
                      wanted);
  return Value{type, extents, ir::make_constant(std::move(bytes))};
}

namespace {

// A tensor of static extents, from a constant's symbolic shape.
Extents known_extents(const ir::Shape& shape) {
  Extents extents;
  for (const Dim dim : shape) extents.push_back(dim.is_known() ? dim.extent() : 0);
  return extents;
}

std::string text_of(std::span<const int64_t> extents) {
  return fmt::format("[{}]", fmt::join(extents, ","));
}

using Values = std::vector<Value>;
using ValueList = std::span<const Value* const>;

// --- one layer with a kernel

// Elements of small integer tensors are values shape inference may ask for; larger ones are data.
constexpr int64_t kMaxInferredValues = 1024;

// What shape inference is told of a layer's inputs; the floats it may ask for are kept here.
class InputFacts {
 public:
  explicit InputFacts(ValueList inputs) {
    for (const Value* value : inputs) infos_.push_back(describe(value));
  }
  std::span<const ir::InferInput> infos() const { return infos_; }
  ir::SymbolTable& symbols() { return symbols_; }

 private:
  ir::InferInput describe(const Value* value) {
    ir::InferInput info;
    if (!value) return info;
    info.present = true;
    info.type = value->type;
    for (const int64_t extent : value->extents) info.shape.push_back(extent);
    if (value->elements() > kMaxInferredValues) return info;
    if (ir::is_integer(value->type) || value->type == DataType::kBool) {
      info.value.emplace();
      for (const int64_t element : reference::load_ints(value->view()))
        info.value->push_back(symbols_.constant(element));
    } else if (value->type == DataType::kDouble) {
      doubles_.push_back(reference::load<double>(value->view()));
      info.double_value = doubles_.back().data();
    } else {
      floats_.push_back(reference::load<float>(value->view()));
      info.float_value = floats_.back().data();
    }
    return info;
  }

  ir::SymbolTable symbols_;
  std::vector<ir::InferInput> infos_;
  std::vector<std::vector<float>> floats_;
  std::vector<std::vector<double>> doubles_;
};

// Types and extents of the outputs; an extent that stays a symbol is an error.
Result<std::vector<ir::InferOutput>> infer_outputs(const Layer& layer, ValueList inputs) {
  InputFacts facts(inputs);
  CAMSHAFT_ASSIGN(std::vector<ir::InferOutput> outputs,
                  ir::infer(layer, facts.infos(), facts.symbols()));
  for (const ir::InferOutput& output : outputs) {
    bool known = output.has_rank;
    for (const Dim dim : output.shape) known = known && dim.is_known();
    if (!known && output.type != DataType::kUndefined)
      return make_error(ErrorCode::kInternal,
                        "shape inference left an extent open with every value given");
  }
  return outputs;
}

std::vector<TensorView> views_of(ValueList values) {
  std::vector<TensorView> views;
  for (const Value* value : values) views.push_back(value ? value->view() : TensorView{});
  return views;
}

DataType output_type(const Layer& layer, size_t k, DataType inferred) {
  const Tensor* tensor = k < layer.outputs.size() ? layer.outputs[k] : nullptr;
  return tensor && tensor->type != DataType::kUndefined ? tensor->type : inferred;
}

Result<Values> run_static(const Layer& layer, const ReferenceKernel& kernel, ValueList inputs,
                          ThreadPool* pool) {
  CAMSHAFT_ASSIGN(const std::vector<ir::InferOutput> infos, infer_outputs(layer, inputs));
  std::vector<std::vector<std::byte>> buffers(layer.outputs.size());
  std::vector<TensorView> outputs(layer.outputs.size());
  Values values(layer.outputs.size());
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (!layer.outputs[k] || k >= infos.size()) continue;
    values[k].type = output_type(layer, k, infos[k].type);
    values[k].extents = known_extents(infos[k].shape);
    CAMSHAFT_TRY(reference::check_extents(values[k].extents));
    // One byte more than needed keeps the pointer of an empty tensor valid.
    buffers[k].resize(ir::bytes_for(values[k].type, values[k].elements()) + 1);
    outputs[k] = make_view(buffers[k].data(), values[k].type, Format::kLinear, values[k].extents);
  }
  const std::vector<TensorView> views = views_of(inputs);
  KernelArgs args;
  args.layer = &layer;
  args.inputs = views;
  args.outputs = outputs;
  args.pool = pool;
  CAMSHAFT_TRY(kernel.run(args));
  for (size_t k = 0; k < values.size(); ++k) {
    if (!outputs[k].present()) continue;
    buffers[k].pop_back();
    values[k].data = ir::make_constant(std::move(buffers[k]));
  }
  return values;
}

Result<Values> run_dynamic(const Layer& layer, const ReferenceKernel& kernel, ValueList inputs,
                           ThreadPool* pool) {
  const std::vector<TensorView> views = views_of(inputs);
  std::vector<TensorView> wanted(layer.outputs.size());
  for (size_t k = 0; k < wanted.size(); ++k) {
    if (!layer.outputs[k]) continue;
    wanted[k].type = layer.outputs[k]->type;
    wanted[k].rank = 0;  // present; the extents are the kernel's to say
  }
  KernelArgs args;
  args.layer = &layer;
  args.inputs = views;
  args.outputs = wanted;
  args.pool = pool;
  std::vector<DynamicOutput> outputs;
  CAMSHAFT_TRY(kernel.run_dynamic(args, outputs));
  Values values(layer.outputs.size());
  for (size_t k = 0; k < values.size(); ++k) {
    if (!layer.outputs[k]) continue;
    if (k >= outputs.size() || outputs[k].type == DataType::kUndefined)
      return make_error(ErrorCode::kInternal, "the kernel gives no output {}", k);
    CAMSHAFT_ASSIGN(values[k],
                    make_value(outputs[k].type, outputs[k].extents, std::move(outputs[k].bytes)));
  }
  return values;
}

// --- graphs

// What the symbols of a graph stand for in one evaluation.
struct Bindings {
  std::vector<int64_t> values;
  std::vector<bool> bound;
};

class Evaluation {
 public:
  Evaluation(const Graph& graph, const EvaluateOptions& options, Bindings bindings)
      : graph_(graph), options_(options), bindings_(std::move(bindings)) {
    bindings_.values.resize(graph.symbols().size());
    bindings_.bound.resize(graph.symbols().size());
  }

  Result<Values> run(ValueList inputs);

 private:
  Status define(const Tensor& tensor, const Value& value);
  Status bind_extents(const Tensor& tensor, const Value& value);
  Status bind(Dim dim, int64_t actual, const std::string& what);
  Result<Values> run_layer(const Layer& layer);
  Result<Layer> resolved(const Layer& layer) const;
  Result<Values> run_if(const Layer& layer, ValueList inputs);
  Result<Values> run_loop(const Layer& layer, ValueList inputs);
  Result<Values> run_scan(const Layer& layer, ValueList inputs);
  Result<Values> run_body(const Graph& body, ValueList inputs) {
    return Evaluation(body, options_, bindings_).run(inputs);
  }

  const Graph& graph_;
  const EvaluateOptions& options_;
  Bindings bindings_;
  std::unordered_map<const Tensor*, Value> values_;
  std::unordered_map<const Tensor*, size_t> uses_left_;
};

Status Evaluation::bind(Dim dim, int64_t actual, const std::string& what) {
  const ir::SymbolTable& symbols = graph_.symbols();
  if (symbols.is_number(dim)) {
    if (symbols.number(dim) == actual) return ok_status();
    return make_error(ErrorCode::kInvalidArgument, "{} is {}, not {}", what, actual,
                      symbols.number(dim));
  }
  const int id = dim.symbol_id();
  const ir::SymbolOp op = symbols.symbol(id).op;
  if (!bindings_.bound[id] && (op == ir::SymbolOp::kInput || op == ir::SymbolOp::kRuntime)) {
    bindings_.values[id] = actual;
    bindings_.bound[id] = true;
    symbols.evaluate_all(bindings_.values, bindings_.bound);
    return ok_status();
  }
  // Two open extents that meet are taken for equal or 1 on one side: max() of them.
  if (op == ir::SymbolOp::kMax && actual == 0 && bindings_.values[id] == 1)
    return make_error(ErrorCode::kUnsupported, "{}: open extents of 0 and 1 do not broadcast",
                      what);
  if (bindings_.bound[id] && bindings_.values[id] != actual)
    return make_error(ErrorCode::kInvalidArgument, "{} is {}, but {} = {}", what, actual,
                      symbols.to_string(dim), bindings_.values[id]);
  return ok_status();
}

Status Evaluation::bind_extents(const Tensor& tensor, const Value& value) {
  if (tensor.type != DataType::kUndefined && tensor.type != value.type)
    return make_error(ErrorCode::kInvalidArgument, "tensor {} is {}, not {}", tensor.name,
                      ir::type_name(value.type), ir::type_name(tensor.type));
  if (tensor.has_rank) {
    if (tensor.shape.size() != value.extents.size())
      return make_error(ErrorCode::kInvalidArgument,
                        "tensor {} has extents {}, rank {} was expected", tensor.name,
                        text_of(value.extents), tensor.shape.size());
    for (size_t d = 0; d < tensor.shape.size(); ++d)
      CAMSHAFT_TRY(bind(tensor.shape[d], value.extents[d],
                        fmt::format("extent {} of tensor {}", d, tensor.name)));
  }
  if (tensor.facts.shape_value && ir::is_integer(value.type)) {
    const ir::Ints elements = reference::load_ints(value.view());
    const std::vector<Dim>& dims = *tensor.facts.shape_value;
    for (size_t k = 0; k < dims.size() && k < elements.size(); ++k)
      CAMSHAFT_TRY(
          bind(dims[k], elements[k], fmt::format("element {} of tensor {}", k, tensor.name)));
  }
  return ok_status();
}

Status Evaluation::define(const Tensor& tensor, const Value& value) {
  CAMSHAFT_TRY(bind_extents(tensor, value));
  const size_t uses = tensor.consumers.size() + (graph_.is_output(&tensor) ? 1 : 0);
  if (uses == 0) return ok_status();
  uses_left_[&tensor] = uses;
  values_[&tensor] = value;
  return ok_status();
}

// The layer with numbers where its attributes hold symbols.
struct HasSymbols {
  bool found = false;
  void operator()(const char*, const ir::Shape& shape) {
    for (const Dim dim : shape) found = found || !dim.is_known();
  }
  template <class T>
  void operator()(const char*, const T&) {}
};
struct ReplaceSymbols {
  const ir::SymbolTable& symbols;
  const Bindings& bindings;
  Status status;
  void operator()(const char* name, ir::Shape& shape) {
    for (Dim& dim : shape) {
      if (dim.is_known()) continue;
      if (!symbols.is_number(dim) && !bindings.bound[dim.symbol_id()]) {
        status = make_error(ErrorCode::kInternal, "{} depends on {}, which nothing has bound", name,
                            symbols.to_string(dim));
        return;
      }
      const int64_t value =
          symbols.is_number(dim) ? symbols.number(dim) : bindings.values[dim.symbol_id()];
      if (value < 0) {
        status = make_error(ErrorCode::kInvalidArgument, "{} = {} is negative", name, value);
        return;
      }
      dim = value;
    }
  }
  template <class T>
  void operator()(const char*, T&) {}
};

bool has_symbols(const ir::Attrs& attrs) {
  HasSymbols visitor;
  std::visit([&](const auto& a) { std::decay_t<decltype(a)>::fields(a, visitor); }, attrs);
  return visitor.found;
}

Result<Layer> Evaluation::resolved(const Layer& layer) const {
  Layer copy;
  copy.kind = layer.kind;
  copy.name = layer.name;
  copy.inputs = layer.inputs;
  copy.outputs = layer.outputs;
  copy.attrs = layer.attrs;
  ReplaceSymbols visitor{graph_.symbols(), bindings_, {}};
  std::visit([&](auto& a) { std::decay_t<decltype(a)>::fields(a, visitor); }, copy.attrs);
  CAMSHAFT_TRY(visitor.status);
  return copy;
}

Result<Values> Evaluation::run_layer(const Layer& layer) {
  std::vector<Value> owned;  // keeps constants alive while pointers to them are used
  owned.reserve(layer.inputs.size());
  std::vector<const Value*> inputs;
  for (const Tensor* tensor : layer.inputs) {
    if (!tensor) {
      inputs.push_back(nullptr);
    } else if (tensor->is_constant()) {
      owned.push_back(constant_value(*tensor));
      inputs.push_back(&owned.back());
    } else {
      const auto found = values_.find(tensor);
      if (found == values_.end())
        return make_error(ErrorCode::kInternal, "tensor {} is used before it is made",
                          tensor->name);
      inputs.push_back(&found->second);
    }
  }
  switch (layer.kind) {
    case LayerKind::kIf:
      return run_if(layer, inputs);
    case LayerKind::kLoop:
      return run_loop(layer, inputs);
    case LayerKind::kScan:
      return run_scan(layer, inputs);
    default:
      break;
  }
  if (!has_symbols(layer.attrs)) return evaluate_layer(layer, inputs, options_);
  CAMSHAFT_ASSIGN(const Layer numbers, resolved(layer));
  return evaluate_layer(numbers, inputs, options_);
}

Result<Values> Evaluation::run(ValueList inputs) {
  graph_.symbols().evaluate_all(bindings_.values, bindings_.bound);
  if (inputs.size() != graph_.inputs().size())
    return make_error(ErrorCode::kInvalidArgument, "graph {} takes {} inputs, not {}",
                      graph_.name(), graph_.inputs().size(), inputs.size());
  for (size_t k = 0; k < inputs.size(); ++k)
    if (inputs[k]) CAMSHAFT_TRY(define(*graph_.inputs()[k], *inputs[k]));
  for (const auto& layer : graph_.layers()) {
    Result<Values> outputs = run_layer(*layer);
    if (!outputs.ok())
      return outputs.status().with_context(
          fmt::format("{} layer '{}'", ir::kind_name(layer->kind), layer->name));
    std::vector<const Value*> seen;
    for (size_t k = 0; k < layer->outputs.size(); ++k)
      seen.push_back(layer->outputs[k] ? &outputs.value()[k] : nullptr);
    if (options_.observer) options_.observer(*layer, seen);
    for (size_t k = 0; k < layer->outputs.size(); ++k) {
      const Tensor* tensor = layer->outputs[k];
      if (!tensor) continue;
      const std::optional<Value> other =
          options_.substitute ? options_.substitute(*tensor) : std::nullopt;
      if (const Status status = define(*tensor, other ? *other : outputs.value()[k]); !status.ok())
        return Status(status.code() == ErrorCode::kUnsupported ? ErrorCode::kUnsupported
                                                               : ErrorCode::kInternal,
                      fmt::format("layer '{}': {}", layer->name, status.message()));
    }
    for (const Tensor* tensor : layer->inputs) {
      const auto left = uses_left_.find(tensor);
      if (left != uses_left_.end() && --left->second == 0) values_.erase(tensor);
    }
  }
  Values results;
  for (const Tensor* tensor : graph_.outputs()) {
    if (tensor->is_constant()) {
      results.push_back(constant_value(*tensor));
    } else if (const auto found = values_.find(tensor); found != values_.end()) {
      results.push_back(found->second);
    } else {
      return make_error(ErrorCode::kInternal, "output {} has no value", tensor->name);
    }
  }
  return results;
}

// --- control flow

Result<bool> truth(const Value* value) {
  if (!value) return true;
  if (value->elements() != 1)
    return make_error(ErrorCode::kInvalidArgument, "a condition of extents {}",
                      text_of(value->extents));
  return value->to_doubles()[0] != 0;
}

Value int64_scalar(int64_t number) {
  std::vector<std::byte> bytes(sizeof number);
  std::memcpy(bytes.data(), &number, sizeof number);
  return {DataType::kInt64, {}, ir::make_constant(std::move(bytes))};
}

Value bool_scalar(bool truth) {
  return {DataType::kBool, {}, ir::make_constant({std::byte{truth}})};
}

Result<Values> Evaluation::run_if(const Layer& layer, ValueList inputs) {
  if (layer.bodies.size() != 2 || inputs.empty() || !inputs[0])
    return make_error(ErrorCode::kInternal, "If takes a condition and two bodies");
  CAMSHAFT_ASSIGN(const bool taken, truth(inputs[0]));
  return run_body(*layer.bodies[taken ? 0 : 1], inputs.subspan(1));
}

// The slice `position` of `value` along `axis`, without that dimension.
Value slice_of(const Value& value, int64_t axis, int64_t position) {
  TensorView view = value.view();
  const size_t bytes = ir::bits_of(value.type) / 8;
  view.data = view.as<std::byte>() + position * view.strides[axis] * static_cast<int64_t>(bytes);
  Extents extents = value.extents;
  extents.erase(axis);
  for (int d = static_cast<int>(axis); d + 1 < view.rank; ++d) {
    view.extents[d] = view.extents[d + 1];
    view.strides[d] = view.strides[d + 1];
  }
  --view.rank;
  std::vector<std::byte> copy(ir::element_count(extents) * bytes);
  reference::copy_view(view, make_view(copy.data(), value.type, Format::kLinear, extents));
  return {value.type, extents, ir::make_constant(std::move(copy))};
}

// Equal values stacked along a new dimension `axis`; `like` gives type and extents where there are
// none.
Result<Value> stack(const Values& parts, int64_t axis, bool reverse, const Tensor& like) {
  Extents part = parts.empty() ? known_extents(like.shape) : parts[0].extents;
  const DataType type = parts.empty() ? like.type : parts[0].type;
  const auto rank = static_cast<int64_t>(part.size()) + 1;
  CAMSHAFT_ASSIGN(const int64_t d, reference::normalize_axis(axis, rank));
  if (rank > static_cast<int64_t>(ir::kMaxRank))
    return make_error(ErrorCode::kUnsupported, "rank {} of a stacked output", rank);
  Extents extents = part;
  extents.insert(d, static_cast<int64_t>(parts.size()));
  const size_t bytes = ir::bits_of(type) / 8;
  std::vector<std::byte> data(ir::element_count(extents) * bytes + 1);
  const TensorView whole = make_view(data.data(), type, Format::kLinear, extents);
  for (size_t k = 0; k < parts.size(); ++k) {
    if (!(parts[k].extents == part))
      return make_error(ErrorCode::kInvalidArgument, "iterations give extents {} and {}",
                        text_of(part), text_of(parts[k].extents));
    const auto position = static_cast<int64_t>(reverse ? parts.size() - 1 - k : k);
    TensorView slot =
        make_view(data.data() + position * whole.strides[d] * static_cast<int64_t>(bytes), type,
                  Format::kLinear, part);
    for (int e = 0; e < slot.rank; ++e) slot.strides[e] = whole.strides[e < d ? e : e + 1];
    reference::copy_view(parts[k].view(), slot);
  }
  data.pop_back();
  return Value{type, extents, ir::make_constant(std::move(data))};
}

std::vector<const Value*> pointers_to(const Values& values) {
  std::vector<const Value*> pointers;
  for (const Value& value : values) pointers.push_back(value.data ? &value : nullptr);
  return pointers;
}

// Inputs: trip count, condition, carried…, captured…. Body: iteration, condition, carried…,
// captured… → condition, carried…, scan outputs….
Result<Values> Evaluation::run_loop(const Layer& layer, ValueList inputs) {
  const auto& attrs = layer.as<ir::LoopAttrs>();
  if (layer.bodies.size() != 1 || inputs.size() < 2)
    return make_error(ErrorCode::kInternal, "Loop takes a trip count, a condition and one body");
  const Graph& body = *layer.bodies[0];
  const size_t scans = attrs.scan_output_axes.size(), results = body.outputs().size();
  if (results < 1 + scans || inputs.size() < 1 + results - scans)
    return make_error(ErrorCode::kInternal, "the body of a Loop has {} outputs", results);
  const size_t carried = results - 1 - scans;
  int64_t trips = options_.max_iterations;
  if (inputs[0]) {
    if (inputs[0]->elements() != 1)
      return make_error(ErrorCode::kInvalidArgument, "the trip count is not a scalar");
    trips = reference::load_ints(inputs[0]->view())[0];
  }
  CAMSHAFT_ASSIGN(bool goes_on, truth(inputs[1]));
  Values state;
  for (const Value* value : inputs) state.push_back(value ? *value : Value{});
  std::vector<Values> stacked(scans);
  for (int64_t iteration = 0; goes_on && iteration < trips; ++iteration) {
    if (iteration == options_.max_iterations)
      return make_error(ErrorCode::kInvalidArgument, "a loop of more than {} iterations",
                        iteration);
    state[0] = int64_scalar(iteration);
    state[1] = bool_scalar(true);
    for (size_t k = 0; k < 2; ++k)  // exporters declare vectors of one element, too
      state[k].extents = Extents(body.inputs()[k]->shape.size(), 1);
    CAMSHAFT_ASSIGN(Values outputs, run_body(body, pointers_to(state)));
    CAMSHAFT_ASSIGN(goes_on, truth(&outputs[0]));
    for (size_t k = 0; k < carried; ++k) state[2 + k] = std::move(outputs[1 + k]);
    for (size_t k = 0; k < scans; ++k) stacked[k].push_back(std::move(outputs[1 + carried + k]));
  }
  Values values(state.begin() + 2, state.begin() + 2 + static_cast<int64_t>(carried));
  for (size_t k = 0; k < scans; ++k) {
    CAMSHAFT_ASSIGN(Value all, stack(stacked[k], 0, false, *body.outputs()[1 + carried + k]));
    values.push_back(std::move(all));
  }
  return values;
}

// Inputs: states…, scan inputs…, captured…. Body: the same with slices → states…, scan outputs….
Result<Values> Evaluation::run_scan(const Layer& layer, ValueList inputs) {
  const auto& attrs = layer.as<ir::LoopAttrs>();
  if (layer.bodies.size() != 1) return make_error(ErrorCode::kInternal, "Scan takes one body");
  const Graph& body = *layer.bodies[0];
  const size_t scans = attrs.scan_output_axes.size(), results = body.outputs().size();
  const auto scan_inputs = static_cast<size_t>(attrs.num_scan_inputs);
  if (results < scans || inputs.size() < results - scans + scan_inputs || scan_inputs == 0)
    return make_error(ErrorCode::kInternal, "Scan with {} inputs and {} results", inputs.size(),
                      results);
  const size_t states = results - scans;
  const auto flag = [](const ir::Ints& list, size_t k) { return k < list.size() ? list[k] : 0; };
  std::vector<int64_t> axes;
  int64_t length = 0;
  for (size_t k = 0; k < scan_inputs; ++k) {
    const Value& value = *inputs[states + k];
    CAMSHAFT_ASSIGN(const int64_t axis,
                    reference::normalize_axis(flag(attrs.scan_input_axes, k),
                                              static_cast<int64_t>(value.extents.size())));
    axes.push_back(axis);
    if (k > 0 && value.extents[axis] != length)
      return make_error(ErrorCode::kInvalidArgument, "scan inputs of {} and {} steps", length,
                        value.extents[axis]);
    length = value.extents[axis];
  }
  Values state;
  for (const Value* value : inputs) state.push_back(value ? *value : Value{});
  std::vector<Values> stacked(scans);
  for (int64_t step = 0; step < length; ++step) {
    for (size_t k = 0; k < scan_inputs; ++k) {
      const bool backwards = flag(attrs.scan_input_directions, k) != 0;
      state[states + k] =
          slice_of(*inputs[states + k], axes[k], backwards ? length - 1 - step : step);
    }
    CAMSHAFT_ASSIGN(Values outputs, run_body(body, pointers_to(state)));
    for (size_t k = 0; k < states; ++k) state[k] = std::move(outputs[k]);
    for (size_t k = 0; k < scans; ++k) stacked[k].push_back(std::move(outputs[states + k]));
  }
  Values values(state.begin(), state.begin() + static_cast<int64_t>(states));
  for (size_t k = 0; k < scans; ++k) {
    const bool backwards = flag(attrs.scan_output_directions, k) != 0;
    CAMSHAFT_ASSIGN(Value all, stack(stacked[k], attrs.scan_output_axes[k], backwards,
                                     *body.outputs()[states + k]));
    values.push_back(std::move(all));
  }
  return values;
}

}  // namespace

bool is_random(const Layer& layer) {
  const auto* generic = std::get_if<ir::GenericAttrs>(&layer.attrs);
  return generic && (generic->op_type.starts_with("Random") || generic->op_type == "Multinomial" ||
                     generic->op_type == "Bernoulli");
}

Value constant_value(const Tensor& constant) {
  return {constant.type, known_extents(constant.shape), constant.constant};
}

Result<Values> evaluate_layer(const Layer& layer, ValueList inputs,
                              const EvaluateOptions& options) {
  if (!layer.bodies.empty())
    return make_error(ErrorCode::kUnsupported, "a layer with bodies is evaluated within its graph");
  if (has_symbols(layer.attrs))
    return make_error(ErrorCode::kUnsupported, "the attributes hold symbols");
  const ReferenceKernel* kernel = reference_kernel(layer);
  if (!kernel) {
    const bool generic = layer.kind == LayerKind::kGeneric;
    return make_error(
        ErrorCode::kUnsupported, "operator {} has no kernel",
        generic ? layer.as<ir::GenericAttrs>().op_type : std::string(ir::kind_name(layer.kind)));
  }
  return kernel->run ? run_static(layer, *kernel, inputs, options.pool)
                     : run_dynamic(layer, *kernel, inputs, options.pool);
}

Result<Values> evaluate(const Graph& graph, std::span<const Value> inputs,
                        const EvaluateOptions& options) {
  std::vector<const Value*> pointers;
  for (const Value& value : inputs) pointers.push_back(&value);
  return Evaluation(graph, options, {}).run(pointers);
}

}  // namespace camshaft::kernels
