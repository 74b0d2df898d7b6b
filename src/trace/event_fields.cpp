// SPDX-License-Identifier: Apache-2.0
#include "trace/event_fields.h"

#include <algorithm>

namespace camshaft::trace {
namespace {

constexpr FieldName kEventFields[] = {
    {"ph", kPhase}, {"cat", kCategory}, {"name", kName},    {"pid", kPid},
    {"tid", kTid},  {"ts", kTime},      {"dur", kDuration}, {"id", kFlowId},
};

constexpr FieldName kArgumentFields[] = {
    {"External id", kExternalId},
    {"external id", kExternalId},
    {"correlation", kCorrelation},
    {"Input Dims", kInputDims},
    {"Input dims", kInputDims},
    {"Input type", kInputTypes},
    {"Call stack", kCallStack},
    {"Python id", kPythonId},
    {"Python parent id", kPythonParent},
    {"Python module id", kPythonModule},
    {"device", kDevice},
    {"stream", kStream},
    {"grid", kGrid},
    {"block", kBlock},
    {"registers per thread", kRegisters},
    {"shared memory", kSharedMemory},
    {"blocks per SM", kBlocksPerSm},
    {"est. achieved occupancy %", kOccupancy},
    {"bytes", kByteCount},
    {"Device Type", kDeviceType},
    {"Device Id", kDeviceId},
    {"Addr", kAddress},
    {"Bytes", kBytes},
    {"Total Allocated", kTotalAllocated},
    {"Total Reserved", kTotalReserved},
    {"kernel type", kKernelType},
    {"dimx", kDimX},
    {"dimy", kDimY},
    {"dimz", kDimZ},
    {"dim", kDim},
    {"tasktopo", kTaskTopology},
    {"tasktopo_node", kTaskTopologyNode},
    {"Collective name", kCollectiveName},
    {"In msg nelems", kInElements},
    {"Out msg nelems", kOutElements},
    {"dtype", kElementType},
    {"Group size", kGroupSize},
    {"Process Group Name", kGroupName},
    {"Process Group Description", kGroupDescription},
    {"Process Group Ranks", kGroupRanks},
    {"Seq", kSequence},
    {"name", kLabel},  // of a thread, in metadata events
};

struct CategoryName {
  std::string_view text;
  EventKind kind;
};

constexpr CategoryName kCategories[] = {
    {"cpu_op", EventKind::kOperator},
    {"operator", EventKind::kOperator},
    {"user_annotation", EventKind::kAnnotation},
    {"gpu_user_annotation", EventKind::kGpuAnnotation},
    {"mlu_user_annotation", EventKind::kGpuAnnotation},
    {"python", EventKind::kPythonOp},
    {"python_function", EventKind::kPythonFunction},
    {"cuda_runtime", EventKind::kRuntime},
    {"runtime", EventKind::kRuntime},
    {"mtia_runtime", EventKind::kRuntime},
    {"glow_runtime", EventKind::kRuntime},
    {"xpu_runtime", EventKind::kRuntime},
    {"privateuse1_runtime", EventKind::kRuntime},
    {"mlu_runtime", EventKind::kRuntime},
    {"hip_runtime", EventKind::kRuntime},
    {"npu_runtime", EventKind::kRuntime},
    {"cuda_driver", EventKind::kDriver},
    {"hip_driver", EventKind::kDriver},
    {"xpu_driver", EventKind::kDriver},
    {"privateuse1_driver", EventKind::kDriver},
    {"kernel", EventKind::kKernel},
    {"gpu_memcpy", EventKind::kMemcpy},
    {"memcpy", EventKind::kMemcpy},
    {"mlu_memcpy", EventKind::kMemcpy},
    {"gpu_memset", EventKind::kMemset},
    {"memset", EventKind::kMemset},
    {"mlu_memset", EventKind::kMemset},
    {"trace", EventKind::kSpan},
};

}  // namespace

const FieldTable& event_fields() {
  static const FieldTable table(kEventFields);
  return table;
}
const FieldTable& argument_fields() {
  static const FieldTable table(kArgumentFields);
  return table;
}

EventKind kind_of_category(std::string_view category) {
  for (const CategoryName& known : kCategories)
    if (known.text.size() == category.size() &&
        std::equal(category.begin(), category.end(), known.text.begin(),
                   [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; }))
      return known.kind;
  return EventKind::kOther;
}

}  // namespace camshaft::trace
