// SPDX-License-Identifier: Apache-2.0
// An engine in memory: the plan (steps, tensors, symbols), packed weights and the build record.
// Immutable; shared by contexts.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/growing_bytes.h"
#include "base/status.h"
#include "engine/weights.h"
#include "ir/graph.h"
#include "ir/rewriter.h"
#include "ir/sparsity.h"
#include "kernels/kernel.h"

namespace camshaft::engine {

inline constexpr int kNoTensor = -1;
inline constexpr int kNoStep = -1;

enum class TensorRole : uint8_t { kInput, kOutput, kConstant, kActivation };

struct PlanTensor {
  std::string name;
  ir::DataType type = ir::DataType::kUndefined;
  ir::Format format = ir::Format::kLinear;
  TensorRole role = TensorRole::kActivation;
  bool has_rank = true;
  ir::Shape shape;         // symbols refer to Plan::symbols
  size_t data_offset = 0;  // kConstant: into the weights section
  size_t data_bytes = 0;
  // View of another tensor's memory (slice and concat elimination, reshapes): offset in elements,
  // evaluated with the strides of the parent. kNoTensor: owns its memory.
  int parent = kNoTensor;
  int parent_axis =
      -1;  // -1: same elements under another shape (reshape); else a sub-range along this axis
  ir::Dim parent_offset;  // first index along parent_axis
  // Elements of a small integer tensor as symbols: where all are known for a shape, nothing needs
  // to compute them.
  std::optional<std::vector<ir::Dim>> value;
  // Of 8-bit tensors, for the inspector: real value = scale * (code - zero_point), one element or
  // one per channel. Empty: not known.
  std::vector<float> scale = {};
  std::vector<int32_t> zero_point = {};
};

// What was tried for a step, for `explain` and the inspector.
struct Candidate {
  std::string tactic;
  std::string formats;  // "channel_last"
  double time_us = 0;   // 0: not timed
  std::string refusal;  // why it was not a candidate, or empty
  bool chosen = false;
};

struct Plan;

struct PlanStep {
  ir::Layer layer;  // kind, name, attributes, provenance; links are empty, see inputs/outputs
  std::vector<int> inputs, outputs;  // indices into Plan::tensors, kNoTensor: absent
  std::string tactic;                // "" : reference kernel
  int tactic_version = 0;
  Isa isa = Isa::kScalar;
  uint64_t tactic_value = 0;   // stable hash of the tactic's name and configuration: TacticValue
  uint32_t packed_inputs = 0;  // bit k: input k lives in the packed bytes only
  size_t packed_offset = 0, packed_bytes = 0;
  int threads = 0;  // so many were as fast while building, 1: the calling thread; 0: all there are
  std::string arithmetic;       // what the tactic says of its packed weights
  bool is_view = false;         // NoOp: outputs are views of inputs, nothing runs
  bool dynamic_output = false;  // output extents known only after it has run
  std::vector<std::shared_ptr<const Plan>> bodies;  // If, Loop, Scan
  std::vector<Candidate> candidates;
  double build_time_us = 0;          // of the chosen tactic at build time
  ir::WeightSparsity sparsity = {};  // zeros among the constant weights of a product
};

// A tensor that crosses the border of a region, and the step on its other side.
struct RegionBorder {
  int tensor = kNoTensor;
  int step = kNoStep;  // kNoStep: the tensor is the network's input or output
  std::string reason;  // why that step is not part
};

// Steps that make up one part of a network, for people: they run like any others. No path leaves a
// region and comes back.
struct Region {
  std::string name;        // "{ForeignNode[first node...last node]}"
  std::vector<int> steps;  // indices into Plan::steps, in order
  std::string reason;      // why they are one
  std::vector<RegionBorder> before, after;
};

struct Plan {
  std::string name;
  ir::SymbolTable symbols;
  std::vector<PlanTensor> tensors;
  std::vector<PlanStep> steps;  // execution order
  std::vector<int> inputs, outputs;
  std::vector<Region> regions;  // transformer blocks (tuner/regions.h); no step is in two
};

// min/opt/max of one input in one optimization profile.
struct ShapeRange {
  std::string input;
  ir::Extents min, opt, max;
};
using Profile = std::vector<ShapeRange>;

enum class Verbosity : uint8_t {
  kLayerNamesOnly = 0,
  kNone = 1,
  kDetailed = 2
};  // TensorRT's integers

struct BuildRecord {
  std::vector<ir::RewriteRecord> rewrites;                // what the passes did and declined
  std::vector<std::pair<std::string, int>> layer_counts;  // after each stage
  std::string builder_version, cpu_model, cpu_fingerprint, model_name;
  int threads = 1;
  double peak_gmacs = 0;       // FMA peak of one thread, measured while building
  double read_gbytes = 0;      // memory read rate of one thread, likewise
  double byte_peak_gmacs = 0;  // of products of bytes, likewise
  double bf16_peak_gmacs = 0;  // of products of bfloat16, likewise; 0: no build that may use it
};

class Engine {
 public:
  // Parses and verifies; the bytes of `storage` stay alive and are used in place. kCorrupt with
  // what is wrong.
  static Result<std::shared_ptr<const Engine>> load(
      const std::filesystem::path& file);                                // maps the file
  static Result<std::shared_ptr<const Engine>> load(GrowingBytes file);  // of serialize()
  // Copies the bytes; with an owner, which keeps them as they are, they are used where they lie if
  // they lie on 64 bytes.
  static Result<std::shared_ptr<const Engine>> load(std::span<const std::byte> bytes,
                                                    std::shared_ptr<const void> owner = nullptr);
  ~Engine();

  const Plan& plan() const;
  std::span<const std::byte> weights() const;
  const std::vector<Profile>& profiles() const;
  const BuildRecord& record() const;
  Verbosity verbosity() const;
  size_t file_bytes() const;
  std::span<const std::byte> bytes()
      const;  // the whole file, as mapped or copied: what save() writes again
  std::string_view file_name() const;  // "" when loaded from memory

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The bytes of an engine file (format: docs/engine-format.md). Same input, same bytes.
struct EngineParts {
  Plan plan;
  Weights weights;
  std::vector<Profile> profiles;
  BuildRecord record;
  Verbosity verbosity = Verbosity::kDetailed;
};
GrowingBytes serialize(EngineParts parts);
// Writes to a temporary beside `file` and renames: a failed write leaves nothing.
Status save(std::span<const std::byte> bytes, const std::filesystem::path& file);

}  // namespace camshaft::engine
