// SPDX-License-Identifier: Apache-2.0
// The registry: collects the families' tables of every instruction set compiled in.
#include <algorithm>
#include <unordered_map>

#include "kernels/checked.h"
#include "kernels/prepared.h"
#include "kernels/vector/families.h"

#define CAMSHAFT_DECLARE(family) std::span<const Tactic> family##_tactics();
#define CAMSHAFT_DECLARE_PREPARED(family) std::span<const PreparedTactic> family##_tactics();
#define CAMSHAFT_DECLARE_CHECKED(family) std::span<const CheckedKernel> family##_checked();
namespace camshaft::kernels {
namespace scalar {
CAMSHAFT_KERNEL_FAMILIES(CAMSHAFT_DECLARE, CAMSHAFT_DECLARE_PREPARED)
CAMSHAFT_CHECKED_FAMILIES(CAMSHAFT_DECLARE_CHECKED)
}  // namespace scalar
namespace avx2 {
CAMSHAFT_KERNEL_FAMILIES(CAMSHAFT_DECLARE, CAMSHAFT_DECLARE_PREPARED)
CAMSHAFT_CHECKED_FAMILIES(CAMSHAFT_DECLARE_CHECKED)
}  // namespace avx2
namespace avx512 {
CAMSHAFT_KERNEL_FAMILIES(CAMSHAFT_DECLARE, CAMSHAFT_DECLARE_PREPARED)
CAMSHAFT_CHECKED_FAMILIES(CAMSHAFT_DECLARE_CHECKED)
}  // namespace avx512

namespace {

struct Registry {
  std::vector<const Tactic*> all;
  std::unordered_map<const Tactic*, Prepare> prepares;

  void collect(std::span<const Tactic> table) {
    for (const Tactic& tactic : table) all.push_back(&tactic);
  }
  void collect(std::span<const PreparedTactic> table) {
    for (const PreparedTactic& row : table) {
      all.push_back(&row.tactic);
      prepares[&row.tactic] = row.prepare;
    }
  }
};

// Strongest instruction set first.
Registry collect_all() {
  Registry registry;
#define CAMSHAFT_COLLECT_AVX512(family) registry.collect(avx512::family##_tactics());
#define CAMSHAFT_COLLECT_AVX2(family) registry.collect(avx2::family##_tactics());
#define CAMSHAFT_COLLECT_SCALAR(family) registry.collect(scalar::family##_tactics());
  CAMSHAFT_KERNEL_FAMILIES(CAMSHAFT_COLLECT_AVX512, CAMSHAFT_COLLECT_AVX512)
  CAMSHAFT_KERNEL_FAMILIES(CAMSHAFT_COLLECT_AVX2, CAMSHAFT_COLLECT_AVX2)
  CAMSHAFT_KERNEL_FAMILIES(CAMSHAFT_COLLECT_SCALAR, CAMSHAFT_COLLECT_SCALAR)
  return registry;
}

const Registry& registry() {
  static const Registry tables = collect_all();
  return tables;
}

const std::vector<const Tactic*>& all_tactics() {
  return registry().all;
}

}  // namespace

Prepare prepare_of(const Tactic& tactic) {
  const auto found = registry().prepares.find(&tactic);
  return found == registry().prepares.end() ? nullptr : found->second;
}

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
