// SPDX-License-Identifier: Apache-2.0
#include "runtime/placing.h"

#include <algorithm>
#include <cstring>

#include <fmt/ranges.h>

namespace camshaft::runtime {
namespace {

using engine::PlanStep;
using engine::PlanTensor;
using ir::Dim;

// `value` is in row-major order, `view` may lie in another format.
template <class T>
void write_values(const std::vector<Dim>& value, const Bindings& bindings,
                  const kernels::TensorView& view, std::byte* bytes) {
  for (size_t k = 0; k < value.size(); ++k) {
    const T element = static_cast<T>(bindings.value(value[k]));
    int64_t offset = 0, rest = static_cast<int64_t>(k);
    for (int d = view.rank - 1; d >= 0; --d) {
      offset += rest % view.extents[d] * view.strides[d];
      rest /= view.extents[d];
    }
    std::memcpy(bytes + static_cast<size_t>(offset) * sizeof(T), &element, sizeof(T));
  }
}

}  // namespace

bool write_value(const PlanTensor& t, const Bindings& bindings, const kernels::TensorView& view,
                 std::byte* bytes) {
  switch (t.type) {
    case ir::DataType::kInt64:
      write_values<int64_t>(*t.value, bindings, view, bytes);
      return true;
    case ir::DataType::kInt32:
      write_values<int32_t>(*t.value, bindings, view, bytes);
      return true;
    case ir::DataType::kBool:
      write_values<uint8_t>(*t.value, bindings, view, bytes);
      return true;
    case ir::DataType::kFloat:
      write_values<float>(*t.value, bindings, view, bytes);
      return true;
    default:
      return false;
  }
}

Status set_extents(const PlanTensor& tensor, const Bindings& bindings, TensorView& view) {
  if (!tensor.has_rank || !bindings.known(tensor.shape)) return ok_status();
  ir::Extents extents;
  int64_t elements = 1;
  for (const Dim dim : tensor.shape) {
    extents.push_back(bindings.value(dim));
    if (extents.back() < 0 || __builtin_mul_overflow(elements, extents.back(), &elements) ||
        elements > (int64_t{1} << 46))
      return make_error(ErrorCode::kInvalidArgument, "tensor {} would have the extents {}",
                        tensor.name, fmt::join(extents, "x"));
  }
  view = kernels::make_view(nullptr, tensor.type, tensor.format, extents);
  return ok_status();
}

Status leave_room(const PlanTensor& tensor, int axis, int64_t capacity, TensorView& view) {
  if (view.extents[axis] > capacity)
    return make_error(ErrorCode::kInvalidArgument, "{}: {} rows in a buffer for {}", tensor.name,
                      view.extents[axis], capacity);
  for (int d = axis - 1; d >= 0; --d)
    view.strides[d] = view.strides[d + 1] * (d + 1 == axis ? capacity : view.extents[d + 1]);
  return ok_status();
}

Status place_in_parent(const PlanTensor& tensor, const TensorView& parent, const Bindings& bindings,
                       TensorView& view, size_t& offset) {
  if (tensor.parent_axis < 0) {
    if (view.elements() != parent.elements() || !kernels::is_dense(parent))
      return make_error(ErrorCode::kCorrupt, "view {} does not fit its parent", tensor.name);
    return ok_status();
  }
  const int axis = tensor.parent_axis;
  if (!bindings.known(tensor.parent_offset))
    return make_error(ErrorCode::kCorrupt, "view {} starts at an unknown index", tensor.name);
  const int64_t first = bindings.value(tensor.parent_offset);
  for (int d = 0; d < view.rank; ++d) {
    const int64_t room = d == axis ? parent.extents[d] - first : parent.extents[d];
    if (first < 0 || (d == axis ? view.extents[d] > room : view.extents[d] != room))
      return make_error(ErrorCode::kCorrupt, "view {} lies outside its parent", tensor.name);
    view.strides[d] = parent.strides[d];
  }
  offset += first * parent.strides[axis] * (ir::bits_of(view.type) / 8);
  return ok_status();
}

Status locate_view(const PlanFacts& facts, int tensor, ConstPlace parent, const TensorView& root,
                   const Bindings& bindings, Place view) {
  const PlanTensor& t = facts.plan->tensors[tensor];
  Location location = parent.location;
  CAMSHAFT_TRY(place_in_parent(t, parent.view, bindings, view.view, location.offset));
  const size_t moved = location.offset - parent.location.offset;
  if (location.fixed) location.fixed += moved;
  if (facts.tensors[tensor].output >= 0 &&
      (location.offset != 0 || ir::bytes_for(view.view.type, view.view.elements()) !=
                                   ir::bytes_for(root.type, root.elements())))
    return make_error(ErrorCode::kCorrupt, "output {} is a part of another tensor", t.name);
  view.location = location;
  return ok_status();
}

bool same_layout(const TensorView& a, const TensorView& b) {
  return a.rank == b.rank && a.type == b.type && a.format == b.format &&
         (a.rank <= 0 || (std::equal(a.extents, a.extents + a.rank, b.extents) &&
                          std::equal(a.strides, a.strides + a.rank, b.strides)));
}

bool lie_alike(std::span<const TensorView> a, std::span<const TensorView> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const TensorView& x, const TensorView& y) {
                      return same_layout(x, y) && (x.data == nullptr) == (y.data == nullptr);
                    });
}

const CacheFacts* appended_cache_of(const PlanFacts& facts, const Schedule& schedule, int step) {
  if (facts.plan->steps[step].layer.kind != ir::LayerKind::kConcatenation) return nullptr;
  for (size_t k = 0; k < facts.caches.size(); ++k)
    if (facts.caches[k].step == step && schedule.capacities[k] != 0) return &facts.caches[k];
  return nullptr;
}

Schedule::Patch* find_patch(Schedule& schedule, int base, size_t arg) {
  std::vector<Schedule::Patch>& patches = schedule.patches[base];
  const auto found =
      std::lower_bound(patches.begin(), patches.end(), static_cast<int>(arg),
                       [](const Schedule::Patch& patch, int wanted) { return patch.arg < wanted; });
  return found != patches.end() && found->arg == static_cast<int>(arg) ? &*found : nullptr;
}

void append_in_place(const PlanFacts& facts, const CacheFacts& cache, const KernelArgs& args,
                     Schedule& schedule) {
  const size_t at = args.outputs.data() - schedule.args.data();
  TensorView& past = schedule.args[args.inputs.data() - schedule.args.data()];
  TensorView& present = schedule.args[at];
  const int64_t rows = past.extents[cache.axis];
  present.extents[cache.axis] -= rows;
  const int base = schedule.locations[facts.plan->outputs[cache.output]].base;
  if (Schedule::Patch* patch = find_patch(schedule, base, at))
    patch->offset += ir::bytes_for(present.type, rows * present.strides[cache.axis]);
  past = TensorView();
}

ThreadPool* pool_of(const PlanStep& step, ThreadPool* pool) {
  if (step.threads == 1) return &ThreadPool::serial();
  return pool && step.threads > 0 ? &pool->team(step.threads) : pool;
}

std::shared_ptr<kernels::PreparedKernel> prepare_step(const StepFacts& facts,
                                                      const KernelArgs& args) {
  return std::make_shared<kernels::PreparedKernel>(
      facts.tactic ? kernels::prepare_kernel(*facts.tactic, args)
                   : kernels::prepare_kernel(*facts.reference, args));
}

void use_kernel(const kernels::PreparedKernel& kernel, ScheduledStep& step, Schedule& schedule) {
  step.kernel = &kernel;
  step.run = kernel.run;
  step.run_checked = kernel.run_checked;
  step.state = kernel.state;
  schedule.workspace_bytes = std::max(schedule.workspace_bytes, kernel.workspace_bytes);
}

}  // namespace camshaft::runtime
