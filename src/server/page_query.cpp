// SPDX-License-Identifier: Apache-2.0
#include "server/page_query.h"

namespace camshaft::server {
namespace {

constexpr size_t kMaxNameBytes = 400;

}  // namespace

std::string_view shortened(std::string_view name) {
  if (name.size() <= kMaxNameBytes) return name;
  size_t end = kMaxNameBytes;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0) == 0x80) --end;
  return name.substr(0, end);
}

Answer page_json(trace::JsonWriter& writer) {
  Answer answer;
  answer.body = writer.take();
  return answer;
}

}  // namespace camshaft::server
