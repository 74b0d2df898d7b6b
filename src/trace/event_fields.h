// SPDX-License-Identifier: Apache-2.0
// The fields of a trace file's events that are kept, by the names Kineto and its forks give them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "trace/trace.h"

namespace camshaft::trace {

// The fields of an event that are kept. kArg…: members of "args".
enum Field : uint8_t {
  kPhase,
  kCategory,
  kName,
  kPid,
  kTid,
  kTime,
  kDuration,
  kFlowId,
  kExternalId,
  kCorrelation,
  kInputDims,
  kInputTypes,
  kCallStack,
  kPythonId,
  kPythonParent,
  kPythonModule,
  kDevice,
  kStream,
  kGrid,
  kBlock,
  kRegisters,
  kSharedMemory,
  kBlocksPerSm,
  kOccupancy,
  kByteCount,
  kDeviceType,
  kDeviceId,
  kAddress,
  kBytes,
  kTotalAllocated,
  kTotalReserved,
  kKernelType,
  kDimX,
  kDimY,
  kDimZ,
  kDim,
  kTaskTopology,
  kTaskTopologyNode,
  kCollectiveName,
  kInElements,
  kOutElements,
  kElementType,
  kGroupSize,
  kGroupName,
  kGroupDescription,
  kGroupRanks,
  kSequence,
  kLabel,
  kFieldCount
};
static_assert(kFieldCount <= 64);

struct FieldName {
  std::string_view text;
  Field field;
};

// Names by first letter and length: one comparison per key of the file.
class FieldTable {
 public:
  explicit FieldTable(std::span<const FieldName> names) {
    for (const FieldName& name : names) slots_[slot_of(name.text)].push_back(name);
  }
  int find(std::string_view key) const {
    for (const FieldName& name : slots_[slot_of(key)])
      if (name.text == key) return name.field;
    return -1;
  }

 private:
  static size_t slot_of(std::string_view key) {
    return key.empty() ? 0 : (static_cast<unsigned char>(key[0]) * 7 + key.size() * 3) & 127;
  }
  std::array<std::vector<FieldName>, 128> slots_;
};

const FieldTable& event_fields();
const FieldTable& argument_fields();  // members of "args"

// One event's fields as raw JSON tokens.
struct RawEvent {
  uint64_t present = 0;
  std::array<std::string_view, kFieldCount> values;

  bool has(Field field) const { return present >> field & 1; }
  void set(int field, std::string_view value) {
    // "External id" and "external id" in one event: the lower-case one is the device side's own and
    // comes later.
    values[field] = value;
    present |= uint64_t{1} << field;
  }
  std::string_view operator[](Field field) const {
    return has(field) ? values[field] : std::string_view();
  }
};

// By the text of "cat", in any case.
EventKind kind_of_category(std::string_view category);

}  // namespace camshaft::trace
