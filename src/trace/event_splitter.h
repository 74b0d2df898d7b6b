// SPDX-License-Identifier: Apache-2.0
// Cuts a stream of trace JSON into batches of whole event objects and the raw values of the other
// top-level keys. It looks only at quotes, braces and brackets, so damage inside an event stays
// inside that event.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace camshaft::trace {

class EventSplitter {
 public:
  // Gets "{…},{…},{…}": whole events of the event array as they stand in the file.
  using BatchSink = std::function<void(std::string_view events)>;

  explicit EventSplitter(BatchSink sink) : sink_(std::move(sink)) {}

  // Where the next bytes of the stream go: `room` of them are asked for, commit() says how many
  // came and gives away the events that are now whole.
  char* reserve(size_t room);
  void commit(size_t bytes);

  bool complete() const { return state_ == State::kDone; }  // the outermost value was closed
  bool found_events() const { return found_events_; }
  uint64_t resyncs() const { return resyncs_; }
  // Top-level keys other than the event array; values are raw JSON, too long ones are left out.
  const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }

 private:
  enum class State : uint8_t { kStart, kKey, kColon, kValue, kEvents, kDone };

  void advance();
  bool step_outside();  // one key or value outside the event array; false: more bytes are needed
  bool step_value();
  bool scan_events();
  void end_event(size_t position);
  void flush();
  void resync();
  void end_value();
  bool find_string_end(size_t from, size_t& end) const;

  BatchSink sink_;
  std::string buffer_;  // [0, size_) holds the bytes not yet given away
  size_t size_ = 0;
  size_t position_ = 0;  // next byte to look at
  State state_ = State::kStart;
  bool found_events_ = false;
  uint64_t resyncs_ = 0;
  uint64_t committed_ = 0;  // bytes of the stream so far
  uint64_t rescanned_ = 0;  // of them looked at again after resyncs

  // Inside the event array.
  size_t batch_start_ = kNone;  // of the first whole event not yet given away
  size_t batch_end_ = kNone;    // after the last whole one
  size_t event_start_ = kNone;
  int64_t depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;

  // A value outside it.
  std::string key_;
  size_t value_start_ = kNone;
  int64_t value_depth_ = 0;
  bool value_in_string_ = false;
  bool value_dropped_ = false;  // too long to keep: read over
  size_t metadata_bytes_ = 0;

  std::map<std::string, std::string, std::less<>> metadata_;
  bool is_bare_array_ = false;
  static constexpr size_t kNone = ~size_t{0};
};

}  // namespace camshaft::trace
