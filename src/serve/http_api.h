// SPDX-License-Identifier: Apache-2.0
// The Open Inference Protocol's addresses and Triton's additions: from a request to an answer.
// Knows nothing of sockets.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "serve/core.h"
#include "serve/http_json.h"

namespace camshaft::serve {

struct HttpRequest {
  std::string method;                // "GET", "POST"
  std::string target;                // path and query as sent
  std::optional<size_t> json_bytes;  // Inference-Header-Content-Length
  std::string encoding;              // Content-Encoding
  Body body;
  std::function<bool()> is_abandoned;  // asked by any thread until the answer is given
};

using HttpReply = std::function<void(HttpAnswer&&)>;  // called once, by any thread

// Of the inference port. `most_bytes`: of a body when it is unpacked.
void answer_inference(Core& core, size_t most_bytes, HttpRequest&& request, HttpReply reply);
// Of the metrics port.
void answer_metrics(const Core& core, const HttpRequest& request, const HttpReply& reply);
// Addresses that need no token: whether the server lives and is ready.
bool is_health(const std::string& target);

// A body packed with gzip or deflate; an error where it is damaged or larger than `most_bytes`.
std::optional<Error> unpack(std::string_view packed, size_t most_bytes, std::string& body);

}  // namespace camshaft::serve
