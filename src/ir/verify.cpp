// SPDX-License-Identifier: Apache-2.0
// verify(): every invariant a pass must keep. Links and order first, then a table of arities, then
// each kind's own rules.
#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "ir/graph.h"

namespace camshaft::ir {
namespace {

constexpr int kAny = 1 << 20;

// How many inputs and outputs a kind has; of these the first `required_inputs` must be present.
struct Arity {
  LayerKind kind;
  int required_inputs, most_inputs;
  int least_outputs, most_outputs;
};

constexpr Arity kArities[] = {
    {LayerKind::kConvolution, 2, kAny, 1, 1},
    {LayerKind::kDeconvolution, 2, kAny, 1, 1},
    {LayerKind::kMatrixMultiply, 2, kAny, 1, 1},
    {LayerKind::kPooling, 1, 1, 1, 2},
    {LayerKind::kActivation, 1, 1, 1, 1},
    {LayerKind::kUnary, 1, 1, 1, 1},
    {LayerKind::kElementWise, 2, 2, 1, 1},
    {LayerKind::kSelect, 3, 3, 1, 1},
    {LayerKind::kScale, 3, 3, 1, 1},
    {LayerKind::kPointWise, 1, kAny, 1, 1},
    {LayerKind::kShuffle, 1, 2, 1, 1},
    {LayerKind::kSlice, 1, 5, 1, 1},
    {LayerKind::kPad, 1, 4, 1, 1},
    {LayerKind::kConcatenation, 1, kAny, 1, 1},
    {LayerKind::kReduce, 1, 2, 1, 1},
    {LayerKind::kSoftMax, 1, 1, 1, 1},
    {LayerKind::kAttention, 3, kAny, 1, 1},
    {LayerKind::kNormalization, 1, kAny, 1, 1},
    {LayerKind::kGather, 2, 2, 1, 1},
    {LayerKind::kScatter, 3, 3, 1, 1},
    {LayerKind::kResize, 1, 4, 1, 1},
    {LayerKind::kCast, 1, 1, 1, 1},
    {LayerKind::kExpand, 1, 2, 1, 1},
    {LayerKind::kTile, 1, 2, 1, 1},
    {LayerKind::kFill, 0, 1, 1, 1},
    {LayerKind::kShapeOf, 1, 1, 1, 1},
    {LayerKind::kTopK, 2, 2, 1, 2},
    {LayerKind::kArgMinMax, 1, 1, 1, 1},
    {LayerKind::kCumSum, 2, 2, 1, 1},
    {LayerKind::kRange, 3, 3, 1, 1},
    {LayerKind::kNonZero, 1, 1, 1, 1},
    {LayerKind::kRecurrence, 3, 8, 1, 3},
    {LayerKind::kQuantize, 2, 3, 1, 1},
    {LayerKind::kDequantize, 2, 3, 1, 1},
    {LayerKind::kDepthToSpace, 1, 1, 1, 1},
    {LayerKind::kSpaceToDepth, 1, 1, 1, 1},
    {LayerKind::kIf, 1, kAny, 1, kAny},
    {LayerKind::kLoop, 0, kAny, 0, kAny},
    {LayerKind::kScan, 0, kAny, 0, kAny},
    {LayerKind::kReformat, 1, 1, 1, 1},
    {LayerKind::kGeneric, 0, kAny, 0, kAny},
};

template <class... Args>
Status broken(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kInternal, format, std::forward<Args>(args)...);
}

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph) {}

  Status run() {
    CAMSHAFT_TRY(check_boundary());
    for (const auto& tensor : graph_.tensors()) CAMSHAFT_TRY(check_tensor(*tensor));
    for (const auto& layer : graph_.layers())
      CAMSHAFT_TRY(check_layer(*layer).with_context("layer '" + layer->name + "'"));
    return check_consumers();
  }

 private:
  Status check_boundary() {
    for (const Tensor* input : graph_.inputs()) {
      if (!input || input->graph != &graph_)
        return broken("a network input is not a tensor of this graph");
      if (input->producer || input->is_constant())
        return broken("network input '{}' has a producer", input->name);
      if (!available_.insert(input).second)
        return broken("network input '{}' is listed twice", input->name);
    }
    for (const Tensor* output : graph_.outputs()) {
      if (!output || output->graph != &graph_)
        return broken("a network output is not a tensor of this graph");
      if (!output->producer && !output->is_constant() && !available_.count(output))
        return broken("network output '{}' has no producer", output->name);
    }
    return ok_status();
  }

  Status check_tensor(const Tensor& tensor) {
    if (tensor.graph != &graph_)
      return broken("tensor '{}' says it is in another graph", tensor.name);
    if (tensor.name.empty() || !tensor_names_.insert(tensor.name).second)
      return broken("two tensors are called '{}'", tensor.name);
    if (!tensor.has_rank && !tensor.shape.empty())
      return broken("tensor '{}' has a shape but no rank", tensor.name);
    for (Dim dim : tensor.shape)
      if (!dim.is_known() && dim.symbol_id() >= graph_.symbols().size())
        return broken("tensor '{}' uses symbol {} that is not in the table", tensor.name,
                      dim.symbol_id());
    if (!tensor.is_constant()) return ok_status();
    int64_t count = 1;
    for (Dim dim : tensor.shape) {
      if (!dim.is_known()) return broken("constant '{}' has a symbolic extent", tensor.name);
      count *= dim.extent();
    }
    if (tensor.producer) return broken("constant '{}' has a producer", tensor.name);
    if (tensor.constant->view.size() != bytes_for(tensor.type, count))
      return broken("constant '{}' has {} bytes, its shape needs {}", tensor.name,
                    tensor.constant->view.size(), bytes_for(tensor.type, count));
    available_.insert(&tensor);
    return ok_status();
  }

  Status check_layer(const Layer& layer) {
    if (layer.name.empty() || !layer_names_.insert(layer.name).second)
      return broken("the name is used twice");
    if (layer.attrs.index() != default_attrs(layer.kind).index())
      return broken("the attributes are of another kind");
    CAMSHAFT_TRY(check_arity(layer));
    for (const Tensor* input : layer.inputs) {
      if (!input) continue;
      if (input->graph != &graph_)
        return broken("input '{}' belongs to another graph", input->name);
      if (!available_.count(input)) return broken("input '{}' is not available yet", input->name);
      if (input->type == DataType::kUndefined) return broken("input '{}' has no type", input->name);
      ++uses_[input][&layer];
    }
    CAMSHAFT_TRY(check_kind(layer));
    CAMSHAFT_TRY(check_bodies(layer));
    for (const Tensor* output : layer.outputs) {
      if (!output) continue;
      if (output->graph != &graph_ || output->producer != &layer)
        return broken("output '{}' has another producer", output->name);
      if (!available_.insert(output).second)
        return broken("output '{}' is made twice", output->name);
      if (output->type == DataType::kUndefined)
        return broken("output '{}' has no type", output->name);
    }
    return ok_status();
  }

  Status check_arity(const Layer& layer) {
    const Arity& arity = kArities[static_cast<int>(layer.kind)];
    const int inputs = static_cast<int>(layer.inputs.size()),
              outputs = static_cast<int>(layer.outputs.size());
    if (inputs < arity.required_inputs || inputs > arity.most_inputs)
      return broken("{} inputs", inputs);
    if (outputs < arity.least_outputs || outputs > arity.most_outputs)
      return broken("{} outputs", outputs);
    for (int k = 0; k < arity.required_inputs; ++k)
      if (!layer.inputs[k]) return broken("required input {} is missing", k);
    return ok_status();
  }

  Status check_consumers() {
    for (const auto& tensor : graph_.tensors()) {
      std::unordered_map<const Layer*, int> listed;
      for (const Layer* consumer : tensor->consumers) ++listed[consumer];
      if (listed != uses_[tensor.get()])
        return broken("tensor '{}' does not list its consumers right", tensor->name);
      if (tensor->producer && !available_.count(tensor.get()))
        return broken("tensor '{}' names a producer that is not in the graph", tensor->name);
    }
    return ok_status();
  }

  Status check_bodies(const Layer& layer) {
    const size_t wanted = layer.kind == LayerKind::kIf                                       ? 2
                          : layer.kind == LayerKind::kLoop || layer.kind == LayerKind::kScan ? 1
                                                                                             : 0;
    if (layer.bodies.size() != wanted)
      return broken("{} bodies instead of {}", layer.bodies.size(), wanted);
    for (const auto& body : layer.bodies) {
      CAMSHAFT_TRY(verify(*body).with_context("body '" + body->name() + "'"));
      if (layer.kind == LayerKind::kIf && body->outputs().size() != layer.outputs.size())
        return broken("body '{}' has {} outputs", body->name(), body->outputs().size());
      // If: everything but the condition is captured. Loop: trip count and condition arrive as
      // iteration number and condition.
      const size_t passed = layer.inputs.size() - (layer.kind == LayerKind::kIf);
      if (body->inputs().size() != passed)
        return broken("body '{}' has {} inputs, not {}", body->name(), body->inputs().size(),
                      passed);
    }
    return ok_status();
  }

  // --- rules of the kinds
  Status check_kind(const Layer& layer) {
    switch (layer.kind) {
      case LayerKind::kConvolution:
      case LayerKind::kDeconvolution:
        return check_convolution(layer);
      case LayerKind::kMatrixMultiply:
        CAMSHAFT_TRY(check_product(layer, layer.as<MatrixMultiplyAttrs>().a_zero_point,
                                   layer.as<MatrixMultiplyAttrs>().b_zero_point));
        return check_epilogue(layer, layer.as<MatrixMultiplyAttrs>().epilogue);
      case LayerKind::kNormalization:
        return check_epilogue(layer, layer.as<NormalizationAttrs>().epilogue);
      case LayerKind::kAttention:
        return check_attention(layer);
      case LayerKind::kPooling:
        return check_pooling(layer);
      case LayerKind::kActivation:
      case LayerKind::kUnary:
      case LayerKind::kElementWise:
      case LayerKind::kSelect:
        return check_point_op(layer);
      case LayerKind::kPointWise:
        return check_pointwise(layer);
      case LayerKind::kShuffle:
        return check_shuffle(layer);
      case LayerKind::kSlice:
        return check_slice(layer);
      case LayerKind::kPad:
        return check_pad(layer);
      case LayerKind::kConcatenation:
        return check_concatenation(layer);
      case LayerKind::kReduce:
        return check_reduce(layer);
      case LayerKind::kSoftMax:
        return check_softmax(layer);
      case LayerKind::kScale:
        return check_axis(layer, layer.as<ScaleAttrs>().axis);
      case LayerKind::kGather:
        return is_integer(layer.inputs[1]->type) ? ok_status() : broken("indices are not integers");
      default:
        return ok_status();
    }
  }

  static bool has_rank(const Tensor* tensor, size_t rank) {
    return !tensor->has_rank || tensor->shape.size() == rank;
  }

  static Status check_axis(const Layer& layer, int64_t axis) {
    const Tensor* x = layer.inputs[0];
    if (axis < 0 || (x->has_rank && axis >= static_cast<int64_t>(x->shape.size())))
      return broken("axis {} is out of range", axis);
    return ok_status();
  }

  static Status check_program(const Program& program) {
    if (program.num_inputs < 0) return broken("program with {} inputs", program.num_inputs);
    for (size_t k = 0; k < program.code.size(); ++k) {
      const Instruction& code = program.code[k];
      const int operands[] = {code.a, code.b, code.c};
      for (int n = 0; n < arity(code.op); ++n)
        if (operands[n] < 0 || operands[n] >= program.num_inputs + static_cast<int>(k))
          return broken("instruction {} of the program reads value {}", k, operands[n]);
    }
    return ok_status();
  }

  // Inputs below `first` are the operator's own; the epilogue's follow.
  static Status check_epilogue_inputs(const Layer& layer, const Program& epilogue, size_t first) {
    CAMSHAFT_TRY(check_program(epilogue));
    const int extra = static_cast<int>(std::max(layer.inputs.size(), first) - first);
    if (epilogue.empty() ? extra != 0 : extra != epilogue.num_inputs - 1)
      return broken("{} epilogue inputs for a program of {}", extra, epilogue.num_inputs);
    for (size_t k = first; k < layer.inputs.size(); ++k)
      if (!layer.inputs[k]) return broken("epilogue input {} is missing", k);
    return ok_status();
  }

  static Status check_epilogue(const Layer& layer, const Program& epilogue) {
    CAMSHAFT_TRY(check_epilogue_inputs(layer, epilogue, 3));
    for (size_t k = 3; k < layer.inputs.size(); ++k) {
      if (!has_at_most_rank(layer.inputs[k], layer.outputs[0]))
        return broken("epilogue input {} has a higher rank than the output", k);
    }
    return ok_status();
  }

  static Status check_attention(const Layer& layer) {
    const auto& a = layer.as<AttentionAttrs>();
    for (size_t k = 0; k < 3; ++k) {
      const Tensor* x = layer.inputs[k];
      if (x->type != layer.inputs[0]->type) return broken("heads of unequal type");
      if (x->has_rank && x->shape.size() != 3 && x->shape.size() != 4)
        return broken("heads of rank {}", x->shape.size());
    }
    if (layer.inputs.size() > 3 && layer.inputs[3] && !is_integer(layer.inputs[3]->type))
      return broken("lengths are not integers");
    if (a.first_query.size() > 1) return broken("{} first queries", a.first_query.size());
    for (size_t k = 4; k < layer.inputs.size(); ++k)
      if (layer.inputs[k] && layer.inputs[k]->has_rank && layer.inputs[k]->shape.size() > 4)
        return broken("epilogue input {} has a higher rank than the scores", k);
    return check_epilogue_inputs(layer, a.epilogue, 4);
  }

  static bool has_at_most_rank(const Tensor* a, const Tensor* b) {
    return !a->has_rank || !b || !b->has_rank || a->shape.size() <= b->shape.size();
  }

  static Status check_window(const Layer& layer, const Ints& kernel,
                             std::initializer_list<const Ints*> others) {
    for (const Ints* other : others)
      if (other->size() != kernel.size()) return broken("window attributes of unequal length");
    if (!has_rank(layer.inputs[0], kernel.size() + 2))
      return broken("the window does not have the rank of the input");
    return ok_status();
  }

  // Factors of one type, or both 8-bit; then a bias counts accumulator units.
  static Status check_product(const Layer& layer, int64_t zero_point,
                              int64_t second_zero_point = 0) {
    const DataType a = layer.inputs[0]->type, b = layer.inputs[1]->type;
    const bool quantized = is_quantized(a) && is_quantized(b);
    if (a != b && !quantized)
      return broken("factors of unequal type: {} and {}", type_name(a), type_name(b));
    if (!quantized && (zero_point != 0 || second_zero_point != 0))
      return broken("a zero point for factors of type {}", type_name(a));
    if (quantized && layer.inputs.size() > 2 && layer.inputs[2] &&
        layer.inputs[2]->type != DataType::kInt32)
      return broken("the bias of a quantized product must be int32");
    return ok_status();
  }

  static Status check_convolution(const Layer& layer) {
    const auto& a = layer.as<ConvolutionAttrs>();
    CAMSHAFT_TRY(
        check_window(layer, a.kernel, {&a.stride, &a.dilation, &a.pre_padding, &a.post_padding}));
    if (a.groups < 1) return broken("{} groups", a.groups);
    if (!has_rank(layer.inputs[1], a.kernel.size() + 2)) return broken("weights of wrong rank");
    for (size_t k = 0; layer.inputs[1]->has_rank && k < a.kernel.size(); ++k)
      if (layer.inputs[1]->shape[k + 2] != Dim(a.kernel[k]))
        return broken("weights and kernel attribute differ");
    CAMSHAFT_TRY(check_product(layer, a.zero_point));
    if (layer.inputs.size() > 2 && layer.inputs[2] && !has_rank(layer.inputs[2], 1))
      return broken("bias of wrong rank");
    return check_epilogue(layer, a.epilogue);
  }

  static Status check_pooling(const Layer& layer) {
    const auto& a = layer.as<PoolingAttrs>();
    return a.global ? ok_status()
                    : check_window(layer, a.kernel,
                                   {&a.stride, &a.dilation, &a.pre_padding, &a.post_padding});
  }

  static Status check_point_op(const Layer& layer) {
    const PointOp op = layer.as<PointOpAttrs>().op;
    if (arity(op) != static_cast<int>(layer.inputs.size()))
      return broken("{} has {} operands", point_op_name(op), arity(op));
    if (layer.kind == LayerKind::kSelect) {
      if (op != PointOp::kSelect) return broken("a Select layer with {}", point_op_name(op));
      if (layer.inputs[0]->type != DataType::kBool) return broken("the condition is not bool");
      if (layer.inputs[1]->type != layer.inputs[2]->type) return broken("operands of unequal type");
    }
    if (layer.kind == LayerKind::kElementWise && op != PointOp::kPow &&
        layer.inputs[0]->type != layer.inputs[1]->type)
      return broken("operands of unequal type");
    if (layer.outputs[0] && (layer.outputs[0]->type == DataType::kBool) !=
                                (gives_bool(op) || layer.inputs.back()->type == DataType::kBool))
      return broken("{} with a result of type {}", point_op_name(op),
                    type_name(layer.outputs[0]->type));
    return ok_status();
  }

  static Status check_pointwise(const Layer& layer) {
    const Program& program = layer.as<PointWiseAttrs>().program;
    CAMSHAFT_TRY(check_program(program));
    if (program.num_inputs != static_cast<int>(layer.inputs.size()))
      return broken("{} inputs for a program of {}", layer.inputs.size(), program.num_inputs);
    for (const Tensor* input : layer.inputs) {
      if (!input) return broken("an input is missing");
      if (input->type != DataType::kFloat && input->type != DataType::kBool &&
          !is_quantized(input->type))
        return broken("input '{}' is neither float nor bool nor 8-bit", input->name);
      if (!has_at_most_rank(input, layer.outputs[0]))
        return broken("input '{}' has a higher rank than the output", input->name);
    }
    return ok_status();
  }

  static bool is_permutation(const Ints& order) {
    Ints sorted = order;
    std::sort(sorted.begin(), sorted.end());
    for (size_t k = 0; k < sorted.size(); ++k)
      if (sorted[k] != static_cast<int64_t>(k)) return false;
    return true;
  }

  static Status check_shuffle(const Layer& layer) {
    const auto& a = layer.as<ShuffleAttrs>();
    for (const Ints* order : {&a.first_transpose, &a.second_transpose})
      if (!is_permutation(*order)) return broken("a transpose is not a permutation");
    if (!a.first_transpose.empty() && !has_rank(layer.inputs[0], a.first_transpose.size()))
      return broken("the first transpose does not have the rank of the input");
    if (!a.second_transpose.empty() && layer.outputs[0] &&
        !has_rank(layer.outputs[0], a.second_transpose.size()))
      return broken("the second transpose does not have the rank of the output");
    if (a.has_reshape && !a.second_transpose.empty() &&
        a.reshape.size() != a.second_transpose.size())
      return broken("reshape and second transpose of unequal rank");
    const bool at_run_time = layer.inputs.size() > 1 && layer.inputs[1];
    if (at_run_time && a.has_reshape) return broken("a reshape both stated and read at run time");
    return ok_status();
  }

  static Status check_slice(const Layer& layer) {
    const auto& a = layer.as<SliceAttrs>();
    if (layer.inputs.size() > 1)
      return a.start.empty() && a.size.empty() ? ok_status()
                                               : broken("a slice both stated and read at run time");
    if (a.start.size() != a.size.size() || a.step.size() != a.size.size())
      return broken("slice attributes of unequal length");
    if (!has_rank(layer.inputs[0], a.size.size()))
      return broken("the slice does not have the rank of the input");
    return std::count(a.step.begin(), a.step.end(), 0) ? broken("a step of 0") : ok_status();
  }

  static Status check_pad(const Layer& layer) {
    const auto& a = layer.as<PadAttrs>();
    if (a.pre.size() != a.post.size()) return broken("paddings of unequal length");
    return a.pre.empty() || has_rank(layer.inputs[0], a.pre.size())
               ? ok_status()
               : broken("the padding does not have the rank of the input");
  }

  static Status check_concatenation(const Layer& layer) {
    for (const Tensor* input : layer.inputs) {
      if (!input) return broken("an input is missing");
      if (input->type != layer.inputs[0]->type) return broken("inputs of unequal type");
      if (input->has_rank && !has_rank(layer.inputs[0], input->shape.size()))
        return broken("inputs of unequal rank");
    }
    return check_axis(layer, layer.as<AxisAttrs>().axis);
  }

  static Status check_reduce(const Layer& layer) {
    const Ints& axes = layer.as<ReduceAttrs>().axes;
    if (std::adjacent_find(axes.begin(), axes.end(), std::greater_equal<>()) != axes.end())
      return broken("axes are not sorted");
    for (int64_t axis : axes) CAMSHAFT_TRY(check_axis(layer, axis));
    return ok_status();
  }

  static Status check_softmax(const Layer& layer) {
    const auto& a = layer.as<SoftMaxAttrs>();
    CAMSHAFT_TRY(check_axis(layer, a.axis));
    CAMSHAFT_TRY(check_axis(layer, a.last_axis));
    return a.last_axis < a.axis ? broken("last axis {} before axis {}", a.last_axis, a.axis)
                                : ok_status();
  }

  const Graph& graph_;
  std::unordered_set<const Tensor*> available_;
  std::unordered_set<std::string_view> tensor_names_, layer_names_;
  std::unordered_map<const Tensor*, std::unordered_map<const Layer*, int>> uses_;
};

constexpr bool arities_are_in_order() {
  for (size_t k = 0; k < std::size(kArities); ++k)
    if (static_cast<size_t>(kArities[k].kind) != k) return false;
  return std::size(kArities) == static_cast<size_t>(LayerKind::kGeneric) + 1;
}
static_assert(arities_are_in_order());

}  // namespace

Status verify(const Graph& graph) {
  return Verifier(graph).run().with_context("graph '" + graph.name() + "'");
}

}  // namespace camshaft::ir
