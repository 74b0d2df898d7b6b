// SPDX-License-Identifier: Apache-2.0
// Connections over HTTP/1.1, with TLS where asked for, within limits. What to answer is a
// function's matter.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "serve/http_api.h"

namespace boost::asio::ssl {
class context;
}

namespace camshaft::serve {

struct HttpLimits {
  size_t header_bytes = 32 << 10;
  size_t body_bytes = size_t{64} << 20;
  size_t all_body_bytes = size_t{1} << 30;  // of all requests that are being read or answered
  size_t connections = 1024;
  std::chrono::seconds idle_time{60};   // until a request's header is there
  std::chrono::seconds body_time{120};  // for its body
  std::chrono::seconds write_time{60};  // for an answer
  std::chrono::seconds handshake_time{10};
};

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  int port = 8000;    // 0: any free one
  std::string token;  // not empty: what "Authorization: Bearer" must say
  std::shared_ptr<boost::asio::ssl::context> tls;  // null: plain
  HttpLimits limits;
  int threads = 2;
  std::function<void(HttpRequest&&, HttpReply)> answer;
};

// Certificate chain and private key, PEM.
Result<std::shared_ptr<boost::asio::ssl::context>> tls_context(const std::string& certificate,
                                                               const std::string& key);

class HttpServer {
 public:
  explicit HttpServer(HttpServerOptions options);
  ~HttpServer();

  Status bind();  // after this port() is the real one
  int port() const;
  void start();
  // No more connections; open ones end with the answer to what they have asked.
  void drain();
  bool has_connections() const;
  void stop();  // ends what is left

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace camshaft::serve
