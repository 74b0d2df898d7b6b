// SPDX-License-Identifier: Apache-2.0
#include "server/http_routes.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "server/page.h"
#include "server/page_api.h"

namespace camshaft::server {
namespace {

constexpr std::string_view kMount = "/data/plugin/pytorch_profiler";

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
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

std::string url_decoded(std::string_view text, bool is_query) {
  std::string out;
  for (size_t k = 0; k < text.size(); ++k) {
    const int high = text[k] == '%' && k + 2 < text.size() ? hex_digit(text[k + 1]) : -1;
    const int low = high >= 0 ? hex_digit(text[k + 2]) : -1;
    if (low >= 0) {
      out += static_cast<char>(high * 16 + low);
      k += 2;
    } else {
      out += is_query && text[k] == '+' ? ' ' : text[k];
    }
  }
  return out;
}

Parameters query_parameters(std::string_view query) {
  Parameters parameters;
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    const size_t equals = std::min(pair.find('='), pair.size());
    if (pair.empty()) continue;
    parameters.emplace(url_decoded(pair.substr(0, equals), true),
                       url_decoded(pair.substr(std::min(pair.size(), equals + 1)), true));
  }
  return parameters;
}

Answer route(const RunStore& store, const std::string& path_prefix, std::string_view target) {
  const size_t question = std::min(target.find('?'), target.size());
  std::string path = url_decoded(target.substr(0, question), false);
  if (path.rfind(path_prefix, 0) != 0) return failure(404, "nothing here\n");
  path.erase(0, path_prefix.size());
  if (path.empty()) path.assign(1, '/');
  const Parameters parameters =
      query_parameters(target.substr(std::min(target.size(), question + 1)));
  if (path.rfind(std::string(kMount) + "/", 0) == 0)
    return answer(store, path.substr(kMount.size()), parameters);
  if (path.rfind("/api/", 0) == 0) return page_answer(store, path.substr(4), parameters);
  return page_file(path);
}

bool is_own_host(const std::string& header, const std::string& bound_host) {
  std::string host = lower(header);
  const size_t colon = host.rfind(':');
  if (colon != host.npos && host.find(']', colon) == host.npos) host.resize(colon);
  if (is_address_literal(host) || host == "localhost" || host == lower(bound_host)) return true;
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return host == lower(name);
}

}  // namespace camshaft::server
