// SPDX-License-Identifier: Apache-2.0
// A connection with limits that cpp-httplib does not set: the bytes of a request and the time it
// may take to arrive, the time a client may take to accept an answer.
#pragma once

#include <httplib.h>

#include <atomic>
#include <chrono>
#include <string>

#include "server/http_server.h"

namespace camshaft::server {

class GuardedStream final : public httplib::Stream {
 public:
  GuardedStream(socket_t socket, const ConnectionLimits& limits)
      : socket_(socket), limits_(limits) {}

  // Waits for the first byte of the next request; false when none comes.
  bool await_request(const std::atomic<bool>& stop);

  bool is_readable() const override;
  bool is_writable() const override;
  ssize_t read(char* into, size_t size) override;
  ssize_t write(const char* from, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return socket_; }

 private:
  using Clock = std::chrono::steady_clock;
  bool wait(short events, Clock::time_point until) const;

  socket_t socket_;
  const ConnectionLimits& limits_;
  Clock::time_point deadline_;
  size_t left_ = 0;  // bytes this request may still have
  char buffer_[4096];
  size_t begin_ = 0, end_ = 0;  // of bytes read ahead
};

}  // namespace camshaft::server
