// SPDX-License-Identifier: Apache-2.0
#include "tuner/plan_maker.h"

#include <cstring>

#include "engine/file_format.h"
#include "ir/extents.h"
#include "ir/sparsity.h"
#include "tuner/tuning_log.h"
#include "tuner/views.h"

namespace camshaft::tuner {
namespace {

using engine::kNoTensor;
using engine::Plan;
using engine::PlanStep;
using engine::PlanTensor;
using engine::TensorRole;
using ir::DataType;
using ir::Format;
using ir::Layer;
using ir::Tensor;
using kernels::TensorView;

// The bytes of a constant in another format.
std::vector<std::byte> reformat_constant(const Tensor& tensor, Format format) {
  const ir::Extents extents = ir::extents_of(tensor.shape);
  const TensorView to = kernels::make_view(nullptr, tensor.type, format, extents);
  const size_t size = ir::bits_of(tensor.type) / 8;
  std::vector<std::byte> bytes(tensor.constant->view.size());
  ir::Extents index(extents.size(), 0);
  const int64_t elements = ir::element_count(extents);
  for (int64_t k = 0; k < elements; ++k) {
    int64_t target = 0;
    for (size_t d = 0; d < index.size(); ++d) target += index[d] * to.strides[d];
    std::memcpy(bytes.data() + target * size, tensor.constant->view.data() + k * size, size);
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < extents[d]) break;
      index[d] = 0;
    }
  }
  return bytes;
}

// Zeros among the constant weights of a product; none for other layers.
ir::WeightSparsity weight_sparsity(const Layer& layer) {
  const auto count = ir::sparsity_of(ir::find_product_weights(layer));
  return count ? ir::WeightSparsity(*count) : ir::WeightSparsity{};
}

class Maker {
 public:
  Maker(ir::Graph& graph, const PlanContext& context) : graph_(graph), context_(context) {}

  Result<Plan> make() {
    plan_.name = graph_.name();
    views_ = find_views(graph_, *context_.choices, *context_.bindings, context_.threads,
                        context_.record);
    for (const Tensor* input : graph_.inputs()) {
      const int t = add_tensor(*input, kLinear, TensorRole::kInput);
      plan_.inputs.push_back(t);
      made_[{input, kLinear}] = t;
    }
    for (const auto& layer : graph_.layers()) CAMSHAFT_TRY(add_layer(*layer));
    for (size_t k = 0; k < graph_.outputs().size(); ++k)
      CAMSHAFT_TRY(add_output(*graph_.outputs()[k]));
    plan_.symbols = graph_.symbols();
    return std::move(plan_);
  }

 private:
  static constexpr Place kLinear = {};

  struct Key {
    const Tensor* tensor;
    Place place;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const {
      return (std::hash<const void*>()(key.tensor) * 2 + static_cast<size_t>(key.place.format)) *
                 31 +
             static_cast<size_t>(key.place.type);
    }
  };

  static Place input_place(const Layer& layer, const Choice& choice, size_t k) {
    return {is_data_input(layer, k) ? choice.formats.input : Format::kLinear,
            is_stored_input(layer, k) ? choice.formats.input_type : DataType::kUndefined};
  }
  static Place output_place(const Layer& layer, const Choice& choice, size_t k) {
    return {is_data_output(layer, k) ? choice.formats.output : Format::kLinear,
            is_stored_output(layer, k) ? choice.formats.output_type : DataType::kUndefined};
  }
  Place place_of(const Tensor& tensor, int t) const {
    const PlanTensor& made = plan_.tensors[t];
    return {made.format, made.type == tensor.type ? DataType::kUndefined : made.type};
  }

  int add_tensor(const Tensor& tensor, Place place, TensorRole role) {
    PlanTensor t;
    t.name = tensor.name;
    t.type = place.type == DataType::kUndefined ? tensor.type : place.type;
    t.format = place.format;
    t.role = role;
    t.has_rank = tensor.has_rank;
    t.shape = tensor.shape;
    if (tensor.facts.shape_value && role == TensorRole::kActivation)
      t.value = tensor.facts.shape_value;
    if (ir::is_quantized(tensor.type)) {
      t.scale = tensor.facts.scale;
      t.zero_point = tensor.facts.zero_point;
    }
    plan_.tensors.push_back(std::move(t));
    return static_cast<int>(plan_.tensors.size()) - 1;
  }

  // --- constants
  int constant(const Tensor& tensor, Format format, bool packed) {
    const bool same = format == Format::kLinear || formats_coincide(tensor);
    auto [place, is_new] = made_.try_emplace(Key{&tensor, {format}}, 0);
    if (is_new) place->second = add_tensor(tensor, {format}, TensorRole::kConstant);
    PlanTensor& t = plan_.tensors[place->second];
    if (t.data_bytes > 0 || tensor.constant->view.empty() || (packed && !context_.portable))
      return place->second;
    t.data_bytes = tensor.constant->view.size();
    t.data_offset = same ? context_.weights->add(tensor.constant->view)
                         : context_.weights->add(reformat_constant(tensor, format));
    return place->second;
  }

  // --- formats
  // A place `tensor` is in from which it can be brought to `wanted`: one that differs in the format
  // only, or in the type only, before others.
  int source_of(const Tensor& tensor, Place wanted) const {
    int best = kNoTensor;
    for (const Format format : {Format::kLinear, Format::kChannelLast})
      for (const DataType type : {DataType::kUndefined, DataType::kBFloat16, DataType::kHalf}) {
        const auto found = made_.find({&tensor, {format, type}});
        if (found == made_.end()) continue;
        if (format == wanted.format || type == wanted.type) return found->second;
        best = found->second;
      }
    return best;
  }

  // The plan tensor that holds `tensor` in `place`, reformatted for input k of `layer` if need be.
  Result<int> input(const Layer& layer, size_t k, Place place) {
    const Tensor& tensor = *layer.inputs[k];
    if (const auto found = made_.find({&tensor, place}); found != made_.end()) return found->second;
    const int from = source_of(tensor, place);
    if (from == kNoTensor)
      return make_error(ErrorCode::kInternal, "layer {} reads {} before it is made", layer.name,
                        tensor.name);
    const int to = add_tensor(tensor, place, TensorRole::kActivation);
    made_[{&tensor, place}] = to;
    if (formats_coincide(tensor) && place_of(tensor, from).type == place.type) {
      plan_.tensors[to].parent = from;
      return to;
    }
    plan_.tensors[to].name = fmt::format("Reformatted Input Tensor {} to {}", k, layer.name);
    CAMSHAFT_TRY(
        add_reformat(fmt::format("Reformatting CopyNode for Input Tensor {} to {}", k, layer.name),
                     tensor, from, to));
    return to;
  }

  Status add_reformat(std::string name, const Tensor& tensor, int from, int to, bool dense = true) {
    Layer layer;
    layer.kind = ir::LayerKind::kReformat;
    layer.name = std::move(name);
    layer.attrs = ir::NoAttrs();
    layer.inputs = {const_cast<Tensor*>(&tensor)};
    layer.outputs = layer.inputs;
    if (tensor.producer) layer.onnx_nodes = tensor.producer->onnx_nodes;
    const Place source = place_of(tensor, from), target = place_of(tensor, to);
    LayerProblem made =
        make_problem(layer, {source.format, target.format, source.type, target.type},
                     *context_.bindings, context_.threads);
    PlanStep step;
    step.layer = std::move(layer);
    step.layer.inputs.clear();
    step.layer.outputs.clear();
    step.inputs = {from};
    step.outputs = {to};
    if (made.layer) made.problem.outputs[0].dense = dense;
    if (made.layer) {
      const Kernel kernel = context_.reformat_kernel(made.problem);
      step.threads = kernel.threads;
      step.build_time_us = kernel.us;
      if (kernel.tactic) set_tactic(step, *kernel.tactic, made.problem);
    }
    plan_.steps.push_back(std::move(step));
    return ok_status();
  }

  // --- layers
  void set_tactic(PlanStep& step, const kernels::Tactic& tactic, const kernels::Problem& problem) {
    step.tactic = tactic.name;
    step.tactic_version = tactic.version;
    step.isa = tactic.isa;
    step.tactic_value = tactic_value(tactic);
    step.packed_inputs = tactic.packed_inputs ? tactic.packed_inputs(problem) : 0;
    step.packed_bytes = tactic.packed_bytes ? tactic.packed_bytes(problem) : 0;
    if (step.packed_bytes == 0) return;
    step.packed_offset = context_.weights->add(step.packed_bytes, [&](std::byte* packed) {
      tactic.pack(problem, packed);
      if (tactic.arithmetic) step.arithmetic = tactic.arithmetic(problem, packed);
    });
    if (const auto& rounding = context_.roundings->of(problem, tactic))
      step.arithmetic = "Winograd: " + to_string(*rounding);
  }

  Status add_layer(Layer& layer) {
    static const Choice kPlain;
    const auto found = context_.choices->find(&layer);
    const Choice& choice = found == context_.choices->end() ? kPlain : found->second;
    PlanStep step;
    step.threads = choice.kernel.threads;
    if (choice.kernel.tactic) {
      const LayerProblem made =
          make_problem(layer, choice.formats, *context_.bindings, context_.threads);
      if (!made.layer)
        return make_error(ErrorCode::kInternal, "layer {}: no problem for its tactic", layer.name);
      set_tactic(step, *choice.kernel.tactic, made.problem);
    } else if (layer.bodies.empty() && !choice.is_view) {
      const kernels::ReferenceKernel* kernel = kernels::reference_kernel(layer);
      if (!kernel)
        return make_error(ErrorCode::kUnsupported, "layer {}: no kernel for {}", layer.name,
                          ir::kind_name(layer.kind));
      step.dynamic_output = kernel->run_dynamic != nullptr;
    }
    CAMSHAFT_TRY(add_inputs(layer, choice, step));
    if (choice.is_view && layer.kind == ir::LayerKind::kConcatenation)
      CAMSHAFT_TRY(copy_parts(layer, choice, step));
    add_outputs(layer, choice, step);
    step.candidates = choice.candidates;
    step.build_time_us = choice.kernel.us;
    step.sparsity = weight_sparsity(layer);
    for (const auto& body : layer.bodies) {
      CAMSHAFT_ASSIGN(Plan inner, make_plan(*body, context_));
      step.bodies.push_back(std::make_shared<const Plan>(std::move(inner)));
    }
    step.layer.kind = layer.kind;
    step.layer.name = layer.name;
    step.layer.attrs = std::move(layer.attrs);
    step.layer.onnx_nodes = std::move(layer.onnx_nodes);
    step.layer.lineage = std::move(layer.lineage);
    plan_.steps.push_back(std::move(step));
    return ok_status();
  }

  Status add_inputs(const Layer& layer, const Choice& choice, PlanStep& step) {
    // Where running decides the extents, they may not suit the tactic: another kernel needs the
    // constants as they are.
    const bool guessed = has_guessed_extents(layer);
    for (size_t k = 0; k < layer.inputs.size(); ++k) {
      const Tensor* tensor = layer.inputs[k];
      if (!tensor) {
        step.inputs.push_back(kNoTensor);
        continue;
      }
      const Place place = input_place(layer, choice, k);
      if (tensor->is_constant()) {
        step.inputs.push_back(
            constant(*tensor, place.format, !guessed && k < 32 && (step.packed_inputs >> k & 1)));
        continue;
      }
      CAMSHAFT_ASSIGN(const int t, input(layer, k, place));
      step.inputs.push_back(t);
    }
    return ok_status();
  }

  void add_outputs(const Layer& layer, const Choice& choice, PlanStep& step) {
    for (size_t k = 0; k < layer.outputs.size(); ++k) {
      const Tensor* tensor = layer.outputs[k];
      if (!tensor) {
        step.outputs.push_back(kNoTensor);
        continue;
      }
      const Place place = output_place(layer, choice, k);
      const int t = made_tensor(*tensor, place);
      step.outputs.push_back(t);
      // A part of a concatenation's output (a slice's own view is set below).
      if (const auto view = views_.find(tensor);
          view != views_.end() && (!choice.is_view || layer.kind == ir::LayerKind::kConcatenation))
        set_parent(t, made_tensor(*view->second.parent, place), view->second.axis,
                   view->second.offset);
    }
    if (!choice.is_view) return;
    step.is_view = true;
    const int y = step.outputs[0];
    plan_.tensors[y].value.reset();
    if (layer.kind == ir::LayerKind::kConcatenation) return;
    const auto view = views_.find(layer.outputs[0]);
    if (view == views_.end())
      plan_.tensors[y].parent = step.inputs[0];
    else
      set_parent(y, step.inputs[0], view->second.axis, view->second.offset);
  }

  // A concatenation's output exists as soon as the first of its parts is made.
  int made_tensor(const Tensor& tensor, Place place) {
    const auto [entry, is_new] = made_.try_emplace(Key{&tensor, place}, 0);
    if (is_new) entry->second = add_tensor(tensor, place, TensorRole::kActivation);
    return entry->second;
  }

  void set_parent(int t, int parent, int axis, ir::Dim offset) {
    plan_.tensors[t].parent = parent;
    plan_.tensors[t].parent_axis = axis;
    plan_.tensors[t].parent_offset = offset;
    plan_.tensors[t].value.reset();
  }

  // The inputs of an eliminated concatenation that are not made in their place are copied there.
  Status copy_parts(const Layer& layer, const Choice& choice, PlanStep& step) {
    const Place place = output_place(layer, choice, 0);
    const int whole = made_tensor(*layer.outputs[0], place);
    for (size_t k = 0; k < layer.inputs.size(); ++k) {
      const Tensor& tensor = *layer.inputs[k];
      if (const auto view = views_.find(&tensor);
          view != views_.end() && view->second.parent == layer.outputs[0])
        continue;
      const int copy = add_tensor(tensor, place, TensorRole::kActivation);
      plan_.tensors[copy].name += " copy";
      set_parent(copy, whole, static_cast<int>(layer.as<ir::AxisAttrs>().axis),
                 choice.part_offsets[k]);
      CAMSHAFT_TRY(add_reformat(tensor.name + " copy", tensor, step.inputs[k], copy, false));
      step.inputs[k] = copy;
    }
    return ok_status();
  }

  // --- network outputs: linear, in memory of their own, made by a step.
  Status add_output(const Tensor& tensor) {
    const auto found = made_.find({&tensor, kLinear});
    if (found != made_.end() && can_be_output(found->second)) {
      take_name(tensor, found->second);
      PlanTensor& t = plan_.tensors[found->second];
      t.role = TensorRole::kOutput;
      t.value.reset();
      plan_.outputs.push_back(found->second);
      return ok_status();
    }
    int from = kNoTensor;
    if (tensor.is_constant())
      from = constant(tensor, Format::kLinear, false);
    else
      from = found != made_.end() ? found->second : source_of(tensor, kLinear);
    if (from == kNoTensor)
      return make_error(ErrorCode::kInternal, "output {} is never made", tensor.name);
    const int to = add_tensor(tensor, kLinear, TensorRole::kOutput);
    if (plan_.tensors[from].role == TensorRole::kActivation && tensor.producer)
      plan_.tensors[from].name =
          fmt::format("Reformatted Output Tensor 0 to {}", tensor.producer->name);
    plan_.outputs.push_back(to);
    return add_reformat(fmt::format("Reformatting CopyNode for Output Tensor {} to {}",
                                    plan_.outputs.size() - 1, tensor.name),
                        tensor, from, to);
  }

  // What another layer's reformatted input holds is the network's output: callers ask by its name.
  void take_name(const Tensor& tensor, int output) {
    if (plan_.tensors[output].name == tensor.name) return;
    for (const auto& [key, other] : made_) {
      if (key.tensor == &tensor && plan_.tensors[other].name == tensor.name && tensor.producer)
        plan_.tensors[other].name =
            fmt::format("Reformatted Output Tensor 0 to {}", tensor.producer->name);
    }
    plan_.tensors[output].name = tensor.name;
  }

  int root_of(int t) const {
    while (plan_.tensors[t].parent != kNoTensor) t = plan_.tensors[t].parent;
    return t;
  }

  // Its memory is no input, constant or other output, and it is the whole of it.
  bool can_be_output(int t) const {
    const int root = root_of(t);
    if (plan_.tensors[root].role != TensorRole::kActivation && root != t) return false;
    if (plan_.tensors[t].role != TensorRole::kActivation) return false;
    for (int k = t; plan_.tensors[k].parent != kNoTensor; k = plan_.tensors[k].parent)
      if (plan_.tensors[k].parent_axis >= 0) return false;
    for (const int other : plan_.outputs)
      if (root_of(other) == root) return false;
    return true;
  }

  ir::Graph& graph_;
  const PlanContext& context_;
  Plan plan_;
  std::unordered_map<Key, int, KeyHash> made_;
  Views views_;
};

}  // namespace

Result<engine::Plan> make_plan(ir::Graph& graph, const PlanContext& context) {
  return Maker(graph, context).make();
}

}  // namespace camshaft::tuner
