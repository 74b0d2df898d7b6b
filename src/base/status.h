// SPDX-License-Identifier: Apache-2.0
// Errors as values inside the library: making them, and passing them up.
#pragma once

#include <string>
#include <utility>

#include <fmt/core.h>

#include "camshaft/status.h"  // Status, Result, ErrorCode: public

namespace camshaft {

inline Status ok_status() {
  return Status();
}

template <class... Args>
Status make_error(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return Status(code, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace camshaft

// Returns the Status of a failed expression from the enclosing function.
#define CAMSHAFT_TRY(expression)                                                    \
  do {                                                                              \
    if (::camshaft::Status camshaft_status_ = (expression); !camshaft_status_.ok()) \
      return camshaft_status_;                                                      \
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
