// SPDX-License-Identifier: Apache-2.0
// Statuses of the library as exceptions of camshaft.errors.
#pragma once

#include <nanobind/nanobind.h>

#include "camshaft/status.h"

namespace camshaft::python {

// Raises the exception of the status' code; it carries the nodes the message names.
[[noreturn]] void raise(const Status& status);

inline void check(const Status& status) {
  if (!status.ok()) raise(status);
}

template <class T>
T take(Result<T> result) {
  if (!result.ok()) raise(result.status());
  return std::move(result).value();
}

}  // namespace camshaft::python
