// SPDX-License-Identifier: Apache-2.0
// From the target of a request to an answer. Knows nothing of sockets.
#pragma once

#include <string>
#include <string_view>

#include "server/api.h"

namespace camshaft::server {

// "a%20b+c" is "a b+c" in a path and "a b c" in a query; what is no escape stays as it is.
std::string url_decoded(std::string_view text, bool is_query);
Parameters query_parameters(std::string_view query);

// `target`: path and query as a client sent them.
Answer route(const RunStore& store, const std::string& path_prefix, std::string_view target);

// True when a Host header names this machine and not some site that resolves to it (DNS rebinding).
bool is_own_host(const std::string& header, const std::string& bound_host);

}  // namespace camshaft::server
