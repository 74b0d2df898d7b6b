// SPDX-License-Identifier: Apache-2.0
// Shapes of control flow and recurrence.
#include "ir/infer_internal.h"

namespace camshaft::ir {
namespace {

const Tensor* body_output(const Layer& layer, size_t body, size_t k) {
  if (body >= layer.bodies.size() || layer.bodies[body] == nullptr) return nullptr;
  const auto& outputs = layer.bodies[body]->outputs();
  return k < outputs.size() ? outputs[k] : nullptr;
}

Status give_like(Inference& f, const Tensor& tensor, size_t k) {
  return tensor.has_rank ? f.give(tensor.type, tensor.shape, k) : f.unranked(tensor.type, k);
}

// A dimension inserted at `axis` (negative: from the end of the result).
Status insert_axis(Inference& f, const Tensor& tensor, int64_t axis, Dim extent, size_t k) {
  if (!tensor.has_rank) return f.unranked(tensor.type, k);
  const int64_t position = wrap_axis(axis, tensor.shape.size() + 1);
  if (position < 0 || tensor.shape.size() + 1 > kMaxRank)
    return invalid("scan output {} cannot be stacked along axis {}", k, axis);
  Shape shape = tensor.shape;
  shape.insert(position, extent);
  return f.give(tensor.type, shape, k);
}

}  // namespace

Status infer_if(Inference& f) {
  CAMSHAFT_TRY(f.require(1));
  if (f.layer.bodies.size() != 2) return invalid("{} branches", f.layer.bodies.size());
  const size_t count = f.layer.bodies[0]->outputs().size();
  if (f.layer.bodies[1]->outputs().size() != count)
    return invalid("the branches have different numbers of outputs");
  if (f.outputs.size() < count) f.outputs.resize(count);
  for (size_t k = 0; k < count; ++k) {
    const Tensor &yes = *body_output(f.layer, 0, k), &no = *body_output(f.layer, 1, k);
    if (yes.type != no.type)
      return invalid("output {} is {} in one branch, {} in the other", k, type_name(yes.type),
                     type_name(no.type));
    Shape merged;
    if (!yes.has_rank || !no.has_rank || !merge_shapes(yes.shape, no.shape, f, merged))
      CAMSHAFT_TRY(f.unranked(yes.type, k));
    else
      CAMSHAFT_TRY(f.give(yes.type, merged, k));
    const InferInput yes_value = infer_input(&yes, f.symbols),
                     no_value = infer_input(&no, f.symbols);
    if (f.outputs[k].has_rank && yes_value.value && yes_value.value == no_value.value)
      f.outputs[k].value = yes_value.value;
  }
  return ok_status();
}

namespace {

bool is_true(const InferInput& input) {
  return input.value && input.value->size() == 1 && (*input.value)[0] == Dim(1);
}

// The body gives its condition back, or says so itself.
bool goes_on(Inference& f) {
  const Graph& body = *f.layer.bodies[0];
  const Tensor* condition = body.outputs()[0];
  while (const Layer* copy = condition->producer) {
    const auto* attrs = std::get_if<PointOpAttrs>(&copy->attrs);
    if (copy->kind != LayerKind::kUnary || attrs == nullptr || attrs->op != PointOp::kIdentity)
      break;
    condition = copy->inputs[0];
  }
  return (body.inputs().size() > 1 && condition == body.inputs()[1]) ||
         is_true(infer_input(condition, f.symbols));
}

// The trip count, where nothing but it ends the loop.
Dim iterations_of(Inference& f) {
  const bool counts = f.has(0) && f.in(0).value && f.in(0).value->size() == 1;
  if (!counts || (f.has(1) && !is_true(f.in(1))) || !goes_on(f)) return f.unknown();
  return f.symbols.max((*f.in(0).value)[0], Dim(0));
}

// Not only the initial values can come out.
bool runs_at_least_once(Inference& f) {
  if (f.has(1) && !is_true(f.in(1))) return false;
  if (!f.has(0)) return true;
  const auto& count = f.in(0).value;
  return count && count->size() == 1 && f.symbols.bounds((*count)[0]).low >= 1;
}

}  // namespace

// Body: (iteration, condition, carried…, captured…) → (condition, carried…, scan outputs…).
Status infer_loop(Inference& f) {
  if (f.layer.bodies.size() != 1) return invalid("no body");
  const size_t results = f.layer.bodies[0]->outputs().size();
  const size_t scans = f.layer.as<LoopAttrs>().scan_output_axes.size();
  if (results < 1 + scans) return invalid("the body has {} outputs", results);
  const size_t carried = results - 1 - scans;
  if (f.outputs.size() < results - 1) f.outputs.resize(results - 1);
  const Dim iterations = scans > 0 ? iterations_of(f) : Dim(0);
  const bool runs = runs_at_least_once(f);
  for (size_t k = 0; k + 1 < results; ++k) {
    const Tensor& tensor = *body_output(f.layer, 0, k + 1);
    if (k >= carried) {
      CAMSHAFT_TRY(insert_axis(f, tensor, 0, iterations, k));
      continue;
    }
    const size_t initial = k + 2;
    Shape merged;
    if (!f.has(initial)) return invalid("carried value {} has no initial value", k);
    if (f.in(initial).type != tensor.type) return invalid("carried value {} changes its type", k);
    if (runs)
      CAMSHAFT_TRY(give_like(f, tensor, k));
    else if (!f.ranked(initial) || !tensor.has_rank ||
             !merge_shapes(f.shape(initial), tensor.shape, f, merged))
      CAMSHAFT_TRY(f.unranked(tensor.type, k));
    else
      CAMSHAFT_TRY(f.give(tensor.type, merged, k));
  }
  return ok_status();
}

// Inputs: states…, scan inputs…, captured…; body: the same → states…, scan outputs….
Status infer_scan(Inference& f) {
  const auto& a = f.layer.as<LoopAttrs>();
  if (f.layer.bodies.size() != 1) return invalid("no body");
  const size_t results = f.layer.bodies[0]->outputs().size(), scans = a.scan_output_axes.size();
  const size_t scan_inputs = static_cast<size_t>(a.num_scan_inputs);
  if (results < scans) return invalid("the body has {} outputs", results);
  const size_t states = results - scans;
  if (f.inputs.size() < states + scan_inputs || a.scan_input_axes.size() != scan_inputs)
    return invalid("{} inputs", f.inputs.size());
  if (f.outputs.size() < results) f.outputs.resize(results);
  Dim length;
  bool length_known = false;
  for (size_t k = 0; k < scan_inputs; ++k) {
    if (!f.ranked(states + k)) continue;
    const int64_t axis = wrap_axis(a.scan_input_axes[k], f.rank(states + k));
    if (axis < 0) return invalid("scan input {} has no axis {}", k, a.scan_input_axes[k]);
    const Dim extent = f.shape(states + k)[axis];
    if (length_known && !compatible(length, extent, f.symbols))
      return invalid("the scan inputs differ in length");
    if (!length_known || f.is_number(extent)) length = extent;
    length_known = true;
  }
  if (!length_known) length = f.unknown();
  for (size_t k = 0; k < results; ++k) {
    const Tensor& tensor = *body_output(f.layer, 0, k);
    if (k < states)
      CAMSHAFT_TRY(give_like(f, tensor, k));
    else
      CAMSHAFT_TRY(insert_axis(f, tensor, a.scan_output_axes[k - states], length, k));
  }
  return ok_status();
}

namespace {

// An LSTM may have W and R as 8-bit codes, with inputs 8 to 11: scales and zero points of W, then
// of R, [directions, 4 hidden_size] each. Then what is multiplied by them is rounded to uint8
// codes, as DynamicQuantizeLinear does: X all at once, the states of all batch items anew in every
// step (ONNX Runtime's DynamicQuantizeLSTM with one thread).
Status check_codes(Inference& f, const RnnAttrs& a, const Shape& grid) {
  const DataType type = f.in(1).type;
  if (!is_quantized(type) && !f.has(8)) return ok_status();
  if (a.kind != RnnKind::kLstm || f.in(0).type != DataType::kFloat)
    return invalid("8-bit weights of another recurrence than an LSTM of floats");
  for (size_t k = 8; k < 12; ++k) {
    if (!f.has(k)) return invalid("8-bit weights without scales and zero points");
    if (f.in(k).type != (k % 2 == 0 ? DataType::kFloat : type))
      return invalid("input {} has another type than scales or zero points of its weights", k);
    if (f.shape(k) != grid)
      return invalid("scales or zero points {} should be {}", to_string(f.shape(k), f.symbols),
                     to_string(grid, f.symbols));
  }
  if (f.in(2).type != type) return invalid("W and R have different types");
  return ok_status();
}

}  // namespace

Status infer_recurrence(Inference& f) {
  CAMSHAFT_TRY(f.require(3));
  const auto& a = f.layer.as<RnnAttrs>();
  const DataType type = f.in(0).type;
  const int64_t directions = a.direction == RnnDirection::kBidirectional ? 2 : 1;
  const int64_t gates = a.kind == RnnKind::kLstm ? 4 : a.kind == RnnKind::kGru ? 3 : 1;
  if (a.hidden_size < 1 || a.hidden_size > kMaxExtent)
    return invalid("hidden size {}", a.hidden_size);
  if (f.ranked(0) && f.rank(0) != 3)
    return invalid("input {} must have 3 dimensions", to_string(f.shape(0), f.symbols));
  const Shape x = f.ranked(0) ? f.shape(0) : f.unknown_shape(3);
  const Dim sequence = x[a.batch_first ? 1 : 0], batch = x[a.batch_first ? 0 : 1];
  const Shape weights = {Dim(directions), Dim(gates * a.hidden_size), x[2]},
              recurrent = {Dim(directions), Dim(gates * a.hidden_size), Dim(a.hidden_size)};
  for (size_t k = 1; k < 3; ++k) {
    if (!f.ranked(k)) continue;
    const Shape& wanted = k == 1 ? weights : recurrent;
    bool fits = f.rank(k) == 3;
    for (size_t d = 0; fits && d < 3; ++d) fits = compatible(f.shape(k)[d], wanted[d], f.symbols);
    if (!fits)
      return invalid("weights {} should be {}", to_string(f.shape(k), f.symbols),
                     to_string(wanted, f.symbols));
  }
  CAMSHAFT_TRY(check_codes(f, a, {Dim(directions), Dim(gates * a.hidden_size)}));
  const Dim hidden = a.hidden_size;
  const Shape last =
      a.batch_first ? Shape{batch, Dim(directions), hidden} : Shape{Dim(directions), batch, hidden};
  CAMSHAFT_TRY(f.give(type, last, 1));
  CAMSHAFT_TRY(f.give(type, last, 2));
  return f.give(type, a.batch_first ? Shape{batch, sequence, Dim(directions), hidden}
                                    : Shape{sequence, Dim(directions), batch, hidden});
}

}  // namespace camshaft::ir
