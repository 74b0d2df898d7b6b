// SPDX-License-Identifier: Apache-2.0
// Connections, and the threads they belong to: a connection is its thread's alone, so that nothing
// of it is locked; answers come from other threads through the thread's mailbox.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "serve/http_server.h"
#include "serve/wakes.h"

namespace camshaft::serve {

using HttpClock = std::chrono::steady_clock;
using HttpExecutor = boost::asio::io_context::executor_type;
using HttpSocket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, HttpExecutor>;

class Connection {
 public:
  virtual ~Connection() = default;
  virtual void start() = 0;
  virtual void answer(HttpAnswer&& answer) = 0;
  virtual void end_if_idle() = 0;
  virtual void end_now() = 0;
  virtual HttpClock::time_point deadline() const = 0;  // of what it waits for
};

using ConnectionPtr = std::shared_ptr<Connection>;

// What all connections of a server share.
struct HttpShared {
  explicit HttpShared(HttpServerOptions with) : options(std::move(with)) {}

  HttpServerOptions options;
  std::atomic<bool> draining{false};
  std::atomic<size_t> body_bytes{0};
  std::atomic<size_t> connections{0};
};

// One thread's connections.
class HttpLoop : public Sleeper {
 public:
  explicit HttpLoop(HttpShared& shared)
      : shared_(shared), work_(network_.get_executor()), sweep_(network_) {}

  HttpShared& shared() { return shared_; }
  boost::asio::io_context& network() { return network_; }
  void run();  // until stop()

  // From any thread.
  void deliver(ConnectionPtr connection, HttpAnswer&& answer);
  void end_idle();
  void stop();
  void wake() override;

  // From the loop's thread.
  void add(const ConnectionPtr& connection);
  void remove(const ConnectionPtr& connection);

 private:
  void hand_out();
  void end_late();

  struct Mailbox {
    std::mutex mutex;
    std::vector<std::pair<ConnectionPtr, HttpAnswer>> answers;
  };

  HttpShared& shared_;
  boost::asio::io_context network_{1};
  boost::asio::executor_work_guard<HttpExecutor> work_;
  boost::asio::steady_timer sweep_;
  bool is_stopped_ = false;
  std::set<ConnectionPtr> connections_;
  Mailbox mailbox_;
};

ConnectionPtr make_connection(HttpLoop& loop, HttpSocket socket);

}  // namespace camshaft::serve
