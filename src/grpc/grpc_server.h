// SPDX-License-Identifier: Apache-2.0
// The Open Inference Protocol over gRPC.
#pragma once

#include <memory>

#include "serve/front_end.h"

namespace camshaft::serve {

std::unique_ptr<FrontEnd> make_grpc_server(Core& core, const GrpcOptions& options);

}  // namespace camshaft::serve
