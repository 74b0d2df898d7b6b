// SPDX-License-Identifier: Apache-2.0
// The name of a model's engine in the cache.
#pragma once

#include <string>

#include "onnx/model.h"

namespace camshaft::ep {

// A name for the engine of this model under these options on this machine.
std::string engine_key(const onnx_import::Model& model, const std::string& facts);

}  // namespace camshaft::ep
