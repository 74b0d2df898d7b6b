// SPDX-License-Identifier: Apache-2.0
// camshaft inspect --sparsity: the zeros in the weights of a model, and what an engine makes of
// them.
#pragma once

#include <filesystem>

#include "base/status.h"
#include "camshaft/inspector.h"

namespace camshaft::cli {

// Every convolution and matrix product as the model has it; nothing is built.
Status print_model_sparsity(const std::filesystem::path& model);
void print_engine_sparsity(const Inspector& inspector);

}  // namespace camshaft::cli
