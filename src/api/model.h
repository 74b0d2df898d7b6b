// SPDX-License-Identifier: Apache-2.0
// From what the importer made to the public handle, for parts of the library that import
// themselves.
#pragma once

#include "camshaft/builder.h"
#include "onnx/importer.h"

namespace camshaft::api {

Model wrap_model(onnx_import::ImportedModel imported);

}  // namespace camshaft::api
