// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan: bodies are plans of their own, run by executors of their own.
#include <algorithm>
#include <cstring>
#include <limits>

#include "runtime/executor.h"

namespace camshaft::runtime {
void copy_dense(const TensorView& from, std::byte* to) {
  const size_t size = ir::bits_of(from.type) / 8;
  if (kernels::is_dense(from) && from.format == ir::Format::kLinear) {
    if (bytes_of(from) > 0) std::memcpy(to, from.data, bytes_of(from));
    return;
  }
  const int64_t elements = from.elements();
  for (int64_t k = 0; k < elements; ++k) {
    int64_t rest = k, offset = 0;
    for (int d = from.rank - 1; d >= 0; --d) {
      offset += rest % from.extents[d] * from.strides[d];
      rest /= from.extents[d];
    }
    std::memcpy(to + k * size, from.as<const std::byte>() + offset * static_cast<int64_t>(size),
                size);
  }
}

namespace {

using engine::kNoTensor;
using engine::PlanStep;

using engine::PlanTensor;

// Element `index` of x along `axis`, as a view.
TensorView element_of(const TensorView& x, int64_t axis, int64_t index) {
  TensorView view = x;
  view.data =
      x.as<std::byte>() + index * x.strides[axis] * static_cast<int64_t>(ir::bits_of(x.type) / 8);
  for (int d = static_cast<int>(axis); d + 1 < x.rank; ++d) {
    view.extents[d] = x.extents[d + 1];
    view.strides[d] = x.strides[d + 1];
  }
  --view.rank;
  return view;
}

}  // namespace

// A value that goes from one iteration to the next: the body may overwrite its own memory
// meanwhile.
struct Executor::Carried {
  Buffer buffer, spare;
  TensorView view;

  void set(const TensorView& value) {
    spare.reserve(bytes_of(value));
    copy_dense(value, spare.data());
    std::swap(buffer, spare);
    show(value);
  }
  // A result of the body; its memory is exchanged for this one's where that can be.
  Status take(Executor& body, int output) {
    const TensorView value = body.output(output);
    CAMSHAFT_ASSIGN(const bool is_taken, body.take_output(output, buffer));
    is_taken ? show(value) : set(value);
    return ok_status();
  }

 private:
  void show(const TensorView& value) {
    view = kernels::make_view(buffer.data(), value.type, ir::Format::kLinear,
                              {value.extents, static_cast<size_t>(value.rank)});
  }
};

namespace {

bool lies_within(const TensorView& view, const TensorView& whole) {
  const auto* first = whole.as<const std::byte>();
  const auto* at = view.as<const std::byte>();
  return at >= first && at < first + std::max<size_t>(bytes_of(whole), 1);
}

}  // namespace

Result<bool> Executor::take_output(int k, Buffer& buffer) {
  const int t = plan().outputs[k];
  const TensorView view = tensor(t);
  Buffer* memory = movable_memory(t);
  if (!memory || !view.data || memory->data() != view.data || !kernels::is_dense(view) ||
      view.format != ir::Format::kLinear)
    return false;
  if (current_->locations[t].space == Space::kBase) {
    std::swap(*memory, buffer);  // link() sees it
    return true;
  }
  // A late result has records, and perhaps views, that point to it: not worth it for a few bytes.
  constexpr size_t kFewBytes = 4096;
  if (bytes_of(view) < kFewBytes) return false;
  for (size_t other = 0; other < plan().outputs.size(); ++other)
    if (static_cast<int>(other) != k && lies_within(output(static_cast<int>(other)), view))
      return false;
  std::swap(*memory, buffer);
  current_->tensors[t].data = memory->reserve(bytes_of(view));
  for (size_t step = 0; step < plan().steps.size(); ++step) {
    const std::vector<int>& outputs = plan().steps[step].outputs;
    if (std::find(outputs.begin(), outputs.end(), t) != outputs.end())
      current_->late[step].repeats = false;  // what it made is not there any more
  }
  CAMSHAFT_TRY(place_aliases(t));
  return true;
}

// The elements of a scan output, one per iteration.
struct Executor::Stacked {
  TensorView element;  // shape of one, rank -1: none yet
  std::vector<std::byte> bytes;
  int64_t count = 0;

  Status append(const TensorView& value) {
    if (count > 0 && (element.rank != value.rank ||
                      !std::equal(value.extents, value.extents + value.rank, element.extents)))
      return make_error(ErrorCode::kInvalidModel,
                        "a scan output changes its shape between iterations");
    element = value;
    const size_t size = bytes_of(value);
    bytes.resize(bytes.size() + size);
    copy_dense(value, bytes.data() + bytes.size() - size);
    ++count;
    return ok_status();
  }

  Status set_empty(const PlanTensor& tensor, const Bindings& bindings) {
    if (!tensor.has_rank)
      return make_error(ErrorCode::kUnsupported, "a scan output without iterations has no rank");
    ir::Extents extents;
    for (const ir::Dim dim : tensor.shape)
      extents.push_back(bindings.known(dim) ? bindings.value(dim) : 0);
    element = kernels::make_view(nullptr, tensor.type, ir::Format::kLinear, extents);
    return ok_status();
  }
};

// Stacks along `axis` of the result.
Status Executor::store_stacked(int t, const Stacked& stacked, int64_t axis, bool reversed) {
  const int rank = stacked.element.rank + 1;
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank || rank > static_cast<int>(ir::kMaxRank))
    return make_error(ErrorCode::kInvalidModel, "a scan output cannot be stacked along axis {}",
                      axis);
  ir::Extents extents(stacked.element.extents, stacked.element.extents + stacked.element.rank);
  extents.insert(static_cast<size_t>(axis), stacked.count);
  if (axis == 0 && !reversed)
    return store_result(t, kernels::make_view(const_cast<std::byte*>(stacked.bytes.data()),
                                              stacked.element.type, ir::Format::kLinear, extents));
  std::vector<std::byte> bytes(stacked.bytes.size());
  int64_t outer = 1, inner = static_cast<int64_t>(ir::bits_of(stacked.element.type) / 8);
  for (int d = 0; d < axis; ++d) outer *= extents[d];
  for (int d = static_cast<int>(axis) + 1; d < rank; ++d) inner *= extents[d];
  for (int64_t k = 0; k < stacked.count; ++k)
    for (int64_t o = 0; o < outer && inner > 0; ++o)
      std::memcpy(
          bytes.data() + (o * stacked.count + (reversed ? stacked.count - 1 - k : k)) * inner,
          stacked.bytes.data() + (k * outer + o) * inner, inner);
  return store_result(
      t, kernels::make_view(bytes.data(), stacked.element.type, ir::Format::kLinear, extents));
}

Status Executor::run_body(Executor& body, std::span<const TensorView> inputs,
                          std::span<void* const> targets, std::span<Carried> states,
                          size_t first_owned) {
  body_extents_.clear();
  for (const TensorView& view : inputs)
    body_extents_.emplace_back(view.extents, view.extents + view.rank);
  CAMSHAFT_TRY(body.prepare(body_extents_, &current_->bindings));
  for (size_t k = 0; k < inputs.size(); ++k) {
    const size_t state = k - first_owned;  // of inputs before them: beyond all
    body.set_input(static_cast<int>(k), inputs[k].data,
                   state < states.size() ? &states[state].buffer : nullptr);
  }
  for (size_t k = 0; k < targets.size(); ++k) body.set_output(static_cast<int>(k), targets[k]);
  return body.run(profiler_ && profiler_->opens_bodies ? profiler_ : nullptr);
}

Status Executor::run_if(const PlanStep& step, std::vector<std::unique_ptr<Executor>>& bodies) {
  const TensorView condition = tensor(step.inputs[0]);
  if (condition.type != ir::DataType::kBool || condition.elements() != 1)
    return make_error(ErrorCode::kInvalidModel, "the condition is not one bool");
  Executor& body = *bodies[*condition.as<const uint8_t>() ? 0 : 1];
  std::vector<TensorView> inputs;
  for (size_t k = 1; k < step.inputs.size(); ++k) inputs.push_back(tensor(step.inputs[k]));
  if (inputs.size() != body.plan().inputs.size() ||
      step.outputs.size() != body.plan().outputs.size())
    return make_error(ErrorCode::kInternal, "a branch has other inputs or outputs");
  // A result whose place is known is written there by the branch itself.
  std::vector<void*> targets(step.outputs.size());
  for (size_t k = 0; k < step.outputs.size(); ++k) {
    const int t = step.outputs[k];
    if (t != kNoTensor && current_->locations[t].space == Space::kBase) targets[k] = address(t);
  }
  CAMSHAFT_TRY(run_body(body, inputs, targets));
  for (size_t k = 0; k < step.outputs.size(); ++k)
    if (step.outputs[k] != kNoTensor)
      CAMSHAFT_TRY(store_result(step.outputs[k], body.output(static_cast<int>(k))));
  return ok_status();
}

// Inputs: trip count, condition, carried…, captured…; body outputs: condition, carried…, scan
// outputs….
Status Executor::run_loop(const PlanStep& step, Executor& body) {
  const size_t num_scans = step.layer.as<ir::LoopAttrs>().scan_output_axes.size();
  const size_t results = body.plan().outputs.size();
  if (results < 1 + num_scans || step.inputs.size() < 2 ||
      step.inputs.size() != body.plan().inputs.size() || step.outputs.size() != results - 1)
    return make_error(ErrorCode::kInternal, "the body has other inputs or outputs");
  const size_t num_carried = results - 1 - num_scans;
  int64_t trips = std::numeric_limits<int64_t>::max();
  if (step.inputs[0] != kNoTensor) trips = *tensor(step.inputs[0]).as<const int64_t>();
  bool condition = true;
  if (step.inputs[1] != kNoTensor) condition = *tensor(step.inputs[1]).as<const bool>();

  std::vector<Carried> carried(num_carried);
  std::vector<Stacked> stacked(num_scans);
  for (size_t k = 0; k < num_carried; ++k) carried[k].set(tensor(step.inputs[2 + k]));
  std::vector<TensorView> inputs(step.inputs.size());
  int64_t iteration = 0;
  // Exporters declare the body's first inputs as vectors of one element, too.
  const auto extents_of = [&](size_t k) {
    return ir::Extents(body.plan().tensors[body.plan().inputs[k]].shape.size(), 1);
  };
  inputs[0] =
      kernels::make_view(&iteration, ir::DataType::kInt64, ir::Format::kLinear, extents_of(0));
  inputs[1] =
      kernels::make_view(&condition, ir::DataType::kBool, ir::Format::kLinear, extents_of(1));
  for (size_t k = 2 + num_carried; k < inputs.size(); ++k) inputs[k] = tensor(step.inputs[k]);
  for (; iteration < trips && condition; ++iteration) {
    for (size_t k = 0; k < num_carried; ++k) inputs[2 + k] = carried[k].view;
    CAMSHAFT_TRY(run_body(body, inputs, {}, carried, 2));
    condition = *body.output(0).as<const bool>();
    for (size_t k = 0; k < num_scans; ++k)
      CAMSHAFT_TRY(stacked[k].append(body.output(static_cast<int>(1 + num_carried + k))));
    for (size_t k = 0; k < num_carried; ++k)
      CAMSHAFT_TRY(carried[k].take(body, static_cast<int>(1 + k)));
  }
  for (size_t k = 0; k < num_carried; ++k)
    if (step.outputs[k] != kNoTensor) CAMSHAFT_TRY(store_result(step.outputs[k], carried[k].view));
  for (size_t k = 0; k < num_scans; ++k) {
    const int t = step.outputs[num_carried + k];
    if (t == kNoTensor) continue;
    if (iteration == 0) {  // the element's shape is what the body's plan says of it
      const PlanTensor& element = body.plan().tensors[body.plan().outputs[1 + num_carried + k]];
      CAMSHAFT_TRY(stacked[k].set_empty(element, current_->bindings));
    }
    CAMSHAFT_TRY(store_stacked(t, stacked[k], 0, false));
  }
  return ok_status();
}

// Inputs: states…, scanned…, captured…; body outputs: states…, scan outputs….
Status Executor::run_scan(const PlanStep& step, Executor& body) {
  const auto& attrs = step.layer.as<ir::LoopAttrs>();
  const size_t num_scans = attrs.scan_output_axes.size(),
               num_scanned = static_cast<size_t>(attrs.num_scan_inputs);
  const size_t results = body.plan().outputs.size();
  if (results < num_scans || step.inputs.size() != body.plan().inputs.size() ||
      step.outputs.size() != results || step.inputs.size() < results - num_scans + num_scanned ||
      attrs.scan_input_axes.size() != num_scanned || num_scanned == 0)
    return make_error(ErrorCode::kInternal, "the body has other inputs or outputs");
  const size_t num_states = results - num_scans;
  const auto reversed = [](const ir::Ints& directions, size_t k) {
    return k < directions.size() && directions[k] != 0;
  };

  std::vector<Carried> states(num_states), elements(num_scanned);
  std::vector<Stacked> stacked(num_scans);
  for (size_t k = 0; k < num_states; ++k) states[k].set(tensor(step.inputs[k]));
  std::vector<TensorView> inputs(step.inputs.size());
  for (size_t k = num_states + num_scanned; k < inputs.size(); ++k)
    inputs[k] = tensor(step.inputs[k]);
  int64_t length = -1;
  for (size_t k = 0; k < num_scanned; ++k) {
    const TensorView x = tensor(step.inputs[num_states + k]);
    const int64_t axis = attrs.scan_input_axes[k] + (attrs.scan_input_axes[k] < 0 ? x.rank : 0);
    if (axis < 0 || axis >= x.rank || (length >= 0 && x.extents[axis] != length))
      return make_error(ErrorCode::kInvalidModel, "the scanned inputs differ in length");
    length = x.extents[axis];
  }
  for (int64_t iteration = 0; iteration < length; ++iteration) {
    for (size_t k = 0; k < num_states; ++k) inputs[k] = states[k].view;
    for (size_t k = 0; k < num_scanned; ++k) {
      const TensorView x = tensor(step.inputs[num_states + k]);
      const int64_t axis = attrs.scan_input_axes[k] + (attrs.scan_input_axes[k] < 0 ? x.rank : 0);
      elements[k].set(element_of(
          x, axis, reversed(attrs.scan_input_directions, k) ? length - 1 - iteration : iteration));
      inputs[num_states + k] = elements[k].view;
    }
    CAMSHAFT_TRY(run_body(body, inputs, {}, states, 0));
    for (size_t k = 0; k < num_scans; ++k)
      CAMSHAFT_TRY(stacked[k].append(body.output(static_cast<int>(num_states + k))));
    for (size_t k = 0; k < num_states; ++k) CAMSHAFT_TRY(states[k].take(body, static_cast<int>(k)));
  }
  for (size_t k = 0; k < num_states; ++k)
    if (step.outputs[k] != kNoTensor) CAMSHAFT_TRY(store_result(step.outputs[k], states[k].view));
  for (size_t k = 0; k < num_scans; ++k) {
    const int t = step.outputs[num_states + k];
    if (t == kNoTensor) continue;
    if (length == 0)
      CAMSHAFT_TRY(stacked[k].set_empty(body.plan().tensors[body.plan().outputs[num_states + k]],
                                        current_->bindings));
    CAMSHAFT_TRY(store_stacked(t, stacked[k], attrs.scan_output_axes[k],
                               reversed(attrs.scan_output_directions, k)));
  }
  return ok_status();
}

Status Executor::run_control_flow(int step_index) {
  const PlanStep& step = plan().steps[step_index];
  auto& bodies = bodies_[step_index];
  switch (step.layer.kind) {
    case ir::LayerKind::kIf:
      return run_if(step, bodies);
    case ir::LayerKind::kLoop:
      return run_loop(step, *bodies[0]);
    default:
      return run_scan(step, *bodies[0]);
  }
}

}  // namespace camshaft::runtime
