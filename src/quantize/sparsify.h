// SPDX-License-Identifier: Apache-2.0
// `camshaft sparsify` without the command line: weights of an ONNX file become 2:4.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ir/sparsity.h"
#include "quantize/sampler.h"

namespace camshaft::quantize {

struct SparsifyOptions : SamplerOptions {
  ir::KeepRule rule = ir::KeepRule::kMagnitude;
  // Kept weights take over what the pruned ones of their block of input channels did, as far as the
  // samples say (least squares); needs samples.
  bool reconstruct = false;
  // First channels change places so that more magnitude is kept (permute_channels.h).
  bool permute = false;
  // Layers to prune; empty: all. Layers not to prune. A name may hold one '*'.
  std::vector<std::string> only, exclude;
  // Signal to noise of the outputs that must be left, in dB: the layers that cost most stay dense.
  // Below 0: not asked; needs samples.
  double keep_snr = -1;
};

struct SparsifiedLayer {
  std::string name;
  ir::Extents extents;  // of its weights
  int64_t weights = 0, pruned = 0;
  double kept_magnitude = 1;        // share of the sum of |weights| that stays
  std::optional<double> alone_snr;  // of the outputs with this layer alone pruned, in dB
  std::string dense_reason;         // why it was left dense; "": it is 2:4
};

// What changing places did; kept: mean shares of the weights' energy that 2:4 keeps.
struct Permutation {
  int spaces = 0, permuted = 0, pinned = 0;
  double kept_before = 1, kept_after = 1;
};

struct SparsifyResult {
  std::string onnx;
  std::optional<Permutation> permutation;
  std::vector<SparsifiedLayer> layers;
  std::optional<double> snr;  // of the outputs, in dB; none: there were no samples
};

// kInvalidArgument where a rule or a bound needs samples and there are none.
Result<SparsifyResult> sparsify_file(const std::filesystem::path& file,
                                     std::span<const Sample> samples,
                                     const SparsifyOptions& options);

}  // namespace camshaft::quantize
