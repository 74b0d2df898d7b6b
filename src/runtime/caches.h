// SPDX-License-Identifier: Apache-2.0
// Keys and values of earlier steps: inputs that outputs continue. Where the caller has both in one
// buffer with room for more, a run writes the new rows only.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "engine/engine.h"

namespace camshaft::runtime {

struct PlanFacts;

// Concatenation or AppendRows of an input and of new rows along `axis`, whose result is an output
// that nothing but Attention reads: it lives with the gaps that room for more rows leaves between
// heads.
struct CacheFacts {
  int input = 0, output = 0;  // of the plan
  int step = 0;
  int axis = 0;
};
// Whether past and present of a cache lie in one buffer; `capacities`: the rows it has room for, 0:
// they lie apart.
inline bool share_buffers(std::span<const int64_t> capacities) {
  return std::any_of(capacities.begin(), capacities.end(),
                     [](int64_t capacity) { return capacity != 0; });
}
// A Concatenation, the only reader of an input of the plan, which puts others behind it: a loop's
// state that grows so need not be copied.
struct AppendFacts {
  int step = 0, input = 0;
};

// Fills in both.
void find_continued(PlanFacts& facts);

}  // namespace camshaft::runtime
