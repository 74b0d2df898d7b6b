// SPDX-License-Identifier: Apache-2.0
#include "serve/http_server.h"

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "serve/http_session.h"
#include "server/listen.h"

namespace camshaft::serve {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::chrono::milliseconds kOutOfFiles{50};
constexpr std::chrono::milliseconds kRefusalPatience{1000};
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
  explicit Refusal(HttpSocket socket)
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
    timer_.expires_after(kRefusalPatience);
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
  HttpSocket socket_;
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
  std::vector<std::unique_ptr<HttpLoop>> loops;
  tcp::acceptor acceptor;
  asio::steady_timer pause;
  size_t accepted = 0;
  std::vector<std::thread> threads;

  explicit State(HttpServerOptions options)
      : shared(std::move(options)),
        loops(make_loops(shared)),
        acceptor(loops[0]->network()),
        pause(loops[0]->network()) {}

  static std::vector<std::unique_ptr<HttpLoop>> make_loops(HttpShared& shared) {
    std::vector<std::unique_ptr<HttpLoop>> loops;
    for (int k = 0; k < std::max(1, shared.options.threads); ++k)
      loops.push_back(std::make_unique<HttpLoop>(shared));
    return loops;
  }

  void accept();
  void take(HttpLoop& loop, HttpSocket socket);
};

void HttpServer::State::take(HttpLoop& loop, HttpSocket socket) {
  if (shared.connections < shared.options.limits.connections) {
    ++shared.connections;
    asio::post(loop.network(), [&loop, connection = make_connection(loop, std::move(socket))] {
      loop.add(connection);
    });
  } else if (Refusal::count() < kMostRefusals) {
    const auto refusal = std::make_shared<Refusal>(std::move(socket));
    const bool is_plain = shared.options.tls == nullptr;
    asio::post(loop.network(), [refusal, is_plain] { refusal->start(is_plain); });
  }  // otherwise it is closed
}

void HttpServer::State::accept() {
  HttpLoop& loop = *loops[accepted++ % loops.size()];
  acceptor.async_accept(loop.network().get_executor(),
                        [this, &loop](error_code error, HttpSocket socket) {
                          if (shared.draining || !acceptor.is_open()) return;
                          if (!error) {
                            take(loop, std::move(socket));
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
  asio::post(state_->loops[0]->network(), [this] { state_->accept(); });
  for (const auto& loop : state_->loops)
    state_->threads.emplace_back([&loop = *loop] { loop.run(); });
}

void HttpServer::drain() {
  if (state_->shared.draining.exchange(true)) return;
  asio::post(state_->loops[0]->network(), [this] {
    error_code ignored;
    state_->acceptor.close(ignored);
    state_->pause.cancel();
  });
  for (const auto& loop : state_->loops) loop->end_idle();
}

bool HttpServer::has_connections() const {
  return state_->shared.connections > 0;
}

void HttpServer::stop() {
  drain();
  for (const auto& loop : state_->loops) {
    loop->stop();
    if (state_->threads.empty()) loop->network().poll();
  }
  for (std::thread& thread : state_->threads) thread.join();
  state_->threads.clear();
}

}  // namespace camshaft::serve
