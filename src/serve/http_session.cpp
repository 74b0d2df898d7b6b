// SPDX-License-Identifier: Apache-2.0
#include "serve/http_session.h"

#include <sys/socket.h>

#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "server/http_routes.h"

namespace camshaft::serve {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

namespace {

using Tls = asio::ssl::stream<HttpSocket>;

constexpr size_t kPatienceBytes = size_t{1} << 20;  // read of a refused client, so that it sees why
constexpr std::chrono::seconds kClosingPatience{2};
constexpr size_t kReadBytes = size_t{16} << 10;  // at a time, of headers and what comes with them
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
}

// In a time that says nothing about where they differ.
bool is_token(std::string_view header, const std::string& token) {
  constexpr std::string_view kScheme = "Bearer ";
  if (header.substr(0, kScheme.size()) != kScheme) return false;
  header.remove_prefix(kScheme.size());
  return header.size() == token.size() &&
         CRYPTO_memcmp(header.data(), token.data(), token.size()) == 0;
}

const char* reason_of(int status) {
  return status == 499 ? "Client Closed Request"
                       : http::obsolete_reason(static_cast<http::status>(status)).data();
}

// Bytes of a body that count towards what all requests may take, as long as it lives.
class Share {
 public:
  Share() = default;
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;
  ~Share() { release(); }
  bool take(std::atomic<size_t>& used, size_t bytes, size_t limit) {
    release();
    if (used.fetch_add(bytes) + bytes > limit) {
      used.fetch_sub(bytes);
      return false;
    }
    used_ = &used;
    bytes_ = bytes;
    return true;
  }
  void release() {
    if (used_ != nullptr) used_->fetch_sub(bytes_);
    used_ = nullptr;
  }

 private:
  std::atomic<size_t>* used_ = nullptr;
  size_t bytes_ = 0;
};

template <class Stream>
class Session : public Connection, public std::enable_shared_from_this<Session<Stream>> {
 public:
  template <class... More>
  Session(HttpLoop& loop, HttpSocket socket, More&... more)
      : loop_(loop), shared_(loop.shared()), stream_(std::move(socket), more...) {}

  void start() override {
    beast::error_code ignored;
    lowest().set_option(asio::ip::tcp::no_delay(true), ignored);
    lowest().non_blocking(true, ignored);
    begin();
  }

  void answer(HttpAnswer&& answer) override { write(std::move(answer)); }
  void end_if_idle() override {
    if (is_idle_) close();
  }
  void end_now() override { close(); }
  HttpClock::time_point deadline() const override { return deadline_; }

 private:
  static constexpr bool kIsTls = std::is_same_v<Stream, Tls>;
  const HttpLimits& limits() const { return shared_.options.limits; }
  HttpSocket& lowest() {
    if constexpr (kIsTls)
      return stream_.next_layer();
    else
      return stream_;
  }
  void expires_after(std::chrono::seconds time) { deadline_ = HttpClock::now() + time; }

  void begin() {
    if constexpr (kIsTls) {
      expires_after(limits().handshake_time);
      stream_.async_handshake(asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](beast::error_code error) {
                                if (error) return self->close();
                                self->read_header();
                              });
    } else {
      read_header();
    }
  }

  void read_header() {
    if (is_closed_ || (shared_.draining && buffer_.size() == 0)) return close();
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(limits().header_bytes));
    parser_->body_limit(limits().body_bytes);
    share_.release();
    is_idle_ = buffer_.size() == 0;
    expires_after(limits().idle_time);
    parse_header();
  }

  void parse_header() {
    if (!parse()) return;
    if (!parser_->is_header_done()) return read_more(&Session::parse_header);
    is_idle_ = false;
    check();
  }

  // Hands the parser what is there; false where that is no HTTP.
  bool parse() {
    if (buffer_.size() == 0) return true;
    beast::error_code error;
    buffer_.consume(parser_->put(buffer_.data(), error));
    if (!error || error == http::error::need_more) return true;
    refuse(error);
    return false;
  }

  void read_more(void (Session::*then)()) {
    stream_.async_read_some(
        buffer_.prepare(kReadBytes),
        [self = this->shared_from_this(), then](beast::error_code error, size_t count) {
          if (self->is_closed_) return;
          if (error) return self->close();
          self->buffer_.commit(count);
          (self.get()->*then)();
        });
  }

  // What the parser stumbled over.
  void refuse(beast::error_code error) {
    if (error == http::error::body_limit)
      return reject(413, fmt::format("the body is larger than {} bytes", limits().body_bytes));
    if (error == http::error::header_limit)
      return reject(431, fmt::format("the header is larger than {} bytes", limits().header_bytes));
    reject(400, fmt::format("the request is not HTTP/1.1: {}", error.message()));
  }

  // Answers and ends the connection; its body is not wanted.
  void reject(int status, const std::string& message) {
    keeps_ = false;
    is_rejected_ = true;
    write(http_error(status, message));
  }

  // Before the body is read.
  void check() {
    const auto& header = parser_->get();
    keeps_ = header.keep_alive();
    is_head_ = header.method() == http::verb::head;
    const HttpServerOptions& options = shared_.options;
    // A page in somebody's browser is no client: it reaches this machine where others cannot.
    if (header.find(http::field::origin) != header.end())
      return reject(403, "requests of web pages (with an Origin) are not answered");
    if (is_loopback(options.host) &&
        !server::is_own_host(std::string(header[http::field::host]), options.host))
      return reject(403, "this server listens on loopback and answers only under its own name");
    if (!options.token.empty() && !is_health(std::string(header.target())) &&
        !is_token(
            {header[http::field::authorization].data(), header[http::field::authorization].size()},
            options.token))
      return reject(401, "the token is missing or wrong (Authorization: Bearer TOKEN)");
    const uint64_t length = parser_->content_length().value_or(0);
    if (length > limits().body_bytes) return refuse(http::error::body_limit);
    const size_t counted = parser_->chunked() ? limits().body_bytes : static_cast<size_t>(length);
    if (!share_.take(shared_.body_bytes, counted, limits().all_body_bytes))
      return reject(503, "the requests in work hold as much memory as they may: try again");
    if (!beast::iequals(header[http::field::expect], "100-continue")) return read_body();
    asio::async_write(stream_, asio::buffer(kContinue),
                      [self = this->shared_from_this()](beast::error_code error, size_t) {
                        if (error) return self->close();
                        self->read_body();
                      });
  }

  void read_body() {
    expires_after(limits().body_time);
    if (parser_->chunked()) return read_chunks();
    // Straight to where it stays: the parser would take it in small pieces through its buffer.
    body_ = Body(static_cast<size_t>(parser_->content_length().value_or(0)));
    const size_t here = std::min(buffer_.size(), body_.size());
    if (here > 0) std::memcpy(body_.data(), buffer_.data().data(), here);
    buffer_.consume(here);
    if (here == body_.size()) return handle();
    asio::async_read(stream_, asio::buffer(body_.data() + here, body_.size() - here),
                     [self = this->shared_from_this()](beast::error_code error, size_t) {
                       if (self->is_closed_) return;
                       if (error) return self->close();
                       self->handle();
                     });
  }

  void read_chunks() {
    parser_->eager(true);
    parse_chunks();
  }

  void parse_chunks() {
    if (!parse()) return;
    if (!parser_->is_done()) return read_more(&Session::parse_chunks);
    body_ = Body(std::exchange(parser_->get().body(), {}));
    handle();
  }

  void handle() {
    auto& message = parser_->get();
    HttpRequest request;
    request.method = std::string(message.method_string());
    request.target = std::string(message.target());
    request.encoding = std::string(message[http::field::content_encoding]);
    if (const auto length = message.find("Inference-Header-Content-Length");
        length != message.end()) {
      size_t value = 0;
      const auto text = length->value();
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      if (error != std::errc() || end != text.data() + text.size())
        return write(http_error(400, "Inference-Header-Content-Length is not a number"));
      request.json_bytes = value;
    }
    request.body = std::exchange(body_, {});
    request.is_abandoned = [weak = this->weak_from_this()] {
      const auto self = weak.lock();
      return self == nullptr || self->has_gone();
    };
    deadline_ = HttpClock::time_point::max();
    shared_.options.answer(std::move(request),
                           [self = this->shared_from_this()](HttpAnswer&& answer) {
                             self->loop_.deliver(self, std::move(answer));
                           });
  }

  // Whether the client has closed its side while it waits for an answer.
  bool has_gone() {
    char byte = 0;
    return ::recv(lowest().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
  }

  void write(HttpAnswer&& answer) {
    if (is_closed_) return;
    answer_ = std::move(answer);
    keeps_ = keeps_ && !shared_.draining;
    size_t bytes = answer_.text.size();
    for (const auto& binary : answer_.binaries) bytes += binary.size();
    header_ = fmt::format(
        "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n", answer_.status,
        reason_of(answer_.status),
        answer_.binaries.empty() ? answer_.content_type.c_str() : "application/octet-stream",
        bytes);
    if (!answer_.binaries.empty())
      header_ += fmt::format("Inference-Header-Content-Length: {}\r\n", answer_.text.size());
    if (answer_.status == 401) header_ += "WWW-Authenticate: Bearer\r\n";
    if (answer_.status == 503) header_ += "Retry-After: 1\r\n";
    header_ += keeps_ ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
    std::vector<asio::const_buffer> buffers = {asio::buffer(header_)};
    if (!is_head_) {
      buffers.push_back(asio::buffer(answer_.text));
      for (const auto& binary : answer_.binaries)
        buffers.push_back(asio::buffer(binary.data(), binary.size()));
    }
    expires_after(limits().write_time);
    // Nearly always there is room for all of it.
    if constexpr (!kIsTls) {
      beast::error_code error;
      const size_t here = stream_.write_some(buffers, error);
      if (error && error != asio::error::would_block) return close();
      if (here == header_.size() + (is_head_ ? 0 : bytes)) return written();
      drop_front(buffers, here);
    }
    asio::async_write(stream_, buffers,
                      [self = this->shared_from_this()](beast::error_code error, size_t) {
                        if (error) return self->close();
                        self->written();
                      });
  }

  static void drop_front(std::vector<asio::const_buffer>& buffers, size_t bytes) {
    for (asio::const_buffer& buffer : buffers) {
      const size_t here = std::min(bytes, buffer.size());
      buffer += here;
      bytes -= here;
    }
  }

  void written() {
    answer_ = {};
    next();
  }

  void next() {
    if (is_closed_) return;
    if (keeps_) return read_header();
    if (!is_rejected_) return close();
    // Closing with unread bytes would take the answer away from the client.
    beast::error_code ignored;
    if (!kIsTls) lowest().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    rest_.resize(size_t{16} << 10);
    expires_after(kClosingPatience);
    read_rest(0);
  }

  void read_rest(size_t read) {
    if (read > kPatienceBytes) return close();
    stream_.async_read_some(asio::buffer(rest_), [self = this->shared_from_this(), read](
                                                     beast::error_code error, size_t count) {
      if (error || count == 0) return self->close();
      self->read_rest(read + count);
    });
  }

  void close() {
    if (is_closed_) return;
    is_closed_ = true;
    share_.release();
    beast::error_code ignored;
    lowest().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
    lowest().cancel(ignored);
    loop_.remove(this->shared_from_this());
  }

  HttpLoop& loop_;
  HttpShared& shared_;
  Stream stream_;
  HttpClock::time_point deadline_ = HttpClock::time_point::max();
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  Share share_;
  Body body_;
  HttpAnswer answer_;
  std::string header_;
  std::vector<char> rest_;
  bool keeps_ = false, is_head_ = false, is_idle_ = false, is_rejected_ = false, is_closed_ = false;
};

}  // namespace

ConnectionPtr make_connection(HttpLoop& loop, HttpSocket socket) {
  const auto& tls = loop.shared().options.tls;
  if (tls) return std::make_shared<Session<Tls>>(loop, std::move(socket), *tls);
  return std::make_shared<Session<HttpSocket>>(loop, std::move(socket));
}

}  // namespace camshaft::serve
