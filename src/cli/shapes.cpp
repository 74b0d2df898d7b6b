// SPDX-License-Identifier: Apache-2.0
#include "cli/shapes.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "cli/options.h"

namespace camshaft::cli {
namespace {

Result<Dims> parse_dims(const std::string& text, const std::string& option) {
  Dims dims;
  if (text.empty() || text == "scalar") return dims;
  for (const std::string& part : split_outside_quotes(text, 'x')) {
    int64_t extent = 0;
    const char* end = part.data() + part.size();
    const auto parsed = std::from_chars(part.data(), end, extent);
    if (part.empty() || parsed.ec != std::errc() || parsed.ptr != end || extent < 0) {
      return make_error(ErrorCode::kInvalidArgument, "{}: '{}' is not a shape like 1x3x224x224",
                        option, text);
    }
    dims.push_back(extent);
  }
  return dims;
}

// The first of the three lists that has the name, in the order given.
const Dims* first_of(const std::string& name, std::initializer_list<const NamedShapes*> lists) {
  for (const NamedShapes* list : lists) {
    if (const Dims* dims = find_shape(*list, name)) return dims;
  }
  return nullptr;
}

Dims with_ones(const TensorInfo& input) {
  Dims dims = input.dims;
  std::replace_if(
      dims.begin(), dims.end(), [](int64_t extent) { return extent < 0; }, int64_t{1});
  return dims;
}

}  // namespace

Result<std::vector<std::pair<std::string, std::string>>> parse_named_values(
    const std::string& text, const std::string& option) {
  std::vector<std::pair<std::string, std::string>> result;
  for (const std::string& part : split_outside_quotes(text, ',')) {
    // The last colon outside quotes: names such as "input:0" need no quotes.
    const std::vector<std::string> pieces = split_outside_quotes(part, ':');
    if (pieces.size() < 2 || pieces[0].empty()) {
      return make_error(ErrorCode::kInvalidArgument, "{}: '{}' is not name:value", option, part);
    }
    const std::string name = part.substr(0, part.size() - pieces.back().size() - 1);
    result.emplace_back(unquoted(name), unquoted(pieces.back()));
  }
  return result;
}

Result<NamedShapes> parse_shapes(const std::string& text, const std::string& option) {
  CAMSHAFT_ASSIGN(const auto pairs, parse_named_values(text, option));
  NamedShapes shapes;
  for (const auto& [name, value] : pairs) {
    if (std::count(name.begin(), name.end(), '*') > 1) {
      return make_error(ErrorCode::kInvalidArgument, "{}: '{}' has more than one *", option, name);
    }
    CAMSHAFT_ASSIGN(Dims dims, parse_dims(value, option));
    shapes.emplace_back(name, std::move(dims));
  }
  return shapes;
}

Status add_shapes(NamedShapes& all, const NamedShapes& more, const std::string& option) {
  for (const auto& [name, dims] : more) {
    const auto same = std::find_if(all.begin(), all.end(), [&, &name = name](const auto& known) {
      return known.first == name;
    });
    if (same == all.end()) {
      all.emplace_back(name, dims);
    } else if (same->second != dims) {
      return make_error(ErrorCode::kInvalidArgument, "{}: '{}' was given two shapes, {} and {}",
                        option, name, to_string(same->second), to_string(dims));
    }
  }
  return ok_status();
}

Result<NamedShapes> parse_all_shapes(const std::vector<std::string>& texts,
                                     const std::string& option) {
  NamedShapes all;
  for (const std::string& text : texts) {
    CAMSHAFT_ASSIGN(const NamedShapes shapes, parse_shapes(text, option));
    CAMSHAFT_TRY(add_shapes(all, shapes, option));
  }
  return all;
}

bool matches_pattern(const std::string& pattern, const std::string& name) {
  const size_t star = pattern.find('*');
  if (star == std::string::npos) return pattern == name;
  const std::string head = pattern.substr(0, star);
  const std::string tail = pattern.substr(star + 1);
  return name.size() >= head.size() + tail.size() && name.starts_with(head) && name.ends_with(tail);
}

const Dims* find_shape(const NamedShapes& shapes, const std::string& name) {
  for (const auto& [pattern, dims] : shapes) {
    if (pattern == name) return &dims;
  }
  for (const auto& [pattern, dims] : shapes) {
    if (matches_pattern(pattern, name)) return &dims;
  }
  return nullptr;
}

Status check_name(const std::string& name, const std::vector<std::string>& known,
                  const std::string& option, const char* what) {
  if (std::find(known.begin(), known.end(), name) != known.end()) return ok_status();
  const std::string near = nearest_word(known, name);
  return make_error(ErrorCode::kInvalidArgument, "{}: the model has no {} '{}'{}", option, what,
                    name,
                    near.empty() ? fmt::format("; it has {}", fmt::join(known, ", "))
                                 : "; did you mean '" + near + "'?");
}

Status check_all_used(const NamedShapes& shapes, const std::vector<TensorInfo>& infos,
                      const std::string& option) {
  std::vector<std::string> names;
  names.reserve(infos.size());
  for (const TensorInfo& info : infos) names.push_back(info.name);
  for (const auto& [pattern, dims] : shapes) {
    const bool used =
        std::any_of(names.begin(), names.end(), [&, &pattern = pattern](const std::string& name) {
          return matches_pattern(pattern, name);
        });
    if (!used) CAMSHAFT_TRY(check_name(pattern, names, option, "input"));
  }
  return ok_status();
}

Result<std::vector<OptimizationProfile>> make_profiles(const std::vector<ProfileShapes>& given,
                                                       const std::vector<TensorInfo>& inputs,
                                                       std::vector<std::string>& warnings) {
  for (const ProfileShapes& shapes : given) {
    CAMSHAFT_TRY(check_all_used(shapes.min, inputs, "--minShapes"));
    CAMSHAFT_TRY(check_all_used(shapes.opt, inputs, "--optShapes"));
    CAMSHAFT_TRY(check_all_used(shapes.max, inputs, "--maxShapes"));
  }
  const bool dynamic = std::any_of(inputs.begin(), inputs.end(),
                                   [](const TensorInfo& info) { return info.is_dynamic(); });
  const bool any_given = std::any_of(given.begin(), given.end(),
                                     [](const ProfileShapes& shapes) { return !shapes.empty(); });
  std::vector<OptimizationProfile> profiles;
  if (!dynamic && !any_given) return profiles;
  for (const ProfileShapes& shapes : given.empty() ? std::vector<ProfileShapes>(1) : given) {
    OptimizationProfile profile;
    for (const TensorInfo& input : inputs) {
      const Dims* min = first_of(input.name, {&shapes.min, &shapes.opt, &shapes.max});
      const Dims* opt = first_of(input.name, {&shapes.opt, &shapes.max, &shapes.min});
      const Dims* max = first_of(input.name, {&shapes.max, &shapes.opt, &shapes.min});
      if (opt != nullptr) {
        profile.push_back({input.name, *min, *opt, *max});
      } else if (input.is_dynamic()) {
        const Dims dims = with_ones(input);
        warnings.push_back(
            fmt::format("no shapes were given for the dynamic input '{}': building for {}",
                        input.name, to_string(dims)));
        profile.push_back({input.name, dims, dims, dims});
      }
    }
    profiles.push_back(std::move(profile));
  }
  return profiles;
}

}  // namespace camshaft::cli
