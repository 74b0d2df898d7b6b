// SPDX-License-Identifier: Apache-2.0
// What a step of a plan has to do: multiply-adds, and bytes from and to memory.
#pragma once

#include "engine/engine.h"
#include "runtime/context.h"

namespace camshaft::inspect {

// 0: its kind has none; -1: an extent it depends on is unknown. `context` may be null: dynamic
// extents are unknown then.
double multiply_adds(const engine::Plan& plan, const engine::PlanStep& step,
                     const runtime::Context* context);

// What multiply_adds() counts where the step multiplies less: "direct arithmetic" (Winograd),
// "dense arithmetic" (sparse tactics), "all keys" (attention with lengths). Else empty.
const char* counted_arithmetic(const engine::PlanStep& step);

struct Traffic {
  double io_bytes = 0;  // activations read and written plus weights; -1: unknown
  double weight_bytes = 0;
};
Traffic traffic(const engine::Plan& plan, const engine::PlanStep& step,
                const runtime::Context* context);

}  // namespace camshaft::inspect
