// SPDX-License-Identifier: Apache-2.0
// Counts of a conformance run: by kind, by reason, by operator, and beside another runtime.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/status.h"

namespace camshaft::testing {

struct Case {
  std::string name;  // "node/test_abs"
  std::string kind;
  std::filesystem::path model;
  Status status;
  std::string reason;  // why it may fail, if it is listed
};

// What a model's inputs and outputs are made of, read from the file.
struct ModelFacts {
  std::string op;  // the operator of a model of one node
  bool plain =
      true;  // only float, double, float16, int8, uint8, int32, int64, bool tensors go in and out
  bool only_tensors = true;  // no sequences, optionals or maps
};
ModelFacts facts_of(const std::filesystem::path& model);

// Prints the counts; with `peer`, those of the other runtime on the cases it was tried on; with
// `markdown`, writes the table.
void print_summary(const std::vector<Case>& cases, const std::filesystem::path& peer,
                   const std::filesystem::path& markdown);

}  // namespace camshaft::testing
