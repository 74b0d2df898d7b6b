// SPDX-License-Identifier: Apache-2.0
#include "runtime/layer_problem.h"

#include <algorithm>

#include "base/aligned_memory.h"

namespace camshaft::runtime {

std::optional<ir::Extents> extents_of(const ir::Shape& shape, const Bindings& bindings) {
  if (!bindings.known(shape)) return std::nullopt;
  ir::Extents extents;
  for (const ir::Dim dim : shape) extents.push_back(std::max<int64_t>(bindings.value(dim), 0));
  return extents;
}

kernels::ProblemTensor problem_tensor(const kernels::TensorView& view) {
  kernels::ProblemTensor tensor;
  tensor.present = true;
  tensor.type = view.type;
  tensor.format = view.format;
  tensor.dense = kernels::is_dense(view);
  tensor.extents.assign(view.extents, view.extents + view.rank);
  return tensor;
}

LayerProblem build_problem(const ir::Layer& layer, size_t inputs, size_t outputs,
                           const Bindings& bindings, int threads, const Describe& describe) {
  LayerProblem made;
  made.problem.threads = threads;
  made.constants.reserve(inputs);
  const auto add = [&](Side side, size_t count, std::vector<kernels::ProblemTensor>& list) {
    for (size_t k = 0; k < count; ++k) {
      std::optional<TensorSource> source = describe(side, k);
      if (!source) return false;
      list.push_back(source->tensor);
      if (!source->stored) continue;
      made.constants.emplace_back().view = *source->stored;
      list.back().constant = &made.constants.back();
    }
    return true;
  };
  if (!add(Side::kInputs, inputs, made.problem.inputs) ||
      !add(Side::kOutputs, outputs, made.problem.outputs))
    return made;
  made.layer = resolve_layer(layer, bindings);
  made.problem.layer = made.layer.get();
  return made;
}

bool fits_formats(kernels::FormatRule rule, const kernels::Problem& problem) {
  const auto format_of = [](const std::vector<kernels::ProblemTensor>& list) {
    return list.empty() || list[0].extents.size() < 3 ? ir::Format::kLinear : list[0].format;
  };
  const bool from_last = format_of(problem.inputs) == ir::Format::kChannelLast;
  const bool to_last = format_of(problem.outputs) == ir::Format::kChannelLast;
  switch (rule) {
    case kernels::FormatRule::kLinear:
      return !from_last && !to_last;
    case kernels::FormatRule::kChannelLast:
      return from_last && to_last;
    case kernels::FormatRule::kLinearToChannelLast:
      return !from_last && to_last;
    case kernels::FormatRule::kChannelLastToLinear:
      return from_last && !to_last;
    case kernels::FormatRule::kSame:
      return from_last == to_last;
    case kernels::FormatRule::kAny:
      return true;
  }
  return false;
}

bool rounds_floats(const kernels::Tactic& tactic, const kernels::Problem& problem) {
  if (tactic.precision == ir::DataType::kUndefined) return false;
  const auto is_reduced = [&](const kernels::ProblemTensor& t) {
    return t.present && t.type == tactic.precision;
  };
  return std::none_of(problem.inputs.begin(), problem.inputs.end(), is_reduced) &&
         std::none_of(problem.outputs.begin(), problem.outputs.end(), is_reduced);
}

const kernels::Tactic* best_tactic(const kernels::Problem& problem) {
  const kernels::Tactic* best = nullptr;
  double best_us = 0;
  for (const kernels::Tactic* tactic : kernels::tactics_for(problem.layer->kind)) {
    if (best && tactic->isa < best->isa) continue;
    if (!fits_formats(tactic->formats, problem) || rounds_floats(*tactic, problem) ||
        !tactic->refusal(problem).empty())
      continue;
    const double us = tactic->cost_us(problem);
    if (best && tactic->isa == best->isa && us >= best_us) continue;
    best = tactic;
    best_us = us;
  }
  return best;
}

std::shared_ptr<std::byte[]> pack_for(const kernels::Tactic& tactic,
                                      const kernels::Problem& problem) {
  const size_t bytes = tactic.packed_bytes ? tactic.packed_bytes(problem) : 0;
  if (bytes == 0) return nullptr;
  std::shared_ptr<std::byte[]> memory = aligned_memory(bytes);
  tactic.pack(problem, memory.get());
  return memory;
}

}  // namespace camshaft::runtime
