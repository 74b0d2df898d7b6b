// SPDX-License-Identifier: Apache-2.0
// cpp-httplib does the protocol. Bodies go out through content providers, and it does not learn
// which encodings a client accepts, because it would pack a packed body a second time.
#include "server/http_server.h"

#include <httplib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>

#include "server/api.h"
#include "server/guarded_stream.h"
#include "server/gzip_sink.h"
#include "server/page.h"
#include "server/page_api.h"
#include "server/trace_stream.h"
#include "trace/gzip.h"

namespace camshaft::server {
namespace {

constexpr const char* kMount = "/data/plugin/pytorch_profiler";
constexpr size_t kWorkers = 32;         // a browser keeps six connections open
constexpr size_t kWorthPacking = 1400;  // bytes: below this a packed answer saves no packet
constexpr const char* kAccepted = "X-Accept-Encoding";  // what the client said, kept from httplib
constexpr const char* kPolicy =
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors "
    "'none'";

void send(const httplib::Request& request, httplib::Response& response, Answer answer) {
  response.status = answer.status;
  const bool accepts = request.get_header_value(kAccepted).find("gzip") != std::string::npos;
  if (answer.always_gzip || (accepts && answer.body.size() > kWorthPacking)) {
    answer.body = trace::gzip(answer.body, 1);
    response.set_header("Content-Encoding", "gzip");
  }
  auto body = std::make_shared<const std::string>(std::move(answer.body));
  if (body->empty()) return response.set_content("", answer.content_type.c_str());
  response.set_content_provider(body->size(), answer.content_type.c_str(),
                                [body](size_t offset, size_t length, httplib::DataSink& sink) {
                                  if (offset > body->size()) return false;
                                  return sink.write(body->data() + offset,
                                                    std::min(length, body->size() - offset));
                                });
}

// Sends an answer of any size piece by piece, packed; how long that is, is not known before.
void send_pieces(httplib::Response& response, const std::string& content_type,
                 std::function<bool(const trace::TextSink&)> write) {
  response.set_header("Content-Encoding", "gzip");
  auto done = std::make_shared<bool>(false);
  response.set_chunked_content_provider(
      content_type.c_str(), [write = std::move(write), done](size_t, httplib::DataSink& sink) {
        if (*done) return false;
        *done = true;
        if (!write([&](std::string_view piece) { return sink.write(piece.data(), piece.size()); }))
          return false;
        sink.done();
        return true;
      });
}

void send_stream(httplib::Response& response, Answer answer) {
  send_pieces(response, answer.content_type,
              [stream = std::move(answer.stream)](const trace::TextSink& sink) {
                GzipSink packed(sink);
                return stream([&](std::string_view text) { return packed.write(text); }) &&
                       packed.write("", true);
              });
}

void send_trace(httplib::Response& response, const Answer& answer) {
  send_pieces(response, "application/json",
              [file = answer.trace_file, counters = answer.counters](const trace::TextSink& sink) {
                return stream_trace(file, counters, sink).ok();
              });
}

bool is_address_literal(const std::string& host) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    return host.find_first_not_of("0123456789abcdef:.", 1) == host.size() - 1;
  return !host.empty() && host.find_first_not_of("0123456789.") == std::string::npos;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return text;
}

}  // namespace

bool is_own_host(const std::string& header, const std::string& bound_host) {
  std::string host = lower(header);
  const size_t colon = host.rfind(':');
  if (colon != host.npos && host.find(']', colon) == host.npos) host.resize(colon);
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return is_address_literal(host) || host == "localhost" || host == lower(bound_host) ||
         host == lower(name);
}

// cpp-httplib's server over connections with limits.
class GuardedServer final : public httplib::Server {
 public:
  GuardedServer(const ConnectionLimits& limits, const std::atomic<bool>& stopped)
      : limits_(limits), stopped_(stopped) {}

  // The library lets five clients wait; a sixth at the same moment would try again a second later.
  void let_more_wait() { ::listen(svr_sock_, 128); }

 private:
  bool process_and_close_socket(socket_t socket) override {
    GuardedStream stream(socket, limits_);
    for (size_t left = keep_alive_max_count_; left > 0; --left) {
      if (!stream.await_request(stopped_)) break;
      bool closed = false;
      const auto setup = [](httplib::Request& request) {
        // Parts of answers are not served: cpp-httplib would not hold them to the answer's length.
        request.ranges.clear();
        // The library would pack what leaves in pieces once more.
        const std::string accepted = request.get_header_value("Accept-Encoding");
        request.headers.erase("Accept-Encoding");
        request.headers.erase(kAccepted);
        request.headers.emplace(kAccepted, accepted);
      };
      if (!answer_request(stream, left == 1 || stopped_, closed, setup) || closed) break;
    }
    ::shutdown(socket, SHUT_RDWR);
    ::close(socket);
    return true;
  }

  // Since version 0.16 the library is told the addresses.
  template <class Setup, class Server = GuardedServer>
  bool answer_request(GuardedStream& stream, bool is_last, bool& closed, const Setup& setup) {
    Server* const self = this;
    if constexpr (requires { self->process_request(stream, is_last, closed, setup); }) {
      return self->process_request(stream, is_last, closed, setup);
    } else {
      std::string remote, local;
      int remote_port = 0, local_port = 0;
      stream.get_remote_ip_and_port(remote, remote_port);
      stream.get_local_ip_and_port(local, local_port);
      return self->process_request(stream, remote, remote_port, local, local_port, is_last, closed,
                                   setup);
    }
  }

  const ConnectionLimits& limits_;
  const std::atomic<bool>& stopped_;
};

struct HttpServer::State {
  RunStore& store;
  HttpOptions options;
  std::atomic<bool> stopped{false};
  GuardedServer server{options.limits, stopped};
  int port = 0;

  void set_routes();
  void handle_plugin(const httplib::Request& request, httplib::Response& response,
                     const std::string& path);
};

void HttpServer::State::handle_plugin(const httplib::Request& request, httplib::Response& response,
                                      const std::string& path) {
  Answer found = answer(store, path, request.params);
  if (!found.trace_file.empty())
    send_trace(response, found);
  else if (found.stream)
    send_stream(response, std::move(found));
  else
    send(request, response, std::move(found));
}

void HttpServer::State::set_routes() {
  server.set_payload_max_length(options.limits.request_bytes);
  server.set_keep_alive_max_count(1000);
  server.set_tcp_nodelay(true);
  server.new_task_queue = [] { return new httplib::ThreadPool(kWorkers); };
  server.set_default_headers({{"X-Content-Type-Options", "nosniff"},
                              {"X-Frame-Options", "DENY"},
                              {"Referrer-Policy", "no-referrer"},
                              {"Cache-Control", "no-cache"}});
  server.set_pre_routing_handler(
      [this](const httplib::Request& request, httplib::Response& response) {
        if (is_own_host(request.get_header_value("Host"), options.host))
          return httplib::Server::HandlerResponse::Unhandled;
        response.status = 403;
        response.set_content("this server answers only under its own name\n", "text/plain");
        return httplib::Server::HandlerResponse::Handled;
      });
  server.set_exception_handler(
      [](const httplib::Request&, httplib::Response& response, std::exception_ptr) {
        response.status = 500;
        response.set_content("the request could not be answered\n", "text/plain");
      });
  server.Get(".*", [this](const httplib::Request& request, httplib::Response& response) {
    std::string path = request.path;
    if (!options.path_prefix.empty()) {
      if (path.rfind(options.path_prefix, 0) != 0) {
        response.status = 404;
        return;
      }
      path.erase(0, options.path_prefix.size());
      if (path.empty()) path.assign(1, '/');
    }
    const std::string mount = kMount;
    if (path.rfind(mount + "/", 0) == 0)
      return handle_plugin(request, response, path.substr(mount.size()));
    if (path.rfind("/api/", 0) == 0)
      return send(request, response, page_answer(store, path.substr(4), request.params));
    Answer page = page_file(path);
    response.set_header("Content-Security-Policy", kPolicy);
    send(request, response, std::move(page));
  });
}

HttpServer::HttpServer(RunStore& store, HttpOptions options)
    : state_(new State{store, std::move(options)}) {
  state_->set_routes();
}

HttpServer::~HttpServer() {
  stop();
}

Status HttpServer::bind() {
  const HttpOptions& options = state_->options;
  state_->port = options.port;
  if (options.port == 0)
    state_->port = state_->server.bind_to_any_port(options.host.c_str());
  else if (!state_->server.bind_to_port(options.host.c_str(), options.port))
    state_->port = -1;
  if (state_->port > 0) {
    state_->server.let_more_wait();
    return ok_status();
  }
  return make_error(ErrorCode::kIo, "cannot listen on {}:{}{}", options.host, options.port,
                    options.port == 0 ? "" : ": in use? --port 0 takes any free port");
}

int HttpServer::port() const {
  return state_->port;
}

std::string HttpServer::address() const {
  const std::string& host = state_->options.host;
  const bool is_v6 = host.find(':') != host.npos;
  return fmt::format("http://{}{}{}:{}{}/", is_v6 ? "[" : "",
                     host == "0.0.0.0" ? "127.0.0.1" : host, is_v6 ? "]" : "", state_->port,
                     state_->options.path_prefix);
}

void HttpServer::serve() {
  state_->server.listen_after_bind();
}

void HttpServer::stop() {
  if (!state_->stopped.exchange(true)) state_->server.stop();
}

}  // namespace camshaft::server
