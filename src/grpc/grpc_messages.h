// SPDX-License-Identifier: Apache-2.0
// Inferences as gRPC messages.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include <grpcpp/support/status.h>

#include "inference_service.pb.h"
#include "serve/core.h"

namespace camshaft::serve {

::grpc::Status grpc_status(const Error& error);

// Tensors that come as lists of numbers are decoded into `memory`; raw ones stay where they are: in
// `message`, which must live until the answer.
std::optional<Error> read_inference(const inference::ModelInferRequest& message,
                                    std::deque<std::vector<std::byte>>& memory, Request& request);

// `answer` holds no error.
std::optional<Error> write_inference(const Model& model, const Request& request,
                                     const Answer& answer, inference::ModelInferResponse& message);

}  // namespace camshaft::serve
