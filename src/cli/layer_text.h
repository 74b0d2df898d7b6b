// SPDX-License-Identifier: Apache-2.0
// Words for the columns of tables of layers.
#pragma once

#include <string>
#include <vector>

#include "camshaft/inspector.h"

namespace camshaft::cli {

std::string shapes_text(const std::vector<LayerTensor>& tensors);  // "1x64x56x56 1x64"

}  // namespace camshaft::cli
