// SPDX-License-Identifier: Apache-2.0
#include "ep/fused_node.h"

#include <algorithm>

#include "api/model.h"
#include "base/cpu.h"
#include "ep/engine_key.h"
#include "kernels/kernel.h"

namespace camshaft::ep {
namespace {

// The largest extent of a dynamic input for which nobody gave shapes. Kernels are tuned at the
// first shape that comes; memory is planned for the shape at hand, so a generous bound costs
// nothing.
constexpr int64_t kLargest = 1 << 20;

const ShapeRange* find(const OptimizationProfile& profile, const std::string& input) {
  for (const ShapeRange& range : profile)
    if (range.input == input) return &range;
  return nullptr;
}

Result<Model> import_network(const onnx_import::Model& model) {
  CAMSHAFT_ASSIGN(onnx_import::ImportedModel imported,
                  onnx_import::import_model(model, {}, {kernels::has_generic_kernel, nullptr}));
  return api::wrap_model(std::move(imported));
}

// Names and extents as the model declares them, without importing it.
std::vector<TensorInfo> declared_inputs(const onnx_import::Model& model) {
  std::vector<TensorInfo> infos;
  for (const onnx_import::ValueDef& value : model.graph->inputs) {
    TensorInfo& info = infos.emplace_back();
    info.name = value.name;
    info.has_rank = value.has_shape;
    for (const onnx_import::DimDef& dim : value.shape) info.dims.push_back(dim.extent.value_or(-1));
    info.symbols.resize(info.dims.size());
  }
  return infos;
}

// As wide as the network allows.
ShapeRange wide_range(const TensorInfo& info, const Dims& given) {
  ShapeRange range{info.name, given, given, given};
  for (size_t d = 0; d < given.size(); ++d) {
    if (info.has_rank && info.dims[d] >= 0) continue;
    range.min[d] = std::min<int64_t>(given[d], 1);
    range.max[d] = std::max(given[d], kLargest);
  }
  return range;
}

// As narrow as what was seen.
ShapeRange narrow_range(const TensorInfo& info, const Dims& given, const ShapeRange* seen) {
  ShapeRange range{info.name, given, given, given};
  if (seen == nullptr || seen->min.size() != given.size()) return range;
  for (size_t d = 0; d < given.size(); ++d) {
    range.min[d] = std::min(given[d], seen->min[d]);
    range.max[d] = std::max(given[d], seen->max[d]);
  }
  return range;
}

bool is_outside(const ShapeRange& range, const InputView& view) {
  if (range.min.size() != view.rank) return true;
  for (size_t d = 0; d < view.rank; ++d)
    if (view.extents[d] < range.min[d] || view.extents[d] > range.max[d]) return true;
  return false;
}

Result<size_t> position_of(const NodeNames& names, const std::string& input) {
  const auto found = std::find(names.inputs.begin(), names.inputs.end(), input);
  if (found == names.inputs.end())
    return make_error(ErrorCode::kInternal, "the node has no input {}", input);
  return static_cast<size_t>(found - names.inputs.begin());
}

}  // namespace

FusedNode::FusedNode(NodeSurroundings& around, NodeNames names)
    : NodeComputeInfo{
          around.host.version,
          [](NodeComputeInfo* self, abi::NodeComputeContext*, void** state) -> abi::Status* {
            *state = self;
            return nullptr;
          },
          [](NodeComputeInfo* self, void*, abi::KernelContext* context) {
            auto* node = static_cast<FusedNode*>(self);
            return guarded(node->around_.host, [&] { return node->run(context); });
          },
          [](NodeComputeInfo*, void*) {}},
      around_(around),
      names_(std::move(names)) {}

Result<std::unique_ptr<FusedNode>> FusedNode::create(NodeSurroundings& around, NodeNames names,
                                                     onnx_import::Model model, bool at_once) {
  std::unique_ptr<FusedNode> node(new FusedNode(around, std::move(names)));
  CAMSHAFT_TRY(node->start(std::move(model), at_once));
  return node;
}

Result<std::unique_ptr<FusedNode>> FusedNode::create(NodeSurroundings& around, NodeNames names,
                                                     Engine engine) {
  std::unique_ptr<FusedNode> node(new FusedNode(around, std::move(names)));
  node->engine_ = std::move(engine);
  return node;
}

Status FusedNode::start(onnx_import::Model model, bool at_once) {
  // That the network can be imported is known since its nodes were asked for; it is imported again
  // only where no engine of it is kept.
  model_inputs_ = declared_inputs(model);
  model_ = std::move(model);
  // A profile speaks of the whole network; a part has some of its inputs, and others.
  OptimizationProfile profile;
  bool is_open = false;
  for (const TensorInfo& info : model_inputs_) {
    const ShapeRange* given = asked_of(info.name);
    if (given != nullptr) profile.push_back(*given);
    if (given != nullptr || !info.is_dynamic()) continue;
    is_open = true;
    if (!at_once) continue;
    if (!info.has_rank)
      return make_error(ErrorCode::kUnsupported,
                        "the rank of input {} is not known: give "
                        "profile_opt_shapes",
                        info.name);
    Dims guess = info.dims;
    std::replace(guess.begin(), guess.end(), int64_t{-1}, int64_t{1});
    profile.push_back(wide_range(info, guess));
  }
  if (is_open && !at_once) return ok_status();
  const int threads = around_.options.threads > 0 ? around_.options.threads : default_num_threads();
  const std::string name = key(profile, threads);
  engine_ = cached(name);
  if (!engine_) {
    CAMSHAFT_ASSIGN(engine_, build(profile, threads));
    keep(name, *engine_);
  }
  model_.reset();
  return ok_status();
}

const ShapeRange* FusedNode::asked_of(const std::string& input) const {
  const auto& profiles = around_.options.build.profiles;
  return profiles.empty() ? nullptr : find(profiles[0], input);
}

std::string FusedNode::key(const OptimizationProfile& profile, int threads) const {
  if (!around_.options.cache) return "";
  std::string facts = fmt::format("threads={} {}", threads, around_.options.facts());
  for (const ShapeRange& range : profile)
    facts += fmt::format(" {}:{}:{}:{}", range.input, to_string(range.min), to_string(range.opt),
                         to_string(range.max));
  return engine_key(*model_, facts);
}

api::EngineCache FusedNode::engine_cache() const {
  const std::string& folder = around_.options.cache_dir;
  return {folder.empty() ? api::EngineCache::default_folder() : std::filesystem::path(folder),
          api::EngineCache::default_limit()};
}

std::optional<Engine> FusedNode::cached(const std::string& key) const {
  if (key.empty()) return std::nullopt;
  std::string note;
  std::optional<Engine> engine = engine_cache().load(key, note);
  if (!note.empty()) around_.host.log(around_.logger, abi::kLogWarning, "Camshaft: " + note);
  return engine;
}

void FusedNode::keep(const std::string& key, const Engine& engine) const {
  if (key.empty()) return;
  if (const Status status = engine_cache().store(key, engine); !status.ok())
    around_.host.log(around_.logger, abi::kLogWarning,
                     "Camshaft: the engine was not cached: " + status.message());
}

Result<Engine> FusedNode::build(const OptimizationProfile& profile, int threads) {
  BuildOptions options = around_.options.build;
  options.profiles.clear();
  if (!profile.empty()) options.profiles.push_back(profile);
  options.threads = threads;
  CAMSHAFT_ASSIGN(Model model, import_network(*model_));
  return camshaft::build(std::move(model), options);
}

Status FusedNode::make_runner(const abi::KernelContext* context) {
  const int threads = around_.threads.count(around_.host, context);
  const int contexts = around_.options.contexts > 0
                           ? around_.options.contexts
                           : std::max(1, cpu_info().usable_processors / threads);
  CAMSHAFT_ASSIGN(std::unique_ptr<Runner> runner,
                  Runner::create(around_.host, *engine_, names_,
                                 {threads, 0, around_.options.spin_us}, contexts, *around_.board));
  runner_ = std::move(runner);
  return ok_status();
}

// Builds around the shapes of a run: as wide as the network allows, else as narrow as was seen.
Status FusedNode::build_for(const abi::KernelContext* context, const OptimizationProfile& seen) {
  OptimizationProfile wide, narrow;
  for (const TensorInfo& info : model_inputs_) {
    if (!info.is_dynamic()) continue;
    CAMSHAFT_ASSIGN(const size_t position, position_of(names_, info.name));
    CAMSHAFT_ASSIGN(const InputView view, read_input(around_.host, context, position));
    const Dims given(view.extents, view.extents + view.rank);
    const ShapeRange* asked = asked_of(info.name);
    if (info.has_rank && info.dims.size() != given.size())
      return make_error(ErrorCode::kInvalidArgument, "input {} has {} dimensions, not {}",
                        info.name, info.dims.size(), given.size());
    wide.push_back(asked != nullptr ? *asked : wide_range(info, given));
    narrow.push_back(asked != nullptr ? *asked : narrow_range(info, given, find(seen, info.name)));
  }
  const int threads = around_.threads.count(around_.host, context);
  const std::string name = key({}, threads);  // one engine, whatever shape comes first
  if (seen.empty() && (engine_ = cached(name)) && make_runner(context).ok()) return ok_status();
  const auto attempt = [&](const OptimizationProfile& profile) -> Status {
    CAMSHAFT_ASSIGN(engine_, build(profile, threads));
    return make_runner(context);
  };
  // Extents of 1, or so many, may not be for this network.
  if (!attempt(wide).ok()) CAMSHAFT_TRY(attempt(narrow));
  keep(name, *engine_);
  return ok_status();
}

Result<std::shared_ptr<Runner>> FusedNode::runner_for(const abi::KernelContext* context) {
  const std::scoped_lock lock(mutex_);
  if (!runner_ && !engine_) CAMSHAFT_TRY(build_for(context, {}));
  if (!runner_) CAMSHAFT_TRY(make_runner(context));
  return runner_;
}

// After a refusal: builds again if shapes were chosen here and the run's lie outside. Null: they do
// not.
Result<std::shared_ptr<Runner>> FusedNode::widen(const std::shared_ptr<Runner>& failed,
                                                 const abi::KernelContext* context) {
  const std::scoped_lock lock(mutex_);
  if (!model_) return std::shared_ptr<Runner>();
  if (runner_ != failed) return runner_;  // somebody else has
  const auto& profiles = engine_->profiles();
  const OptimizationProfile seen = profiles.empty() ? OptimizationProfile() : profiles[0];
  bool outside = false;
  for (const ShapeRange& range : seen) {
    if (asked_of(range.input) != nullptr) continue;  // no build would make that wider
    CAMSHAFT_ASSIGN(const size_t position, position_of(names_, range.input));
    CAMSHAFT_ASSIGN(const InputView view, read_input(around_.host, context, position));
    outside |= is_outside(range, view);
  }
  if (!outside) return std::shared_ptr<Runner>();
  CAMSHAFT_TRY(build_for(context, seen));
  return runner_;
}

Status FusedNode::run(abi::KernelContext* context) {
  CAMSHAFT_ASSIGN(std::shared_ptr<Runner> runner, runner_for(context));
  // What another thread has widened meanwhile holds its shapes, not yet ours.
  while (true) {
    Status status = runner->run(context);
    if (status.code() != ErrorCode::kInvalidArgument) return status;
    CAMSHAFT_ASSIGN(const std::shared_ptr<Runner> wider, widen(runner, context));
    if (!wider) return status;
    runner = wider;
  }
}

}  // namespace camshaft::ep
