// SPDX-License-Identifier: Apache-2.0
// Real data for calibration and verification: folders, NPZ and NPY files as samples of a network.
#pragma once

#include <string>
#include <vector>

#include "quantize/sampler.h"

namespace camshaft::cli {

// Samples of all `sources`, at most `most` (0: all). A source is a folder of ONNX test data, a
// folder of .npz and .npy files, or one such file. Arrays with a leading dimension longer than the
// network's batch are cut along it; one dimension fewer: a single sample without its batch. Numbers
// of other types become the input's.
Result<std::vector<quantize::Sample>> read_samples(const ir::Graph& graph,
                                                   const std::vector<std::string>& sources,
                                                   size_t most);

}  // namespace camshaft::cli
