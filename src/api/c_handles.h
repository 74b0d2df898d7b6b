// SPDX-License-Identifier: Apache-2.0
// The C API's handles and how errors and descriptions cross over.
#pragma once

#include "camshaft/c_api.h"
#include "camshaft/context.h"
#include "camshaft/engine.h"

struct camshaft_engine {
  camshaft::Engine engine;
};

struct camshaft_context {
  camshaft::Context context;
};

namespace camshaft::api {

// Remembers the message for camshaft_last_error() and gives the code.
camshaft_status report(const Status& status);
// The engine for the caller, or the error.
camshaft_status wrap(Result<Engine> result, camshaft_engine** engine);
camshaft_status null_argument(const char* function);

void describe(const TensorInfo& info, camshaft_tensor_info& out);

}  // namespace camshaft::api
