// SPDX-License-Identifier: Apache-2.0
#include "engine/verify_plan.h"

#include "engine/file_format.h"

namespace camshaft::engine {
namespace {

bool inside(size_t offset, size_t bytes, size_t section) {
  return offset <= section && bytes <= section - offset;
}

// Elements of a shape without symbols; -1 on overflow or a symbol.
int64_t known_elements(const ir::Shape& shape) {
  int64_t count = 1;
  for (const ir::Dim dim : shape)
    if (!dim.is_known() || __builtin_mul_overflow(count, dim.extent(), &count) ||
        count > (int64_t{1} << 48))
      return -1;
  return count;
}

Status verify_constant(const PlanTensor& t, size_t weights_bytes) {
  const int64_t elements = known_elements(t.shape);
  if (elements < 0) return corrupt("constant {}: its shape is not a shape of numbers", t.name);
  if (t.parent != kNoTensor) return corrupt("constant {} is a view", t.name);
  if (t.data_bytes == 0) return ok_status();  // lives in packed weights only
  if (t.data_bytes != ir::bytes_for(t.type, elements))
    return corrupt("constant {}: {} bytes", t.name, t.data_bytes);
  if (t.data_offset % kWeightAlignment != 0 || !inside(t.data_offset, t.data_bytes, weights_bytes))
    return corrupt("constant {} lies outside the weights", t.name);
  return ok_status();
}

Status verify_parent(const Plan& plan, int index) {
  const PlanTensor& t = plan.tensors[index];
  const int count = static_cast<int>(plan.tensors.size());
  int depth = 0;
  for (int p = t.parent; p != kNoTensor; p = plan.tensors[p].parent) {
    if (p < 0 || p >= count) return corrupt("tensor {}: parent {} of {}", t.name, p, count);
    if (++depth > count) return corrupt("tensor {} is a view of itself", t.name);
  }
  if (t.parent == kNoTensor) return ok_status();
  const PlanTensor& parent = plan.tensors[t.parent];
  if (ir::bits_of(parent.type) != ir::bits_of(t.type))
    return corrupt("view {} changes the element size", t.name);
  if (!t.has_rank || !parent.has_rank) return corrupt("view {} has no rank", t.name);
  if (t.parent_axis < -1 || t.parent_axis >= static_cast<int>(t.shape.size()))
    return corrupt("view {}: axis {}", t.name, t.parent_axis);
  if (t.parent_axis >= 0 && (t.shape.size() != parent.shape.size() || t.format != parent.format))
    return corrupt("view {} does not fit {}", t.name, parent.name);
  return ok_status();
}

Status verify_tensors(const Plan& plan, size_t weights_bytes) {
  for (size_t k = 0; k < plan.tensors.size(); ++k) {
    const PlanTensor& t = plan.tensors[k];
    if (t.type == ir::DataType::kUndefined) return corrupt("tensor {} has no type", t.name);
    if (t.role == TensorRole::kConstant) CAMSHAFT_TRY(verify_constant(t, weights_bytes));
    CAMSHAFT_TRY(verify_parent(plan, static_cast<int>(k)));
  }
  return ok_status();
}

Status verify_bindings(const Plan& plan, const std::vector<int>& list, const char* what) {
  std::vector<bool> seen(plan.tensors.size());
  for (const int index : list) {
    if (index < 0 || index >= static_cast<int>(plan.tensors.size()))
      return corrupt("{} refers to tensor {} of {}", what, index, plan.tensors.size());
    if (seen[index]) return corrupt("{} {} is listed twice", what, plan.tensors[index].name);
    seen[index] = true;
  }
  return ok_status();
}

// A view needs no step of its own: it is there when its parent is.
bool is_defined(const Plan& plan, int tensor, const std::vector<bool>& defined) {
  while (!defined[tensor] && plan.tensors[tensor].parent != kNoTensor)
    tensor = plan.tensors[tensor].parent;
  return defined[tensor];
}

Status verify_step(const Plan& plan, const PlanStep& step, size_t weights_bytes,
                   std::vector<bool>& defined) {
  const int count = static_cast<int>(plan.tensors.size());
  const std::string& name = step.layer.name;
  if (step.inputs.size() > 4096 || step.outputs.size() > 4096)
    return corrupt("layer {}: too many tensors", name);
  for (const int input : step.inputs) {
    if (input < kNoTensor || input >= count)
      return corrupt("layer {}: input {} of {}", name, input, count);
    if (input != kNoTensor && !is_defined(plan, input, defined))
      return corrupt("layer {} reads {} before it is made", name, plan.tensors[input].name);
  }
  for (const int output : step.outputs) {
    if (output < kNoTensor || output >= count)
      return corrupt("layer {}: output {} of {}", name, output, count);
    if (output == kNoTensor) continue;
    if (defined[output]) return corrupt("tensor {} is made twice", plan.tensors[output].name);
    defined[output] = true;
  }
  if (!inside(step.packed_offset, step.packed_bytes, weights_bytes) ||
      step.packed_offset % kWeightAlignment != 0)
    return corrupt("layer {}: packed weights lie outside the file", name);
  if (step.is_view && step.outputs.size() != 1 && step.layer.kind != ir::LayerKind::kConcatenation)
    return corrupt("layer {}: a view with {} outputs", name, step.outputs.size());
  for (size_t k = 0; k < step.inputs.size(); ++k) {
    const int input = step.inputs[k];
    if (input == kNoTensor || (k < 32 && (step.packed_inputs >> k & 1))) continue;
    const PlanTensor& t = plan.tensors[input];
    if (t.role == TensorRole::kConstant && t.data_bytes == 0 && known_elements(t.shape) != 0 &&
        !t.value)
      return corrupt("layer {}: the values of {} are not stored", name, t.name);
  }
  return ok_status();
}

Status verify_symbols(const ir::SymbolTable& symbols) {
  for (int k = 0; k < symbols.size(); ++k)
    for (const ir::Dim dim : {symbols.symbol(k).a, symbols.symbol(k).b})
      if (!dim.is_known() && dim.symbol_id() >= k)
        return corrupt("symbol {} refers to a later one", k);
  return ok_status();
}

Status verify_bodies(const PlanStep& step, size_t weights_bytes) {
  const size_t wanted =
      step.layer.kind == ir::LayerKind::kIf                                                ? 2
      : step.layer.kind == ir::LayerKind::kLoop || step.layer.kind == ir::LayerKind::kScan ? 1
                                                                                           : 0;
  if (step.bodies.size() != wanted)
    return corrupt("layer {} has {} bodies", step.layer.name, step.bodies.size());
  for (const auto& body : step.bodies) CAMSHAFT_TRY(verify_plan(*body, weights_bytes));
  return ok_status();
}

Status verify_borders(const Plan& plan, const Region& region,
                      const std::vector<RegionBorder>& borders) {
  for (const RegionBorder& border : borders)
    if (border.tensor < 0 || border.tensor >= static_cast<int>(plan.tensors.size()) ||
        border.step < kNoStep || border.step >= static_cast<int>(plan.steps.size()))
      return corrupt("region {}: a border at tensor {} of layer {}", region.name, border.tensor,
                     border.step);
  return ok_status();
}

Status verify_regions(const Plan& plan) {
  std::vector<bool> taken(plan.steps.size());
  for (const Region& region : plan.regions) {
    if (region.steps.empty()) return corrupt("region {} has no layers", region.name);
    int last = -1;
    for (const int step : region.steps) {
      if (step <= last || step >= static_cast<int>(plan.steps.size()) || taken[step])
        return corrupt("region {} lists layer {} of {}", region.name, step, plan.steps.size());
      taken[step] = true;
      last = step;
    }
    CAMSHAFT_TRY(verify_borders(plan, region, region.before));
    CAMSHAFT_TRY(verify_borders(plan, region, region.after));
  }
  return ok_status();
}

}  // namespace

Status verify_plan(const Plan& plan, size_t weights_bytes) {
  CAMSHAFT_TRY(verify_symbols(plan.symbols));
  CAMSHAFT_TRY(verify_tensors(plan, weights_bytes));
  CAMSHAFT_TRY(verify_bindings(plan, plan.inputs, "input"));
  CAMSHAFT_TRY(verify_bindings(plan, plan.outputs, "output"));
  std::vector<bool> defined(plan.tensors.size());
  for (size_t k = 0; k < plan.tensors.size(); ++k)
    defined[k] = plan.tensors[k].role == TensorRole::kConstant;
  for (const int input : plan.inputs) {
    if (plan.tensors[input].role != TensorRole::kInput || plan.tensors[input].parent != kNoTensor)
      return corrupt("input {} is not an input", plan.tensors[input].name);
    defined[input] = true;
  }
  for (const PlanStep& step : plan.steps) {
    CAMSHAFT_TRY(verify_step(plan, step, weights_bytes, defined));
    CAMSHAFT_TRY(verify_bodies(step, weights_bytes));
  }
  for (const int output : plan.outputs)
    if (!is_defined(plan, output, defined) || plan.tensors[output].role != TensorRole::kOutput)
      return corrupt("output {} is never made", plan.tensors[output].name);
  return verify_regions(plan);
}

Status verify_profiles(const Plan& plan, const std::vector<Profile>& profiles) {
  for (const Profile& profile : profiles) {
    for (const ShapeRange& range : profile) {
      const PlanTensor* input = nullptr;
      for (const int k : plan.inputs)
        if (plan.tensors[k].name == range.input) input = &plan.tensors[k];
      if (!input) return corrupt("a profile names {}, which is not an input", range.input);
      const size_t rank = input->has_rank ? input->shape.size() : range.opt.size();
      if (range.min.size() != rank || range.opt.size() != rank || range.max.size() != rank)
        return corrupt("the profile of {} has another rank", range.input);
      for (size_t d = 0; d < rank; ++d)
        if (range.min[d] < 0 || range.min[d] > range.opt[d] || range.opt[d] > range.max[d])
          return corrupt("the profile of {} is not min <= opt <= max", range.input);
    }
  }
  return ok_status();
}

}  // namespace camshaft::engine
