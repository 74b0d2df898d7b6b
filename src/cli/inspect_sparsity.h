// SPDX-License-Identifier: Apache-2.0
// camshaft inspect --sparsity: the zeros in the weights of a model.
#pragma once

#include <filesystem>

#include "base/status.h"

namespace camshaft::cli {

// Every convolution and matrix product as the model has it; nothing is built.
Status print_model_sparsity(const std::filesystem::path& model);

}  // namespace camshaft::cli
