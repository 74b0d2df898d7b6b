// SPDX-License-Identifier: Apache-2.0
// Kernels whose data may be wrong (an index out of range): besides Tactic::run, which forgets the
// error, they have a form that returns it. Neither touches memory that is not the layer's.
#pragma once

#include "kernels/kernel.h"

namespace camshaft::kernels {

using CheckedRun = Status (*)(const KernelArgs&);

struct CheckedKernel {
  void (*run)(const KernelArgs&);
  CheckedRun run_checked;
};

// Null: nothing can go wrong.
CheckedRun checked_run(const Tactic& tactic);

// Runs it and returns the error, where it can tell one.
inline Status run_tactic(const Tactic& tactic, const KernelArgs& args) {
  if (const CheckedRun checked = checked_run(tactic)) return checked(args);
  tactic.run(args);
  return Status();
}

}  // namespace camshaft::kernels
