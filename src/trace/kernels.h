// SPDX-License-Identifier: Apache-2.0
// Kernels grouped by name and by launch properties, and how busy they kept each device.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trace/launches.h"
#include "trace/operators.h"
#include "trace/ranges.h"
#include "trace/steps.h"

namespace camshaft::trace {

struct KernelGroup {
  StringId name = 0;
  // Of groups by properties only.
  StringId op = 0;          // 0: see op_is_root
  bool op_is_root = false;  // launched by no operator
  bool has_launch = true;   // false: nor by any call, "CallTreeRoot" in the original
  std::string site;         // of calls outside operators: where they were made, what was captured
  StringId grid = 0, block = 0;
  int64_t registers = 0, shared_memory = 0;
  StringId kernel_type = 0, dim = 0, task_topology = 0, task_topology_node = 0;
  bool op_tc_eligible = false;

  bool uses_tensor_cores = false;
  int64_t calls = 0;
  Ticks total = 0, longest = 0, shortest = 0;
  double mean_blocks = 0, mean_occupancy = 0;  // weighted by length; missing values count as 0

  Ticks mean() const { return calls > 0 ? total / static_cast<double>(calls) : 0; }
};

struct KernelTables {
  std::vector<KernelGroup> by_name;        // descending by total, names ascending among equals
  std::vector<KernelGroup> by_properties;  // descending by total, then in order of appearance
  bool has_blocks = false, has_occupancy = false;
  Ticks total = 0, tc_total = 0;
  // Kernels that no operator, module or step launched.
  int64_t unattributed_calls = 0;
  Ticks unattributed_total = 0;
  // Of them, those whose launch the trace does not hold at all.
  int64_t unrecorded_calls = 0;
  Ticks unrecorded_total = 0;
};

KernelTables group_kernels(const Trace& trace, const Clock& clock, const Semantics& semantics,
                           const CallForest& forest, const Launches& launches,
                           const std::vector<bool>& lost);

// The operator of a group by properties, else the call that launched it, or that none is recorded.
inline constexpr std::string_view kUnattributed = "<unattributed>";
std::string operator_label(const Trace& trace, const KernelGroup& group);

struct CounterPoint {  // a stretch of constant SM efficiency
  Ticks start = 0, end = 0;
  double value = 0;
};

struct DeviceUse {
  int64_t device = 0;
  Ranges busy;                           // merged kernels
  std::vector<CounterPoint> efficiency;  // stretches with a value above 0
  std::vector<double> utilization_buckets;
  double utilization = 0;
  std::optional<double> sm_efficiency, occupancy;  // fraction, percent
  std::optional<double> tensor_core_share;         // by the plugin's list of kernels
  // By our list, of all kernels but collectives; the rest of the time no matrix unit worked.
  double matrix_share = 0;
  double matrix_unknown_share = 0;  // of kernels whose names do not tell
};

struct DeviceUses {
  std::vector<DeviceUse> devices;  // by ascending id
  Ticks first_bucket = 0, bucket_width = 0, last_end = 0;
  double eligible_share =
      0;  // of kernel time launched by operators: under Tensor Core eligible ones
  bool has_operator_kernels = false;
};

DeviceUses measure_devices(const Trace& trace, const Clock& clock, const Semantics& semantics,
                           const CallForest& forest, const Launches& launches,
                           const std::vector<NodeTimes>& times, const Steps& steps);

}  // namespace camshaft::trace
