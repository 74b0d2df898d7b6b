// SPDX-License-Identifier: Apache-2.0
// What two runs of a network say about its outputs as their users read them: the class of a
// classifier, the boxes of a detector. Which output is what is told by its shape and values.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace camshaft::quantize {

// One output of one sample.
struct OutputPair {
  std::string name;
  ir::Extents extents;
  std::span<const float> actual, reference;
};
using OutputsVisit = std::function<void(std::span<const OutputPair>)>;

struct Agreement {
  enum class Kind { kTop1, kBoxes };
  Kind kind = Kind::kTop1;
  std::string output;
  int64_t classes = 0;          // of kTop1: elements one is the largest of
  int64_t rows = 0, same = 0;   // of kBoxes: confident ones of the reference
  double coordinate_error = 0;  // of kBoxes: largest, as a share of the largest coordinate

  // "output: the largest of 1000 elements is the same in 2 of 2 rows (top-1)"
  std::string text() const;
};

class AgreementCounter {
 public:
  // Boxes below this confidence are not looked at.
  static constexpr float kConfident = 0.3F;

  void add(std::span<const OutputPair> outputs);
  // Outputs that look like classes or boxes, in the order they were met.
  std::vector<Agreement> take();

 private:
  Agreement& entry(const std::string& output, Agreement::Kind kind);
  void add_classes(const OutputPair& output);
  void add_boxes(const OutputPair& output);

  std::vector<Agreement> list_;
};

}  // namespace camshaft::quantize
