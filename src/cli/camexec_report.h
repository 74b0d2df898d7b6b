// SPDX-License-Identifier: Apache-2.0
// The parts of camexec's log and the files it writes, in trtexec's form.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "camshaft/builder.h"
#include "camshaft/context.h"
#include "cli/camexec_options.h"
#include "cli/console.h"
#include "cli/data_sets.h"
#include "cli/inference_loop.h"
#include "cli/wording.h"

namespace camshaft::cli {

// Model, Build, System, Inference and Reporting Options.
void print_options(Console& console, const LogWords& words, const CamexecOptions& camexec);
// Device Information: the processor, its caches, its measured peak.
void print_device(Console& console);
void print_model_info(Console& console, const LogWords& words, const std::string& file,
                      const ModelInfo& info);
// "Model input x (profile 0): min=1x3, opt=2x3, max=8x3"
void print_profiles(Console& console, const Engine& engine);

// "Average on 10 runs - …": only the first and last 200 lines.
void print_trace(Console& console, const LogWords& words, const std::vector<QueryTimes>& queries,
                 int64_t avg_runs);
void print_summary(Console& console, const LogWords& words, const LoopResult& result,
                   const std::vector<double>& percentiles, int streams);
void print_explanations(Console& console, const LogWords& words);
// The layer times as trtexec 8 lays them out: the layer first.
std::string profile_text_8(const LayerProfile& profile);

std::string times_json(const std::vector<QueryTimes>& queries);
Result<std::string> outputs_json(Context& context);
Result<std::string> outputs_text(Context& context);

// The inputs' values of a --refPair.
Result<NamedTensors> read_inputs(const ReferencePair& pair);
// Runs every pair that has reference outputs and compares; an error beyond --accuracyThreshold.
Status check_references(Console& console, const CamexecOptions& camexec, Context& context);

// <folder>/<name>.<input|output>.<dims joined by .>.<type>.raw
Status dump_raw(const std::filesystem::path& folder, const std::string& name, const char* role,
                const TensorView& view);

}  // namespace camshaft::cli
