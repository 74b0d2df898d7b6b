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
  int64_t batch = 0, max_batch = 0;  // of --batch and --maxBatch; 0: not given
  // Given, and already so; given, and why nothing comes of it: "--device: there is one device".
  std::vector<std::string> always, no_effect;
  Sparsity sparsity = Sparsity::kDisable;
  std::vector<std::string> warnings;
  int verbosity = 0;  // TensorRT's number of the effective --profilingVerbosity
};

// That all files named can be read or written: said before the work, not after it.
Status check_files(const CamexecOptions& camexec);
// The profiles and shapes that --batch and --maxBatch ask of a network with these inputs; an error
// where the batch is fixed to something else.
Status apply_batch(CamexecOptions& camexec, const std::vector<TensorInfo>& inputs);
// --inputIOFormats, --outputIOFormats: what is asked must be what the network has.
Status check_io_formats(const Options& options, const char* name,
                        const std::vector<TensorInfo>& infos);

Result<CamexecOptions> parse_camexec(std::span<char* const> words);

}  // namespace camshaft::cli
