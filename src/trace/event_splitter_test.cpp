// SPDX-License-Identifier: Apache-2.0
#include "trace/event_splitter.h"

#include <gtest/gtest.h>

#include <cstring>
#include <ctime>

#include "trace/repair.h"
#include "trace/testing.h"

namespace camshaft::trace {
namespace {

struct Split {
  std::vector<std::string> events;
  std::map<std::string, std::string, std::less<>> metadata;
  bool complete = false;
  uint64_t resyncs = 0;
};

Split split(const std::string& text, size_t chunk) {
  Split out;
  EventSplitter splitter([&](std::string_view events) {
    for_each_element("[" + std::string(events) + "]",
                     [&](std::string_view event) { out.events.emplace_back(event); });
  });
  for (size_t at = 0; at < text.size(); at += chunk) {
    const size_t count = std::min(chunk, text.size() - at);
    std::memcpy(splitter.reserve(count), text.data() + at, count);
    splitter.commit(count);
  }
  out.metadata = splitter.metadata();
  out.complete = splitter.complete();
  out.resyncs = splitter.resyncs();
  return out;
}

TEST(EventSplitter, PiecesOfAnySizeGiveTheSameEvents) {
  const std::string text = testing::sample_trace();
  const Split whole = split(text, text.size());
  EXPECT_TRUE(whole.complete);
  EXPECT_GT(whole.events.size(), 50u);
  EXPECT_EQ(whole.metadata.at("traceName"), "\"a]b\"");
  EXPECT_EQ(whole.metadata.at("schemaVersion"), "1");
  for (const size_t chunk : {1, 2, 3, 7, 63, 64, 65, 1000}) {
    const Split parts = split(text, chunk);
    EXPECT_EQ(parts.events, whole.events) << chunk;
    EXPECT_EQ(parts.metadata, whole.metadata) << chunk;
    EXPECT_TRUE(parts.complete) << chunk;
  }
}

TEST(EventSplitter, BracketsAndQuotesInStringsAreText) {
  const std::string text =
      R"({"a":"]}\"","traceEvents":[{"n":"}]{["},{"n":"\\"},{"n":"\\\""}],"b":[{"c":"}"}]})";
  for (const size_t chunk : {1, 5, 100}) {
    const Split parts = split(text, chunk);
    ASSERT_EQ(parts.events.size(), 3u) << chunk;
    EXPECT_EQ(parts.events[2], R"({"n":"\\\""})");
    EXPECT_EQ(parts.metadata.at("a"), R"("]}\"")");
    EXPECT_EQ(parts.metadata.at("b"), R"([{"c":"}"}])");
  }
}

// Of the processor: other work on the machine does not count.
double seconds_for(const std::string& text) {
  const std::clock_t start = std::clock();
  split(text, size_t{2} << 20);
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

// Files made to be costly: open braces that never close, strings and keys without an end.
TEST(EventSplitter, HostileFilesCostNoMoreThanTheirLength) {
  std::string braces = "{\"traceEvents\":[";
  while (braces.size() < (24u << 20)) braces += "{\"ph\"";
  EXPECT_LT(seconds_for(braces), 5);
  EXPECT_LT(seconds_for("{\"" + std::string(24u << 20, 'k')), 5);
  EXPECT_LT(seconds_for("{\"a\":\"" + std::string(24u << 20, 'v')), 5);
  EXPECT_LT(seconds_for("{\"a\":" + std::string(24u << 20, '[')), 5);
}

// A quote too many swallows everything behind it, but only so far.
TEST(EventSplitter, ReadingGoesOnBehindARunawayString) {
  std::string text = "{\"traceEvents\":[{\"ph\":\"X\",\"name\":\"bad\"\"},";
  size_t count = 0;
  for (; text.size() < (20u << 20); ++count) text += "{\"ph\":\"X\",\"name\":\"good\"},\n";
  text += "{\"ph\":\"X\"}]}";
  const Split parts = split(text, size_t{1} << 20);
  EXPECT_GT(parts.resyncs, 0u);
  EXPECT_GT(parts.events.size(), count * 9 / 10);
}

}  // namespace
}  // namespace camshaft::trace
