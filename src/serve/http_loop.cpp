// SPDX-License-Identifier: Apache-2.0
#include <boost/asio/post.hpp>

#include "serve/http_session.h"

namespace camshaft::serve {

namespace asio = boost::asio;

namespace {

// Connections are late by so much at most: a timer for each step of each would cost more than it.
constexpr std::chrono::milliseconds kSweep{250};
constexpr int kMostAtOnce = 32;  // steps of connections before models hear of their requests

}  // namespace

void HttpLoop::run() {
  end_late();
  size_t done = 1;
  while (done > 0) {
    const Wakes models;
    done = network_.run_one();
    for (int k = 1; k < kMostAtOnce && network_.poll_one() > 0;) ++k;
  }
}

void HttpLoop::deliver(ConnectionPtr connection, HttpAnswer&& answer) {
  bool is_first = false;
  {
    const std::lock_guard lock(mailbox_.mutex);
    is_first = mailbox_.answers.empty();
    mailbox_.answers.emplace_back(std::move(connection), std::move(answer));
  }
  // It lives longer than what answers its requests.
  if (is_first) Wakes::wake(std::shared_ptr<Sleeper>(std::shared_ptr<void>(), this));
}

void HttpLoop::wake() {
  asio::post(network_, [this] { hand_out(); });
}

void HttpLoop::hand_out() {
  std::vector<std::pair<ConnectionPtr, HttpAnswer>> answers;
  {
    const std::lock_guard lock(mailbox_.mutex);
    answers.swap(mailbox_.answers);
  }
  for (auto& [connection, answer] : answers) connection->answer(std::move(answer));
}

void HttpLoop::end_idle() {
  asio::post(network_, [this] {
    const auto all = connections_;
    for (const ConnectionPtr& connection : all) connection->end_if_idle();
  });
}

void HttpLoop::stop() {
  asio::post(network_, [this] {
    is_stopped_ = true;
    work_.reset();
    sweep_.cancel();
    const auto all = connections_;
    for (const ConnectionPtr& connection : all) connection->end_now();
  });
}

void HttpLoop::add(const ConnectionPtr& connection) {
  if (is_stopped_) return static_cast<void>(--shared_.connections);
  connections_.insert(connection);
  connection->start();
}

void HttpLoop::remove(const ConnectionPtr& connection) {
  if (connections_.erase(connection) > 0) --shared_.connections;
}

void HttpLoop::end_late() {
  if (is_stopped_) return;
  const HttpClock::time_point now = HttpClock::now();
  std::vector<ConnectionPtr> late;
  for (const ConnectionPtr& connection : connections_)
    if (connection->deadline() < now) late.push_back(connection);
  for (const ConnectionPtr& connection : late) connection->end_now();
  sweep_.expires_after(kSweep);
  sweep_.async_wait([this](boost::system::error_code stopped) {
    if (!stopped) end_late();
  });
}

}  // namespace camshaft::serve
