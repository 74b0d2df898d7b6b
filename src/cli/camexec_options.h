// SPDX-License-Identifier: Apache-2.0
// camexec's options: trtexec's 8.4-10.x set with the 11.x spellings, plus our own; one row each.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "camshaft/builder.h"
#include "cli/options.h"
#include "cli/shapes.h"

namespace camshaft::cli {

std::span<const OptionRow> camexec_rows();

// One --refPair: inputs and the outputs they should give, both name -> file.
struct ReferencePair {
  std::vector<std::pair<std::string, std::string>> inputs, outputs;
};

// What the words mean together, checked.
struct CamexecOptions {
  Options options;
  std::vector<ProfileShapes> profiles;  // of the build
  NamedShapes shapes;                   // of inference
  std::vector<ReferencePair> pairs;     // the first one's inputs are the timed ones
  std::vector<double> percentiles;
  bool int8 = false;  // for networks without Q/DQ
  bool bf16 = false, fp16 = false;
  std::vector<LayerTypeRequest> layer_precisions, layer_output_types;
  PrecisionConstraints precision_constraints = PrecisionConstraints::kNone;
  std::vector<std::string> gpu_only;  // spellings given that mean nothing on a CPU
  std::vector<std::string> warnings;
  int verbosity = 0;  // TensorRT's number of the effective --profilingVerbosity
};

Result<CamexecOptions> parse_camexec(std::span<char* const> words);

}  // namespace camshaft::cli
