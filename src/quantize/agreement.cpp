// SPDX-License-Identifier: Apache-2.0
#include "quantize/agreement.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace camshaft::quantize {
namespace {

constexpr int64_t kFewestClasses = 10, kFewestBoxes = 50, kMostBoxColumns = 512;

size_t largest_of(std::span<const float> row) {
  return static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

bool are_probabilities(std::span<const float> row) {
  double sum = 0;
  for (const float value : row) {
    if (!(value >= 0)) return false;
    sum += value;
  }
  return std::abs(sum - 1) < 0.01;
}

// The extents without the ones at their end.
ir::Extents trimmed(const ir::Extents& extents) {
  ir::Extents result = extents;
  while (result.size() > 2 && result[result.size() - 1] == 1) result.pop_back();
  return result;
}

// Numbers of images and classes: [n, many classes], or rows of probabilities in any shape.
bool looks_like_classes(const OutputPair& output, int64_t& classes) {
  const ir::Extents extents = trimmed(output.extents);
  if (extents.size() < 2 || output.reference.empty()) return false;
  classes = extents[extents.size() - 1];
  if (classes < 2) return false;
  if (extents.size() == 2 && classes >= kFewestClasses) return true;
  const size_t width = static_cast<size_t>(classes);
  for (size_t at = 0; at < output.reference.size(); at += width)
    if (!are_probabilities(output.reference.subspan(at, width))) return false;
  return true;
}

// [n, boxes, 4 coordinates and scores] or the same transposed, seen as rows of columns.
struct Boxes {
  int64_t images = 0, boxes = 0, columns = 0;
  bool transposed = false;

  // Rows of boxes begin their scores with that of there being an object (YOLOv5, YOLOX); those of
  // transposed outputs (YOLOv8) do not.
  bool has_objectness() const { return !transposed && columns > 6; }

  size_t at(int64_t image, int64_t box, int64_t column) const {
    const int64_t inner = transposed ? column * boxes + box : box * columns + column;
    return static_cast<size_t>(image * boxes * columns + inner);
  }
};

bool looks_like_boxes(const OutputPair& output, Boxes& boxes) {
  if (output.extents.size() != 3) return false;
  const int64_t a = output.extents[1], b = output.extents[2];
  boxes = {output.extents[0], std::max(a, b), std::min(a, b), a < b};
  if (boxes.columns < 5 || boxes.columns > kMostBoxColumns || boxes.boxes < kFewestBoxes)
    return false;
  for (int64_t image = 0; image < boxes.images; ++image)
    for (int64_t box = 0; box < boxes.boxes; ++box)
      for (int64_t column = 4; column < boxes.columns; ++column) {
        const float score = output.reference[boxes.at(image, box, column)];
        if (!(score >= 0 && score <= 1)) return false;
      }
  return true;
}

}  // namespace

std::string Agreement::text() const {
  if (kind == Kind::kTop1)
    return fmt::format("{}: the largest of {} elements is the same in {} of {} rows (top-1)",
                       output, classes, same, rows);
  return fmt::format(
      "{}: {} of {} boxes above {:g} are there with the same class; coordinates differ by {:.2g} % "
      "at most",
      output, same, rows, AgreementCounter::kConfident, coordinate_error * 100);
}

Agreement& AgreementCounter::entry(const std::string& output, Agreement::Kind kind) {
  const auto found = std::find_if(list_.begin(), list_.end(),
                                  [&](const Agreement& known) { return known.output == output; });
  if (found != list_.end()) return *found;
  list_.emplace_back();
  list_.back().output = output;
  list_.back().kind = kind;
  return list_.back();
}

void AgreementCounter::add(std::span<const OutputPair> outputs) {
  Boxes boxes;
  int64_t classes = 0;
  for (const OutputPair& output : outputs) {
    if (output.actual.size() != output.reference.size()) continue;
    if (looks_like_boxes(output, boxes)) {
      add_boxes(output);
    } else if (looks_like_classes(output, classes)) {
      add_classes(output);
    }
  }
}

void AgreementCounter::add_classes(const OutputPair& output) {
  Agreement& result = entry(output.name, Agreement::Kind::kTop1);
  looks_like_classes(output, result.classes);
  const auto width = static_cast<size_t>(result.classes);
  for (size_t at = 0; at < output.reference.size(); at += width) {
    ++result.rows;
    result.same += largest_of(output.actual.subspan(at, width)) ==
                           largest_of(output.reference.subspan(at, width))
                       ? 1
                       : 0;
  }
}

void AgreementCounter::add_boxes(const OutputPair& output) {
  Agreement& result = entry(output.name, Agreement::Kind::kBoxes);
  Boxes boxes;
  looks_like_boxes(output, boxes);
  // The best score of a row and its column.
  const int64_t first = boxes.has_objectness() ? 5 : 4;
  const auto best = [&](std::span<const float> values, int64_t image, int64_t box) {
    std::pair<float, int64_t> found{-1.0F, 0};
    for (int64_t column = first; column < boxes.columns; ++column)
      found = std::max(found, {values[boxes.at(image, box, column)], -column});
    if (boxes.has_objectness()) found.first *= values[boxes.at(image, box, 4)];
    return found;
  };
  double extent = 0, error = 0;
  for (int64_t image = 0; image < boxes.images; ++image)
    for (int64_t box = 0; box < boxes.boxes; ++box) {
      const auto [score, column] = best(output.reference, image, box);
      for (int64_t c = 0; c < 4; ++c)
        extent = std::max<double>(extent, std::abs(output.reference[boxes.at(image, box, c)]));
      if (score < kConfident) continue;
      ++result.rows;
      const auto [actual_score, actual_column] = best(output.actual, image, box);
      if (actual_score < kConfident || actual_column != column) continue;
      ++result.same;
      for (int64_t c = 0; c < 4; ++c) {
        const size_t at = boxes.at(image, box, c);
        error = std::max<double>(error, std::abs(output.actual[at] - output.reference[at]));
      }
    }
  if (extent > 0) result.coordinate_error = std::max(result.coordinate_error, error / extent);
}

std::vector<Agreement> AgreementCounter::take() {
  return std::move(list_);
}

}  // namespace camshaft::quantize
