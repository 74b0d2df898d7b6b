// SPDX-License-Identifier: Apache-2.0
#include "runtime/context.h"

#include <algorithm>
#include <cstring>

#include <fmt/ranges.h>

#include "runtime/executor.h"

namespace camshaft::runtime {
namespace {

using engine::PlanTensor;

std::string to_string(const ir::Extents& extents) {
  return fmt::format("{}", fmt::join(extents.begin(), extents.end(), "x"));
}

}  // namespace

struct Context::Impl {
  std::shared_ptr<const engine::Engine> engine;
  ContextOptions options;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Executor> executor;
  Profiler profiler;

  struct Input {
    ir::Extents extents;
    bool has_extents = false;
    const void* data = nullptr;
    size_t bytes = 0;
    bool is_set = false;
    Buffer aligned;  // a copy, if the caller's memory is not aligned to its element
  };
  struct Output {
    void* data = nullptr;
    size_t bytes = 0;
  };
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  struct Cache {
    void* data = nullptr;  // null: input and output lie apart
    size_t bytes = 0;
  };
  std::vector<Cache> caches;  // as the executor's
  bool shapes_changed = true;

  const engine::Plan& plan() const { return engine->plan(); }
  const PlanTensor& input_tensor(int k) const { return plan().tensors[plan().inputs[k]]; }
  const PlanTensor& output_tensor(int k) const { return plan().tensors[plan().outputs[k]]; }

  Status check_input(int k) const {
    if (k < 0 || k >= static_cast<int>(inputs.size()))
      return make_error(ErrorCode::kInvalidArgument, "no input {}: the engine has {}", k,
                        inputs.size());
    return ok_status();
  }
  Status check_output(int k) const {
    if (k < 0 || k >= static_cast<int>(outputs.size()))
      return make_error(ErrorCode::kInvalidArgument, "no output {}: the engine has {}", k,
                        outputs.size());
    return ok_status();
  }

  const engine::ShapeRange* range_of(const std::string& name) const {
    const auto& profiles = engine->profiles();
    if (options.profile >= static_cast<int>(profiles.size())) return nullptr;
    for (const engine::ShapeRange& range : profiles[options.profile])
      if (range.input == name) return &range;
    return nullptr;
  }

  void set_static_extents() {
    inputs.resize(plan().inputs.size());
    outputs.resize(plan().outputs.size());
    for (size_t k = 0; k < inputs.size(); ++k) {
      const PlanTensor& t = input_tensor(static_cast<int>(k));
      bool known = t.has_rank;
      ir::Extents extents;
      for (const ir::Dim dim : t.shape) {
        known &= dim.is_known();
        if (dim.is_known()) extents.push_back(dim.extent());
      }
      const engine::ShapeRange* range = range_of(t.name);
      if (!known && range && range->min == range->max) {
        extents = range->opt;
        known = true;
      }
      if (known) {
        inputs[k].extents = extents;
        inputs[k].has_extents = true;
      }
    }
  }

  // Rows that a cache's buffer has room for; 0: it has none.
  int64_t capacity_of(size_t k) const {
    if (!caches[k].data) return 0;
    const CacheFacts& facts = executor->caches()[k];
    ir::Extents row = inputs[facts.input].extents;
    row[facts.axis] = 1;
    const size_t bytes = ir::bytes_for(input_tensor(facts.input).type, ir::element_count(row));
    return bytes == 0 ? 0 : static_cast<int64_t>(caches[k].bytes / bytes);
  }

  // Its input or output has memory of its own again.
  void leave_caches(int CacheFacts::*side, int k) {
    for (size_t c = 0; c < caches.size(); ++c) {
      if (!caches[c].data || executor->caches()[c].*side != k) continue;
      caches[c] = {};
      inputs[executor->caches()[c].input].is_set = false;
      outputs[executor->caches()[c].output] = {};
      shapes_changed = true;
    }
  }

  bool in_cache(int CacheFacts::*side, int k) const {
    for (size_t c = 0; c < caches.size(); ++c)
      if (caches[c].data && executor->caches()[c].*side == k) return true;
    return false;
  }

  void bind_caches() {
    for (size_t c = 0; c < caches.size(); ++c) {
      if (!caches[c].data) continue;
      executor->set_input(executor->caches()[c].input, caches[c].data);
      executor->set_output(executor->caches()[c].output, caches[c].data);
    }
  }

  Status prepare() {
    std::vector<ir::Extents> extents;
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (!inputs[k].has_extents)
        return make_error(ErrorCode::kInvalidArgument, "input {}: its extents are not set",
                          input_tensor(static_cast<int>(k)).name);
      extents.push_back(inputs[k].extents);
    }
    std::vector<int64_t> capacities;
    for (size_t k = 0; k < caches.size(); ++k) capacities.push_back(capacity_of(k));
    CAMSHAFT_TRY(executor->prepare(extents, nullptr, capacities));
    shapes_changed = false;
    return ok_status();
  }

  Status bind_input(int k) {
    if (in_cache(&CacheFacts::input, k)) return ok_status();
    Input& input = inputs[k];
    const PlanTensor& t = input_tensor(k);
    const size_t bytes = ir::bytes_for(t.type, ir::element_count(input.extents));
    if (!input.is_set && bytes > 0)
      return make_error(ErrorCode::kInvalidArgument, "input {} is not set", t.name);
    if (input.is_set && input.bytes != bytes)
      return make_error(ErrorCode::kInvalidArgument, "input {}: {} bytes, {} of {} take {}", t.name,
                        input.bytes, to_string(input.extents), ir::type_name(t.type), bytes);
    const void* data = input.data;
    const size_t element = std::max<size_t>(ir::bits_of(t.type) / 8, 1);
    if (!data || reinterpret_cast<uintptr_t>(data) % element != 0) {
      std::byte* copy = input.aligned.reserve(bytes);
      if (data) std::memcpy(copy, data, bytes);
      data = copy;
    }
    executor->set_input(k, data);
    return ok_status();
  }

  // Its extents are found out in every run anew.
  bool depends_on_values(const PlanTensor& t) const {
    return !t.has_rank || std::any_of(t.shape.begin(), t.shape.end(), [&](ir::Dim dim) {
      return plan().symbols.depends_on_runtime(dim);
    });
  }

  Status bind_output(int k) {
    if (in_cache(&CacheFacts::output, k)) return ok_status();
    const Output& output = outputs[k];
    executor->set_output(k, nullptr);
    if (!output.data) return ok_status();
    const TensorView view = executor->output(k);
    if (!view.present()) return ok_status();  // copied when it is known
    if (output.bytes < bytes_of(view)) {
      if (depends_on_values(output_tensor(k)))
        return ok_status();  // those are the last run's bytes
      return make_error(ErrorCode::kInvalidArgument, "output {}: {} bytes given, it needs {}",
                        output_tensor(k).name, output.bytes, bytes_of(view));
    }
    const size_t element = std::max<size_t>(ir::bits_of(view.type) / 8, 1);
    if (reinterpret_cast<uintptr_t>(output.data) % element == 0)
      executor->set_output(k, output.data);
    return ok_status();
  }

  // Outputs that could not be written in place.
  Status copy_outputs() {
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (!outputs[k].data) continue;
      const TensorView view = executor->output(static_cast<int>(k));
      if (view.data == outputs[k].data || !view.present()) continue;
      if (outputs[k].bytes < bytes_of(view))
        return make_error(ErrorCode::kInvalidArgument, "output {}: {} bytes given, it needs {}",
                          output_tensor(static_cast<int>(k)).name, outputs[k].bytes,
                          bytes_of(view));
      if (bytes_of(view) > 0) std::memcpy(outputs[k].data, view.data, bytes_of(view));
    }
    return ok_status();
  }
};

Context::Context(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Context::~Context() = default;

Result<std::unique_ptr<Context>> Context::create(std::shared_ptr<const engine::Engine> engine,
                                                 const ContextOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->engine = std::move(engine);
  impl->options = options;
  const int num_profiles = static_cast<int>(impl->engine->profiles().size());
  if (options.profile < 0 || (options.profile > 0 && options.profile >= num_profiles))
    return make_error(ErrorCode::kInvalidArgument, "no optimization profile {}: the engine has {}",
                      options.profile, num_profiles);
  impl->pool = std::make_unique<ThreadPool>(
      options.threads > 0 ? options.threads : default_num_threads(), options.spin_us);
  const engine::Profile* profile =
      num_profiles > 0 ? &impl->engine->profiles()[options.profile] : nullptr;
  CAMSHAFT_ASSIGN(impl->executor, Executor::create_checked(*impl->engine, profile, *impl->pool,
                                                           options.cut_batches_beyond));
  impl->executor->keep_shapes(options.kept_shapes);
  impl->caches.resize(impl->executor->caches().size());
  impl->set_static_extents();
  return std::unique_ptr<Context>(new Context(std::move(impl)));
}

const engine::Engine& Context::engine() const {
  return *impl_->engine;
}
int Context::threads() const {
  return impl_->pool->threads();
}

int Context::binding_index(std::string_view name) const {
  const int num_inputs = static_cast<int>(impl_->inputs.size());
  for (int k = 0; k < num_inputs; ++k)
    if (impl_->input_tensor(k).name == name) return k;
  for (int k = 0; k < static_cast<int>(impl_->outputs.size()); ++k)
    if (impl_->output_tensor(k).name == name) return num_inputs + k;
  return -1;
}

Status Context::set_input_extents(int input, std::span<const int64_t> extents) {
  CAMSHAFT_TRY(impl_->check_input(input));
  const PlanTensor& t = impl_->input_tensor(input);
  if (extents.size() > ir::kMaxRank || (t.has_rank && extents.size() != t.shape.size()))
    return make_error(ErrorCode::kInvalidArgument, "input {}: rank {}, the model has {}", t.name,
                      extents.size(), t.shape.size());
  const ir::Extents wanted(extents.begin(), extents.end());
  const engine::ShapeRange* range = impl_->range_of(t.name);
  for (size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] < 0)
      return make_error(ErrorCode::kInvalidArgument, "input {}: extents {}", t.name,
                        to_string(wanted));
    if (t.has_rank && t.shape[d].is_known() && t.shape[d].extent() != extents[d])
      return make_error(ErrorCode::kInvalidArgument,
                        "input {}: extents {}, the model wants {} in dimension {}", t.name,
                        to_string(wanted), t.shape[d].extent(), d);
    if (range && d < range->min.size() &&
        (extents[d] < range->min[d] || extents[d] > range->max[d]))
      return make_error(ErrorCode::kInvalidArgument,
                        "input {}: extents {} are outside the profile's {} to {}", t.name,
                        to_string(wanted), to_string(range->min), to_string(range->max));
  }
  Impl::Input& state = impl_->inputs[input];
  if (state.has_extents && state.extents == wanted) return ok_status();
  state.extents = wanted;
  state.has_extents = true;
  impl_->shapes_changed = true;
  return ok_status();
}

Status Context::prepare() {
  return impl_->shapes_changed ? impl_->prepare() : ok_status();
}

Result<ir::Extents> Context::output_extents(int output) const {
  CAMSHAFT_TRY(impl_->check_output(output));
  if (!impl_->executor->prepared())
    return make_error(ErrorCode::kInvalidArgument, "prepare() has not been called");
  const TensorView view = impl_->executor->output(output);
  if (!view.present())
    return make_error(ErrorCode::kUnsupported,
                      "output {}: its extents are known only after execution",
                      impl_->output_tensor(output).name);
  return ir::Extents(view.extents, view.extents + view.rank);
}

Status Context::set_input(int input, const void* data, size_t bytes) {
  CAMSHAFT_TRY(impl_->check_input(input));
  impl_->leave_caches(&CacheFacts::input, input);
  Impl::Input& state = impl_->inputs[input];
  state.data = data;
  state.bytes = bytes;
  state.is_set = true;
  return ok_status();
}

Status Context::set_output(int output, void* data, size_t bytes) {
  CAMSHAFT_TRY(impl_->check_output(output));
  impl_->leave_caches(&CacheFacts::output, output);
  impl_->outputs[output].data = data;
  impl_->outputs[output].bytes = bytes;
  return ok_status();
}

std::span<const CacheFacts> Context::caches() const {
  return impl_->executor->caches();
}

bool Context::is_in_cache(int output) const {
  return impl_->in_cache(&CacheFacts::output, output);
}

Status Context::set_cache(int cache, void* data, size_t bytes) {
  if (cache < 0 || cache >= static_cast<int>(impl_->caches.size()))
    return make_error(ErrorCode::kInvalidArgument, "no cache {}: the engine has {}", cache,
                      impl_->caches.size());
  const CacheFacts& facts = caches()[cache];
  const PlanTensor& t = impl_->input_tensor(facts.input);
  if (!data) return make_error(ErrorCode::kInvalidArgument, "{}: no buffer", t.name);
  if (reinterpret_cast<uintptr_t>(data) % (ir::bits_of(t.type) / 8) != 0)
    return make_error(ErrorCode::kInvalidArgument, "{}: its buffer is not aligned to {}", t.name,
                      ir::type_name(t.type));
  Impl::Cache& state = impl_->caches[cache];
  impl_->outputs[facts.output] = {};
  impl_->shapes_changed |= !state.data || state.bytes != bytes;
  state = {data, bytes};
  return ok_status();
}

const void* Context::output_data(int output) const {
  if (!impl_->check_output(output).ok() || !impl_->executor->prepared()) return nullptr;
  return impl_->executor->output(output).data;
}

Status Context::execute() {
  CAMSHAFT_TRY(prepare());
  for (size_t k = 0; k < impl_->inputs.size(); ++k)
    CAMSHAFT_TRY(impl_->bind_input(static_cast<int>(k)));
  for (size_t k = 0; k < impl_->outputs.size(); ++k)
    CAMSHAFT_TRY(impl_->bind_output(static_cast<int>(k)));
  impl_->bind_caches();
  CAMSHAFT_TRY(impl_->executor->run(impl_->profiler.report ? &impl_->profiler : nullptr));
  return impl_->copy_outputs();
}

void Context::set_profiler(std::function<void(const LayerTime&)> profiler, bool opens_bodies) {
  impl_->profiler = {std::move(profiler), opens_bodies};
}

Result<TensorView> Context::tensor_view(int plan_tensor) const {
  if (plan_tensor < 0 || plan_tensor >= static_cast<int>(impl_->plan().tensors.size()))
    return make_error(ErrorCode::kInvalidArgument, "no tensor {}", plan_tensor);
  if (!impl_->executor->prepared())
    return make_error(ErrorCode::kInvalidArgument, "prepare() has not been called");
  return impl_->executor->tensor(plan_tensor);
}

std::span<const ImagePasses> Context::image_passes() const {
  return impl_->executor->image_passes();
}

size_t Context::arena_bytes() const {
  return impl_->executor->arena_bytes();
}
size_t Context::workspace_bytes() const {
  return impl_->executor->workspace_bytes();
}

}  // namespace camshaft::runtime
