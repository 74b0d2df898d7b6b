// SPDX-License-Identifier: Apache-2.0
// The registry: collects the families' tables of every instruction set compiled in.
#include "kernels/composed.h"
#include "kernels/vector/families.h"

#define CAMSHAFT_DECLARE(family)     \
  namespace family {                 \
  std::span<const Tactic> tactics(); \
  }
namespace camshaft::kernels {
namespace scalar {
CAMSHAFT_KERNEL_FAMILIES(CAMSHAFT_DECLARE)
}
namespace avx2 {
CAMSHAFT_KERNEL_FAMILIES(CAMSHAFT_DECLARE)
}
namespace avx512 {
CAMSHAFT_KERNEL_FAMILIES(CAMSHAFT_DECLARE)
}

namespace {

// Strongest instruction set first.
std::vector<const Tactic*> collect_all() {
  std::vector<const Tactic*> all;
  const auto collect = [&all](std::span<const Tactic> table) {
    for (const Tactic& tactic : table) all.push_back(&tactic);
  };
#define CAMSHAFT_COLLECT_AVX512(family) collect(avx512::family::tactics());
#define CAMSHAFT_COLLECT_AVX2(family) collect(avx2::family::tactics());
#define CAMSHAFT_COLLECT_SCALAR(family) collect(scalar::family::tactics());
  CAMSHAFT_KERNEL_FAMILIES(CAMSHAFT_COLLECT_AVX512)
  CAMSHAFT_KERNEL_FAMILIES(CAMSHAFT_COLLECT_AVX2)
  CAMSHAFT_KERNEL_FAMILIES(CAMSHAFT_COLLECT_SCALAR)
  collect(attention_codes_tactics());
  return all;
}

const std::vector<const Tactic*>& all_tactics() {
  static const std::vector<const Tactic*> tactics = collect_all();
  return tactics;
}

bool runs_here(const Tactic& tactic) {
  return tactic.isa <= active_isa() && features_of(tactic.isa).has_all(tactic.needs);
}

}  // namespace

std::vector<const Tactic*> tactics_for(ir::LayerKind kind) {
  std::vector<const Tactic*> found;
  for (const Tactic* tactic : all_tactics())
    if (tactic->kind == kind && runs_here(*tactic)) found.push_back(tactic);
  return found;
}

const Tactic* find_tactic(std::string_view name, Isa isa) {
  for (const Tactic* tactic : all_tactics())
    if (tactic->isa == isa && name == tactic->name && runs_here(*tactic)) return tactic;
  return nullptr;
}

}  // namespace camshaft::kernels
