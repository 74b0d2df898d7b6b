// SPDX-License-Identifier: Apache-2.0
// The gRPC server as the command sees it: its library is optional and lies above this folder.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "serve/core.h"

namespace camshaft::serve {

struct GrpcOptions {
  std::string host = "127.0.0.1";
  int port = 8001;               // 0: any free one
  std::string token;             // not empty: what the metadata "authorization: Bearer" must say
  std::string certificate, key;  // PEM files; empty: plain
  size_t message_bytes = size_t{64} << 20;
  size_t all_message_bytes = size_t{1} << 30;
};

class FrontEnd {
 public:
  virtual ~FrontEnd() = default;
  virtual Status start() = 0;
  virtual int port() const = 0;
  // No new calls; returns when those at work are answered, or at the deadline, which ends them.
  virtual void stop(std::chrono::system_clock::time_point deadline) = 0;
};

using MakeFrontEnd = std::unique_ptr<FrontEnd> (*)(Core& core, const GrpcOptions& options);

}  // namespace camshaft::serve
