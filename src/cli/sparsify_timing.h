// SPDX-License-Identifier: Apache-2.0
// How fast the layers of a sparsified network are on this machine, dense and sparse: what the tuner
// measures while it builds.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/session.h"
#include "quantize/sampler.h"

namespace camshaft::cli {

struct LayerSpeed {
  double dense_us = 0, sparse_us = 0;  // 0: no such tactic was timed
  bool is_repeated = false;            // of an engine's layer that another layer was listed with
};
// By the names of `layers`; those the engine does not have (folded, removed) are missing. Extents
// that the network leaves open are those of the first sample, else 1.
Result<std::map<std::string, LayerSpeed>> time_layers(const std::string& onnx,
                                                      const std::filesystem::path& folder,
                                                      const std::vector<std::string>& layers,
                                                      std::span<const quantize::Sample> samples,
                                                      int threads, Messages& messages);

}  // namespace camshaft::cli
