// SPDX-License-Identifier: Apache-2.0
// What a kernel sees (views, arguments) and what the tuner sees (tactics, problems).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "ir/attrs.h"
#include "ir/graph.h"

namespace camshaft::kernels {

using ir::DataType;
using ir::Format;

// A tensor in memory. Extents are in ONNX order; strides (in elements) say how they lie: a
// channel-last tensor, a slice of a larger buffer and a row-major tensor differ in strides only.
// data null: an optional input that is absent (rank -1).
struct TensorView {
  void* data = nullptr;
  DataType type = DataType::kUndefined;
  Format format = Format::kLinear;
  int rank = -1;
  int64_t extents[ir::kMaxRank] = {};
  int64_t strides[ir::kMaxRank] = {};

  bool present() const { return rank >= 0; }
  int64_t elements() const;
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

// Strides of a dense tensor in `format`.
void set_dense_strides(TensorView& view);
TensorView make_view(void* data, DataType type, Format format, std::span<const int64_t> extents);
bool is_dense(const TensorView& view);  // strides are exactly those of set_dense_strides

struct KernelArgs {
  const ir::Layer* layer = nullptr;  // kind and attributes (links are not used)
  std::span<const TensorView> inputs;
  std::span<const TensorView> outputs;
  const std::byte* packed = nullptr;  // the constant inputs as the tactic's pack() laid them out
  std::byte* workspace = nullptr;     // as much as the prepared kernel wants, 64-byte aligned
  ThreadPool* pool = nullptr;
};

// One tensor of a problem: what is known while building.
struct ProblemTensor {
  bool present = false;
  DataType type = DataType::kUndefined;
  Format format = Format::kLinear;
  ir::Extents extents;  // at the profile's opt shape
  const ir::ConstantData* constant = nullptr;
  // False: a part of a larger buffer, so outer strides may be larger than the extents say (the
  // innermost stride is still 1). Tactics read strides; one that cannot refuses such a problem.
  bool dense = true;
};

struct Problem {
  const ir::Layer* layer = nullptr;
  std::vector<ProblemTensor> inputs, outputs;
  int threads = 1;
};

// What formats a tactic's tensors have. "Data" tensors are the rank ≥ 3 activations (and epilogue
// operands of the output's shape); all else (weights, vectors, scalars, indices) is linear.
enum class FormatRule : uint8_t {
  kLinear,               // data inputs and outputs linear
  kChannelLast,          // data inputs and outputs channel last
  kLinearToChannelLast,  // first-layer kernels
  kChannelLastToLinear,
  kSame,  // any one format, the same for all
  kAny,   // reads and writes whatever strides say (reference kernels): any mix
};

struct PreparedKernel;  // kernels/prepared.h
// Makes a kernel for the extents and strides of the views, whose data are not looked at.
using Prepare = void (*)(const KernelArgs& args, PreparedKernel& kernel);

// A way to run a layer: one row in its family's table. All functions may be called from any thread.
struct Tactic {
  const char*
      name;  // "conv_gemm_nhwc_f32_14x32": file, test, benchmark, timing cache and inspector use it
  ir::LayerKind kind;
  Isa isa;
  FormatRule formats;
  int version;  // raise it when the kernel's speed or packing changes: old timings become misses
  // Empty when the tactic can run this problem, else the reason it cannot, in a few words: "groups
  // > 1".
  std::string (*refusal)(const Problem&);
  // Predicted microseconds, only for ranking.
  double (*cost_us)(const Problem&);
  // Layout of constant inputs for this tactic. packed_bytes 0: nothing is packed. Bit k of
  // packed_inputs: input k lives in the packed bytes and is not passed as a view (its view still
  // has type and extents, data null).
  uint32_t (*packed_inputs)(const Problem&);
  size_t (*packed_bytes)(const Problem&);
  void (*pack)(const Problem&, std::byte* packed);
  Prepare prepare;
  // What products of the packed weights are made of, for the inspector: "int8 chain4 61 %, s16 39
  // %"; null or empty: nothing worth telling.
  std::string (*arithmetic)(const Problem&, const std::byte* packed) = nullptr;
  // Not kUndefined: products are of this 16-bit type, though the layer's tensors are floats. Only
  // for who allows it.
  DataType precision = DataType::kUndefined;
  // Beyond the target: where the machine lacks one, the tactic is not offered.
  Features needs = {};
};

// All tactics of `kind` the active instruction set and those below it have, best first; never empty
// for kinds with kernels.
std::vector<const Tactic*> tactics_for(ir::LayerKind kind);
const Tactic* find_tactic(std::string_view name,
                          Isa isa);  // null: not in this build or beyond this machine

// --- reference kernels: plain loops over strides, for every layer kind and Generic operator; the
// oracle and the fallback. `run` may return an error (index out of range …). Kernels whose output
// extents only they can tell get dynamic outputs.
struct DynamicOutput {
  ir::Extents extents;
  DataType type = DataType::kUndefined;
  std::vector<std::byte> bytes;
};
struct ReferenceKernel {
  // Exactly one of the two is set.
  Status (*run)(const KernelArgs&);
  Status (*run_dynamic)(const KernelArgs&, std::vector<DynamicOutput>& outputs);
};
// Null: none (a Generic operator that is not implemented).
const ReferenceKernel* reference_kernel(const ir::Layer& layer);
// Tells the importer whether a Generic operator of that name has a kernel.
bool has_generic_kernel(std::string_view op_type);

}  // namespace camshaft::kernels
