// SPDX-License-Identifier: Apache-2.0
// 64 bytes at a time: bit masks of quotes and brackets, a running xor tells what lies inside
// strings (as simdjson's first stage does), and only brackets outside strings are visited one by
// one. About 3 GB/s on one Zen core.
#include "trace/event_splitter.h"

#include <algorithm>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace camshaft::trace {
namespace {

// An event longer than this is taken for a runaway string: reading goes on at the next thing that
// looks like an event.
constexpr size_t kMaxEventBytes = size_t{8} << 20;
constexpr size_t kMaxMetadataBytes = size_t{64} << 20;  // of all values together
constexpr size_t kMaxKeyBytes = size_t{1} << 20;

struct BlockMasks {
  uint64_t quote = 0, backslash = 0, open = 0, close = 0;
};

#if defined(__SSE2__)
uint64_t equal_mask(const __m128i* part, __m128i wanted) {
  uint64_t mask = 0;
  for (int k = 0; k < 4; ++k)
    mask |= static_cast<uint64_t>(
                static_cast<uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(part[k], wanted))))
            << (16 * k);
  return mask;
}

BlockMasks masks_of(const char* p) {
  __m128i bytes[4], folded[4];
  for (int k = 0; k < 4; ++k) {
    bytes[k] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p) + k);
    folded[k] = _mm_or_si128(bytes[k], _mm_set1_epi8(0x20));  // '[' becomes '{', ']' becomes '}'
  }
  return {equal_mask(bytes, _mm_set1_epi8('"')), equal_mask(bytes, _mm_set1_epi8('\\')),
          equal_mask(folded, _mm_set1_epi8('{')), equal_mask(folded, _mm_set1_epi8('}'))};
}
#else
BlockMasks masks_of(const char* p) {
  BlockMasks masks;
  for (int k = 0; k < 64; ++k) {
    const uint64_t bit = uint64_t{1} << k;
    if (p[k] == '"') masks.quote |= bit;
    if (p[k] == '\\') masks.backslash |= bit;
    if (p[k] == '{' || p[k] == '[') masks.open |= bit;
    if (p[k] == '}' || p[k] == ']') masks.close |= bit;
  }
  return masks;
}
#endif

// Bits of the bytes that a backslash escapes; `carry` says whether byte 0 is escaped and becomes
// that of the next block.
uint64_t escaped_mask(uint64_t backslash, bool& carry) {
  uint64_t escaped = carry ? 1 : 0;
  backslash &= ~escaped;
  carry = false;
  while (backslash != 0) {  // rare: almost every block has none
    const int at = __builtin_ctzll(backslash);
    if (at == 63) {
      carry = true;
      break;
    }
    escaped |= uint64_t{2} << at;
    backslash &= ~(uint64_t{3} << at);
  }
  return escaped;
}

// Bit k of the answer is the xor of bits 0…k.
uint64_t running_xor(uint64_t bits) {
  for (int shift = 1; shift < 64; shift *= 2) bits ^= bits << shift;
  return bits;
}

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

}  // namespace

char* EventSplitter::reserve(size_t room) {
  // Bytes in front of everything still needed make way.
  size_t keep = position_;
  for (const size_t start : {batch_start_, event_start_, value_start_})
    keep = std::min(keep, start);
  if (keep > 0) {
    std::memmove(buffer_.data(), buffer_.data() + keep, size_ - keep);
    size_ -= keep;
    position_ -= keep;
    for (size_t* start : {&batch_start_, &batch_end_, &event_start_, &value_start_})
      if (*start != kNone) *start -= keep;
  }
  if (buffer_.size() < size_ + room) buffer_.resize(size_ + room);
  return buffer_.data() + size_;
}

void EventSplitter::commit(size_t bytes) {
  size_ += bytes;
  committed_ += bytes;
  advance();
  flush();
}

void EventSplitter::advance() {
  for (;;) {
    if (state_ == State::kDone) {
      position_ = size_;
      return;
    }
    if (state_ == State::kEvents ? !scan_events() : !step_outside()) return;
  }
}

bool EventSplitter::find_string_end(size_t from, size_t& end) const {
  for (size_t k = from; k < size_; ++k) {
    if (buffer_[k] == '\\') {
      ++k;
    } else if (buffer_[k] == '"') {
      end = k;
      return true;
    }
  }
  return false;
}

bool EventSplitter::step_outside() {
  if (state_ == State::kValue && value_start_ != kNone) return step_value();
  while (position_ < size_ &&
         (is_space(buffer_[position_]) || buffer_[position_] == ',' ||
          static_cast<unsigned char>(buffer_[position_]) >= 0x80))  // a byte order mark too
    ++position_;
  if (position_ >= size_) return false;
  const char c = buffer_[position_];
  switch (state_) {
    case State::kStart:
      ++position_;
      if (c == '[') {
        is_bare_array_ = found_events_ = true;
        state_ = State::kEvents;
      } else if (c == '{') {
        state_ = State::kKey;
      }
      return true;
    case State::kKey: {
      if (c != '"') {
        ++position_;
        if (c == '}') state_ = State::kDone;
        return true;
      }
      size_t end = 0;
      if (!find_string_end(position_ + 1, end)) {
        if (size_ - position_ > kMaxKeyBytes) state_ = State::kDone;  // a string without an end
        return state_ == State::kDone;
      }
      key_ = buffer_.substr(position_ + 1, end - position_ - 1);
      position_ = end + 1;
      state_ = State::kColon;
      return true;
    }
    case State::kColon:
      ++position_;
      state_ = c == ':' ? State::kValue : State::kKey;
      return true;
    default:
      if (key_ == "traceEvents" && c == '[') {
        ++position_;
        found_events_ = true;
        state_ = State::kEvents;
      } else {
        value_start_ = position_;
        value_depth_ = 0;
        value_in_string_ = false;
      }
      return true;
  }
}

void EventSplitter::end_value() {
  std::string value = buffer_.substr(value_start_, position_ - value_start_);
  while (!value.empty() && is_space(value.back())) value.pop_back();
  if (!value_dropped_ && metadata_bytes_ + value.size() <= kMaxMetadataBytes) {
    metadata_bytes_ += value.size() + key_.size();
    metadata_[key_] = std::move(value);
  }
  value_start_ = kNone;
  value_dropped_ = false;
  state_ = State::kKey;
}

// A value of another top-level key, byte by byte: these are small. A large one is read over without
// being kept.
bool EventSplitter::step_value() {
  for (; position_ < size_; ++position_) {
    const char c = buffer_[position_];
    if (value_in_string_) {
      if (c == '\\') {
        if (position_ + 1 >= size_) return false;
        ++position_;
      } else if (c == '"') {
        value_in_string_ = false;
      }
      continue;
    }
    const bool closes = c == '}' || c == ']';
    if (value_depth_ == 0 && (c == ',' || closes)) {
      end_value();
      return true;
    }
    if (c == '"') value_in_string_ = true;
    if (c == '{' || c == '[') ++value_depth_;
    if (closes) --value_depth_;
  }
  if (size_ - value_start_ > kMaxMetadataBytes) {
    value_dropped_ = true;
    value_start_ = position_;
  }
  return false;
}

void EventSplitter::end_event(size_t position) {
  if (batch_start_ == kNone) batch_start_ = event_start_;
  batch_end_ = position + 1;
  event_start_ = kNone;
}

void EventSplitter::flush() {
  if (batch_start_ != kNone)
    sink_(std::string_view(buffer_).substr(batch_start_, batch_end_ - batch_start_));
  batch_start_ = batch_end_ = kNone;
}

// Gives up on the open event and looks for the next `{ … "ph"` behind it. A file made to start over
// again and again may cost no more than twice its length: then all that was read is given up.
void EventSplitter::resync() {
  ++resyncs_;
  flush();
  const std::string_view text(buffer_.data(), position_);
  size_t at = text.npos;
  rescanned_ += position_ - event_start_;
  if (rescanned_ <= committed_ + 8 * kMaxEventBytes) {
    size_t found = text.find("\"ph\"", event_start_ + 8);
    while (found != text.npos) {
      at = text.find_last_not_of(" \n\r\t", found - 1);
      if (at != text.npos && at > event_start_ && text[at] == '{') break;
      at = text.npos;
      found = text.find("\"ph\"", found + 4);
    }
  }
  if (at != text.npos) position_ = at;
  event_start_ = kNone;
  depth_ = 0;
  in_string_ = escaped_ = false;
}

bool EventSplitter::scan_events() {
  while (position_ < size_) {
    char padded[64];
    const char* block = buffer_.data() + position_;
    const size_t count = std::min<size_t>(64, size_ - position_);
    if (count < 64) {
      std::memset(padded, ' ', sizeof padded);
      std::memcpy(padded, block, count);
      block = padded;
    }
    const BlockMasks masks = masks_of(block);
    bool carry = escaped_;
    const uint64_t escaped = escaped_mask(masks.backslash, carry);
    uint64_t inside = running_xor(masks.quote & ~escaped);
    if (in_string_) inside = ~inside;
    uint64_t brackets = (masks.open | masks.close) & ~inside;
    while (brackets != 0) {
      const int at = __builtin_ctzll(brackets);
      brackets &= brackets - 1;
      if (masks.open >> at & 1) {
        if (depth_++ == 0) event_start_ = position_ + at;
      } else if (depth_ == 0) {  // the end of the array
        flush();
        position_ += at + 1;
        state_ = is_bare_array_ ? State::kDone : State::kKey;
        return true;
      } else if (--depth_ == 0) {
        end_event(position_ + at);
      }
    }
    in_string_ = (inside >> (count - 1) & 1) != 0;
    if (count < 64) carry = (escaped >> count & 1) != 0;
    escaped_ = carry;
    position_ += count;
    if (event_start_ != kNone && position_ - event_start_ > kMaxEventBytes) resync();
  }
  return false;
}

}  // namespace camshaft::trace
