// SPDX-License-Identifier: Apache-2.0
// How a trace is read: corrected (default) or as the original plugin did, and whose vocabulary the
// answers use.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace camshaft::trace {

enum class Dialect : uint8_t {
  kGpu,      // kineto 0.4.3
  kMlu,      // the Cambricon fork, r2.3: mlu_metrics, DimXYZ
  kMluLate,  // its later branches (r2.1_develop, r2.4): one model for GPU and MLU
};

struct Semantics {
  bool original = false;  // reproduce the original's attribution, defects included
  Dialect dialect = Dialect::kGpu;
  // Times as doubles of microseconds, as the original keeps them: figures of files with fractions
  // of a microsecond come out with its rounding.
  bool plugin_clock = false;
  // Corrected, but losing what the program that recorded the corrected answers still lost: nodes
  // whose rounded ends cross, backward passes that belong to no module. Only tests ask for it.
  bool as_recorded = false;

  bool is_mlu() const { return dialect != Dialect::kGpu; }
  bool loses() const { return original || as_recorded; }
  bool rounds() const { return loses() || plugin_clock; }
};

// Names with a meaning.
inline constexpr std::string_view kStepPrefix = "ProfilerStep#";

// Ranges that Lightning's profiler adds; operators in the file.
inline constexpr std::string_view kLightning = "pytorch-lightning";
inline constexpr std::string_view kLightningModule = "[pl][module]";
inline constexpr std::string_view kLightningProfile = "[pl][profile]";

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}
bool is_step_name(std::string_view name);
bool is_data_loader_name(std::string_view name);
bool is_optimizer_name(std::string_view name);
// "nccl" of "nccl:all_reduce" when the original would take the name for a collective in this
// dialect; else "".
std::string_view collective_library(std::string_view name, Dialect dialect);
// A collective by any sign: record_param_comms, c10d::*, any operation of a known library.
bool is_collective_name(std::string_view name);
// A device-side collective kernel by its name (NCCL, RCCL, CNCL, HCCL, oneCCL).
bool is_collective_kernel(std::string_view name);
bool uses_tensor_cores(std::string_view kernel, const Semantics& semantics);
// Also by names newer than the original's list: Hopper and later, AMD's matrix cores, attention and
// Triton kernels. What the page and the terminal show; the plugin's routes keep to its list. Names
// that say nothing either way (a Triton kernel called "attn_fwd") are not known.
enum class MatrixUse : uint8_t { kNo, kYes, kUnknown };
MatrixUse matrix_use(std::string_view kernel, const Semantics& semantics);
const char* matrix_use_word(MatrixUse use);  // "no", "yes", "unknown"
bool is_tensor_core_eligible(std::string_view op, const Semantics& semantics);

}  // namespace camshaft::trace
