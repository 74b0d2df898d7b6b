// SPDX-License-Identifier: Apache-2.0
// What `camshaft trace` prints of a trace that was read.
#pragma once

#include <memory>
#include <string>

#include "cli/trace_report.h"
#include "trace/condition.h"
#include "trace/cross_rank.h"
#include "trace/insights.h"

namespace camshaft::cli {

struct Loaded {
  std::string name;
  std::unique_ptr<trace::Profile> profile;
  trace::Insights insights;  // findings: with what the other ranks of the job say
  std::shared_ptr<const trace::CrossRank> together;  // with the other ranks, itself among them
};

// Finds files of one job (one folder, one span, different workers) and tells their findings what
// the others say.
void join_ranks(std::vector<Loaded>& traces);

Report operator_report(const Loaded& loaded, bool by_shape);
Report kernel_report(const Loaded& loaded, bool by_launch);
Report memory_report(const Loaded& loaded);
Report module_report(const Loaded& loaded);
Report step_report(const Loaded& loaded);
Report collective_report(const Loaded& loaded);
Report rank_report(const Loaded& loaded);
Report diff_report(const Loaded& a, const Loaded& b);

// Figures of both sides and how they changed: "a.X", "b.X", "delta.X", "ratio.X".
trace::Figures diff_figures(const Loaded& a, const Loaded& b);

void write_summary(trace::JsonWriter& json, const Loaded& loaded);
void print_summary(const Loaded& loaded);

}  // namespace camshaft::cli
