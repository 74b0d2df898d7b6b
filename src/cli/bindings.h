// SPDX-License-Identifier: Apache-2.0
// Inputs of a network: from files or at random, shapes resolved, memory owned.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "camshaft/context.h"
#include "cli/shapes.h"
#include "cli/tensor_files.h"

namespace camshaft::cli {

using NamedTensors = std::map<std::string, HostTensor>;

// Values of the type's usual range: floats in [-1, 1], integers in [-128, 127] (small_integers: 0
// and 1, valid as indices into almost anything), bytes in [0, 255], bools. The same every time.
void fill_random(HostTensor& tensor, bool small_integers);

// One set of inputs for an engine, bound to any number of contexts. Values not given are random.
class InputSet {
 public:
  // Shapes: `shapes`, else the given tensor's own, else the profile's opt shape.
  static Result<InputSet> create(const Context& context, const NamedShapes& shapes,
                                 NamedTensors given);

  // Sets shapes and memory; this set must outlive the context's runs.
  Status bind(Context& context) const;
  // Runs once. If that fails with random integers (an index out of range, most likely), tries once
  // more with zeros and ones and says so in `note`.
  Status try_run(Context& context, std::string& note);

  const std::vector<HostTensor>& tensors() const { return tensors_; }  // in the engine's order
  bool is_random(size_t k) const { return random_[k]; }

 private:
  std::vector<HostTensor> tensors_;
  std::vector<bool> random_;
};

}  // namespace camshaft::cli
