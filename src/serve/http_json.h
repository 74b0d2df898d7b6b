// SPDX-License-Identifier: Apache-2.0
// Inferences as JSON, with tensors in it or as bytes behind it (the binary tensor data extension).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/body.h"
#include "serve/core.h"

namespace camshaft::serve {

struct HttpAnswer {
  int status = 200;
  std::string content_type = "application/json";
  std::string text;
  std::vector<std::span<const std::byte>> binaries;  // behind the text
  std::shared_ptr<const void> keeper;                // of the binaries
};

int http_status(Failure failure);
HttpAnswer http_error(const Error& error);
HttpAnswer http_error(int status, const std::string& message);
std::string quoted(const std::string& text);  // as JSON, whatever its bytes are

// `json_bytes`: of the body, binary tensors follow; empty: all of it.
std::optional<Error> read_inference(const Body& body, std::optional<size_t> json_bytes,
                                    Request& request, bool& all_binary);

HttpAnswer write_inference(const Model& model, const Request& request, bool all_binary,
                           Answer&& answer);

}  // namespace camshaft::serve
