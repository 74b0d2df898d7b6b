// SPDX-License-Identifier: Apache-2.0
// ModelStreamInfer: requests of one stream are run like others, answers come in the order of the
// requests.
#pragma once

#include <grpcpp/support/server_callback.h>

#include "inference_service.pb.h"
#include "serve/core.h"

namespace camshaft::serve {

using StreamReactor =
    ::grpc::ServerBidiReactor<inference::ModelInferRequest, inference::ModelStreamInferResponse>;

// Owns itself until the stream has ended.
StreamReactor* make_stream(Core& core, ::grpc::CallbackServerContext& context);
// One that only says no.
StreamReactor* make_refused_stream(const ::grpc::Status& status);

}  // namespace camshaft::serve
