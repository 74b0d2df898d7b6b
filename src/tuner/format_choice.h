// SPDX-License-Identifier: Apache-2.0
// Formats and tactics for the whole graph at once: of the ways to run every layer, one per pair of
// formats, those whose times and reformats add up to the least.
#pragma once

#include <functional>
#include <vector>

#include "tuner/plan_maker.h"

namespace camshaft::tuner {

struct Option {  // the best way to run a layer with these formats
  Formats formats;
  Kernel kernel;
  bool is_view = false;
};

struct LayerOptions {
  std::vector<Option> options;
  std::vector<engine::Candidate> candidates;
};

Choice choice_of(const Option& option);

// Microseconds to copy a tensor from one place into another.
using ReformatTime = std::function<double(const ir::Tensor&, const Formats&)>;

// The number of every layer's option; `reduced_types`: what float tensors may be stored as. Slices
// and concatenations cost what find_views() would leave of them to copy.
std::vector<int> choose_options(const ir::Graph& graph, const std::vector<LayerOptions>& options,
                                const ReformatTime& reformat,
                                const std::vector<ir::DataType>& reduced_types,
                                const runtime::Bindings& bindings, int threads);

}  // namespace camshaft::tuner
