// SPDX-License-Identifier: Apache-2.0
// One trace file in memory: columns of 64-bit nanoseconds and interned strings, no JSON tree.
// Events are in time order (stable: equal times keep the order of the file).
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "trace/string_pool.h"

namespace camshaft::trace {

inline constexpr int64_t kNoId = std::numeric_limits<int64_t>::min();
inline constexpr uint32_t kNoRow = ~0u;

enum class EventKind : uint8_t {
  kOperator,        // cpu_op, operator
  kAnnotation,      // user_annotation on the host
  kGpuAnnotation,   // the same range mirrored onto a device stream
  kPythonOp,        // python
  kPythonFunction,  // python_function
  kModule,          // python_function with a module id
  kRuntime,         // cuda_runtime and its relatives
  kDriver,          // cuda_driver: launches the original does not see
  kKernel,
  kMemcpy,
  kMemset,
  kSpan,   // Trace: "PyTorch Profiler (0)"
  kOther,  // any other complete event: shown in the timeline, counted nowhere
};
inline constexpr int kEventKindCount = 13;
const char* event_kind_name(EventKind kind);

constexpr bool is_device_activity(EventKind kind) {
  return kind == EventKind::kKernel || kind == EventKind::kMemcpy || kind == EventKind::kMemset;
}

// A process and thread (or device and stream) as the file names them.
struct Track {
  StringId pid = 0;
  StringId tid = 0;
  bool tid_is_number = false;
};

// What a metadata event calls a thread or stream.
struct ThreadLabel {
  StringId pid = 0, tid = 0, label = 0;
};

// What an event says beyond name and times lies in the row `detail` of the table of its kind.
struct EventColumns {
  std::vector<int64_t> start_ns;
  std::vector<int64_t> duration_ns;
  std::vector<StringId> name;
  std::vector<uint32_t> track;
  std::vector<uint32_t> detail;
  std::vector<EventKind> kind;

  size_t size() const { return start_ns.size(); }
};

struct HostDetail {  // operators and annotations
  int64_t external_id = kNoId;
  StringId shapes = 0;  // "Input Dims" as Python prints a list; 0: none
  StringId types = 0;   // "Input type", likewise
  StringId call_stack = 0;
  uint32_t collective = kNoRow;
};

struct PythonDetail {
  int64_t id = kNoId;
  int64_t parent_id = kNoId;
  int64_t module_id = kNoId;
};

struct RuntimeDetail {
  int64_t external_id = kNoId;
  int64_t correlation = kNoId;
};

struct DeviceDetail {
  int64_t external_id = kNoId;
  int64_t correlation = kNoId;
  int64_t bytes = 0;
  int64_t shared_memory = 0;  // 0 also when missing or null
  int32_t device = -1;        // -1: not given
  int32_t registers = 0;
  StringId stream = 0;
  StringId grid = 0;  // as Python prints it; 0: not given
  StringId block = 0;
  StringId kernel_type = 0;  // MLU
  StringId dim = 0;          // MLU: "[dimx, dimy, dimz]" or "dim"
  StringId task_topology = 0;
  StringId task_topology_node = 0;
  double blocks_per_sm = -1;  // < 0: not given
  double occupancy = -1;      // percent; < 0: not given
  uint32_t collective = kNoRow;
};

struct CollectiveDetail {
  StringId name = 0;  // "Collective name"
  StringId group = 0;
  StringId group_description = 0;
  StringId ranks = 0;
  StringId dtype = 0;
  int64_t in_elements = 0;
  int64_t out_elements = 0;
  int64_t group_size = 0;
  int64_t sequence = kNoId;
};

struct MemoryColumns {
  std::vector<int64_t> time_ns;
  std::vector<int64_t> bytes;
  std::vector<uint64_t> address;         // 0: not given
  std::vector<int64_t> total_allocated;  // kNoId: not given
  std::vector<int64_t> total_reserved;
  std::vector<uint32_t> track;
  std::vector<int16_t> device_type;
  std::vector<int16_t> device_id;

  size_t size() const { return time_ns.size(); }
};

// Forward-to-backward flow: a start and an end event of one id.
struct FlowEvent {
  int64_t time_ns = 0;
  int64_t id = 0;
  bool is_start = false;
};

struct DeviceProperties {
  int64_t id = 0;
  std::string name;
  int64_t memory_bytes = 0;  // 0: not given
  int64_t memory_raw = 0;    // the figure as the file has it, in bytes or MiB
  int compute_major = -1;    // -1: not given
  int compute_minor = -1;
  int sm_count = 0;
};

struct ReadReport {
  uint64_t json_bytes = 0;         // after decompression
  uint64_t events = 0;             // objects in the event array
  uint64_t repaired_events = 0;    // with raw control characters, broken UTF-8, bare words
  uint64_t skipped_events = 0;     // not readable even so
  uint64_t incomplete_events = 0;  // without times or name: left out
  bool truncated = false;          // the file ended inside the JSON
  std::string note;                // in words, empty when all is well
};

struct Trace {
  StringPool strings;
  std::vector<Track> tracks;
  std::vector<ThreadLabel> labels;
  EventColumns events;
  std::vector<HostDetail> host;
  std::vector<PythonDetail> python;
  std::vector<RuntimeDetail> runtime;
  std::vector<DeviceDetail> device;
  std::vector<CollectiveDetail> collectives;
  MemoryColumns memory;
  std::vector<FlowEvent> flows;

  std::vector<DeviceProperties> device_properties;
  std::string distributed_backend;
  int64_t rank = -1;
  int64_t world_size = 0;
  std::string framework;
  int64_t base_time_ns = 0;
  // Of the instants "Iteration Start: …" and "Record Window End"; kNoId: not there.
  int64_t iteration_start_ns = kNoId, window_end_ns = kNoId;
  bool integral_times = true;  // every time of the file is a whole microsecond
  ReadReport report;

  std::string_view name_of(size_t event) const { return strings[events.name[event]]; }
  int64_t end_ns(size_t event) const { return events.start_ns[event] + events.duration_ns[event]; }
  size_t bytes() const;  // of memory held
};

// Brings `trace.events` and `trace.memory` into time order.
void sort_by_time(Trace& trace);

}  // namespace camshaft::trace
