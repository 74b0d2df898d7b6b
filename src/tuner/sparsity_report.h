// SPDX-License-Identifier: Apache-2.0
// What became of sparse weights, in TensorRT's words and with the reasons it leaves out.
#pragma once

#include "engine/engine.h"

namespace camshaft::tuner {

void log_sparsity(const engine::Plan& plan);

}  // namespace camshaft::tuner
