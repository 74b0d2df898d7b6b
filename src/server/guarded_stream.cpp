// SPDX-License-Identifier: Apache-2.0
#include "server/guarded_stream.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace camshaft::server {
namespace {

constexpr std::chrono::milliseconds kLookForStop{200};

}  // namespace

bool GuardedStream::wait(short events, Clock::time_point until) const {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd entry{socket_, events, 0};
    const int got = ::poll(&entry, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 60000)));
    if (got > 0) return (entry.revents & (events | POLLHUP)) != 0;
    if (got == 0 && left <= 60000) return false;
    if (got < 0 && errno != EINTR) return false;
  }
}

bool GuardedStream::await_request(const std::atomic<bool>& stop) {
  const auto until = Clock::now() + limits_.idle_time;
  while (begin_ == end_) {
    if (stop || Clock::now() >= until) return false;
    if (wait(POLLIN, std::min(until, Clock::now() + kLookForStop))) break;
  }
  left_ = limits_.request_bytes;
  deadline_ = Clock::now() + limits_.request_time;
  return true;
}

bool GuardedStream::is_readable() const {
  return begin_ < end_ || wait(POLLIN, Clock::now());
}

bool GuardedStream::is_writable() const {
  return wait(POLLOUT, Clock::now() + limits_.write_time);
}

ssize_t GuardedStream::read(char* into, size_t size) {
  if (left_ == 0) return -1;
  if (begin_ == end_) {
    if (!wait(POLLIN, deadline_)) return -1;
    const ssize_t got = ::recv(socket_, buffer_, sizeof buffer_, 0);
    if (got <= 0) return got;
    begin_ = 0;
    end_ = static_cast<size_t>(got);
  }
  const size_t part = std::min({size, end_ - begin_, left_});
  std::memcpy(into, buffer_ + begin_, part);
  begin_ += part;
  left_ -= part;
  return static_cast<ssize_t>(part);
}

ssize_t GuardedStream::write(const char* from, size_t size) {
  if (!is_writable()) return -1;
  ssize_t sent;
  do sent = ::send(socket_, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  return sent < 0 && errno == EAGAIN ? 0 : sent;
}

// Nobody asks for these.
void GuardedStream::get_remote_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = 0;
}
void GuardedStream::get_local_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = 0;
}

}  // namespace camshaft::server
