// SPDX-License-Identifier: Apache-2.0
// Makes a large trace of a small one: its events n times over, each copy later in time and with ids
// of its own.
//   make_trace SAMPLE.pt.trace.json[.gz] OUT.pt.trace.json --megabytes 1000 | --copies 30
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "trace/byte_source.h"
#include "trace/event_splitter.h"
#include "trace/repair.h"

namespace {

using namespace camshaft::trace;

constexpr int64_t kPauseUs = 1000;  // between two copies
constexpr size_t kWriteBytes = size_t{8} << 20;

enum class Shift { kTime, kId, kStep };

// Text of the sample up to a number that differs from copy to copy.
struct Piece {
  std::string text;
  int64_t number = 0;
  Shift shift = Shift::kTime;
};

struct Sample {
  std::vector<Piece> pieces;      // of the events that are repeated
  std::string tail;               // after the last number
  std::vector<std::string> once;  // names of threads, marks, the profiler's own span
  std::map<std::string, std::string, std::less<>> metadata;
  int64_t first_us = INT64_MAX, last_us = INT64_MIN, largest_id = 0, steps = 0;
};

// The digits after "key": in `event`, npos if it has none.
size_t number_after(std::string_view event, std::string_view key, size_t from = 0) {
  const size_t found = event.find(key, from);
  if (found == event.npos) return found;
  size_t at = found + key.size();
  while (at < event.size() && (event[at] == ' ' || event[at] == ':')) ++at;
  return at < event.size() && event[at] >= '0' && event[at] <= '9' ? at : event.npos;
}

int64_t integer_at(std::string_view text, size_t at) {
  int64_t value = 0;
  std::from_chars(text.data() + at, text.data() + text.size(), value);
  return value;
}

bool stands_once(std::string_view event) {
  return event.find("\"ph\": \"M\"") != event.npos || event.find("\"ph\":\"M\"") != event.npos ||
         event.find("PyTorch Profiler (0)") != event.npos ||
         event.find("Iteration Start") != event.npos ||
         event.find("Record Window End") != event.npos;
}

class Cutter {
 public:
  explicit Cutter(Sample& sample) : sample_(sample) {}

  void add(std::string_view event) {
    if (stands_once(event)) {
      sample_.once.emplace_back(event);
      return;
    }
    numbers_.clear();
    for (const char* key : {"\"ts\"", "\"external ts\""}) note(event, key, Shift::kTime);
    for (const char* key :
         {"\"External id\"", "\"external id\"", "\"correlation\"", "\"id\"", "\"Sequence number\""})
      note(event, key, Shift::kId);
    note(event, "ProfilerStep#", Shift::kStep);
    std::sort(numbers_.begin(), numbers_.end());
    measure(event);
    if (!sample_.pieces.empty()) open_ += ",\n  ";
    size_t from = 0;
    for (const auto& [at, shift] : numbers_) {
      open_.append(event.substr(from, at - from));
      sample_.pieces.push_back({std::move(open_), integer_at(event, at), shift});
      open_.clear();
      from = at;
      while (from < event.size() && event[from] >= '0' && event[from] <= '9') ++from;
    }
    open_.append(event.substr(from));
  }
  void finish() { sample_.tail = std::move(open_); }

 private:
  void note(std::string_view event, std::string_view key, Shift shift) {
    if (const size_t at = number_after(event, key); at != event.npos)
      numbers_.emplace_back(at, shift);
  }
  void measure(std::string_view event) {
    for (const auto& [at, shift] : numbers_) {
      const int64_t value = integer_at(event, at);
      if (shift == Shift::kId) sample_.largest_id = std::max(sample_.largest_id, value);
      if (shift == Shift::kStep) steps_.push_back(value);
    }
    const size_t ts = number_after(event, "\"ts\""), dur = number_after(event, "\"dur\"");
    if (ts == event.npos) return;
    const int64_t start = integer_at(event, ts);
    sample_.first_us = std::min(sample_.first_us, start);
    sample_.last_us =
        std::max(sample_.last_us, start + (dur == event.npos ? 0 : integer_at(event, dur)));
    if (!steps_.empty())
      sample_.steps = *std::max_element(steps_.begin(), steps_.end()) -
                      *std::min_element(steps_.begin(), steps_.end()) + 1;
  }

  Sample& sample_;
  std::string open_;
  std::vector<std::pair<size_t, Shift>> numbers_;
  std::vector<int64_t> steps_;
};

camshaft::Result<Sample> read_sample(const std::string& path) {
  CAMSHAFT_ASSIGN(const auto source, open_byte_source(path));
  Sample sample;
  Cutter cutter(sample);
  EventSplitter splitter([&](std::string_view events) {
    for_each_element("[" + std::string(events) + "]",
                     [&](std::string_view event) { cutter.add(event); });
  });
  for (;;) {
    CAMSHAFT_ASSIGN(const size_t got, source->read(splitter.reserve(kWriteBytes), kWriteBytes));
    if (got == 0) break;
    splitter.commit(got);
  }
  cutter.finish();
  sample.metadata = splitter.metadata();
  return sample;
}

// The profiler's own span is stretched over all copies.
std::string stretched(const std::string& event, int64_t more_us) {
  const size_t dur = event.find("PyTorch Profiler (0)") == event.npos
                         ? event.npos
                         : number_after(event, "\"dur\"");
  const size_t at = dur != event.npos ? dur
                    : event.find("Record Window End") != std::string::npos
                        ? number_after(event, "\"ts\"")
                        : event.npos;
  if (at == event.npos) return event;
  size_t end = at;
  while (end < event.size() && event[end] >= '0' && event[end] <= '9') ++end;
  return event.substr(0, at) + std::to_string(integer_at(event, at) + more_us) + event.substr(end);
}

class Writer {
 public:
  explicit Writer(std::FILE* file) : file_(file) {}
  void text(std::string_view part) {
    buffer_.append(part);
    if (buffer_.size() >= kWriteBytes) flush();
  }
  void integer(int64_t value) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    buffer_.append(digits, end);
  }
  bool flush() {
    ok_ = ok_ && std::fwrite(buffer_.data(), 1, buffer_.size(), file_) == buffer_.size();
    written_ += buffer_.size();
    buffer_.clear();
    return ok_;
  }
  uint64_t bytes() const { return written_ + buffer_.size(); }

 private:
  std::FILE* file_;
  std::string buffer_;
  uint64_t written_ = 0;
  bool ok_ = true;
};

bool write_copies(const Sample& sample, std::FILE* file, int64_t copies, uint64_t bytes) {
  Writer out(file);
  out.text("{\n");
  for (const auto& [key, value] : sample.metadata)
    out.text(fmt::format("  \"{}\": {},\n", key, value));
  out.text("  \"traceEvents\": [\n  ");
  const int64_t period = sample.last_us - sample.first_us + kPauseUs;
  int64_t copy = 0;
  for (; copies > 0 ? copy < copies : out.bytes() < bytes; ++copy) {
    if (copy > 0) out.text(",\n  ");
    for (const Piece& piece : sample.pieces) {
      out.text(piece.text);
      const int64_t by = piece.shift == Shift::kTime ? period
                         : piece.shift == Shift::kId ? sample.largest_id
                                                     : sample.steps;
      out.integer(piece.number + copy * by);
    }
    out.text(sample.tail);
  }
  for (const std::string& event : sample.once)
    out.text(",\n  " + stretched(event, (copy - 1) * period));
  out.text("\n]}\n");
  const bool ok = out.flush();
  fmt::print("{} copies, {} MB\n", copy, out.bytes() / 1000000);
  return ok;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Makes a large trace of a small one.");
  std::string sample_path, out_path;
  int64_t copies = 0;
  uint64_t megabytes = 1000;
  app.add_option("sample", sample_path)->required();
  app.add_option("out", out_path)->required();
  app.add_option("--copies", copies, "how often; 0: as --megabytes says");
  app.add_option("--megabytes", megabytes, "least size of the file");
  CLI11_PARSE(app, argc, argv);
  auto sample = read_sample(sample_path);
  if (!sample.ok() || sample->pieces.empty()) {
    fmt::print(stderr, "{}: {}\n", sample_path,
               sample.ok() ? "no events" : sample.status().message());
    return 1;
  }
  std::FILE* file = std::fopen(out_path.c_str(), "wb");
  if (file == nullptr) {
    fmt::print(stderr, "cannot write {}\n", out_path);
    return 1;
  }
  const bool written = write_copies(*sample, file, copies, megabytes * 1000000);
  const bool closed = std::fclose(file) == 0;
  if (written && closed) return 0;
  fmt::print(stderr, "cannot write all of {}\n", out_path);
  return 1;
}
