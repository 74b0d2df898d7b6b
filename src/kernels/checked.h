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

}  // namespace camshaft::kernels
