// SPDX-License-Identifier: Apache-2.0
// Serves the profiler's routes and page over HTTP: loopback by default, only to clients that name
// this machine.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "server/run_store.h"

namespace camshaft::server {

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 6006;          // 0: any free one
  std::string path_prefix;  // before every route, as TensorBoard's --path_prefix
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

// True when a Host header names this machine and not some site that resolves to it (DNS rebinding).
bool is_own_host(const std::string& header, const std::string& bound_host);

}  // namespace camshaft::server
