// SPDX-License-Identifier: Apache-2.0
#include "tuner/profiles.h"

#include <fmt/ranges.h>

#include "base/log.h"
#include "tuner/problem.h"

namespace camshaft::tuner {
namespace {

using engine::Profile;
using engine::ShapeRange;
using ir::Tensor;

std::string to_string(const ir::Extents& extents) {
  return fmt::format("{}", fmt::join(extents.begin(), extents.end(), "x"));
}

const ShapeRange* find_range(const Profile& profile, const std::string& name) {
  for (const ShapeRange& range : profile)
    if (range.input == name) return &range;
  return nullptr;
}

Status check_range(const Tensor& input, const ShapeRange& range) {
  const size_t rank = input.shape.size();
  for (const ir::Extents* extents : {&range.min, &range.opt, &range.max}) {
    if (input.has_rank && extents->size() != rank)
      return make_error(ErrorCode::kInvalidArgument,
                        "profile of input {}: {} has rank {}, the model has {}", input.name,
                        to_string(*extents), extents->size(), rank);
    for (size_t d = 0; d < extents->size(); ++d) {
      const bool fixed = input.has_rank && input.shape[d].is_known();
      if ((*extents)[d] < 0 || (fixed && (*extents)[d] != input.shape[d].extent()))
        return make_error(ErrorCode::kInvalidArgument,
                          "profile of input {}: {} contradicts the model in dimension {}",
                          input.name, to_string(*extents), d);
    }
  }
  if (range.min.size() != range.opt.size() || range.opt.size() != range.max.size())
    return make_error(ErrorCode::kInvalidArgument,
                      "profile of input {}: min, opt and max have different ranks", input.name);
  for (size_t d = 0; d < range.opt.size(); ++d)
    if (range.min[d] > range.opt[d] || range.opt[d] > range.max[d])
      return make_error(ErrorCode::kInvalidArgument,
                        "profile of input {}: {} <= {} <= {} does not hold in dimension {}",
                        input.name, to_string(range.min), to_string(range.opt),
                        to_string(range.max), d);
  return ok_status();
}

Result<ShapeRange> default_range(const ir::Graph& graph, const Tensor& input) {
  if (!input.has_rank)
    return make_error(ErrorCode::kInvalidArgument,
                      "input {} has no rank in the model: give its shape", input.name);
  ShapeRange range{input.name, {}, {}, {}};
  bool dynamic = false;
  for (const ir::Dim dim : input.shape) {
    dynamic |= !dim.is_known();
    range.opt.push_back(dim.is_known() ? dim.extent() : 1);
  }
  if (dynamic) {
    std::vector<std::string> dims;
    for (const ir::Dim dim : input.shape) dims.push_back(graph.symbols().to_string(dim));
    log(Severity::kWarning,
        "Dynamic dimensions required for input: {}, but no shapes were provided. Automatically "
        "overriding shape {} to: {}",
        input.name, fmt::join(dims, "x"), to_string(range.opt));
  }
  range.min = range.max = range.opt;
  return range;
}

const ir::Extents& at(const ShapeRange& range, ProfilePoint point) {
  return point == ProfilePoint::kMin   ? range.min
         : point == ProfilePoint::kOpt ? range.opt
                                       : range.max;
}

const char* name_of(ProfilePoint point) {
  return point == ProfilePoint::kMin   ? "smallest"
         : point == ProfilePoint::kOpt ? "optimal"
                                       : "largest";
}

}  // namespace

Result<std::vector<Profile>> complete_profiles(const ir::Graph& graph,
                                               const std::vector<Profile>& wanted) {
  std::vector<Profile> profiles;
  for (const Profile& profile : wanted) {
    for (const ShapeRange& range : profile) {
      bool known = false;
      for (const Tensor* input : graph.inputs()) known |= input->name == range.input;
      if (!known)
        return make_error(ErrorCode::kInvalidArgument,
                          "a profile names {}, the model has no such input", range.input);
    }
  }
  for (size_t p = 0; p < std::max<size_t>(wanted.size(), 1); ++p) {
    Profile profile;
    for (const Tensor* input : graph.inputs()) {
      const ShapeRange* given = p < wanted.size() ? find_range(wanted[p], input->name) : nullptr;
      if (given) {
        CAMSHAFT_TRY(check_range(*input, *given));
        profile.push_back(*given);
      } else {
        CAMSHAFT_ASSIGN(ShapeRange range, default_range(graph, *input));
        profile.push_back(std::move(range));
      }
    }
    profiles.push_back(std::move(profile));
  }
  return profiles;
}

Result<runtime::Bindings> bindings_at(const ir::Graph& graph, const Profile& profile,
                                      ProfilePoint point, int64_t runtime_extent) {
  runtime::Bindings bindings;
  const ir::SymbolTable& symbols = graph.symbols();
  bindings.values.resize(symbols.size());
  bindings.bound.resize(symbols.size());
  for (const Tensor* input : graph.inputs()) {
    const ShapeRange* range = find_range(profile, input->name);
    if (!range) return make_error(ErrorCode::kInternal, "input {} is in no profile", input->name);
    const ir::Extents& extents = at(*range, point);
    for (size_t d = 0; d < input->shape.size() && d < extents.size(); ++d) {
      const ir::Dim dim = input->shape[d];
      if (dim.is_known() || symbols.symbol(dim.symbol_id()).op != ir::SymbolOp::kInput) continue;
      const int id = dim.symbol_id();
      if (bindings.bound[id] && bindings.values[id] != extents[d])
        return make_error(ErrorCode::kInvalidArgument,
                          "the profile gives {} both {} and {} (input {})", symbols.to_string(dim),
                          bindings.values[id], extents[d], input->name);
      bindings.values[id] = extents[d];
      bindings.bound[id] = true;
    }
  }
  for (int id = 0; id < symbols.size(); ++id) {
    const ir::SymbolOp op = symbols.symbol(id).op;
    if (bindings.bound[id] || (op != ir::SymbolOp::kRuntime && op != ir::SymbolOp::kInput))
      continue;
    bindings.values[id] = runtime_extent;
    bindings.bound[id] = true;
  }
  symbols.evaluate_all(bindings.values, bindings.bound);
  return bindings;
}

Status check_layers(const ir::Graph& graph, const runtime::Bindings& bindings, size_t profile,
                    ProfilePoint point) {
  for (const auto& layer : graph.layers()) {
    if (!layer->bodies.empty() || has_guessed_extents(*layer)) continue;
    const LayerProblem made = make_problem(*layer, {}, bindings, 1);
    if (!made.layer) continue;
    if (const auto outputs = infer_problem(*layer, made, bindings); !outputs.ok())
      return make_error(ErrorCode::kInvalidArgument,
                        "the network cannot have the {} shapes of profile {}: {}", name_of(point),
                        profile, outputs.status().message());
  }
  return ok_status();
}

}  // namespace camshaft::tuner
