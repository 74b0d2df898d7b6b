// SPDX-License-Identifier: Apache-2.0
// Errors as values: Status carries a code and one clear message, Result<T> a value or a Status.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

// Marks what the shared libraries export; everything else stays inside them.
#define CAMSHAFT_API __attribute__((visibility("default")))

namespace camshaft {

enum class ErrorCode : uint8_t {
  kOk,
  kInvalidArgument,  // the caller's option, shape or binding is wrong
  kInvalidModel,     // the ONNX file is malformed or contradicts itself
  kUnsupported,      // well formed, but this version cannot do it
  kCorrupt,          // an engine or cache file is damaged, foreign or from a newer version
  kIo,               // a file cannot be read or written
  kCancelled,        // the user asked to stop
  kInternal,         // a bug of ours
  kResources,        // memory or threads that the system does not give
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == ErrorCode::kOk; }
  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // The same error seen from one level up: "context: message".
  Status with_context(const std::string& context) const {
    return ok() ? *this : Status(code_, context + ": " + message_);
  }

 private:
  ErrorCode code_ = ErrorCode::kOk;
  std::string message_;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}         // NOLINT: implicit on purpose
  Result(Status status) : state_(std::move(status)) {}  // NOLINT: implicit on purpose

  bool ok() const { return std::holds_alternative<T>(state_); }
  Status status() const { return ok() ? Status() : std::get<Status>(state_); }
  // Only if ok().
  T& value() & { return std::get<T>(state_); }
  const T& value() const& { return std::get<T>(state_); }
  T&& value() && { return std::get<T>(std::move(state_)); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace camshaft
