// SPDX-License-Identifier: Apache-2.0
#include "runtime/image_passes.h"

#include <algorithm>

#include "ir/kind_traits.h"

namespace camshaft::runtime {
namespace {

using engine::kNoTensor;
using engine::PlanStep;
using ir::LayerKind;

// Where dimension 0 of data and output is the batch.
bool treats_images_alone(const ir::Layer& layer) {
  switch (ir::traits_of(layer.kind).images) {
    case ir::Images::kAlone:
      return true;
    case ir::Images::kByAxis:
      return layer.as<ir::AxisAttrs>().axis > 0;
    case ir::Images::kTogether:
      break;
  }
  return false;
}

// Inputs that are never data, whatever their extents: filters and biases.
bool is_parameter(const ir::Layer& layer, size_t input) {
  const bool convolves =
      layer.kind == LayerKind::kConvolution || layer.kind == LayerKind::kDeconvolution;
  return convolves && (input == 1 || input == 2);
}

// Is an operand of this rank and first extent a batch that is cut with the output?
bool is_batch(const ir::Layer& layer, size_t operand, int rank, int64_t first_extent,
              int output_rank, int64_t batch) {
  return !is_parameter(layer, operand) && rank == output_rank && first_extent == batch;
}

class Chooser {
 public:
  Chooser(const PlanFacts& facts, const Schedule& schedule, int64_t l2_bytes)
      : facts_(facts),
        plan_(*facts.plan),
        s_(schedule),
        policy_{l2_bytes, facts.cut_batches_beyond} {}

  std::vector<ImagePasses> choose() {
    if (facts_.cut_batches_beyond == kWholeBatches) return {};
    const int count = static_cast<int>(plan_.steps.size());
    for (int k = 0; k < count;) {
      const int64_t batch = batch_of(k);
      int end = k + 1;
      if (batch > 1)
        while (end < count && (is_skipped(end) || batch_of(end) == batch)) ++end;
      if (batch > 1) add_group(k, end, batch);
      k = end;
    }
    return std::move(groups_);
  }

 private:
  // Views run nothing, if they have an address.
  bool is_skipped(int k) const {
    const std::vector<int>& outputs = plan_.steps[k].outputs;
    return plan_.steps[k].is_view && std::all_of(outputs.begin(), outputs.end(), [this](int t) {
             return t == kNoTensor || has_address(t);
           });
  }

  bool has_address(int t) const {
    return s_.locations[t].space == Space::kBase || s_.locations[t].space == Space::kFixed;
  }

  // The batch a step may be cut along and should be; 0 or 1: none.
  int64_t batch_of(int k) const {
    const PlanStep& step = plan_.steps[k];
    if (step.is_view || step.dynamic_output || !facts_.steps[k].tactic ||
        step.outputs.size() != 1 || step.outputs[0] == kNoTensor ||
        !treats_images_alone(step.layer))
      return 0;
    const int output = step.outputs[0];
    const TensorView& y = s_.tensors[output];
    if (y.rank < 2 || y.elements() == 0 || s_.locations[output].space != Space::kBase ||
        ir::bits_of(y.type) % 8 != 0)
      return 0;
    const int64_t batch = y.extents[0];
    if (batch == 1) return 1;
    bool reads_batch = false;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const int input = step.inputs[i];
      if (input == kNoTensor) continue;
      const TensorView& x = s_.tensors[input];
      if (!x.present()) return 0;
      const bool is_constant = plan_.tensors[input].role == engine::TensorRole::kConstant;
      if (!is_cut(step.layer, i, x, y, batch)) {
        if (!is_constant) return 0;
      } else {
        const bool is_packed = i < 32 && (facts_.steps[k].packed_inputs >> i & 1) != 0;
        if (is_packed || !has_address(input) || ir::bits_of(x.type) % 8 != 0) return 0;
        reads_batch = true;
      }
    }
    const bool has_light_weights = static_cast<int64_t>(step.packed_bytes) * batch <= bytes_of(k);
    return reads_batch && has_light_weights ? batch : 0;
  }

  // What a step reads and writes of activations.
  int64_t bytes_of(int k) const {
    int64_t bytes = 0;
    const PlanStep& step = plan_.steps[k];
    for (const auto* side : {&step.inputs, &step.outputs})
      for (const int t : *side)
        if (t != kNoTensor && plan_.tensors[t].role != engine::TensorRole::kConstant)
          bytes +=
              static_cast<int64_t>(ir::bytes_for(s_.tensors[t].type, s_.tensors[t].elements()));
    return bytes;
  }

  // The steps of [first, end) without those at both ends that leave most of the cache to others,
  // if any step is worth it.
  void add_group(int first, int end, int64_t batch) {
    const auto is_small = [this](int k) {
      return is_skipped(k) || bytes_of(k) <= policy_.budget() / 3;
    };
    while (first < end && is_small(first)) ++first;
    while (first < end && is_small(end - 1)) --end;
    if (end - first < 2) return;
    int64_t most = 1;
    for (int k = first; k < end; ++k)
      if (!is_skipped(k)) most = std::max(most, bytes_of(k));
    const ImagePasses passes{first, end - 1, batch, policy_.images(batch, most)};
    if (passes.count() > 1 && views_keep_batch(passes)) groups_.push_back(passes);
  }

  // Views share memory of one part of the batch only if each image stays one.
  bool views_keep_batch(const ImagePasses& passes) const {
    for (size_t t = 0; t < plan_.tensors.size(); ++t) {
      const int root = facts_.tensors[t].root;
      if (!is_of_pass(facts_, s_, passes, root)) continue;
      const TensorView& view = s_.tensors[t];
      if (!view.present() || view.rank < 1 || view.extents[0] != passes.batch ||
          plan_.tensors[t].parent_axis == 0)
        return false;
    }
    return true;
  }

  const PlanFacts& facts_;
  const engine::Plan& plan_;
  const Schedule& s_;
  const CutPolicy policy_;
  std::vector<ImagePasses> groups_;
};

}  // namespace

bool is_cut(const ir::Layer& layer, size_t operand, const TensorView& view,
            const TensorView& output, int64_t batch) {
  return is_batch(layer, operand, view.rank, view.rank > 0 ? view.extents[0] : 0, output.rank,
                  batch);
}

// Passes of one size, so that each thread has the same part of the memory in all: lines that change
// from one thread's cache to another's cost more than the passes save.
int64_t CutPolicy::images(int64_t batch, int64_t bytes) const {
  if (bytes <= beyond) return batch;
  int64_t images = std::clamp<int64_t>(budget() * batch / bytes, 1, batch);
  while (batch % images != 0) --images;
  return images;
}

bool is_of_pass(const PlanFacts& facts, const Schedule& schedule, const ImagePasses& passes,
                int t) {
  const TensorFacts& f = facts.tensors[t];
  const Location& location = schedule.locations[t];
  return f.root == t && location.space == Space::kBase && location.base == 0 &&
         passes.contains(f.first_use) && passes.contains(f.last_use);
}

std::vector<ImagePasses> choose_image_passes(const PlanFacts& facts, const Schedule& schedule,
                                             int64_t l2_bytes) {
  return Chooser(facts, schedule, l2_bytes).choose();
}

int64_t cut_problem(kernels::Problem& problem, const CutPolicy& policy) {
  using kernels::ProblemTensor;
  if (!treats_images_alone(*problem.layer) || problem.outputs.size() != 1) return 1;
  ProblemTensor& y = problem.outputs[0];
  if (y.extents.size() < 2 || y.extents[0] < 2) return 1;
  const int64_t batch = y.extents[0];
  const auto bytes_of = [](const ProblemTensor& t) {
    return static_cast<int64_t>(ir::bytes_for(t.type, ir::element_count(t.extents)));
  };
  int64_t bytes = bytes_of(y);
  std::vector<ProblemTensor*> cut = {&y};
  for (size_t k = 0; k < problem.inputs.size(); ++k) {
    ProblemTensor& x = problem.inputs[k];
    if (!x.present || is_parameter(*problem.layer, k)) continue;
    const bool has_batch =
        is_batch(*problem.layer, k, static_cast<int>(x.extents.size()),
                 x.extents.empty() ? 0 : x.extents[0], static_cast<int>(y.extents.size()), batch);
    if (has_batch == (x.constant != nullptr)) return 1;
    if (has_batch) cut.push_back(&x), bytes += bytes_of(x);
  }
  const int64_t images = policy.images(batch, bytes);
  for (ProblemTensor* t : cut) t->extents[0] = images;
  return batch / images;
}

}  // namespace camshaft::runtime
