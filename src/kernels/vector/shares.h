// SPDX-License-Identifier: Apache-2.0
// How work of two dimensions is laid in a line that threads divide evenly, where neither dimension
// alone has a number of parts that they can.
#pragma once

#include "kernels/vector/counts.h"

namespace camshaft::kernels::CAMSHAFT_TARGET {

// The largest share over the mean, of parts that are alike.
static inline double imbalance(int64_t parts, int64_t threads) {
  return static_cast<double>(ceil_div(parts, threads) * threads) /
         static_cast<double>(at_least_one(parts));
}

// `outer` parts, each with `inner` parts in `cuts` groups: outer · cuts places. Whoever takes a
// range of places has at most three rectangles: what is left of one outer part, whole ones, the
// beginning of another.
struct Line {
  int64_t outer = 0, inner = 0, cuts = 1;

  int64_t places() const { return outer * cuts; }
  int64_t inner_start(int64_t cut) const { return inner * cut / cuts; }

  // body(first outer, end, first inner, end)
  template <class Body>
  void for_rectangles(int64_t first, int64_t end, const Body& body) const {
    const int64_t first_cut = first % cuts, end_cut = end % cuts;
    int64_t from = first / cuts;
    const int64_t to = end / cuts;
    if (from == to)
      return visit(from, from + 1, inner_start(first_cut), inner_start(end_cut), body);
    if (first_cut > 0) {
      visit(from, from + 1, inner_start(first_cut), inner, body);
      ++from;
    }
    visit(from, to, 0, inner, body);
    visit(to, to + 1, 0, inner_start(end_cut), body);
  }

 private:
  template <class Body>
  static void visit(int64_t first, int64_t end, int64_t first_inner, int64_t end_inner,
                    const Body& body) {
    if (first < end && first_inner < end_inner) body(first, end, first_inner, end_inner);
  }
};

// With the fewest cuts that leave no thread more than a tenth above the mean, or the best there
// are.
static inline Line even_line(int64_t outer, int64_t inner, int64_t threads) {
  constexpr double kEven = 1.1;
  Line best{outer, inner, 1};
  for (int64_t cuts = 2; cuts <= smaller(inner, 8 * threads); ++cuts) {
    if (imbalance(best.places(), threads) <= kEven) break;
    if (imbalance(outer * cuts, threads) < imbalance(best.places(), threads)) best.cuts = cuts;
  }
  return best;
}

}  // namespace camshaft::kernels::CAMSHAFT_TARGET
