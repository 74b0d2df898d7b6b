// SPDX-License-Identifier: Apache-2.0
#include "runner.h"

#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/stl/string.h>

#include "errors.h"

namespace camshaft::python {
namespace {

[[noreturn]] void refuse(std::string text) {
  raise(Status(ErrorCode::kInvalidArgument, std::move(text)));
}

std::string names_of(const std::vector<TensorInfo>& infos) {
  std::vector<std::string> names;
  names.reserve(infos.size());
  for (const TensorInfo& info : infos) names.push_back(info.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string shape_text(const TensorInfo& info) {
  std::string text;
  for (size_t k = 0; k < info.dims.size(); ++k)
    text += fmt::format("{}{}", k > 0 ? "x" : "",
                        info.dims[k] >= 0 ? std::to_string(info.dims[k]) : info.symbols[k]);
  return text.empty() ? "scalar" : text;
}

}  // namespace

// Gives the slot back whatever happens.
class Runner::Lease {
 public:
  explicit Lease(Runner& runner) : runner_(runner), slot_(runner.acquire()) {}
  ~Lease() { runner_.release(std::move(slot_)); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  Slot& operator*() { return *slot_; }

 private:
  Runner& runner_;
  std::unique_ptr<Slot> slot_;
};

Runner::Runner(Engine engine, const ContextOptions& options, int contexts)
    : engine_(std::move(engine)), options_(options), limit_(static_cast<size_t>(contexts)) {
  if (contexts < 1) refuse(fmt::format("{} contexts: at least one is needed", contexts));
  for (const TensorInfo& input : engine_.inputs())
    input_keys_.push_back(nb::str(input.name.c_str()));
  release(acquire());  // errors of the options come now, not at the first run
}

int Runner::threads() {
  Lease slot(*this);
  return (*slot).context.threads();
}

int Runner::index_of(const std::vector<TensorInfo>& infos, const std::string& name) {
  for (size_t k = 0; k < infos.size(); ++k)
    if (infos[k].name == name) return static_cast<int>(k);
  refuse(fmt::format("no input or output '{}'; there are {}", name, names_of(infos)));
}

// With the mutex held: a context that is free, or null and the right to make one.
std::unique_ptr<Runner::Slot> Runner::take_free() {
  if (free_.empty()) {
    ++made_;
    return nullptr;
  }
  std::unique_ptr<Slot> slot = std::move(free_.back());
  free_.pop_back();
  return slot;
}

std::unique_ptr<Runner::Slot> Runner::acquire() {
  std::unique_ptr<Slot> slot;
  bool done = false;
  if (const std::unique_lock lock(mutex_, std::try_to_lock); lock.owns_lock() && is_available()) {
    slot = take_free();
    done = true;
  }
  if (!done) {
    // Whoever holds a context may want the GIL; it is taken again after the mutex is given back.
    const nb::gil_scoped_release release;
    std::unique_lock lock(mutex_);
    freed_.wait(lock, [this] { return is_available(); });
    slot = take_free();
  }
  return slot ? std::move(slot) : make_slot();
}

std::unique_ptr<Runner::Slot> Runner::make_slot() {
  Result<Context> context = Context::create(engine_, options_);
  if (!context.ok()) {
    const std::scoped_lock lock(mutex_);
    --made_;
    freed_.notify_one();
    raise(context.status());
  }
  auto slot = std::make_unique<Slot>(std::move(context).value());
  slot->input_dims.resize(engine_.inputs().size());
  slot->output_dims.resize(engine_.outputs().size());
  return slot;
}

void Runner::release(std::unique_ptr<Slot> slot) {
  const std::scoped_lock lock(mutex_);
  free_.push_back(std::move(slot));
  freed_.notify_one();
}

int Runner::output_of(nb::handle name) const {
  std::string text;
  if (!nb::try_cast(name, text, false)) refuse("names of outputs are strings");
  return output_index(text);
}

std::vector<bool> Runner::wanted_outputs(nb::handle names) const {
  const size_t count = engine_.outputs().size();
  if (names.is_none()) return std::vector<bool>(count, true);
  std::vector<bool> wanted(count, false);
  for (const nb::handle name : names) wanted[static_cast<size_t>(output_of(name))] = true;
  return wanted;
}

std::vector<Array> Runner::read_feed(nb::handle feed) const {
  const std::vector<TensorInfo>& infos = engine_.inputs();
  if (!PyDict_Check(feed.ptr())) refuse("the feed must be a dict: input name to array");
  std::vector<Array> inputs;
  inputs.reserve(infos.size());
  for (size_t k = 0; k < infos.size(); ++k) {
    PyObject* value = PyDict_GetItemWithError(feed.ptr(), input_keys_[k].ptr());
    if (value == nullptr)
      refuse(fmt::format("input '{}' is missing ({} {})", infos[k].name, numpy_name(infos[k].type),
                         shape_text(infos[k])));
    inputs.push_back(input_array(value, infos[k].type, infos[k].name));
  }
  if (static_cast<size_t>(PyDict_Size(feed.ptr())) != infos.size())
    for (const auto& item : nb::borrow<nb::dict>(feed)) {
      std::string name;
      if (!nb::try_cast(item.first, name, false)) refuse("names of inputs are strings");
      input_index(name);
    }
  return inputs;
}

void Runner::set_inputs(Slot& slot, const std::vector<Array>& inputs) const {
  const std::vector<TensorInfo>& infos = engine_.inputs();
  for (size_t k = 0; k < infos.size(); ++k) {
    const Array& array = inputs[k];
    if (slot.input_dims[k] != array.dims || !slot.shapes_known) {
      slot.shapes_known = false;
      slot.input_dims[k].assign(1, -1);  // an error leaves nothing half known
      check(slot.context.set_shape(infos[k].name, array.dims));
      slot.input_dims[k] = array.dims;
    }
    check(slot.context.set_input(infos[k].name, array.data, array.bytes));
  }
}

void Runner::learn_output_shapes(Slot& slot) const {
  if (slot.shapes_known) return;
  const std::vector<TensorInfo>& infos = engine_.outputs();
  for (size_t k = 0; k < infos.size(); ++k) {
    Result<Dims> dims = slot.context.output_shape(infos[k].name);
    if (!dims.ok() && dims.status().code() != ErrorCode::kUnsupported) raise(dims.status());
    slot.output_dims[k] = dims.ok() ? std::optional<Dims>(dims.value()) : std::nullopt;
  }
  slot.shapes_known = true;
}

void Runner::set_outputs(Slot& slot, Call& call) const {
  const std::vector<TensorInfo>& infos = engine_.outputs();
  call.made.assign(infos.size(), {});
  for (size_t k = 0; k < infos.size(); ++k) {
    void* data = nullptr;
    size_t bytes = 0;
    if (call.wanted[k] && call.outputs[k]) {
      const Array& array = *call.outputs[k];
      if (slot.output_dims[k] && *slot.output_dims[k] != array.dims)
        refuse(fmt::format("output '{}' is {}, the array bound to it {}", infos[k].name,
                           to_string(*slot.output_dims[k]), to_string(array.dims)));
      data = const_cast<void*>(array.data);
      bytes = array.bytes;
    } else if (call.wanted[k] && slot.output_dims[k]) {
      call.made[k] = allocate(byte_size(infos[k].type, element_count(*slot.output_dims[k])));
      data = call.made[k].data;
      bytes = call.made[k].bytes;
    }
    check(slot.context.set_output(infos[k].name, data, bytes));
  }
}

void Runner::collect_outputs(Slot& slot, Call& call) const {
  const std::vector<TensorInfo>& infos = engine_.outputs();
  call.results.assign(infos.size(), nb::object());
  for (size_t k = 0; k < infos.size(); ++k) {
    if (!call.wanted[k] || call.outputs[k]) continue;
    Allocation& made = call.made[k];
    if (slot.output_dims[k]) {
      call.results[k] = numpy_array(infos[k].type, *slot.output_dims[k], made.data, made.owner);
      continue;
    }
    // What only running could tell lies in the context's memory and is copied out.
    const TensorView view = take(slot.context.output(infos[k].name));
    made = allocate(view.bytes());
    if (made.bytes > 0) std::memcpy(made.data, view.data, made.bytes);
    call.results[k] = numpy_array(view.type, view.dims, made.data, made.owner);
  }
}

void Runner::run(Call& call) {
  Lease lease(*this);
  Slot& slot = *lease;
  set_inputs(slot, call.inputs);
  learn_output_shapes(slot);
  set_outputs(slot, call);
  Status status;
  {
    const nb::gil_scoped_release release;
    status = slot.context.run();
  }
  check(status);
  collect_outputs(slot, call);
}

nb::list Runner::run(nb::handle names, nb::handle feed) {
  Call call;
  call.wanted = wanted_outputs(names);
  call.outputs.resize(engine_.outputs().size());
  call.inputs = read_feed(feed);
  run(call);
  nb::list results;
  if (names.is_none()) {
    for (nb::object& result : call.results) results.append(std::move(result));
  } else {
    for (const nb::handle name : names)
      results.append(call.results[static_cast<size_t>(output_of(name))]);
  }
  return results;
}

}  // namespace camshaft::python
