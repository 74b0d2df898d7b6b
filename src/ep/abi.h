// SPDX-License-Identifier: Apache-2.0
// The part of ONNX Runtime's C interface that a plugin meets, declared for this plugin: opaque
// handles, numbers, and tables of function pointers. Tables only ever grow at their end, so an
// entry is its position. Names follow ours; docs/onnxruntime.md says which versions were tried.
#pragma once

#include <cstddef>
#include <cstdint>

namespace camshaft::ep::abi {

// Interface versions are ONNX Runtime's minor versions. Structures below are complete up to
// kNewest.
inline constexpr uint32_t kOldest = 23, kNewest = 29;

struct Status;
struct Value;
struct TypeInfo;
struct TensorInfo;  // element type and shape
struct SessionOptions;
struct RunOptions;
struct Logger;
struct MemoryInfo;
struct MemoryDevice;
struct Allocator;
struct KernelContext;
struct KernelRegistry;
struct ValueInfo;
struct Node;
struct Graph;
struct OpAttr;
struct KeyValuePairs;
struct HardwareDevice;
struct EpDevice;
struct ExternalInitializerInfo;
struct GraphSupportInfo;
struct NodeComputeContext;
struct SyncStreamImpl;
struct DataTransferImpl;
struct ExternalResourceImporter;
struct CustomOpDomain;
struct IncompatibilityDetails;
struct ContextConfig;
struct ProfilingEvent;
struct ProfilingEventsContainer;

enum ErrorCode : int { kFail = 1, kInvalidArgument = 2, kNotImplemented = 9, kEpFail = 11 };
enum LogLevel : int { kLogVerbose = 0, kLogInfo = 1, kLogWarning = 2, kLogError = 3 };
enum ValueKind : int { kTensor = 1 };
enum DeviceType : int { kCpu = 0 };
enum AttributeKind : int {
  kAttributeInt = 1,
  kAttributeInts = 2,
  kAttributeFloat = 3,
  kAttributeFloats = 4,
  kAttributeString = 5,
  kAttributeStrings = 6,
  kAttributeGraph = 7,
  kAttributeTensor = 8
};
enum Compatibility : int {
  kNotApplicable = 0,
  kOptimal = 1,
  kPreferRecompilation = 2,
  kUnsupported = 3
};
enum EventCategory : int { kNodeEvent = 1, kKernelEvent = 2 };

// An entry of a table of functions: where it is and what it takes.
template <size_t kIndex, class Function>
struct Slot {};

class Table {
 public:
  explicit Table(const void* table = nullptr) : entries_(static_cast<void* const*>(table)) {}
  explicit operator bool() const { return entries_ != nullptr; }

  template <size_t kIndex, class Out, class... In>
  Out operator()(Slot<kIndex, Out(In...)>, std::type_identity_t<In>... in) const {
    return reinterpret_cast<Out (*)(In...)>(entries_[kIndex])(in...);
  }

 private:
  void* const* entries_;
};

namespace base {
inline constexpr Slot<0, const void*(uint32_t)> kGetApi;
inline constexpr Slot<1, const char*()> kVersionText;
}  // namespace base

namespace api {
inline constexpr Slot<0, Status*(int, const char*)> kCreateStatus;
inline constexpr Slot<2, const char*(const Status*)> kErrorMessage;
inline constexpr Slot<51, Status*(Value*, void**)> kTensorMutableData;
inline constexpr Slot<55, Status*(const TypeInfo*, const TensorInfo**)> kAsTensorInfo;
inline constexpr Slot<56, Status*(const TypeInfo*, int*)> kValueKind;
inline constexpr Slot<60, Status*(const TensorInfo*, int*)> kElementType;
inline constexpr Slot<61, Status*(const TensorInfo*, size_t*)> kRank;
inline constexpr Slot<62, Status*(const TensorInfo*, int64_t*, size_t)> kExtents;
inline constexpr Slot<63, Status*(const TensorInfo*, const char**, size_t)> kSymbols;
inline constexpr Slot<65, Status*(const Value*, TensorInfo**)> kTensorInfo;
inline constexpr Slot<76, Status*(Allocator*, void*)> kFree;
inline constexpr Slot<78, Status*(Allocator**)> kDefaultAllocator;
inline constexpr Slot<88, Status*(const KernelContext*, size_t*)> kInputCount;
inline constexpr Slot<90, Status*(const KernelContext*, size_t, const Value**)> kInput;
inline constexpr Slot<91, Status*(KernelContext*, size_t, const int64_t*, size_t, Value**)> kOutput;
inline constexpr Slot<93, void(Status*)> kReleaseStatus;
inline constexpr Slot<96, void(Value*)> kReleaseValue;
inline constexpr Slot<99, void(TensorInfo*)> kReleaseTensorInfo;
inline constexpr Slot<211, Status*(const char*, const void*, int, int, OpAttr**)> kCreateAttribute;
inline constexpr Slot<212, void(OpAttr*)> kReleaseAttribute;
inline constexpr Slot<247, Status*(const Logger*, int, const char*, const char*, int, const char*)>
    kLogMessage;
inline constexpr Slot<272, Status*(const OpAttr*, int, void*, size_t, size_t*)> kReadAttribute;
inline constexpr Slot<274,
                      Status*(const KernelContext*, void (*)(void*, size_t), size_t, size_t, void*)>
    kParallelFor;
inline constexpr Slot<289, Status*(const ValueInfo*, const char**)> kValueName;
inline constexpr Slot<290, Status*(const ValueInfo*, const TypeInfo**)> kValueType;
inline constexpr Slot<291, const void*()> kModelEditor;
inline constexpr Slot<295, void(KeyValuePairs**)> kCreatePairs;
inline constexpr Slot<296, void(KeyValuePairs*, const char*, const char*)> kAddPair;
inline constexpr Slot<298,
                      void(const KeyValuePairs*, const char* const**, const char* const**, size_t*)>
    kPairs;
inline constexpr Slot<300, void(KeyValuePairs*)> kReleasePairs;
inline constexpr Slot<307, int(const HardwareDevice*)> kDeviceType;
inline constexpr Slot<317, const void*()> kEpApi;
inline constexpr Slot<318, Status*(const Value*, size_t*)> kTensorBytes;
inline constexpr Slot<326, Status*(const ValueInfo*, const Value**)> kInitializer;
inline constexpr Slot<327, Status*(const ValueInfo*, ExternalInitializerInfo**)> kExternal;
inline constexpr Slot<331, Status*(const ValueInfo*, bool*)> kIsConstant;
inline constexpr Slot<332, Status*(const ValueInfo*, bool*)> kIsFromOutside;
inline constexpr Slot<333, Status*(const Graph*, const char**)> kGraphName;
inline constexpr Slot<334, Status*(const Graph*, const char**)> kModelPath;
inline constexpr Slot<335, Status*(const Graph*, int64_t*)> kIrVersion;
inline constexpr Slot<336, Status*(const Graph*, size_t*)> kOpsetCount;
inline constexpr Slot<337, Status*(const Graph*, const char**, int64_t*, size_t)> kOpsets;
inline constexpr Slot<338, Status*(const Graph*, size_t*)> kGraphInputCount;
inline constexpr Slot<339, Status*(const Graph*, const ValueInfo**, size_t)> kGraphInputs;
inline constexpr Slot<340, Status*(const Graph*, size_t*)> kGraphOutputCount;
inline constexpr Slot<341, Status*(const Graph*, const ValueInfo**, size_t)> kGraphOutputs;
inline constexpr Slot<342, Status*(const Graph*, size_t*)> kInitializerCount;
inline constexpr Slot<343, Status*(const Graph*, const ValueInfo**, size_t)> kInitializers;
inline constexpr Slot<344, Status*(const Graph*, size_t*)> kNodeCount;
inline constexpr Slot<345, Status*(const Graph*, const Node**, size_t)> kNodes;
inline constexpr uint32_t kParentNodeSince = 24;  // while nodes are asked for
inline constexpr Slot<346, Status*(const Graph*, const Node**)> kParentNode;
inline constexpr Slot<349, Status*(const Node*, const char**)> kNodeName;
inline constexpr Slot<350, Status*(const Node*, const char**)> kOperator;
inline constexpr Slot<351, Status*(const Node*, const char**)> kDomain;
inline constexpr Slot<353, Status*(const Node*, size_t*)> kNodeInputCount;
inline constexpr Slot<354, Status*(const Node*, const ValueInfo**, size_t)> kNodeInputs;
inline constexpr Slot<355, Status*(const Node*, size_t*)> kNodeOutputCount;
inline constexpr Slot<356, Status*(const Node*, const ValueInfo**, size_t)> kNodeOutputs;
inline constexpr Slot<357, Status*(const Node*, size_t*)> kImplicitCount;
inline constexpr Slot<358, Status*(const Node*, const ValueInfo**, size_t)> kImplicit;
inline constexpr Slot<359, Status*(const Node*, size_t*)> kAttributeCount;
inline constexpr Slot<360, Status*(const Node*, const OpAttr**, size_t)> kAttributes;
inline constexpr Slot<362, Status*(const OpAttr*, Value**)> kTensorAttribute;
inline constexpr Slot<363, Status*(const OpAttr*, int*)> kAttributeKind;
inline constexpr Slot<364, Status*(const OpAttr*, const char**)> kAttributeName;
inline constexpr Slot<365, Status*(const Node*, size_t*)> kSubgraphCount;
inline constexpr Slot<366, Status*(const Node*, const Graph**, size_t, const char**)> kSubgraphs;
inline constexpr Slot<368, Status*(const Node*, const char**)> kNodeEp;
inline constexpr Slot<369, void(ExternalInitializerInfo*)> kReleaseExternal;
inline constexpr Slot<370, const char*(const ExternalInitializerInfo*)> kExternalFile;
inline constexpr Slot<371, int64_t(const ExternalInitializerInfo*)> kExternalOffset;
inline constexpr Slot<372, size_t(const ExternalInitializerInfo*)> kExternalBytes;
inline constexpr Slot<378, Status*(const Value*, const void**)> kTensorData;
inline constexpr Slot<379, Status*(const SessionOptions*, KeyValuePairs**)> kConfigEntries;
inline constexpr uint32_t kHasShapeSince = 24;
inline constexpr Slot<390, bool(const TensorInfo*)> kHasShape;
inline constexpr uint32_t kShapeReferenceSince = 25;
inline constexpr Slot<414, Status*(const Value*, int*, const int64_t**, size_t*)> kShapeReference;
}  // namespace api

// An application's functions for named data: what is read belongs to the allocator.
using ReadNamed = Status* (*)(void* state, const char* name, Allocator*, void** data,
                              size_t* bytes);
using WriteNamed = Status* (*)(void* state, const char* name, const void* data, size_t bytes);

// The functions for the authors of execution providers.
struct EpFactory;
struct NodeFusionOptions;
namespace ep_api {
inline constexpr Slot<0, Status*(EpFactory*, const HardwareDevice*, const KeyValuePairs*,
                                 const KeyValuePairs*, EpDevice**)>
    kCreateEpDevice;
inline constexpr Slot<2, Status*(GraphSupportInfo*, const Node* const*, size_t,
                                 const NodeFusionOptions*)>
    kAddNodesToFuse;
inline constexpr uint32_t kProfilingSince = 25;
inline constexpr Slot<65, Status*(int, int32_t, int32_t, const char*, int64_t, int64_t,
                                  const char* const*, const char* const*, size_t, ProfilingEvent**)>
    kCreateEvent;
inline constexpr Slot<66, void(ProfilingEvent*)> kReleaseEvent;
inline constexpr Slot<72, Status*(ProfilingEventsContainer*, const ProfilingEvent* const*, size_t)>
    kAddEvents;
inline constexpr uint32_t kContextDataSince = 31;
inline constexpr Slot<74, Status*(const SessionOptions*, ContextConfig**)> kContextConfig;
inline constexpr Slot<75, void(ContextConfig*)> kReleaseContextConfig;
inline constexpr Slot<76, Status*(const ContextConfig*, ReadNamed*, void**)> kContextReader;
inline constexpr Slot<77, Status*(const ContextConfig*, WriteNamed*, void**)> kContextWriter;
}  // namespace ep_api

namespace editor {
inline constexpr Slot<6, Status*(const char*, const char*, const char*, const char* const*, size_t,
                                 const char* const*, size_t, OpAttr**, size_t, Node**)>
    kCreateNode;
}  // namespace editor

// Structures that we fill. The first member of each is the interface version they were filled for.
struct NodeFusionOptions {
  uint32_t version;
  bool drop_constant_initializers;
};

struct NodeComputeInfo {
  uint32_t version;
  Status* (*create_state)(NodeComputeInfo*, NodeComputeContext*, void** state);
  Status* (*compute)(NodeComputeInfo*, void* state, KernelContext*);
  void (*release_state)(NodeComputeInfo*, void* state);
};

struct EpProfiler {
  uint32_t version;
  void (*release)(EpProfiler*);
  Status* (*start_profiling)(EpProfiler*, int64_t offset_ns);
  Status* (*start_event)(EpProfiler*, uint64_t correlation);
  Status* (*stop_event)(EpProfiler*, uint64_t correlation, const ProfilingEvent*);
  Status* (*end_profiling)(EpProfiler*, ProfilingEventsContainer*);
};

struct ResourceCount {
  uint32_t kind;  // 0: none
  uint32_t reserved;
  uint64_t words[6];
};

enum ContextDataSupport : uint32_t { kReadsContextData = 1, kWritesContextData = 2 };

struct Ep {
  uint32_t version;
  const char* (*get_name)(const Ep*);
  Status* (*get_capability)(Ep*, const Graph*, GraphSupportInfo*);
  Status* (*compile)(Ep*, const Graph** graphs, const Node** fused, size_t count,
                     NodeComputeInfo** infos, Node** context_nodes);
  void (*release_compute_infos)(Ep*, NodeComputeInfo**, size_t);
  Status* (*preferred_layout)(Ep*, int* layout);
  Status* (*should_convert_layout)(Ep*, const char* domain, const char* op, int layout,
                                   int* answer);
  Status* (*set_dynamic_options)(Ep*, const char* const* keys, const char* const* values, size_t);
  Status* (*on_run_start)(Ep*, const RunOptions*);
  Status* (*on_run_end)(Ep*, const RunOptions*, bool sync_stream);
  Status* (*create_allocator)(Ep*, const MemoryInfo*, Allocator**);
  Status* (*create_stream)(Ep*, const MemoryDevice*, SyncStreamImpl**);
  const char* (*compatibility_info)(Ep*, const Graph*);
  // 1.24
  Status* (*kernel_registry)(Ep*, const KernelRegistry**);
  Status* (*is_concurrent_run_supported)(Ep*, bool*);
  // 1.25
  Status* (*sync)(Ep*);
  Status* (*create_profiler)(Ep*, EpProfiler**);
  // 1.26
  bool (*is_graph_capture_enabled)(const Ep*);
  bool (*is_graph_captured)(const Ep*, int annotation);
  Status* (*replay_graph)(Ep*, int annotation);
  int (*graph_capture_policy)(const Ep*);
  Status* (*available_resource)(const Ep*, ResourceCount*);
  // 1.27
  Status* (*on_session_initialized)(Ep*);
  Status* (*default_memory_device)(const Ep*, const MemoryDevice**);
  Status* (*release_captured_graph)(Ep*, int annotation);
  // 1.29
  Status* (*weightless_support)(const Ep*, int*);
  // 1.31
  Status* (*context_data_support)(const Ep*, uint32_t* flags);
  void* later[8];  // none: what a host of 1.31 may look for behind it
};

struct EpFactory {
  uint32_t version;
  const char* (*get_name)(const EpFactory*);
  const char* (*get_vendor)(const EpFactory*);
  Status* (*get_supported_devices)(EpFactory*, const HardwareDevice* const* devices, size_t count,
                                   EpDevice** claimed, size_t most, size_t* claimed_count);
  Status* (*create_ep)(EpFactory*, const HardwareDevice* const* devices,
                       const KeyValuePairs* const* metadata, size_t count, const SessionOptions*,
                       const Logger*, Ep**);
  void (*release_ep)(EpFactory*, Ep*);
  uint32_t (*get_vendor_id)(const EpFactory*);
  const char* (*get_version)(const EpFactory*);
  Status* (*validate_compiled_model)(EpFactory*, const HardwareDevice* const* devices, size_t count,
                                     const char* info, int* compatibility);
  Status* (*create_allocator)(EpFactory*, const MemoryInfo*, const KeyValuePairs*, Allocator**);
  void (*release_allocator)(EpFactory*, Allocator*);
  Status* (*create_data_transfer)(EpFactory*, DataTransferImpl**);
  bool (*is_stream_aware)(const EpFactory*);
  Status* (*create_stream)(EpFactory*, const MemoryDevice*, const KeyValuePairs*, SyncStreamImpl**);
  // 1.24
  Status* (*incompatibility_details)(EpFactory*, const HardwareDevice*, IncompatibilityDetails*);
  Status* (*create_resource_importer)(EpFactory*, const EpDevice*, ExternalResourceImporter**);
  Status* (*custom_op_domain_count)(EpFactory*, size_t*);
  Status* (*custom_op_domains)(EpFactory*, CustomOpDomain**, size_t);
  // 1.25
  Status* (*init_graphics)(EpFactory*, const EpDevice*, const void* config);
  Status* (*deinit_graphics)(EpFactory*, const EpDevice*);
  // 1.28
  Status* (*select_best_candidate)(EpFactory*, const HardwareDevice*,
                                   const KeyValuePairs* const* candidates, size_t count,
                                   const SessionOptions*, size_t* selected);
};

}  // namespace camshaft::ep::abi
