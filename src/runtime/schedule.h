// SPDX-License-Identifier: Apache-2.0
// A plan made ready for one set of input shapes: extents, addresses, and steps as a flat array of
// function calls.
#pragma once

#include <memory>
#include <vector>

#include "engine/engine.h"
#include "kernels/kernel.h"
#include "kernels/prepared.h"
#include "runtime/caches.h"
#include "runtime/context.h"
#include "runtime/memory_plan.h"

namespace camshaft::runtime {

using kernels::KernelArgs;
using kernels::TensorView;

// Values of a plan's symbols, as far as they are known.
struct Bindings {
  std::vector<int64_t> values;
  std::vector<bool> bound;

  bool known(ir::Dim dim) const { return dim.is_known() || bound[dim.symbol_id()]; }
  bool known(const ir::Shape& shape) const { return known_all(shape); }
  bool known_all(std::span<const ir::Dim> dims) const;
  int64_t value(ir::Dim dim) const {
    return dim.is_known() ? dim.extent() : values[dim.symbol_id()];
  }
};

// What a plan is, whatever the shapes: computed once per executor.
struct StepFacts {
  const kernels::Tactic* tactic = nullptr;
  const kernels::ReferenceKernel* reference = nullptr;
  const std::byte* packed = nullptr;
  uint32_t packed_inputs = 0;
  bool symbolic_attributes = false;
  bool in_place = false;  // element k of the output needs only element k of an input of its shape
  bool control_flow = false;
  bool views_input = false;  // a late Slice of an input or a constant: one piece of it is a view
  int appends_to = -1;       // the plan's input, see find_appends()
  bool is_open = false;      // extents of the inputs may contradict each other, or the layer
  std::vector<int> symbols = {};  // where it is: those its extents, values and attributes hang on
};

struct TensorFacts {
  int root = 0;                       // the end of the parent chain
  int output = -1;                    // the plan output it is
  int producer = -1;                  // step
  int first_use = -1, last_use = -1;  // of a root: the steps between which its memory is in use
  bool constant_value =
      false;      // a small tensor whose elements are symbols, computed without running
  int depth = 0;  // of the parent chain
  // Other names of it that no step makes (both formats are the same bytes): they are placed with
  // it.
  std::vector<int> aliases;
};

// What hangs on the value of a symbol.
struct SymbolUses {
  std::vector<int> tensors;  // their extents, elements or places, views behind what they are of
  std::vector<int> steps;    // that read or write those, or whose attributes or rules need it
};

struct PlanFacts {
  const engine::Engine* engine = nullptr;
  const engine::Plan* plan = nullptr;
  std::vector<StepFacts> steps;
  std::vector<TensorFacts> tensors;
  std::vector<CacheFacts> caches;
  std::vector<AppendFacts> appends;
  std::vector<SymbolUses> uses;                // per symbol
  int64_t cut_batches_beyond = kWholeBatches;  // see ContextOptions
  std::vector<std::shared_ptr<std::byte[]>>
      repacked;  // weights packed here, for tactics other than the plan's

  static Result<PlanFacts> make(const engine::Engine& engine, const engine::Plan& plan);
};

// Where a tensor's bytes are. Pointers of kBase change between runs: base 0 is the arena, then
// inputs, then outputs.
enum class Space : uint8_t { kNone, kFixed, kBase, kLate };
struct Location {
  Space space = Space::kNone;
  int base = 0;
  size_t offset = 0;  // from the base
  const std::byte* fixed = nullptr;
};

struct ScheduledStep {
  int step = 0;  // index into Plan::steps
  bool is_late = false;
  // Of `kernel`, which the parts of a batch share.
  void (*run)(void* state, const kernels::KernelCall& call) = nullptr;
  Status (*run_checked)(void* state, const kernels::KernelCall& call) = nullptr;
  void* state = nullptr;
  kernels::KernelCall call;  // points into Schedule::pointers
  const kernels::PreparedKernel* kernel = nullptr;
  KernelArgs args;  // what it was prepared for; views have no addresses
};

// What a late step did in the last run.
struct LateRecord {
  bool valid = false;
  bool repeats = false;  // the outputs follow from `values` alone and are still there
  Bindings before;       // symbols known before the step
  std::vector<TensorView> inputs, outputs;
  std::vector<std::byte> values;       // of the inputs that decide extents, back to back
  std::unique_ptr<ir::Layer> layer;    // with numbers for symbols; null: the plan's own
  std::unique_ptr<ir::Layer> settled;  // settled_layer(), which `tactic` runs; mostly null
  bool refused = false;  // the plan's tactic, chosen for guessed extents, does not take these
  // A kernel for a step the tuner could not find one for, as it did not know the shapes.
  const kernels::Tactic* tactic = nullptr;
  uint32_t packed_inputs = 0;
  std::shared_ptr<std::byte[]> packed;
  std::vector<ir::Extents> tactic_extents;  // of the inputs it was looked for with
  int searches = 0;
  // Made for `kernel_tactic` (null: the reference kernel) and these extents; no state: not yet.
  kernels::PreparedKernel kernel;
  const kernels::Tactic* kernel_tactic = nullptr;
};

struct Schedule {
  std::vector<ir::Extents> input_extents;
  std::vector<int64_t> capacities;   // per cache: the rows its one buffer has room for; 0: two
  Bindings outer, initial_bindings;  // symbols before and after binding the inputs
  Bindings bindings;                 // those and what the run in progress has found out
  bool has_late_steps = false;
  bool recorded = false;            // `late` is what the last run of this executor did
  std::vector<LateRecord> late;     // per plan step
  std::vector<TensorView> tensors;  // rank -1: not known before the run
  std::vector<Location> locations;
  std::vector<ScheduledStep> steps;
  std::vector<TensorView> args;  // the views of all steps, back to back
  std::vector<void*> pointers;   // where they are in this run
  std::vector<std::shared_ptr<kernels::PreparedKernel>> kernels;  // per plan step
  std::vector<int> prepared_for;  // per plan step: whose views its kernel was prepared for, or -1
  struct Patch {
    int arg;
    size_t offset;
  };
  std::vector<std::vector<Patch>> patches;  // per base
  std::vector<void*> linked;                // the base pointers `pointers` holds now
  const std::byte* linked_workspace = nullptr;
  std::vector<std::unique_ptr<ir::Layer>> layers;    // per plan step: a copy with numbers, or null
  std::vector<std::unique_ptr<std::byte[]>> values;  // per tensor: elements of a constant_value one
  std::vector<ImagePasses> passes;  // groups of steps that run on a part of the batch at a time
  std::vector<size_t> room;         // of root tensors in the arena: their bytes there; else 0
  std::vector<MemoryBlock> blocks;  // of the arena, in the order of their tensors
  size_t arena_bytes = 0, workspace_bytes = 0;

  int num_bases() const { return static_cast<int>(patches.size()); }
};

// Symbol values when the inputs have these extents; contradictions are errors.
Result<Bindings> bind_symbols(const engine::Plan& plan, std::span<const ir::Extents> inputs,
                              const Bindings* outer);

// `before`: another one of this executor; kernels that were prepared for the same views serve both,
// as one schedule runs at a time.
Result<std::unique_ptr<Schedule>> make_schedule(const PlanFacts& facts,
                                                std::span<const ir::Extents> inputs,
                                                const Bindings* outer, ThreadPool* pool,
                                                std::span<const int64_t> capacities = {},
                                                const Schedule* before = nullptr);

// Makes `schedule` one for these extents where it lies, if nothing but the lengths of some tensors
// differs and those have room: what depends on the symbols that have other values is placed and
// prepared anew. False: it is as it was, and a new one is to be made.
Result<bool> advance(const PlanFacts& facts, std::span<const ir::Extents> inputs,
                     const Bindings* outer, Schedule& schedule);

// The layer with numbers in place of symbols; null when a symbol it needs has no value yet.
std::unique_ptr<ir::Layer> resolve_layer(const ir::Layer& layer, const Bindings& bindings);

}  // namespace camshaft::runtime
