// SPDX-License-Identifier: Apache-2.0
#include "tuner/tuning_log.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/log.h"
#include "engine/hash.h"

namespace camshaft::tuner {
namespace {

const char* type_word(ir::DataType type) {
  static constexpr const char* kWords[] = {
      "Undefined", "Float", "Half",   "BFloat16", "Double", "Int8", "UInt8", "Int16",
      "UInt16",    "Int32", "UInt32", "Int64",    "UInt64", "Bool", "Int4",  "UInt4"};
  return kWords[static_cast<int>(type)];
}

// "Float(1228800,1,3840,6), UInt8(…)": strides, what is constant left out.
std::string tensors_text(const std::vector<kernels::ProblemTensor>& tensors) {
  std::string text;
  for (const kernels::ProblemTensor& tensor : tensors) {
    if (!tensor.present || tensor.constant != nullptr) continue;
    const kernels::TensorView view =
        kernels::make_view(nullptr, tensor.type, tensor.format, tensor.extents);
    text += fmt::format("{}{}({})", text.empty() ? "" : ", ", type_word(tensor.type),
                        fmt::join(view.strides, view.strides + view.rank, ","));
  }
  return text;
}

}  // namespace

uint64_t tactic_value(const kernels::Tactic& tactic) {
  const std::string text =
      fmt::format("{}/{}/{}", tactic.name, isa_name(tactic.isa), tactic.version);
  return engine::hash_bytes(std::as_bytes(std::span(text)));
}

void log_times(std::string_view title, std::string_view runner, const kernels::Problem& problem,
               std::span<const kernels::Tactic* const> tactics, std::span<const double> us) {
  if (!log_enabled(Severity::kVerbose) || tactics.empty()) return;
  log(Severity::kVerbose, "*************** {}: {} -> {} ***************", title,
      tensors_text(problem.inputs), tensors_text(problem.outputs));
  log(Severity::kVerbose, "--------------- Timing Runner: {}{}", runner,
      problem.threads == 1 ? ", 1 thread" : "");
  for (size_t k = 0; k < tactics.size(); ++k) {
    log(Severity::kVerbose, "Set Tactic Name: {} ({}) Tactic: 0x{:016x}", tactics[k]->name,
        isa_name(tactics[k]->isa), tactic_value(*tactics[k]));
    log(Severity::kVerbose, "Tactic: 0x{:016x} Time: {:.6g}", tactic_value(*tactics[k]),
        us[k] / 1000);
  }
  const auto best = static_cast<size_t>(std::min_element(us.begin(), us.end()) - us.begin());
  log(Severity::kVerbose, "Fastest Tactic: 0x{:016x} Time: {:.6g}", tactic_value(*tactics[best]),
      us[best] / 1000);
}

}  // namespace camshaft::tuner
