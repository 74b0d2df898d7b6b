// SPDX-License-Identifier: Apache-2.0
// A run as a trace in the form PyTorch's profiler writes (Kineto JSON): steps as user annotations,
// layers as cpu_op events, what every thread did of a layer as kernel events.
#pragma once

#include <filesystem>

#include "base/status.h"
#include "camshaft/context.h"

namespace camshaft::cli {

// Runs the context `steps` times (inputs must be bound) and writes `file`; ".gz" at its end:
// compressed.
Status export_trace(Context& context, int steps, const std::filesystem::path& file);

}  // namespace camshaft::cli
