// SPDX-License-Identifier: Apache-2.0
// Shape specifications: "input:1x3x224x224,other:4" with quotes and one wildcard, and the profiles
// they make for a network.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "camshaft/types.h"

namespace camshaft::cli {

using NamedShapes = std::vector<std::pair<std::string, Dims>>;

// "name:1x3x8x8,'odd:name':2x2,scalar:" in order; `name:scalar` and `name:` are rank 0. `option`
// names the culprit in errors.
Result<NamedShapes> parse_shapes(const std::string& text, const std::string& option);

// Adds `more` to `all`; one name, one shape.
Status add_shapes(NamedShapes& all, const NamedShapes& more, const std::string& option);
// The shapes of an option that was given several times.
Result<NamedShapes> parse_all_shapes(const std::vector<std::string>& texts,
                                     const std::string& option);

// "name:value,…" with quotes round names or values.
Result<std::vector<std::pair<std::string, std::string>>> parse_named_values(
    const std::string& text, const std::string& option);

// True if `pattern`, which may hold one '*', stands for `name`.
bool matches_pattern(const std::string& pattern, const std::string& name);

// The entry for `name`: an exact one wins over a pattern. Null: none.
const Dims* find_shape(const NamedShapes& shapes, const std::string& name);
// An error where `name` is none of `known`, with the nearest of them; `what`: "input".
Status check_name(const std::string& name, const std::vector<std::string>& known,
                  const std::string& option, const char* what);
// An error naming the first entry that fits none of `infos`.
Status check_all_used(const NamedShapes& shapes, const std::vector<TensorInfo>& infos,
                      const std::string& option);

struct ProfileShapes {
  NamedShapes min, opt, max;
  bool empty() const { return min.empty() && opt.empty() && max.empty(); }
};

// The optimization profiles of a build. What is not given is taken from what is (opt alone: min =
// max = opt); dynamic inputs with no shape at all get 1 for every unknown extent, and a warning is
// added. Empty for a network without dynamic inputs.
Result<std::vector<OptimizationProfile>> make_profiles(const std::vector<ProfileShapes>& given,
                                                       const std::vector<TensorInfo>& inputs,
                                                       std::vector<std::string>& warnings);

}  // namespace camshaft::cli
