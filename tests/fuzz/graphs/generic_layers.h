// SPDX-License-Identifier: Apache-2.0
// What makers of Generic layers share: attributes, floats of a known rank.
#pragma once

#include "fuzz/graphs/graph_maker.h"

namespace camshaft::fuzz {

inline ir::GenericAttribute integer(const char* name, int64_t value) {
  return {name, {value}, {}, ""};
}
inline ir::GenericAttribute real(const char* name, float value) {
  return {name, {}, {value}, ""};
}
inline ir::GenericAttribute text(const char* name, const char* value) {
  return {name, {}, {}, value};
}
inline ir::GenericAttribute list(const char* name, const Ints& values) {
  return {name, values, {}, ""};
}

inline Tensor* any_float(GraphMaker& m, int64_t least, int64_t most) {
  return m.any([&](Tensor* t) {
    return t->type == DataType::kFloat && t->has_rank && m.rank(t) >= least && m.rank(t) <= most;
  });
}

}  // namespace camshaft::fuzz
