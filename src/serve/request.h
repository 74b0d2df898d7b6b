// SPDX-License-Identifier: Apache-2.0
// An inference as the protocols hand it to a model, and what comes back. Knows nothing of sockets.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "camshaft/types.h"

namespace camshaft::serve {

using Clock = std::chrono::steady_clock;

inline double us_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::micro>(to - from).count();
}

// What went wrong with a request, in the words both protocols have.
enum class Failure : uint8_t {
  kInvalid,      // 400, INVALID_ARGUMENT
  kNotFound,     // 404, NOT_FOUND
  kUnsupported,  // 501, UNIMPLEMENTED
  kUnavailable,  // 503, UNAVAILABLE: not loaded (yet), or the server ends
  kOverloaded,   // 503, RESOURCE_EXHAUSTED: the queue is full
  kTimeout,      // 503, DEADLINE_EXCEEDED: it waited longer than it was willing to
  kCancelled,    // 499, CANCELLED: nobody waits for the answer any more
  kInternal,     // 500, INTERNAL: the engine failed
};

struct Error {
  Failure failure = Failure::kInternal;
  std::string message;
};

struct Tensor {
  std::string name;
  DataType type = DataType::kUndefined;
  Dims dims;
  std::span<const std::byte> bytes;  // row major
};

struct WantedOutput {
  std::string name;
  int64_t classes = 0;     // not 0: the so many largest as "value:index:label"
  bool is_binary = false;  // HTTP: after the JSON instead of in it
};

struct Answer {
  std::optional<Error> error;
  std::vector<Tensor> outputs;         // in the engine's order, all of them
  std::shared_ptr<const void> keeper;  // of the outputs' bytes
};

struct Request {
  std::string id;
  std::vector<Tensor> inputs;
  std::shared_ptr<const void> keeper;  // of the inputs' bytes
  std::vector<WantedOutput> wanted;    // empty: every output
  uint64_t priority = 0;               // 1 is the highest; 0: the model's default
  uint64_t timeout_us = 0;             // in the queue; 0: the model's default
  std::function<bool()> is_abandoned;  // asked before it runs; may be empty
  std::function<void(Answer&&)> done;  // called once, by any thread

  // The model's.
  int64_t rows = 1;  // of the batch
  Clock::time_point arrived, deadline;
};

using RequestPtr = std::shared_ptr<Request>;

}  // namespace camshaft::serve
