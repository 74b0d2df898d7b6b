// SPDX-License-Identifier: Apache-2.0
// Dropout whose last input says while running whether this is training: else y is x, and nothing is
// to do where it lies there.
#include "kernels/dropped_elements.h"
#include "kernels/vector/generic.h"
#include "kernels/vector/movement/copy.h"
#include "kernels/vector/prepare.h"

namespace camshaft::kernels::CAMSHAFT_TARGET::dropout {
namespace {

enum Input { kX, kRatio, kTraining };

struct Dropout {
  TensorView x, y, mask, ratio;
  double stated_ratio;  // where there is no input
  uint32_t seed;
  bool is_training_told;
  CopyPlan copy;
};

void run(Dropout& s, const KernelCall& call) {
  s.x.data = call.inputs[kX];
  s.y.data = call.outputs[0];
  if (s.mask.present()) s.mask.data = call.outputs[1];
  if (s.is_training_told && *call.input<const uint8_t>(kTraining) != 0) {
    if (s.ratio.present()) s.ratio.data = call.inputs[kRatio];
    const double ratio = s.ratio.present() ? number_in(s.ratio) : s.stated_ratio;
    if (ratio != 0) return drop_elements(s.x, ratio, s.seed, s.y, s.mask);
  }
  if (s.x.data != s.y.data) run_copy(s.copy, s.x.data, s.y.data, call.pool);
  const uint8_t kept = 1;
  if (s.mask.present()) fill_view(s.mask, &kept, call.pool);
}

std::string refusal(const Problem& p) {
  if (!is_operator(p, "Dropout")) return "another operator";
  const ProblemTensor &x = p.inputs[kX], &y = p.outputs[0];
  if (!y.present || y.type != x.type || bytes_of(x.type) == 0) return "types of tensors";
  return "";
}

double cost_us(const Problem& p) {
  return traffic_us(p);
}

bool is_given(std::span<const TensorView> tensors, size_t k) {
  return tensors.size() > k && tensors[k].present();
}

void prepare(const KernelArgs& args, PreparedKernel& kernel) {
  if (!has_output(args, kernel)) return;
  Dropout s{};
  s.x = args.inputs[kX];
  s.y = args.outputs[0];
  if (is_given(args.outputs, 1)) s.mask = args.outputs[1];
  if (is_given(args.inputs, kRatio)) s.ratio = args.inputs[kRatio];
  s.is_training_told = is_given(args.inputs, kTraining);
  s.stated_ratio = generic_real(*args.layer, "ratio", 0.5);
  s.seed = stated_seed(*args.layer);
  Nest nest = make_nest(s.y);
  add_tensor(nest, s.x);
  s.copy = plan_copy(nest, bytes_of(s.y.type));
  keep_state<run>(kernel, s);
}

constexpr Tactic kTactics[] = {
    {"dropout", ir::LayerKind::kGeneric, kIsa, FormatRule::kSame, 1, refusal, cost_us,
     CAMSHAFT_NOTHING_PACKED, prepare},
};

}  // namespace

std::span<const Tactic> tactics() {
  return kTactics;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET::dropout
