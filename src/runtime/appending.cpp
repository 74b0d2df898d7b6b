// SPDX-License-Identifier: Apache-2.0
// A loop's state that grows by concatenation: the new rows are put behind it where it lies, in
// memory that has room for as many again. Copied every time, n rows would be n * n / 2.
#include <algorithm>

#include "runtime/executor.h"

namespace camshaft::runtime {
namespace {

// Fewer are copied as fast, and a late step's record may hold them (late_replay.cpp).
constexpr size_t kFewBytes = 4096;

bool is_row_major(const TensorView& view) {
  return view.format == ir::Format::kLinear && kernels::is_dense(view);
}

}  // namespace

// Where a result lies that may lie elsewhere as well: in late memory, or in what is kept of an
// output. Null: it may not.
Buffer* Executor::movable_memory(int t) {
  const Location& location = current_->locations[t];
  if (location.space == Space::kLate) return &late_[t];
  const int output = facts_.tensors[t].output;
  const bool is_kept = output >= 0 && !outputs_[output] && location.space == Space::kBase &&
                       location.offset == 0 &&
                       location.base == 1 + static_cast<int>(inputs_.size()) + output;
  return is_kept ? &kept_outputs_[output] : nullptr;
}

Buffer* Executor::memory_to_append(const AppendFacts& append, const TensorView& first,
                                   std::span<const int64_t> extents) {
  const engine::PlanStep& step = plan().steps[append.step];
  const Buffer* owner = owners_[append.input];
  const auto axis = step.layer.as<ir::AxisAttrs>().axis;
  const int t = step.outputs[0];
  if (!owner || t == engine::kNoTensor || owner->data() != first.data ||
      bytes_of(first) < kFewBytes || !is_row_major(first) || plan().tensors[t].type != first.type ||
      plan().tensors[t].format != ir::Format::kLinear ||
      !std::all_of(extents.begin(), extents.begin() + axis,
                   [](int64_t extent) { return extent == 1; }))
    return nullptr;
  return movable_memory(t);
}

// The output's memory becomes that of the first input, with room for the others.
std::byte* Executor::grow_input(const AppendFacts& append, const TensorView& first,
                                std::span<const int64_t> extents, Buffer& memory) {
  Buffer& owner = *owners_[append.input];
  std::byte* data =
      owner.extend(bytes_of(first), ir::bytes_for(first.type, ir::element_count(extents)));
  std::swap(memory, owner);
  return data;
}

// Steps of known extents: they run as ever, and find their first input in place.
void Executor::place_appends() {
  for (const AppendFacts& append : facts_.appends) {
    if (!owners_[append.input] || checking_) continue;
    const engine::PlanStep& step = plan().steps[append.step];
    TensorView first = current_->tensors[step.inputs[0]];
    const TensorView& whole = current_->tensors[step.outputs[0]];
    const bool is_planned = facts_.steps[append.step].tactic && first.present() &&
                            whole.present() &&
                            current_->locations[step.outputs[0]].space == Space::kBase;
    if (!is_planned) continue;
    first.data = const_cast<void*>(inputs_[append.input]);
    const std::span<const int64_t> extents(whole.extents, static_cast<size_t>(whole.rank));
    if (Buffer* memory = memory_to_append(append, first, extents))
      inputs_[append.input] = grow_input(append, first, extents, *memory);
  }
}

Result<bool> Executor::append_late(int index, const KernelArgs& args, const ir::Extents& extents) {
  const AppendFacts append{index, facts_.steps[index].appends_to};
  const TensorView first = args.inputs[0];
  const auto fits = [&](const TensorView& x) {
    return x.type == first.type && x.format == ir::Format::kLinear;
  };
  Buffer* memory = std::all_of(args.inputs.begin(), args.inputs.end(), fits)
                       ? memory_to_append(append, first, extents)
                       : nullptr;
  if (!memory) return false;
  std::byte* data = grow_input(append, first, extents, *memory);
  const int t = plan().steps[index].outputs[0];
  if (current_->locations[t].space == Space::kLate)
    CAMSHAFT_TRY(define_late(t, extents));
  else
    link_base(current_->locations[t].base, data);
  std::byte* behind = data + bytes_of(first);
  for (const TensorView& other : args.inputs.subspan(1)) {
    copy_dense(other, behind);
    behind += bytes_of(other);
  }
  return true;
}

}  // namespace camshaft::runtime
