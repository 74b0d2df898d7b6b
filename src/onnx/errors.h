// SPDX-License-Identifier: Apache-2.0
// The two ways to refuse a model.
#pragma once

#include "base/status.h"

namespace camshaft::onnx_import {

template <class... Args>
Status unsupported(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kUnsupported, format, std::forward<Args>(args)...);
}
template <class... Args>
Status invalid(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kInvalidModel, format, std::forward<Args>(args)...);
}

}  // namespace camshaft::onnx_import
