// SPDX-License-Identifier: Apache-2.0
// One thread moves the bytes of all connections; a few work out answers. However many clients are
// slow, a fast one waits for none of them.
#include "server/http_server.h"

#include <sys/resource.h>

#include <algorithm>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/cpu.h"
#include "server/http_session.h"

namespace camshaft::server {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr int kWaiting = 1024;  // connections not yet accepted
constexpr int kHighestPort = 65535;
constexpr size_t kMostConnections = 4096;  // then idle ones make room
constexpr std::chrono::milliseconds kOutOfFiles{50};

// A connection is an open file: as many as the system lets this process have.
void allow_many_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min<rlim_t>(limit.rlim_max, 2 * kMostConnections));
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

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

  error_code listen(const tcp::endpoint& endpoint);
  void accept();
};

// Without SO_REUSEPORT, so that a port somebody listens on is refused.
error_code HttpServer::State::listen(const tcp::endpoint& endpoint) {
  error_code error, ignored;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(kWaiting, error);
  if (error) acceptor.close(ignored);
  return error;
}

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
  if (options.port < 0 || options.port > kHighestPort)
    return make_error(ErrorCode::kInvalidArgument, "there is no port {}: ports are 0 to {}",
                      options.port, kHighestPort);
  if (!is_good_prefix(options.path_prefix))
    return make_error(ErrorCode::kInvalidArgument,
                      "the path prefix must look like /profiler, not '{}'", options.path_prefix);
  error_code error;
  tcp::resolver resolver(state_->shared.network);
  const auto endpoints =
      resolver.resolve(options.host, std::to_string(options.port),
                       tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error)
    return make_error(ErrorCode::kIo, "cannot listen on {}: {}", options.host, error.message());
  for (const auto& entry : endpoints) {
    error = state_->listen(entry.endpoint());
    if (!error) return ok_status();
  }
  return make_error(ErrorCode::kIo, "cannot listen on {}:{}: {}{}", options.host, options.port,
                    error.message(),
                    error == asio::error::address_in_use
                        ? ": another program listens there; --port 0 takes any free port"
                        : "");
}

int HttpServer::port() const {
  error_code error;
  const auto endpoint = state_->acceptor.local_endpoint(error);
  return error ? 0 : endpoint.port();
}

std::string HttpServer::address() const {
  const HttpOptions& options = state_->shared.options;
  const bool is_v6 = options.host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}{}/", is_v6 ? "[" : "",
                     options.host == "0.0.0.0" ? "127.0.0.1" : options.host, is_v6 ? "]" : "",
                     port(), options.path_prefix);
}

void HttpServer::serve() {
  allow_many_files();
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
