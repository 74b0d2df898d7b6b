// SPDX-License-Identifier: Apache-2.0
// One thread moves the bytes of all connections; a few work out answers. However many clients are
// slow, a fast one waits for none of them.
#include "server/http_server.h"

#include <algorithm>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/cpu.h"
#include "server/http_session.h"
#include "server/listen.h"

namespace camshaft::server {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr size_t kMostConnections = 4096;  // then idle ones make room
constexpr std::chrono::milliseconds kOutOfFiles{50};

bool is_good_prefix(const std::string& prefix) {
  return prefix.empty() || (prefix.front() == '/' && prefix.size() > 1 && prefix.back() != '/' &&
                            prefix.find("//") == prefix.npos &&
                            prefix.find_first_not_of("/-._~0123456789abcdefghijklmnopqrstuvwxyz"
                                                     "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == prefix.npos);
}

}  // namespace

struct HttpServer::State {
  HttpShared shared;
  tcp::acceptor acceptor;
  asio::steady_timer pause;

  State(RunStore& store, HttpOptions options)
      : shared(store, std::move(options),
               static_cast<size_t>(std::max(4, 2 * default_num_threads()))),
        acceptor(shared.network),
        pause(shared.network) {}

  void accept();
};

void HttpServer::State::accept() {
  acceptor.async_accept([this](error_code error, tcp::socket socket) {
    if (shared.stopped || !acceptor.is_open()) return;
    if (!error) {
      if (shared.sessions.size() >= kMostConnections) end_idle_sessions(shared);
      if (shared.sessions.size() >= kMostConnections) return accept();  // and closes this one
      start_session(shared, std::move(socket));
      return accept();
    }
    pause.expires_after(kOutOfFiles);
    pause.async_wait([this](error_code stopped) {
      if (!stopped) accept();
    });
  });
}

HttpServer::HttpServer(RunStore& store, HttpOptions options)
    : state_(std::make_unique<State>(store, std::move(options))) {}

HttpServer::~HttpServer() {
  stop();
  state_->shared.workers.join();
  // What the last answers left to do holds their connections.
  state_->shared.network.restart();
  state_->shared.network.poll();
  state_->shared.sessions.clear();
}

Status HttpServer::bind() {
  const HttpOptions& options = state_->shared.options;
  CAMSHAFT_TRY(check_port(options.port));
  if (!is_good_prefix(options.path_prefix))
    return make_error(ErrorCode::kInvalidArgument,
                      "the path prefix must look like /profiler, not '{}'", options.path_prefix);
  return listen_at(state_->acceptor, options.host, options.port, "; --port 0 takes any free port");
}

int HttpServer::port() const {
  return port_of(state_->acceptor);
}

std::string HttpServer::address() const {
  const HttpOptions& options = state_->shared.options;
  const bool is_v6 = options.host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}{}/", is_v6 ? "[" : "",
                     options.host == "0.0.0.0" ? "127.0.0.1" : options.host, is_v6 ? "]" : "",
                     port(), options.path_prefix);
}

void HttpServer::serve() {
  allow_files(2 * kMostConnections);
  state_->accept();
  state_->shared.network.run();
}

void HttpServer::stop() {
  if (state_->shared.stopped.exchange(true)) return;
  asio::post(state_->shared.network, [state = state_.get()] {
    error_code error;
    state->acceptor.close(error);
    state->pause.cancel();
    end_idle_sessions(state->shared);
  });
}

}  // namespace camshaft::server
