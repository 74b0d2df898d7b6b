// SPDX-License-Identifier: Apache-2.0
// Serves the profiler's routes and page over HTTP: loopback by default, only to clients that name
// this machine.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/status.h"
#include "server/run_store.h"

namespace camshaft::server {

// What a connection may cost.
struct ConnectionLimits {
  size_t request_bytes = 64 << 10;                // line and headers; requests have no body
  std::chrono::milliseconds request_time{10000};  // from its first byte to its last
  std::chrono::milliseconds idle_time{5000};      // between two requests
  std::chrono::milliseconds write_time{20000};    // of a piece of 64 KB
};

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 6006;          // 0: any free one
  std::string path_prefix;  // before every route, as TensorBoard's --path_prefix: "/profiler"
  ConnectionLimits limits;
};

class HttpServer {
 public:
  HttpServer(RunStore& store, HttpOptions options);
  ~HttpServer();

  Status bind();  // after this port() is the real one
  int port() const;
  std::string address() const;  // "http://127.0.0.1:6006/"
  void serve();                 // until stop() is called, from any thread
  void stop();                  // lets running requests finish; safe to call twice

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace camshaft::server
