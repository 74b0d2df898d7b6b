// SPDX-License-Identifier: Apache-2.0
// What `camshaft trace` prints of a trace that was read.
#pragma once

#include <memory>
#include <string>

#include "cli/trace_report.h"
#include "trace/condition.h"
#include "trace/insights.h"

namespace camshaft::cli {

struct Loaded {
  std::string name;
  std::unique_ptr<trace::Profile> profile;
  trace::Insights insights;
};

Report operator_report(const Loaded& loaded, bool by_shape);
Report kernel_report(const Loaded& loaded, bool by_launch);
Report memory_report(const Loaded& loaded);
Report diff_report(const Loaded& a, const Loaded& b);

// Figures of both sides and how they changed: "a.X", "b.X", "delta.X", "ratio.X".
trace::Figures diff_figures(const Loaded& a, const Loaded& b);

void write_summary(trace::JsonWriter& json, const Loaded& loaded);
void print_summary(const Loaded& loaded);

}  // namespace camshaft::cli
