// SPDX-License-Identifier: Apache-2.0
#include "serve/http_server.h"

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>

#include "serve/http_session.h"
#include "server/listen.h"

namespace camshaft::serve {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::chrono::milliseconds kOutOfFiles{50};
constexpr std::chrono::milliseconds kPatience{1000};
constexpr int kMostRefusals = 256;

std::string too_many() {
  const HttpAnswer answer = http_error(503, "too many connections: try again later");
  return fmt::format(
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: "
      "{}\r\nConnection: close\r\nRetry-After: 1\r\n\r\n{}",
      answer.text.size(), answer.text);
}

// A connection too many: it is told so, and what it sends is read for a moment, for closing at once
// would take the answer away from it.
class Refusal : public std::enable_shared_from_this<Refusal> {
 public:
  explicit Refusal(tcp::socket socket)
      : socket_(std::move(socket)), timer_(socket_.get_executor()), text_(too_many()) {
    ++count_;
  }
  ~Refusal() { --count_; }
  static int count() { return count_; }

  void start(bool is_plain) {
    error_code ignored;
    socket_.non_blocking(true, ignored);
    if (is_plain) socket_.write_some(asio::buffer(text_), ignored);
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    timer_.expires_after(kPatience);
    timer_.async_wait([self = shared_from_this()](error_code stopped) {
      if (!stopped) self->socket_.cancel();
    });
    read();
  }

 private:
  void read() {
    socket_.async_read_some(asio::buffer(rest_),
                            [self = shared_from_this()](error_code error, size_t) {
                              if (error) return static_cast<void>(self->timer_.cancel());
                              self->read();
                            });
  }

  static inline std::atomic<int> count_{0};
  tcp::socket socket_;
  asio::steady_timer timer_;
  std::string text_;
  std::array<char, 4096> rest_ = {};
};

}  // namespace

Result<std::shared_ptr<asio::ssl::context>> tls_context(const std::string& certificate,
                                                        const std::string& key) {
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  error_code error;
  context->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                           asio::ssl::context::no_tlsv1_1,
                       error);
  context->use_certificate_chain_file(certificate, error);
  if (error)
    return make_error(ErrorCode::kIo, "the certificate {}: {}", certificate, error.message());
  context->use_private_key_file(key, asio::ssl::context::pem, error);
  if (error) return make_error(ErrorCode::kIo, "the key {}: {}", key, error.message());
  return context;
}

struct HttpServer::State {
  HttpShared shared;
  asio::strand<asio::io_context::executor_type> strand;
  tcp::acceptor acceptor;
  asio::steady_timer pause;
  asio::executor_work_guard<asio::io_context::executor_type> work;
  std::vector<std::thread> threads;

  explicit State(HttpServerOptions options)
      : shared(std::move(options)),
        strand(asio::make_strand(shared.network)),
        acceptor(strand),
        pause(strand),
        work(asio::make_work_guard(shared.network)) {}

  void accept();
  void take(tcp::socket socket);
};

void HttpServer::State::take(tcp::socket socket) {
  bool is_full = false;
  {
    const std::lock_guard lock(shared.mutex);
    is_full = shared.connections.size() >= shared.options.limits.connections;
  }
  if (!is_full) return start_connection(shared, std::move(socket));
  if (Refusal::count() >= kMostRefusals) return;  // closes it
  std::make_shared<Refusal>(std::move(socket))->start(shared.options.tls == nullptr);
}

void HttpServer::State::accept() {
  acceptor.async_accept(asio::make_strand(shared.network),
                        [this](error_code error, tcp::socket socket) {
                          if (shared.draining || !acceptor.is_open()) return;
                          if (!error) {
                            take(std::move(socket));
                            return accept();
                          }
                          pause.expires_after(kOutOfFiles);
                          pause.async_wait([this](error_code stopped) {
                            if (!stopped) accept();
                          });
                        });
}

HttpServer::HttpServer(HttpServerOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}

HttpServer::~HttpServer() {
  stop();
}

Status HttpServer::bind() {
  const HttpServerOptions& options = state_->shared.options;
  CAMSHAFT_TRY(server::check_port(options.port));
  return server::listen_at(state_->acceptor, options.host, options.port, "");
}

int HttpServer::port() const {
  return server::port_of(state_->acceptor);
}

void HttpServer::start() {
  server::allow_files(2 * state_->shared.options.limits.connections + 256);
  asio::post(state_->strand, [this] { state_->accept(); });
  for (int k = 0; k < std::max(1, state_->shared.options.threads); ++k)
    state_->threads.emplace_back([this] { state_->shared.network.run(); });
}

void HttpServer::drain() {
  if (state_->shared.draining.exchange(true)) return;
  asio::post(state_->strand, [this] {
    error_code ignored;
    state_->acceptor.close(ignored);
    state_->pause.cancel();
  });
  const std::lock_guard lock(state_->shared.mutex);
  for (const auto& connection : state_->shared.connections) connection->end_if_idle();
}

bool HttpServer::has_connections() const {
  const std::lock_guard lock(state_->shared.mutex);
  return !state_->shared.connections.empty();
}

void HttpServer::stop() {
  drain();
  state_->work.reset();
  {
    const std::lock_guard lock(state_->shared.mutex);
    for (const auto& connection : state_->shared.connections) connection->end_now();
  }
  if (state_->threads.empty()) state_->shared.network.poll();
  for (std::thread& thread : state_->threads) thread.join();
  state_->threads.clear();
}

}  // namespace camshaft::serve
