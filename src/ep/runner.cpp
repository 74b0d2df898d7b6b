// SPDX-License-Identifier: Apache-2.0
#include "ep/runner.h"

#include <algorithm>
#include <cstring>

#include <sys/syscall.h>
#include <unistd.h>

#include "camshaft/inspector.h"

namespace camshaft::ep {
namespace {

Result<size_t> position_of(const std::vector<std::string>& names, const std::string& name,
                           const char* what) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    return make_error(ErrorCode::kInvalidArgument, "the engine has an {} {} that the node has not",
                      what, name);
  return static_cast<size_t>(found - names.begin());
}

// Memory of no elements may have no address; contexts want one.
const void* address(const void* data) {
  static const char nothing = 0;
  return data != nullptr ? data : &nothing;
}

}  // namespace

Result<InputView> read_input(const Host& host, const abi::KernelContext* context, size_t index) {
  CAMSHAFT_ASSIGN(const abi::Value* const value,
                  host.get<const abi::Value*>(abi::api::kInput, context, index));
  if (value == nullptr)
    return make_error(ErrorCode::kInvalidArgument, "input {} is missing", index);
  InputView view;
  CAMSHAFT_ASSIGN(view.data, host.get<const void*>(abi::api::kTensorData, value));
  view.data = address(view.data);
  if (host.version >= abi::api::kShapeReferenceSince) {
    int type = 0;
    CAMSHAFT_TRY(host.call(abi::api::kShapeReference, value, &type, &view.extents, &view.rank));
    return view;
  }
  CAMSHAFT_ASSIGN(abi::TensorInfo* const info,
                  host.get<abi::TensorInfo*>(abi::api::kTensorInfo, value));
  Status status = host.call(abi::api::kRank, info, &view.rank);
  view.storage.resize(view.rank);
  if (status.ok() && view.rank > 0)
    status = host.call(abi::api::kExtents, info, view.storage.data(), view.rank);
  host.api(abi::api::kReleaseTensorInfo, info);
  CAMSHAFT_TRY(status);
  view.extents = view.storage.data();
  return view;
}

// Gives the slot back whatever happens.
class Runner::Lease {
 public:
  Lease(Runner& runner, std::unique_ptr<Slot> slot) : runner_(runner), slot_(std::move(slot)) {}
  ~Lease() { runner_.release(std::move(slot_)); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  Slot& operator*() { return *slot_; }

 private:
  Runner& runner_;
  std::unique_ptr<Slot> slot_;
};

Runner::Runner(const Host& host, Engine engine, const NodeNames& names,
               const ContextOptions& options, int contexts, ProfileBoard& board)
    : host_(host),
      engine_(std::move(engine)),
      node_(names.node),
      options_(options),
      limit_(static_cast<size_t>(std::max(contexts, 1))),
      board_(board) {}

Result<std::unique_ptr<Runner>> Runner::create(const Host& host, Engine engine,
                                               const NodeNames& names,
                                               const ContextOptions& options, int contexts,
                                               ProfileBoard& board) {
  std::unique_ptr<Runner> runner(
      new Runner(host, std::move(engine), names, options, contexts, board));
  for (const TensorInfo& info : runner->engine_.inputs()) {
    CAMSHAFT_ASSIGN(const size_t position, position_of(names.inputs, info.name, "input"));
    runner->inputs_.push_back({position, info.name, info.type});
  }
  for (const TensorInfo& info : runner->engine_.outputs()) {
    CAMSHAFT_ASSIGN(const size_t position, position_of(names.outputs, info.name, "output"));
    runner->outputs_.push_back({position, info.name, info.type});
  }
  for (const std::string& name : names.outputs)
    if (!name.empty() && runner->engine_.find(name) == nullptr)
      return make_error(ErrorCode::kInvalidArgument, "the engine has no output {}", name);
  CAMSHAFT_ASSIGN(std::unique_ptr<Slot> first, runner->acquire());  // errors come now
  runner->release(std::move(first));
  return runner;
}

Result<std::unique_ptr<Runner::Slot>> Runner::acquire() {
  {
    std::unique_lock lock(mutex_);
    freed_.wait(lock, [this] { return !free_.empty() || made_ < limit_; });
    if (!free_.empty()) {
      std::unique_ptr<Slot> slot = std::move(free_.back());
      free_.pop_back();
      return slot;
    }
    ++made_;
  }
  Result<Context> context = Context::create(engine_, options_);
  if (!context.ok()) {
    const std::scoped_lock lock(mutex_);
    --made_;
    freed_.notify_one();
    return context.status();
  }
  auto slot = std::make_unique<Slot>(std::move(context).value());
  slot->input_dims.resize(inputs_.size());
  slot->output_dims.resize(outputs_.size());
  return slot;
}

void Runner::release(std::unique_ptr<Slot> slot) {
  const std::scoped_lock lock(mutex_);
  free_.push_back(std::move(slot));
  freed_.notify_one();
}

Status Runner::set_inputs(Slot& slot, const abi::KernelContext* context) const {
  for (size_t k = 0; k < inputs_.size(); ++k) {
    const Port& port = inputs_[k];
    CAMSHAFT_ASSIGN(const InputView view, read_input(host_, context, port.position));
    const std::span<const int64_t> extents(view.extents, view.rank);
    Dims& dims = slot.input_dims[k];
    if (!slot.shapes_known ||
        !std::equal(dims.begin(), dims.end(), extents.begin(), extents.end())) {
      slot.shapes_known = false;
      dims.assign(1, -1);  // an error leaves nothing half known
      CAMSHAFT_TRY(slot.context.set_shape(port.name, extents));
      dims.assign(extents.begin(), extents.end());
    }
    CAMSHAFT_TRY(
        slot.context.set_input(port.name, view.data, byte_size(port.type, element_count(dims))));
  }
  return ok_status();
}

Status Runner::learn_output_shapes(Slot& slot) const {
  if (slot.shapes_known) return ok_status();
  for (size_t k = 0; k < outputs_.size(); ++k) {
    Result<Dims> dims = slot.context.output_shape(outputs_[k].name);
    if (!dims.ok() && dims.status().code() != ErrorCode::kUnsupported) return dims.status();
    slot.output_dims[k] = dims.ok() ? std::optional<Dims>(dims.value()) : std::nullopt;
  }
  slot.shapes_known = true;
  return ok_status();
}

Result<void*> Runner::output_memory(abi::KernelContext* context, const Port& port,
                                    const Dims& dims) const {
  CAMSHAFT_ASSIGN(
      abi::Value* const value,
      host_.get<abi::Value*>(abi::api::kOutput, context, port.position, dims.data(), dims.size()));
  CAMSHAFT_ASSIGN(void* const data, host_.get<void*>(abi::api::kTensorMutableData, value));
  return const_cast<void*>(address(data));
}

Status Runner::set_outputs(Slot& slot, abi::KernelContext* context) const {
  for (size_t k = 0; k < outputs_.size(); ++k) {
    const Port& port = outputs_[k];
    void* data = nullptr;
    size_t bytes = 0;
    if (const std::optional<Dims>& dims = slot.output_dims[k]) {
      CAMSHAFT_ASSIGN(data, output_memory(context, port, *dims));
      bytes = byte_size(port.type, element_count(*dims));
    }
    CAMSHAFT_TRY(slot.context.set_output(port.name, data, bytes));
  }
  return ok_status();
}

// What only running could tell lies in the context's memory.
Status Runner::copy_late_outputs(Slot& slot, abi::KernelContext* context) const {
  for (size_t k = 0; k < outputs_.size(); ++k) {
    if (slot.output_dims[k]) continue;
    CAMSHAFT_ASSIGN(const TensorView view, slot.context.output(outputs_[k].name));
    CAMSHAFT_ASSIGN(void* const data, output_memory(context, outputs_[k], view.dims));
    if (view.bytes() > 0) std::memcpy(data, view.data, view.bytes());
  }
  return ok_status();
}

// Tells the board of every layer while somebody watches.
void Runner::watch(Slot& slot) {
  if (slot.is_profiled == board_.is_watched()) return;
  slot.is_profiled = !slot.is_profiled;
  if (!slot.is_profiled) {
    slot.context.set_profiler(nullptr);
    return;
  }
  std::call_once(names_read_, [this] {
    auto names = std::make_shared<EventNames>();
    names->node = node_;
    const Inspector inspector(engine_);
    for (const LayerInfo& layer : inspector.layers())
      names->layers.push_back({layer.name, tactic_text(layer)});
    names_ = std::move(names);
  });
  slot.context.set_profiler([this](const LayerTime& time) {
    board_.add({names_, static_cast<size_t>(time.layer), time.start_ns, time.microseconds,
                static_cast<int32_t>(syscall(SYS_gettid))});
  });
}

Status Runner::run(abi::KernelContext* context) {
  CAMSHAFT_ASSIGN(std::unique_ptr<Slot> acquired, acquire());
  Lease lease(*this, std::move(acquired));
  Slot& slot = *lease;
  watch(slot);
  CAMSHAFT_TRY(set_inputs(slot, context));
  CAMSHAFT_TRY(learn_output_shapes(slot));
  CAMSHAFT_TRY(set_outputs(slot, context));
  CAMSHAFT_TRY(slot.context.run());
  return copy_late_outputs(slot, context);
}

}  // namespace camshaft::ep
