// SPDX-License-Identifier: Apache-2.0
// Boost.Beast does the protocol; all of a connection's steps run on the network's one thread.
#include "server/http_session.h"

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>
#include <vector>

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "server/body.h"
#include "server/http_routes.h"
#include "trace/gzip.h"

namespace camshaft::server {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

namespace {

constexpr size_t kWorthPacking = 1400;  // bytes: below this a packed answer saves no packet
constexpr size_t kReadPieceBytes = size_t{64} << 10;
constexpr size_t kMostRequests = 1000;        // of one connection
constexpr std::chrono::seconds kPatience{1};  // with what a refused client still sends
constexpr const char* kPolicy =
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors "
    "'none'";

// An answer as it goes out.
struct Reply {
  int status = 200;
  std::string content_type;
  bool is_packed = false;
  BodyPtr body;
};

Reply whole(Answer answer, bool accepts_gzip) {
  Reply reply{answer.status, std::move(answer.content_type), false, nullptr};
  reply.is_packed = answer.always_gzip || (accepts_gzip && answer.body.size() > kWorthPacking);
  reply.body = std::make_shared<const Body>(reply.is_packed ? trace::gzip(answer.body, 1)
                                                            : std::move(answer.body));
  return reply;
}

Reply message(int status, std::string text) {
  return whole(failure(status, std::move(text)), false);
}

}  // namespace

class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  HttpSession(HttpShared& shared, asio::ip::tcp::socket socket)
      : shared_(shared), stream_(std::move(socket)) {}

  void start() {
    beast::error_code error;
    stream_.socket().set_option(asio::ip::tcp::no_delay(true), error);
    await_request();
  }

  void end_if_idle() {
    if (is_idle_) close();
  }

 private:
  using Clock = std::chrono::steady_clock;

  // Until its first byte a request may take its time; from there on all of it has one deadline.
  void await_request() {
    if (shared_.stopped) return close();
    if (buffer_.size() > 0) return read_request();
    is_idle_ = true;
    stream_.expires_after(shared_.options.limits.idle_time);
    stream_.async_read_some(buffer_.prepare(4096),
                            [self = shared_from_this()](beast::error_code error, size_t count) {
                              self->is_idle_ = false;
                              if (error || count == 0) return self->close();
                              self->buffer_.commit(count);
                              self->read_request();
                            });
  }

  void read_request() {
    ++requests_;
    parser_.emplace();
    const auto most =
        static_cast<uint32_t>(std::min<size_t>(shared_.options.limits.request_bytes, UINT32_MAX));
    parser_->header_limit(most);
    stream_.expires_after(shared_.options.limits.request_time);
    http::async_read_header(stream_, buffer_, *parser_,
                            [self = shared_from_this()](beast::error_code error, size_t) {
                              if (error) return self->refuse(error);
                              self->handle();
                            });
  }

  void refuse(beast::error_code error) {
    if (error == http::error::end_of_stream || error == beast::error::timeout ||
        error.category() != http::make_error_code(http::error::bad_method).category())
      return close();
    keeps_ = false;
    has_rest_ = true;
    const bool is_large = error == http::error::header_limit;
    send(message(is_large ? 431 : 400,
                 is_large ? "the request is too large\n" : "the request is not understood\n"));
  }

  void handle() {
    const auto& request = parser_->get();
    keeps_ = request.keep_alive() && requests_ < kMostRequests;
    head_only_ = request.method() == http::verb::head;
    version_ = request.version();
    // Requests have no body; one that announces one is answered and not read on.
    has_rest_ = parser_->chunked() || parser_->content_length().value_or(0) > 0;
    if (has_rest_) keeps_ = false;
    if (!is_own_host(std::string(request[http::field::host]), shared_.options.host))
      return send(message(403, "this server answers only under its own name\n"));
    if (request.method() != http::verb::get && !head_only_) {
      keeps_ = false;
      return send(message(405, "only GET and HEAD are answered\n"));
    }
    const bool accepts_gzip =
        request[http::field::accept_encoding].find("gzip") != beast::string_view::npos;
    stream_.expires_never();
    // The network goes on while the answer is worked out.
    asio::post(shared_.workers, [self = shared_from_this(), target = std::string(request.target()),
                                 accepts_gzip, work = asio::make_work_guard(shared_.network)] {
      self->answer_request(target, accepts_gzip);
    });
  }

  // On a worker's thread.
  void answer_request(const std::string& target, bool accepts_gzip) {
    try {
      Answer found = route(shared_.store, shared_.options.path_prefix, target);
      if (!found.trace_file.empty()) {
        shared_.traces.get(found, [self = shared_from_this()](BodyPtr body) {
          self->send_later(body != nullptr
                               ? Reply{200, "application/json", true, std::move(body)}
                               : message(500, "the trace file cannot be read any more\n"));
        });
      } else if (found.stream) {
        BodyPtr body = packed_body(found.stream);
        send_later(body != nullptr ? Reply{200, found.content_type, true, std::move(body)}
                                   : message(500, "the answer could not be written\n"));
      } else {
        send_later(whole(std::move(found), accepts_gzip));
      }
    } catch (const std::exception&) {
      send_later(message(500, "the request could not be answered\n"));
    }
  }

  void send_later(Reply reply) {
    asio::post(shared_.network, [self = shared_from_this(), reply = std::move(reply)]() mutable {
      self->send(std::move(reply));
    });
  }

  void send(Reply reply) {
    http::response<http::empty_body> header;
    header.version(version_);
    header.result(static_cast<unsigned>(reply.status));
    header.set(http::field::content_type, reply.content_type);
    header.set("X-Content-Type-Options", "nosniff");
    header.set("X-Frame-Options", "DENY");
    header.set("Referrer-Policy", "no-referrer");
    header.set(http::field::cache_control, "no-cache");
    if (reply.content_type.rfind("text/html", 0) == 0)
      header.set("Content-Security-Policy", kPolicy);
    if (reply.is_packed) header.set(http::field::content_encoding, "gzip");
    if (reply.status == 405) header.set(http::field::allow, "GET, HEAD");
    keeps_ = keeps_ && !shared_.stopped;
    header.keep_alive(keeps_);
    header.content_length(reply.body->size());
    std::ostringstream text;
    text << header.base();
    header_ = text.str();
    body_ = std::move(reply.body);
    piece_.resize(kReadPieceBytes);
    const size_t part = head_only_ ? 0 : body_->read(0, piece_.data(), piece_.size());
    sent_ = part;
    stream_.expires_after(shared_.options.limits.write_time);
    write(std::array<asio::const_buffer, 2>{asio::buffer(header_), asio::buffer(piece_, part)});
  }

  template <class Buffers>
  void write(const Buffers& buffers) {
    asio::async_write(stream_, buffers,
                      [self = shared_from_this()](beast::error_code error, size_t) {
                        if (error) return self->close();
                        self->write_on();
                      });
  }

  void write_on() {
    if (!head_only_ && sent_ < body_->size()) {
      const size_t part = body_->read(sent_, piece_.data(), piece_.size());
      if (part == 0) return close();  // the file is gone
      sent_ += part;
      // A server that ends waits for nobody longer than for one piece.
      if (!shared_.stopped) stream_.expires_after(shared_.options.limits.write_time);
      return write(asio::buffer(piece_, part));
    }
    body_ = nullptr;
    if (keeps_) {
      piece_ = {};  // idle connections are many and cost little
      return await_request();
    }
    if (!has_rest_) return close();
    beast::error_code error;
    stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, error);
    stream_.expires_after(kPatience);
    drain(0);
  }

  // Reads what a client still sends: closing before would take the answer away from it.
  void drain(size_t read) {
    if (read > shared_.options.limits.request_bytes) return close();
    stream_.async_read_some(asio::buffer(piece_), [self = shared_from_this(), read](
                                                      beast::error_code error, size_t count) {
      if (error || count == 0) return self->close();
      self->drain(read + count);
    });
  }

  void close() {
    beast::error_code error;
    stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, error);
    stream_.close();
    shared_.sessions.erase(shared_from_this());
  }

  HttpShared& shared_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::empty_body>> parser_;
  std::vector<char> piece_;
  std::string header_;
  BodyPtr body_;
  uint64_t sent_ = 0;
  size_t requests_ = 0;
  unsigned version_ = 11;
  bool keeps_ = false, head_only_ = false, has_rest_ = false, is_idle_ = false;
};

void start_session(HttpShared& shared, asio::ip::tcp::socket socket) {
  auto session = std::make_shared<HttpSession>(shared, std::move(socket));
  shared.sessions.insert(session);
  session->start();
}

void end_idle_sessions(HttpShared& shared) {
  const auto sessions = shared.sessions;
  for (const auto& session : sessions) session->end_if_idle();
}

}  // namespace camshaft::server
