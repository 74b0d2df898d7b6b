// SPDX-License-Identifier: Apache-2.0
// Channels change places so that 2:4 pruning keeps more: in every tensor of a network at once, so
// that it computes what it did (sums are added in another order) and nothing is moved at run time.
// The idea is that of Pool and Yu, "Channel Permutations for N:M Sparsity", NeurIPS 2021.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "quantize/sparsify.h"

namespace camshaft::quantize {

// Spaces are sets of channels that products read; those that are pinned may not change places.
// `onnx`, with its weights inside, becomes the permuted network. `norms`: of the input channels of
// weights, by the name of the constant, where they are known: what is kept is |weight| times norm
// then. progress(done, total) returning false cancels.
using InputNorms = std::map<std::string, std::vector<float>>;
Result<Permutation> permute_channels(std::string& onnx, const InputNorms& norms,
                                     const std::function<bool(int, int)>& progress);

}  // namespace camshaft::quantize
