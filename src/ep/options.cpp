// SPDX-License-Identifier: Apache-2.0
#include "ep/options.h"

#include <charconv>
#include <vector>

namespace camshaft::ep {
namespace {

Result<int64_t> parse_number(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0)
    return make_error(ErrorCode::kInvalidArgument, "\"{}\" is not a number", text);
  return number;
}

Status set_int(int& field, const std::string& text) {
  CAMSHAFT_ASSIGN(const int64_t number, parse_number(text));
  if (number > 1'000'000) return make_error(ErrorCode::kInvalidArgument, "{} is too many", number);
  field = static_cast<int>(number);
  return ok_status();
}

Status set_bool(bool& field, const std::string& text) {
  const bool on = text == "1" || text == "true" || text == "True";
  if (!on && text != "0" && text != "false" && text != "False")
    return make_error(ErrorCode::kInvalidArgument, "\"{}\" is neither 0 nor 1", text);
  field = on;
  return ok_status();
}

using Shapes = std::vector<std::pair<std::string, Dims>>;

// "x:1x3x224x224,mask:1x77": a name may hold colons, its shape is behind the last.
Result<Shapes> parse_shapes(std::string_view text) {
  Shapes shapes;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
    const size_t colon = item.rfind(':');
    if (colon == std::string_view::npos || colon == 0)
      return make_error(ErrorCode::kInvalidArgument,
                        "\"{}\": shapes are written name:1x3x224x224,other:1x77", item);
    std::string_view extents = item.substr(colon + 1);
    Dims dims;
    while (!extents.empty()) {
      const size_t x = extents.find('x');
      CAMSHAFT_ASSIGN(dims.emplace_back(), parse_number(extents.substr(0, x)));
      extents = x == std::string_view::npos ? "" : extents.substr(x + 1);
    }
    shapes.emplace_back(item.substr(0, colon), std::move(dims));
  }
  return shapes;
}

struct Profile {
  Shapes min, opt, max;
};

const Dims* find(const Shapes& shapes, const std::string& name) {
  for (const auto& [input, dims] : shapes)
    if (input == name) return &dims;
  return nullptr;
}

// Opt shapes alone are the only ones taken; without them max stands in.
Result<OptimizationProfile> join(const Profile& given) {
  OptimizationProfile profile;
  for (const auto& [name, opt] : given.opt.empty() ? given.max : given.opt) {
    const Dims* min = find(given.min, name);
    const Dims* max = find(given.max, name);
    profile.push_back({name, min ? *min : opt, opt, max ? *max : opt});
  }
  for (const auto* shapes : {&given.min, &given.max})
    for (const auto& [name, dims] : *shapes)
      if (find(given.opt.empty() ? given.max : given.opt, name) == nullptr)
        return make_error(ErrorCode::kInvalidArgument, "profile_opt_shapes has no shape of \"{}\"",
                          name);
  return profile;
}

struct Row {
  const char* key;
  Status (*set)(Options&, Profile&, const std::string&);
};

Status set_shapes(Shapes& shapes, const std::string& text) {
  CAMSHAFT_ASSIGN(shapes, parse_shapes(text));
  return ok_status();
}

constexpr Row kRows[] = {
    {"threads", [](Options& o, Profile&, const std::string& v) { return set_int(o.threads, v); }},
    {"contexts", [](Options& o, Profile&, const std::string& v) { return set_int(o.contexts, v); }},
    {"spin_us", [](Options& o, Profile&, const std::string& v) { return set_int(o.spin_us, v); }},
    {"min_nodes",
     [](Options& o, Profile&, const std::string& v) {
       int number = 0;
       Status status = set_int(number, v);
       o.min_nodes = static_cast<size_t>(number);
       return status;
     }},
    {"bf16", [](Options& o, Profile&, const std::string& v) { return set_bool(o.build.bf16, v); }},
    {"fp16", [](Options& o, Profile&, const std::string& v) { return set_bool(o.build.fp16, v); }},
    {"strongly_typed", [](Options& o, Profile&,
                          const std::string& v) { return set_bool(o.build.strongly_typed, v); }},
    {"portable",
     [](Options& o, Profile&, const std::string& v) { return set_bool(o.build.portable, v); }},
    {"sparsity",
     [](Options& o, Profile&, const std::string& v) {
       bool on = false;
       Status status = set_bool(on, v);
       o.build.sparsity = on ? Sparsity::kEnable : Sparsity::kDisable;
       return status;
     }},
    {"optimization_level",
     [](Options& o, Profile&, const std::string& v) {
       Status status = set_int(o.build.optimization_level, v);
       if (status.ok() && o.build.optimization_level > 5)
         return make_error(ErrorCode::kInvalidArgument, "levels are 0 to 5");
       return status;
     }},
    {"timing_cache",
     [](Options& o, Profile&, const std::string& v) {
       o.build.timing_cache = v;
       return ok_status();
     }},
    {"cache", [](Options& o, Profile&, const std::string& v) { return set_bool(o.cache, v); }},
    {"cache_dir",
     [](Options& o, Profile&, const std::string& v) {
       o.cache_dir = v;
       return ok_status();
     }},
    {"profile_min_shapes",
     [](Options&, Profile& p, const std::string& v) { return set_shapes(p.min, v); }},
    {"profile_opt_shapes",
     [](Options&, Profile& p, const std::string& v) { return set_shapes(p.opt, v); }},
    {"profile_max_shapes",
     [](Options&, Profile& p, const std::string& v) { return set_shapes(p.max, v); }},
};

std::string known_keys() {
  std::string text;
  for (const Row& row : kRows) text += (text.empty() ? "" : ", ") + std::string(row.key);
  return text;
}

Status set_own(Options& options, Profile& profile, const std::string& key,
               const std::string& value) {
  for (const Row& row : kRows)
    if (key == row.key) return row.set(options, profile, value).with_context("option " + key);
  return make_error(ErrorCode::kInvalidArgument, "unknown option {}: there are {}", key,
                    known_keys());
}

}  // namespace

Result<Options> read_options(const std::map<std::string, std::string>& entries) {
  Options options;
  Profile profile;
  const std::string_view prefix = kOptionPrefix;
  for (const auto& [key, value] : entries) {
    if (key.starts_with(prefix))
      CAMSHAFT_TRY(set_own(options, profile, key.substr(prefix.size()), value));
    if (key == "ep.context_enable") options.context_enable = value == "1";
    if (key == "ep.context_embed_mode") options.context_embed = value == "1";
    if (key == "ep.context_file_path") options.context_file = value;
    if (key == "ep.context_node_name_prefix") options.context_prefix = value;
  }
  const auto spinning = entries.find("session.intra_op.allow_spinning");
  if (spinning != entries.end() && spinning->second == "0" &&
      !entries.count(std::string(prefix) + "spin_us"))
    options.spin_us = 0;
  CAMSHAFT_ASSIGN(OptimizationProfile joined, join(profile));
  if (!joined.empty()) options.build.profiles.push_back(std::move(joined));
  return options;
}

std::string Options::facts() const {
  std::string text = fmt::format("bf16={} fp16={} typed={} portable={} sparsity={} level={}",
                                 build.bf16, build.fp16, build.strongly_typed, build.portable,
                                 static_cast<int>(build.sparsity), build.optimization_level);
  for (const OptimizationProfile& profile : build.profiles)
    for (const ShapeRange& range : profile)
      text += fmt::format(" {}:{}:{}:{}", range.input, to_string(range.min), to_string(range.opt),
                          to_string(range.max));
  return text;
}

}  // namespace camshaft::ep
