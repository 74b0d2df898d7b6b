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

// Leaves one event out of what passes through, with the comma before or behind it.
class LeftOut {
 public:
  explicit LeftOut(const std::string& name) : sign_(name.empty() ? name : '"' + name + '"') {}

  // What may go on, of all that came so far.
  std::string pass(std::string_view text, bool is_last) {
    held_.append(text);
    if (!sign_.empty()) cut();
    const size_t keep = is_last || sign_.empty() ? 0 : std::min(held_.size(), kMostEventBytes);
    std::string gone = held_.substr(0, held_.size() - keep);
    held_.erase(0, gone.size());
    return gone;
  }

 private:
  static constexpr size_t kMostEventBytes = 4096;

  void cut() {
    const size_t at = held_.find(sign_);
    if (at == held_.npos) return;
    size_t begin = brace(at, -1), end = brace(at, 1);
    if (begin == held_.npos || end == held_.npos) return;
    ++end;
    const size_t before = begin == 0 ? held_.npos : held_.find_last_not_of(kBlank, begin - 1);
    const size_t behind = held_.find_first_not_of(kBlank, end);
    if (before != held_.npos && held_[before] == ',')
      begin = before;
    else if (behind != held_.npos && held_[behind] == ',')
      end = behind + 1;
    held_.erase(begin, end - begin);
    sign_.clear();
  }

  // The brace of the object around `at`, before or behind it.
  size_t brace(size_t at, int step) const {
    const char open = step < 0 ? '{' : '}', close = step < 0 ? '}' : '{';
    int depth = 0;
    for (; at < held_.size(); at += static_cast<size_t>(step)) {
      if (held_[at] == close) ++depth;
      if (held_[at] == open && depth-- == 0) return at;
    }
    return held_.npos;
  }

  static constexpr const char* kBlank = " \n\r\t";
  std::string sign_, held_;
};

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
                    const std::string& left_out, const PieceSink& sink) {
  CAMSHAFT_ASSIGN(const auto source, trace::open_byte_source(file));
  LeftOut filter(left_out);
  const auto gone = [] { return make_error(ErrorCode::kCancelled, "the client is gone"); };
  GzipSink out(sink);
  std::string start;  // bytes up to the event array
  bool inserted = !counters;
  std::vector<char> chunk(kChunkBytes);
  for (;;) {
    CAMSHAFT_ASSIGN(const size_t got, source->read(chunk.data(), chunk.size()));
    const std::string text = filter.pass({chunk.data(), got}, got == 0);
    if (got == 0 && text.empty()) break;
    if (inserted) {
      if (!out.write(text)) return gone();
      if (got == 0) break;
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
