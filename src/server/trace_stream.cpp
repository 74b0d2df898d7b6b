// SPDX-License-Identifier: Apache-2.0
#include "server/trace_stream.h"

#include <algorithm>
#include <vector>

#include "server/gzip_sink.h"
#include "trace/byte_source.h"

namespace camshaft::server {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;

// Where events begin in `start` of a file: behind the '[' of the event array, npos if it is not
// there yet.
size_t events_begin(std::string_view start) {
  const size_t first = start.find_first_not_of(" \n\r\t\xef\xbb\xbf");
  if (first != start.npos && start[first] == '[') return first + 1;
  const size_t key = start.find("\"traceEvents\"");
  const size_t bracket = key == start.npos ? key : start.find('[', key);
  return bracket == start.npos ? start.npos : bracket + 1;
}

bool is_empty_array(std::string_view rest) {
  const size_t next = rest.find_first_not_of(" \n\r\t");
  return next != rest.npos && rest[next] == ']';
}

}  // namespace

Status stream_trace(const std::string& file, const std::string& counters,
                    const std::function<bool(std::string_view)>& sink) {
  CAMSHAFT_ASSIGN(const auto source, trace::open_byte_source(file));
  GzipSink out(sink);
  std::string start;  // bytes up to the event array
  bool inserted = counters.empty();
  std::vector<char> chunk(kChunkBytes);
  for (;;) {
    CAMSHAFT_ASSIGN(const size_t got, source->read(chunk.data(), chunk.size()));
    if (got == 0) break;
    std::string_view text(chunk.data(), got);
    if (!inserted) {
      start.append(text);
      const size_t begin = events_begin(start);
      if (begin == start.npos && start.size() < 64 * kChunkBytes) continue;
      if (begin != start.npos) {
        std::string_view list = counters;
        if (is_empty_array(std::string_view(start).substr(begin)))
          list.remove_suffix(2);  // no comma before ']'
        start.insert(begin, list);
      }
      inserted = true;
      text = start;
    }
    if (!out.write(text)) return make_error(ErrorCode::kCancelled, "the client is gone");
  }
  if (!inserted && !out.write(start))
    return make_error(ErrorCode::kCancelled, "the client is gone");
  if (!out.write("", true)) return make_error(ErrorCode::kCancelled, "the client is gone");
  return ok_status();
}

}  // namespace camshaft::server
