// SPDX-License-Identifier: Apache-2.0
#include "serve/runner.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "base/status.h"

namespace camshaft::serve {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kBuffersKept = 4;

size_t aligned(size_t bytes) {
  return (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
}

uint64_t ns_since(Clock::time_point start) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

template <class Buffer>
Status reserve(Buffer& buffer, size_t bytes) {
  if (buffer.bytes >= bytes && buffer.data) return ok_status();
  const size_t wanted = aligned(bytes);
  buffer.data.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, wanted)));
  buffer.bytes = buffer.data ? wanted : 0;
  if (!buffer.data) return make_error(ErrorCode::kResources, "no memory for {} bytes", wanted);
  return ok_status();
}

}  // namespace

Result<std::unique_ptr<Runner>> Runner::create(const Engine& engine, int threads, bool is_batched) {
  ContextOptions options;
  options.threads = threads;
  CAMSHAFT_ASSIGN(Context context, Context::create(engine, options));
  std::unique_ptr<Runner> runner(new Runner(std::move(context), is_batched));
  runner->gathered_.resize(engine.inputs().size());
  return runner;
}

Status Runner::set_inputs(std::span<const RequestPtr> requests, int64_t size) {
  const std::vector<TensorInfo>& infos = context_.engine().inputs();
  for (size_t k = 0; k < infos.size(); ++k) {
    const Tensor& first = requests[0]->inputs[k];
    Dims dims = first.dims;
    if (is_batched_ && !dims.empty()) dims[0] = size;
    CAMSHAFT_TRY(context_.set_shape(infos[k].name, dims));
    const size_t bytes = byte_size(first.type, element_count(dims));
    if (requests.size() == 1 && first.bytes.size() == bytes) {
      CAMSHAFT_TRY(context_.set_input(infos[k].name, first.bytes.data(), bytes));
      continue;
    }
    CAMSHAFT_TRY(reserve(gathered_[k], bytes));
    std::byte* to = gathered_[k].data.get();
    for (const RequestPtr& request : requests) {
      const std::span<const std::byte> from = request->inputs[k].bytes;
      if (!from.empty()) std::memcpy(to, from.data(), from.size());
      to += from.size();
    }
    // Rows that only fill the batch up.
    std::memset(to, 0, static_cast<size_t>(gathered_[k].data.get() + bytes - to));
    CAMSHAFT_TRY(context_.set_input(infos[k].name, gathered_[k].data.get(), bytes));
  }
  return ok_status();
}

Runner::BufferPtr Runner::buffer(size_t bytes) {
  for (const BufferPtr& kept : returned_) {
    if (kept.use_count() != 1 || kept->bytes < bytes) continue;
    std::atomic_thread_fence(std::memory_order_acquire);  // after the last reader's release
    return kept;
  }
  auto fresh = std::make_shared<Buffer>();
  if (!reserve(*fresh, bytes).ok()) return nullptr;
  if (returned_.size() < kBuffersKept) {
    returned_.push_back(fresh);
  } else {
    const auto unused = std::find_if(returned_.begin(), returned_.end(),
                                     [](const BufferPtr& kept) { return kept.use_count() == 1; });
    if (unused != returned_.end()) *unused = fresh;
  }
  return fresh;
}

// Where the shapes say how large outputs are, they are written to the answers' memory at once.
Status Runner::set_outputs(BufferPtr& memory) {
  const std::vector<TensorInfo>& infos = context_.engine().outputs();
  std::vector<size_t> sizes;
  size_t total = 0;
  for (const TensorInfo& info : infos) {
    CAMSHAFT_TRY(context_.set_output(info.name, nullptr, 0));
    const Result<Dims> dims = context_.output_shape(info.name);
    if (!dims.ok() && dims.status().code() != ErrorCode::kUnsupported) return dims.status();
    sizes.push_back(dims.ok() ? aligned(byte_size(info.type, element_count(*dims))) : 0);
    total += sizes.back();
  }
  memory = buffer(total);
  if (!memory) return make_error(ErrorCode::kResources, "no memory for {} bytes", total);
  std::byte* at = memory->data.get();
  for (size_t k = 0; k < infos.size(); ++k) {
    if (sizes[k] > 0) CAMSHAFT_TRY(context_.set_output(infos[k].name, at, sizes[k]));
    at += sizes[k];
  }
  return ok_status();
}

Status Runner::split_outputs(std::span<const RequestPtr> requests, int64_t size,
                             const BufferPtr& memory, std::vector<Answer>& answers) {
  answers.assign(requests.size(), {});
  // Outputs that the context kept are copied: its memory is the next run's.
  struct Copies {
    BufferPtr memory;
    std::vector<Buffer> more;
  };
  auto keeper = std::make_shared<Copies>();
  keeper->memory = memory;
  for (const TensorInfo& info : context_.engine().outputs()) {
    CAMSHAFT_ASSIGN(const TensorView view, context_.output(info.name));
    const auto* data = static_cast<const std::byte*>(view.data);
    const std::byte* begin = memory->data.get();
    if (view.bytes() > 0 && (data < begin || data >= begin + memory->bytes)) {
      Buffer copy;
      CAMSHAFT_TRY(reserve(copy, view.bytes()));
      std::memcpy(copy.data.get(), data, view.bytes());
      keeper->more.push_back(std::move(copy));
      data = keeper->more.back().data.get();
    }
    if (is_batched_ && (view.dims.empty() || view.dims[0] != size))
      return make_error(ErrorCode::kInvalidModel,
                        "output '{}' of a batch of {} is {}: its first extent is not the batch",
                        info.name, size, to_string(view.dims));
    const size_t row_bytes = is_batched_ ? view.bytes() / static_cast<size_t>(size) : view.bytes();
    for (size_t k = 0; k < requests.size(); ++k) {
      Dims dims = view.dims;
      if (is_batched_) dims[0] = requests[k]->rows;
      const size_t bytes =
          is_batched_ ? row_bytes * static_cast<size_t>(requests[k]->rows) : row_bytes;
      answers[k].outputs.push_back({info.name, view.type, std::move(dims), {data, bytes}});
      data += bytes;
    }
  }
  for (Answer& answer : answers) answer.keeper = keeper;
  return ok_status();
}

Status Runner::run(std::span<const RequestPtr> requests, int64_t size, std::vector<Answer>& answers,
                   BatchTime& time) {
  const Clock::time_point start = Clock::now();
  CAMSHAFT_TRY(set_inputs(requests, size));
  BufferPtr memory;
  CAMSHAFT_TRY(set_outputs(memory));
  time.input_ns = ns_since(start);
  const Clock::time_point running = Clock::now();
  CAMSHAFT_TRY(context_.run());
  time.infer_ns = ns_since(running);
  const Clock::time_point splitting = Clock::now();
  CAMSHAFT_TRY(split_outputs(requests, size, memory, answers));
  time.output_ns = ns_since(splitting);
  return ok_status();
}

size_t Runner::memory_bytes() const {
  return context_.activation_bytes() + context_.workspace_bytes();
}

}  // namespace camshaft::serve
