// SPDX-License-Identifier: Apache-2.0
#include "inspect/work.h"

#include <algorithm>
#include <vector>

#include "engine/sparsity_outcome.h"
#include "inspect/layers.h"
#include "ir/chosen_product.h"
#include "ir/expert_weights.h"
#include "ir/weight_records.h"
#include "kernels/attention_shape.h"

namespace camshaft::inspect {
namespace {

using engine::kNoTensor;
using engine::Plan;
using engine::PlanStep;
using engine::PlanTensor;
using engine::TensorRole;
using ir::LayerKind;

// A product that stays -1 once any factor is unknown.
double product(const Dims& dims, size_t first = 0) {
  double result = 1;
  for (size_t k = first; k < dims.size(); ++k) {
    if (dims[k] < 0) return -1;
    result *= static_cast<double>(dims[k]);
  }
  return result;
}

double times(double a, double b) {
  return a < 0 || b < 0 ? -1 : a * b;
}

struct Extents {
  const Plan& plan;
  const PlanStep& step;
  const runtime::Context* context;
  Dims of(const std::vector<int>& tensors, size_t k) const {
    return k < tensors.size() && tensors[k] != kNoTensor ? tensor_dims(plan, tensors[k], context)
                                                         : Dims{};
  }
  Dims input(size_t k) const { return of(step.inputs, k); }
  Dims output(size_t k) const { return of(step.outputs, k); }
};

double low_bit_macs(const Extents& extents) {
  const auto& weights = extents.step.layer.as<ir::LowBitMultiplyAttrs>();
  return times(product(extents.output(0)), static_cast<double>(weights.depth));
}

// Of the experts that are chosen.
double experts_macs(const Extents& extents) {
  const auto& a = extents.step.layer.as<ir::ExpertsAttrs>();
  const double weights = static_cast<double>(ir::up_product(a).columns * a.width +
                                             ir::down_product(a).columns * a.hidden);
  return times(product(extents.input(ir::kExpertsChosen)), weights);
}

double chosen_product_macs(const Extents& extents) {
  return times(product(extents.output(0)),
               static_cast<double>(extents.input(ir::kChosenWeights).back()));
}

double convolution_macs(const Extents& extents) {
  // Convolution: every output element sums over a filter; Deconvolution: every input element is
  // spread by one.
  const bool forward = extents.step.layer.kind == LayerKind::kConvolution;
  const Dims moved = forward ? extents.output(0) : extents.input(0);
  return times(product(moved), product(extents.input(1), 1));
}

double matmul_macs(const Extents& extents) {
  const Dims a = extents.input(0);
  if (a.empty()) return 0;
  const bool transpose = extents.step.layer.as<ir::MatrixMultiplyAttrs>().transpose_a;
  const int64_t k = transpose && a.size() > 1 ? a[a.size() - 2] : a.back();
  return times(product(extents.output(0)), static_cast<double>(k));
}

bool has_lengths(const PlanStep& step) {
  return step.inputs.size() > kernels::kAttentionLengths &&
         step.inputs[kernels::kAttentionLengths] != kNoTensor;
}

// Both products, of the keys that windows let a query see: all where lengths, numbers of a run,
// hide more. Where only a run tells the first query's position, the queries are the last keys.
double attention_macs(const Extents& extents) {
  const auto& attrs = extents.step.layer.as<ir::AttentionAttrs>();
  std::vector<Dims> dims;
  std::vector<kernels::TensorView> views;
  for (const Dims& d : {extents.input(0), extents.input(1), extents.input(2), extents.output(0)}) {
    if (product(d) < 0) return -1;
    views.push_back(kernels::make_view(nullptr, ir::DataType::kFloat, ir::Format::kLinear, d));
  }
  kernels::AttentionShape shape;
  if (!kernels::attention_shape(attrs, views, views.back(), shape)) return 0;
  const bool tells_first = attrs.first_query.empty() || attrs.first_query[0].is_known();
  const kernels::KeyWindows windows =
      tells_first
          ? kernels::key_windows(attrs, shape, has_lengths(extents.step))
          : kernels::KeyWindows{shape.keys, shape.queries, attrs.left_window, attrs.right_window};
  double scores = 0;
  for (int64_t query = 0; query < shape.queries; ++query) {
    const kernels::KeyRange seen = windows.seen_by(query, shape.keys);
    scores += static_cast<double>(seen.last - seen.first);
  }
  return static_cast<double>(shape.batch * shape.heads) * scores *
         static_cast<double>(shape.depth + shape.value_depth);
}

double recurrence_macs(const Extents& extents) {
  // Per step of the sequence and batch item: W x and R h of every gate and direction.
  const Dims x = extents.input(0);
  const Dims w = extents.input(1);
  const Dims r = extents.input(2);
  if (x.size() != 3) return 0;
  const double weights = product(w) < 0 || product(r) < 0 ? -1 : product(w) + product(r);
  return times(times(static_cast<double>(x[0]), static_cast<double>(x[1])), weights);
}

double tensor_bytes(const PlanTensor& tensor, const Dims& dims) {
  const double elements = product(dims);
  return elements < 0
             ? -1
             : static_cast<double>(ir::bytes_for(tensor.type, static_cast<int64_t>(elements)));
}

// Records of weights keep half of their header when they are packed, unless zero points differ.
double dropped_bytes(const ir::LowBits& weights) {
  const ir::RecordLayout layout(weights);
  const double of_record = weights.zero == ir::DataType::kFloat   ? 0
                           : weights.zero == ir::DataType::kUInt8 ? 3
                                                                  : sizeof(float);
  return of_record * static_cast<double>(layout.columns * layout.blocks());
}

double packed_bytes_of(const PlanStep& step, int tensor, double bytes) {
  if (const auto* weights = std::get_if<ir::LowBitMultiplyAttrs>(&step.layer.attrs))
    return tensor == step.inputs[1] ? bytes - dropped_bytes(*weights) : bytes;
  const auto* experts = std::get_if<ir::ExpertsAttrs>(&step.layer.attrs);
  if (!experts) return bytes;
  for (const auto& [input, product] : {std::pair(ir::kUpWeights, ir::up_product(*experts)),
                                       std::pair(ir::kDownWeights, ir::down_product(*experts))})
    if (tensor == step.inputs[input] && !product.is_float())
      bytes -= static_cast<double>(experts->experts) * dropped_bytes(product.low_bits());
  return bytes;
}

// The share of a tensor's bytes that the layer reads: weights of experts nobody can have chosen
// stay unread.
double share_read(const Extents& extents, int tensor) {
  const auto* experts = std::get_if<ir::ExpertsAttrs>(&extents.step.layer.attrs);
  const std::vector<int>& inputs = extents.step.inputs;
  if (!experts || (tensor != inputs[ir::kUpWeights] && tensor != inputs[ir::kDownWeights]))
    return 1;
  const double choices = product(extents.input(ir::kExpertsChosen));
  return choices < 0 ? 1 : std::min(1.0, choices / static_cast<double>(experts->experts));
}

}  // namespace

double multiply_adds(const Plan& plan, const PlanStep& step, const runtime::Context* context) {
  if (step.is_view) return 0;
  const Extents extents{plan, step, context};
  switch (step.layer.kind) {
    case LayerKind::kConvolution:
    case LayerKind::kDeconvolution:
      return convolution_macs(extents);
    case LayerKind::kMatrixMultiply:
      return matmul_macs(extents);
    case LayerKind::kAttention:
      return attention_macs(extents);
    case LayerKind::kLowBitMultiply:
      return low_bit_macs(extents);
    case LayerKind::kExperts:
      return experts_macs(extents);
    case LayerKind::kRecurrence:
      return recurrence_macs(extents);
    case LayerKind::kGeneric:
      return ir::is_chosen_product(step.layer) ? chosen_product_macs(extents) : 0;
    default:
      return 0;
  }
}

const char* counted_arithmetic(const PlanStep& step) {
  if (step.layer.kind == LayerKind::kAttention) return has_lengths(step) ? "all keys" : "";
  if (step.tactic.find("winograd") != std::string::npos) return "direct arithmetic";
  return engine::is_sparse_tactic(step.tactic) ? "dense arithmetic" : "";
}

Traffic traffic(const Plan& plan, const PlanStep& step, const runtime::Context* context) {
  Traffic sum;
  if (step.is_view) return sum;
  const auto add = [&](double bytes) {
    sum.io_bytes = bytes < 0 || sum.io_bytes < 0 ? -1 : sum.io_bytes + bytes;
  };
  for (const std::vector<int>* side : {&step.inputs, &step.outputs}) {
    for (int index : *side) {
      if (index == kNoTensor) continue;
      const PlanTensor& tensor = plan.tensors[static_cast<size_t>(index)];
      double bytes = tensor_bytes(tensor, tensor_dims(plan, index, context));
      bytes = packed_bytes_of(step, index, bytes);
      const bool is_weights = step.inputs.size() > 1 && index == step.inputs[1];
      if (is_weights && (step.packed_inputs & 2) != 0 && step.packed_bytes > 0)
        bytes = std::min(bytes, static_cast<double>(step.packed_bytes));  // of 16 bits, sparse
      if (tensor.role == TensorRole::kConstant) sum.weight_bytes += std::max(bytes, 0.0);
      add(bytes * share_read({plan, step, context}, index));
    }
  }
  return sum;
}

}  // namespace camshaft::inspect
