// SPDX-License-Identifier: Apache-2.0
#include "server/trace_stream.h"

#include <algorithm>
#include <vector>

#include "server/gzip_sink.h"
#include "trace/byte_source.h"

namespace camshaft::server {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;
constexpr size_t kMostMetadataBytes = 64 * kChunkBytes;  // in front of the events

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

// Puts the counters behind the opening bracket at `begin` of what was read so far.
bool write_start(std::string_view start, size_t begin,
                 const std::function<bool(const PieceSink&)>& counters, GzipSink& out) {
  bool any = false;
  const auto write = [&](std::string_view piece) {
    any = any || !piece.empty();
    return out.write(piece);
  };
  if (!out.write(start.substr(0, begin)) || !counters(write)) return false;
  const std::string_view rest = start.substr(begin);
  if (any && !is_empty_array(rest) && !out.write(", ")) return false;
  return out.write(rest);
}

}  // namespace

Status stream_trace(const std::string& file, const std::function<bool(const PieceSink&)>& counters,
                    const PieceSink& sink) {
  CAMSHAFT_ASSIGN(const auto source, trace::open_byte_source(file));
  const auto gone = [] { return make_error(ErrorCode::kCancelled, "the client is gone"); };
  GzipSink out(sink);
  std::string start;  // bytes up to the event array
  bool inserted = !counters;
  std::vector<char> chunk(kChunkBytes);
  for (;;) {
    CAMSHAFT_ASSIGN(const size_t got, source->read(chunk.data(), chunk.size()));
    if (got == 0) break;
    const std::string_view text(chunk.data(), got);
    if (inserted) {
      if (!out.write(text)) return gone();
      continue;
    }
    start.append(text);
    const size_t begin = events_begin(start);
    if (begin == start.npos && start.size() < kMostMetadataBytes) continue;
    inserted = true;
    if (!(begin == start.npos ? out.write(start) : write_start(start, begin, counters, out)))
      return gone();
    start = {};
  }
  if (!out.write(start) || !out.write("", true)) return gone();
  return ok_status();
}

}  // namespace camshaft::server
