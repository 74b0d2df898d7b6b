// SPDX-License-Identifier: Apache-2.0
// Errors as values: Status carries a code and one clear message, Result<T> a value or a Status.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <fmt/core.h>

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

inline Status ok_status() { return Status(); }

template <class... Args>
Status make_error(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return Status(code, fmt::format(format, std::forward<Args>(args)...));
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}            // NOLINT: implicit on purpose
  Result(Status status) : state_(std::move(status)) {}     // NOLINT: implicit on purpose

  bool ok() const { return std::holds_alternative<T>(state_); }
  Status status() const { return ok() ? Status() : std::get<Status>(state_); }
  T& value() & { return std::get<T>(state_); }
  const T& value() const& { return std::get<T>(state_); }
  T&& value() && { return std::get<T>(std::move(state_)); }
  T* operator->() { return &value(); }
  T& operator*() { return value(); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace camshaft

// Returns the Status of a failed expression from the enclosing function.
#define CAMSHAFT_TRY(expression)                                   \
  do {                                                             \
    if (::camshaft::Status camshaft_status_ = (expression);        \
        !camshaft_status_.ok())                                    \
      return camshaft_status_;                                     \
  } while (false)

#define CAMSHAFT_CONCAT_INNER(a, b) a##b
#define CAMSHAFT_CONCAT(a, b) CAMSHAFT_CONCAT_INNER(a, b)

// CAMSHAFT_ASSIGN(auto x, f()): unwraps a Result or returns its Status.
#define CAMSHAFT_ASSIGN(declaration, expression) \
  CAMSHAFT_ASSIGN_INNER(CAMSHAFT_CONCAT(camshaft_result_, __LINE__), declaration, expression)
#define CAMSHAFT_ASSIGN_INNER(result, declaration, expression) \
  auto result = (expression);                                  \
  if (!result.ok()) return result.status();                    \
  declaration = std::move(result).value()
