// SPDX-License-Identifier: Apache-2.0
// One rule for the element types of data, wherever it goes: run, bench, camexec, quantize, verify.
#pragma once

#include <string>

#include "cli/tensor_files.h"

namespace camshaft::cli {

// Gives `tensor` the element type `wanted`. Floats become other floats and integers other integers
// (a note says so; integers must fit). Floats and integers do not become each other: how codes or
// pixels are scaled only the network's author knows. `what` names the tensor in errors.
Status convert(HostTensor& tensor, DataType wanted, const std::string& what);

}  // namespace camshaft::cli
