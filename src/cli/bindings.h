// SPDX-License-Identifier: Apache-2.0
// Inputs of a network: from files or at random, shapes resolved, memory owned.
#pragma once

#include <string>
#include <vector>

#include "camshaft/context.h"
#include "cli/data_sets.h"
#include "cli/shapes.h"

namespace camshaft::cli {

// Values of the type's usual range: floats in [-1, 1], integers in [-128, 127] (small_integers: 0
// and 1, valid as indices into almost anything), bytes in [0, 255], bools. The same every time.
void fill_random(HostTensor& tensor, bool small_integers);

// The first optimization profile whose ranges hold all these shapes; -1: none. Inputs a profile
// does not mention, or `shapes` does not, take any.
int fitting_profile(const Engine& engine, const NamedShapes& shapes);
// An error where the profile's ranges do not hold these shapes. It names the profile that does
// (after `option`: "--useProfile="), or says what all of them take.
Status check_profile(const Engine& engine, int profile, const NamedShapes& shapes,
                     const std::string& option);

// One set of inputs for an engine, bound to any number of contexts. Values not given are random.
class InputSet {
 public:
  // Shapes: `shapes`, else the given tensor's own, else the profile's opt shape. Types: convert().
  static Result<InputSet> create(const Context& context, const NamedShapes& shapes,
                                 NamedTensors given);

  // Sets shapes and memory; this set must outlive the context's runs.
  Status bind(Context& context) const;
  // Runs once. If that fails with random integers (an index out of range, most likely), tries once
  // more with zeros and ones and says so in `note`.
  Status try_run(Context& context, std::string& note);

  NamedShapes shapes() const;
  const std::vector<std::string>& notes() const { return notes_; }     // of what was converted
  const std::vector<HostTensor>& tensors() const { return tensors_; }  // in the engine's order
  bool is_random(size_t k) const { return random_[k]; }

 private:
  std::vector<HostTensor> tensors_;
  std::vector<bool> random_;
  std::vector<std::string> notes_;
};

}  // namespace camshaft::cli
