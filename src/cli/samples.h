// SPDX-License-Identifier: Apache-2.0
// Real data for calibration and verification: folders, NPZ and NPY files as samples of a network.
#pragma once

#include <string>
#include <vector>

#include "quantize/sampler.h"

namespace camshaft::cli {

// Samples of all `sources` (data_sets.h), at most `most` (0: all). Arrays with a leading dimension
// longer than the network's batch are cut along it; one dimension fewer: a single sample without
// its batch. What convert() did is in `notes`.
Result<std::vector<quantize::Sample>> read_samples(const ir::Graph& graph,
                                                   const std::vector<std::string>& sources,
                                                   size_t most, std::vector<std::string>& notes);

}  // namespace camshaft::cli
