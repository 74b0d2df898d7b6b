// SPDX-License-Identifier: Apache-2.0
// The layers of a plan as the inspector tells them: types, extents, formats, work, provenance.
#pragma once

#include <vector>

#include "camshaft/inspector.h"
#include "engine/engine.h"
#include "runtime/context.h"

namespace camshaft::inspect {

// One entry per plan step. `context` may be null: dynamic extents are then -1 and what depends on
// them unknown.
std::vector<LayerInfo> collect_layers(const engine::Engine& engine,
                                      const runtime::Context* context);

// Extents of a plan tensor: numbers from the context, else from the plan, -1 where only a run can
// tell.
Dims tensor_dims(const engine::Plan& plan, int tensor, const runtime::Context* context);

LayerTensor describe_tensor(const engine::Plan& plan, int tensor, const runtime::Context* context);

// FMA peak of one thread, 1e9 multiply-adds/s: of the build record, else measured once here if this
// is the engine's kind of machine (the record of a deterministic build has none); 0: unknown.
double thread_peak_gmacs(const engine::Engine& engine);

// What one thread multiplies of the layer's numbers beside that: 3.9 for bytes where one
// instruction adds four products of them up, 2 for bfloat16 with one that adds two, 1 where nothing
// says.
double peak_factor(const engine::Engine& engine, const LayerInfo& layer);

// The 16-bit type the step's tactic multiplies in; kUndefined: as its tensors are.
ir::DataType tactic_precision(const engine::PlanStep& step);

// Whether only running tells the step's extents, so that a step without a tactic looks for one
// then.
bool is_late(const engine::Plan& plan, const engine::PlanStep& step);

// "NoOp" for a view, "Reformat" for a lone Q/DQ, else the kind.
std::string layer_type(const engine::Plan& plan, const engine::PlanStep& step);

}  // namespace camshaft::inspect
