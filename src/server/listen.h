// SPDX-License-Identifier: Apache-2.0
// How the servers of this program come to a port.
#pragma once

#include <cstddef>
#include <string>

#include <boost/asio/ip/tcp.hpp>

#include "base/status.h"

namespace camshaft::server {

Status check_port(int port);
// The first address of `host` that can be had; without SO_REUSEPORT, so that a port somebody
// listens on is refused. `hint`: what else can be done then, "" or "; …".
Status listen_at(boost::asio::ip::tcp::acceptor& acceptor, const std::string& host, int port,
                 const char* hint);
int port_of(const boost::asio::ip::tcp::acceptor& acceptor);  // 0: of none
// A connection is an open file: that many, or as many as the system lets this process have.
void allow_files(size_t files);

}  // namespace camshaft::server
