// SPDX-License-Identifier: Apache-2.0
// One connection: requests come in and answers go out as the client is ready for them; no thread
// ever waits for it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/thread_pool.hpp>

#include "server/http_server.h"
#include "server/trace_cache.h"

namespace camshaft::server {

class HttpSession;

// What all connections of a server share.
struct HttpShared {
  RunStore& store;
  HttpOptions options;
  boost::asio::io_context network{1};
  boost::asio::thread_pool workers;  // answers are worked out and packed here
  TraceCache traces;
  std::atomic<bool> stopped{false};
  std::set<std::shared_ptr<HttpSession>> sessions;  // touched by the network's thread only

  HttpShared(RunStore& from, HttpOptions with, size_t threads)
      : store(from), options(std::move(with)), workers(threads) {}
};

void start_session(HttpShared& shared, boost::asio::ip::tcp::socket socket);
// Ends connections that wait for a request; the others end with their answer.
void end_idle_sessions(HttpShared& shared);

}  // namespace camshaft::server
