// SPDX-License-Identifier: Apache-2.0
// One connection: its steps run one after the other, none waits for another connection.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "serve/http_server.h"

namespace camshaft::serve {

class Connection {
 public:
  virtual ~Connection() = default;
  // From any thread.
  virtual void end_if_idle() = 0;
  virtual void end_now() = 0;
};

// What all connections of a server share.
struct HttpShared {
  explicit HttpShared(HttpServerOptions with) : options(std::move(with)) {}

  HttpServerOptions options;
  boost::asio::io_context network;
  std::atomic<bool> draining{false};
  std::atomic<size_t> body_bytes{0};
  std::mutex mutex;
  std::set<std::shared_ptr<Connection>> connections;
};

void start_connection(HttpShared& shared, boost::asio::ip::tcp::socket socket);

}  // namespace camshaft::serve
