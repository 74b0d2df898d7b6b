// SPDX-License-Identifier: Apache-2.0
#include "kernels/prepared.h"

#include <new>

#include "base/aligned_memory.h"
#include "kernels/reference/access.h"

namespace camshaft::kernels {
namespace {

template <class State>
State& keep(const State& state, PreparedKernel& kernel) {
  auto* kept = new (kernel.allocate(sizeof(State))) State(state);
  kernel.state = kept;
  return *kept;
}

struct ReferenceViews {
  KeptViews views;
  ReferenceKernel kernel;
};

// A kernel that decides on the extents of its outputs, where they are known.
Status run_dynamic(const ReferenceKernel& kernel, const KernelArgs& args) {
  std::vector<DynamicOutput> made;
  CAMSHAFT_TRY(kernel.run_dynamic(args, made));
  for (size_t k = 0; k < args.outputs.size(); ++k) {
    const TensorView& target = args.outputs[k];
    if (!target.present()) continue;
    if (k >= made.size() || made[k].type != target.type ||
        !(made[k].extents == reference::extents_of(target)))
      return make_error(ErrorCode::kInternal, "output {} has another type or shape than expected",
                        k);
    reference::copy_view(
        make_view(made[k].bytes.data(), target.type, Format::kLinear, made[k].extents), target);
  }
  return ok_status();
}

}  // namespace

const KernelArgs& KeptViews::at(const KernelCall& call) {
  for (size_t k = 0; k < args.inputs.size(); ++k) inputs[k].data = call.inputs[k];
  for (size_t k = 0; k < args.outputs.size(); ++k) outputs[k].data = call.outputs[k];
  args.packed = call.packed;
  args.workspace = call.workspace;
  args.pool = call.pool;
  return args;
}

KeptViews keep_views(const KernelArgs& args, PreparedKernel& kernel) {
  const auto copy = [&](std::span<const TensorView> views) {
    auto* copies = reinterpret_cast<TensorView*>(kernel.allocate(views.size_bytes()));
    std::uninitialized_copy(views.begin(), views.end(), copies);
    return copies;
  };
  KeptViews kept{args, copy(args.inputs), copy(args.outputs)};
  kept.args.inputs = {kept.inputs, args.inputs.size()};
  kept.args.outputs = {kept.outputs, args.outputs.size()};
  return kept;
}

std::byte* PreparedKernel::allocate(size_t bytes) {
  memory_.push_back(aligned_memory(bytes));
  return static_cast<std::byte*>(memory_.back().get());
}

void PreparedKernel::hold(std::shared_ptr<void> state) {
  memory_.push_back(std::move(state));
}

PreparedKernel prepare_kernel(const Tactic& tactic, const KernelArgs& args) {
  PreparedKernel kernel;
  tactic.prepare(args, kernel);
  return kernel;
}

PreparedKernel prepare_kernel(const ReferenceKernel& reference, const KernelArgs& args) {
  PreparedKernel kernel;
  keep(ReferenceViews{keep_views(args, kernel), reference}, kernel);
  kernel.run_checked = [](void* state, const KernelCall& call) {
    auto& k = *static_cast<ReferenceViews*>(state);
    const KernelArgs& views = k.views.at(call);
    return k.kernel.run ? k.kernel.run(views) : run_dynamic(k.kernel, views);
  };
  return kernel;
}

BoundKernel::BoundKernel(PreparedKernel kernel, const KernelArgs& args)
    : kernel_(std::move(kernel)), inputs_(args.inputs.size()) {
  for (const auto& views : {args.inputs, args.outputs})
    for (const TensorView& view : views) pointers_.push_back(view.data);
  call_ = {pointers_.data(), pointers_.data() + inputs_, args.packed, args.workspace, args.pool};
}

Status run_once(const Tactic& tactic, const KernelArgs& args) {
  BoundKernel kernel(tactic, args);
  const std::shared_ptr<std::byte[]> workspace = aligned_memory(kernel.workspace_bytes());
  kernel.set_workspace(workspace.get());
  return kernel.run();
}

}  // namespace camshaft::kernels
