// SPDX-License-Identifier: Apache-2.0
// Memory by operator, as a curve and as allocations with their releases.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trace/call_forest.h"

namespace camshaft::trace {

inline constexpr uint16_t kNoDevice = 0xffff;

struct MemoryIndex {
  std::vector<std::string> devices;        // "CPU", "GPU0", …: in order of first appearance
  std::vector<uint16_t> device_of_record;  // kNoDevice: of a kind that is not shown
  std::vector<uint32_t> node_of_record;    // deepest node of the record's thread, kNoRow: none
  std::vector<uint32_t> named_by;  // record whose node names this one: a release's allocation
  std::vector<bool> holds_record;  // by node: it or a node below has a record
};

struct MemoryWindow {
  Ticks start = -1e300, end = 1e300;  // inclusive
};

struct MemoryStat {
  StringId name = 0;
  int64_t calls = 0;
  int64_t increase = 0, self_increase = 0;  // bytes
  int64_t allocations = 0, self_allocations = 0;
  int64_t allocated = 0, self_allocated = 0;  // bytes
  // Of what was allocated: not freed when the window ends. 0 where the file has no addresses, which
  // would tell what a release releases.
  int64_t kept = 0, self_kept = 0;
};

struct Allocation {
  std::string op;
  int64_t bytes = 0;
  std::optional<Ticks> allocated, released;
};

struct CurvePoint {
  Ticks time = 0;
  double allocated = 0, reserved = 0;
};

struct MemoryCurve {
  uint16_t device = 0;
  std::vector<CurvePoint> points;  // a step function: two points per change
  int64_t peak = 0;
};

MemoryIndex index_memory(const Trace& trace, const Clock& clock, const Semantics& semantics,
                         const CallForest& forest);

// Per device (position as in MemoryIndex::devices) the operators' sums, by name.
std::vector<std::vector<MemoryStat>> memory_stats(
    const Trace& trace, const Clock& clock, const Semantics& semantics, const CallForest& forest,
    const MemoryIndex& index, const std::vector<bool>& lost, const MemoryWindow& window);
std::vector<std::vector<Allocation>> memory_events(
    const Trace& trace, const Clock& clock, const Semantics& semantics, const CallForest& forest,
    const MemoryIndex& index, const std::vector<bool>& lost, const MemoryWindow& window);
std::vector<MemoryCurve> memory_curves(const Trace& trace, const Clock& clock,
                                       const MemoryIndex& index);

// Largest-triangle-three-buckets: at most `most` points that keep the shape of (time, allocated).
std::vector<CurvePoint> thinned(std::vector<CurvePoint> points, size_t most);

}  // namespace camshaft::trace
