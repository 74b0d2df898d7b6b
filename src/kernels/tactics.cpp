// SPDX-License-Identifier: Apache-2.0
// The registry: collects the families' tables of every instruction set compiled in.
#include <algorithm>

#include "kernels/checked.h"
#include "kernels/vector/families.h"

#define CAMSHAFT_DECLARE(family) std::span<const Tactic> family##_tactics();
#define CAMSHAFT_DECLARE_CHECKED(family) std::span<const CheckedKernel> family##_checked();
namespace camshaft::kernels {
namespace scalar {
CAMSHAFT_KERNEL_FAMILIES(CAMSHAFT_DECLARE)
CAMSHAFT_CHECKED_FAMILIES(CAMSHAFT_DECLARE_CHECKED)
}  // namespace scalar
namespace avx2 {
CAMSHAFT_KERNEL_FAMILIES(CAMSHAFT_DECLARE)
CAMSHAFT_CHECKED_FAMILIES(CAMSHAFT_DECLARE_CHECKED)
}  // namespace avx2
namespace avx512 {
CAMSHAFT_KERNEL_FAMILIES(CAMSHAFT_DECLARE)
CAMSHAFT_CHECKED_FAMILIES(CAMSHAFT_DECLARE_CHECKED)
}  // namespace avx512

namespace {

[[maybe_unused]] void collect(std::vector<const Tactic*>& all, std::span<const Tactic> table) {
  for (const Tactic& tactic : table) all.push_back(&tactic);
}

// Strongest instruction set first.
std::vector<const Tactic*> collect_all() {
  std::vector<const Tactic*> all;
#define CAMSHAFT_COLLECT_AVX512(family) collect(all, avx512::family##_tactics());
#define CAMSHAFT_COLLECT_AVX2(family) collect(all, avx2::family##_tactics());
#define CAMSHAFT_COLLECT_SCALAR(family) collect(all, scalar::family##_tactics());
  CAMSHAFT_KERNEL_FAMILIES(CAMSHAFT_COLLECT_AVX512)
  CAMSHAFT_KERNEL_FAMILIES(CAMSHAFT_COLLECT_AVX2)
  CAMSHAFT_KERNEL_FAMILIES(CAMSHAFT_COLLECT_SCALAR)
  return all;
}

const std::vector<const Tactic*>& all_tactics() {
  static const std::vector<const Tactic*> all = collect_all();
  return all;
}

}  // namespace

std::vector<const Tactic*> tactics_for(ir::LayerKind kind) {
  std::vector<const Tactic*> found;
  for (const Tactic* tactic : all_tactics())
    if (tactic->kind == kind && tactic->isa <= active_isa()) found.push_back(tactic);
  return found;
}

CheckedRun checked_run(const Tactic& tactic) {
  static const std::vector<CheckedKernel> all = [] {
    std::vector<CheckedKernel> list;
#define CAMSHAFT_COLLECT_CHECKED(family)                                                   \
  for (const auto& table :                                                                 \
       {avx512::family##_checked(), avx2::family##_checked(), scalar::family##_checked()}) \
    list.insert(list.end(), table.begin(), table.end());
    CAMSHAFT_CHECKED_FAMILIES(CAMSHAFT_COLLECT_CHECKED)
    return list;
  }();
  const auto found = std::find_if(all.begin(), all.end(), [&](const CheckedKernel& kernel) {
    return kernel.run == tactic.run;
  });
  return found == all.end() ? nullptr : found->run_checked;
}

const Tactic* find_tactic(std::string_view name, Isa isa) {
  for (const Tactic* tactic : all_tactics())
    if (tactic->isa == isa && tactic->isa <= active_isa() && name == tactic->name) return tactic;
  return nullptr;
}

}  // namespace camshaft::kernels
