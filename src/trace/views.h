// SPDX-License-Identifier: Apache-2.0
// Answers of the plugin's routes made from profiles.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/answers.h"
#include "trace/profile.h"

namespace camshaft::trace {

OverviewAnswer overview(const Profile& profile, size_t workers_of_run);
OperationAnswer operation_pies(const Profile& profile, bool by_shape);
OperationTableAnswer operation_table(const Profile& profile, bool by_shape);
OperationTableAnswer operation_stacks(const Profile& profile, bool by_shape, std::string_view op,
                                      std::string_view input_shape);
TotalAnswer kernel_pie(const Profile& profile);
KernelTableAnswer kernel_table(const Profile& profile);
KernelTableAnswer kernel_table_by_properties(const Profile& profile);
TotalAnswer tensor_core_pie(const Profile& profile);

struct MemoryRequest {
  MemoryWindow window;
  std::string time_metric = "ms";
  std::string memory_metric;  // "": the route's own
};
std::string memory_stats_json(const Profile& profile, const MemoryRequest& request);
std::string memory_curve_json(const Profile& profile, const MemoryRequest& request);
std::string memory_events_json(const Profile& profile, const MemoryRequest& request);
// False for a word that is no unit.
bool known_metrics(const MemoryRequest& request);

std::string modules_json(const Profile& profile);

// Part of the call tree. With a limit, levels are cut off from below (and children of one node from
// the end) until about that many nodes are left; a node with something left out says how many
// ("omitted") and by which number to ask for it ("node").
struct TreeRequest {
  uint32_t root = kNoRow;  // of the call forest; none: the first thread's
  size_t limit = 0;        // 0: everything
};
using TextSink = std::function<bool(std::string_view)>;
// Gives the text away in pieces of about a megabyte until all is written or `sink` says no.
bool write_tree(const Profile& profile, const TreeRequest& request, const TextSink& sink);
// The counter events that /trace adds to the file.
// The counter events of /trace as "{…}, {…}"; false when the sink would not take them.
bool write_counters(const Profile& profile, const TextSink& sink);

// Views a profile has, by their names in the page.
std::vector<std::string> view_names(const Profile& profile);

}  // namespace camshaft::trace
