// SPDX-License-Identifier: Apache-2.0
// What making a schedule and advancing one have in common: where one tensor lies and what one step
// is.
#pragma once

#include "runtime/schedule.h"

namespace camshaft::runtime {

// The view of a tensor that lies dense, without an address; left as it is where its extents are not
// known.
Status set_extents(const engine::PlanTensor& tensor, const Bindings& bindings, TensorView& view);

// Rows of a cache in one buffer lie as if there were `capacity` of them along `axis`.
Status leave_room(const engine::PlanTensor& tensor, int axis, int64_t capacity, TensorView& view);

// Gives `view` (its extents are set) the strides of its place in `parent`; adds that place to
// `offset`, in bytes.
Status place_in_parent(const engine::PlanTensor& tensor, const TensorView& parent,
                       const Bindings& bindings, TensorView& view, size_t& offset);

// The same as locations: `view` lies in `parent`. An output is no part of its root.
struct ConstPlace {
  const TensorView& view;
  const Location& location;
};
struct Place {
  TensorView& view;
  Location& location;
};
Status locate_view(const PlanFacts& facts, int tensor, ConstPlace parent, const TensorView& root,
                   const Bindings& bindings, Place view);

bool same_layout(const TensorView& a, const TensorView& b);
// Also present and absent alike: a kernel prepared for some serves the others.
bool lie_alike(std::span<const TensorView> a, std::span<const TensorView> b);

// The elements of a constant_value tensor whose symbols all have values; false: not of this type.
bool write_value(const engine::PlanTensor& tensor, const Bindings& bindings, const TensorView& view,
                 std::byte* bytes);

// The cache that a Concatenation appends to, where past and present lie in one buffer; else null.
const CacheFacts* appended_cache_of(const PlanFacts& facts, const Schedule& schedule, int step);

// Of an operand that lies in memory of `base`. `arg`: its index in Schedule::args.
Schedule::Patch* find_patch(Schedule& schedule, int base, size_t arg);

// What came before is there: a step of `args` (in Schedule::args) copies the new rows alone, behind
// it.
void append_in_place(const PlanFacts& facts, const CacheFacts& cache, const KernelArgs& args,
                     Schedule& schedule);

// The threads a step runs on: those of the context, or the calling one alone.
ThreadPool* pool_of(const engine::PlanStep& step, ThreadPool* pool);

std::shared_ptr<kernels::PreparedKernel> prepare_step(const StepFacts& facts,
                                                      const KernelArgs& args);
void use_kernel(const kernels::PreparedKernel& kernel, ScheduledStep& step, Schedule& schedule);

}  // namespace camshaft::runtime
