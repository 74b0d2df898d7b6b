// SPDX-License-Identifier: Apache-2.0
#include "server/listen.h"

#include <sys/resource.h>

#include <algorithm>

namespace camshaft::server {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr int kWaiting = 1024;  // connections not yet accepted
constexpr int kHighestPort = 65535;

error_code listen(tcp::acceptor& acceptor, const tcp::endpoint& endpoint) {
  error_code error, ignored;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(kWaiting, error);
  if (error) acceptor.close(ignored);
  return error;
}

}  // namespace

Status check_port(int port) {
  if (port >= 0 && port <= kHighestPort) return ok_status();
  return make_error(ErrorCode::kInvalidArgument, "there is no port {}: ports are 0 to {}", port,
                    kHighestPort);
}

Status listen_at(tcp::acceptor& acceptor, const std::string& host, int port, const char* hint) {
  error_code error;
  tcp::resolver resolver(acceptor.get_executor());
  const auto endpoints = resolver.resolve(
      host, std::to_string(port), tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error) return make_error(ErrorCode::kIo, "cannot listen on {}: {}", host, error.message());
  for (const auto& entry : endpoints) {
    error = listen(acceptor, entry.endpoint());
    if (!error) return ok_status();
  }
  const bool is_taken = error == asio::error::address_in_use;
  return make_error(ErrorCode::kIo, "cannot listen on {}:{}: {}{}{}", host, port, error.message(),
                    is_taken ? ": another program listens there" : "", is_taken ? hint : "");
}

int port_of(const tcp::acceptor& acceptor) {
  error_code error;
  const auto endpoint = acceptor.local_endpoint(error);
  return error ? 0 : endpoint.port();
}

void allow_files(size_t files) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min<rlim_t>(limit.rlim_max, files));
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace camshaft::server
