// SPDX-License-Identifier: Apache-2.0
#include "errors.h"

#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace camshaft::python {
namespace {

// Names of classes in camshaft.errors.
const char* class_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "InvalidArgument";
    case ErrorCode::kInvalidModel:
      return "InvalidModel";
    case ErrorCode::kUnsupported:
      return "Unsupported";
    case ErrorCode::kCorrupt:
      return "CorruptEngine";
    case ErrorCode::kIo:
      return "FileError";
    case ErrorCode::kCancelled:
      return "Cancelled";
    default:
      return "InternalError";
  }
}

}  // namespace

void raise(const Status& status) {
  const nb::object make = nb::module_::import_("camshaft.errors").attr(class_of(status.code()));
  const nb::object error = make(status.message());
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

}  // namespace camshaft::python
