// SPDX-License-Identifier: Apache-2.0
// One instance of a model: a context, and the memory a batch is gathered in and answered from.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "camshaft/context.h"
#include "serve/request.h"
#include "serve/statistics.h"

namespace camshaft::serve {

class Runner {
 public:
  static Result<std::unique_ptr<Runner>> create(const Engine& engine, int threads, bool is_batched);

  // Runs the requests, whose inputs are in the engine's order and of one shape but for the batch,
  // as a batch of `size` rows. An answer for each of them; an error is the whole batch's.
  Status run(std::span<const RequestPtr> requests, int64_t size, std::vector<Answer>& answers,
             BatchTime& time);

  size_t memory_bytes() const;  // of activations and workspace, for the present shapes

 private:
  struct Buffer {
    std::unique_ptr<std::byte, void (*)(void*)> data{nullptr, std::free};
    size_t bytes = 0;
  };
  using BufferPtr = std::shared_ptr<Buffer>;

  Runner(Context context, bool is_batched)
      : context_(std::move(context)), is_batched_(is_batched) {}
  Status set_inputs(std::span<const RequestPtr> requests, int64_t size);
  Status set_outputs(BufferPtr& memory);
  Status split_outputs(std::span<const RequestPtr> requests, int64_t size, const BufferPtr& memory,
                       std::vector<Answer>& answers);
  BufferPtr buffer(size_t bytes);

  Context context_;
  bool is_batched_;
  std::vector<Buffer> gathered_;     // by input
  std::vector<BufferPtr> returned_;  // answers' memory, used again when nobody has it any more
};

}  // namespace camshaft::serve
