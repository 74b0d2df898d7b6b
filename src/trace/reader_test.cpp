// SPDX-License-Identifier: Apache-2.0
#include "trace/reader.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <fstream>

#include "trace/byte_source.h"
#include "trace/gzip.h"
#include "trace/testing.h"

namespace camshaft::trace {
namespace {

using testing::read_text;

std::string op(const std::string& name, const std::string& ts, const std::string& more = "") {
  return R"({"ph":"X","cat":"cpu_op","name":")" + name + R"(","pid":1,"tid":1,"dur":10,"ts":)" +
         ts + more + "}";
}
std::string trace_of(const std::string& events) {
  return "{\"schemaVersion\":1,\"traceEvents\":[" + events + "]}";
}

std::string little(uint64_t value, int bytes) {
  std::string out;
  for (int k = 0; k < bytes; ++k) out += static_cast<char>(value >> (8 * k));
  return out;
}

std::string deflated(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// A zip archive of one member.
std::string zip_of(const std::string& name, const std::string& text, bool packed) {
  const std::string data = packed ? deflated(text) : text;
  const uint64_t crc =
      ::crc32(0, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size()));
  const std::string common = little(20, 2) + little(0, 2) + little(packed ? 8 : 0, 2) +
                             little(0, 4) + little(crc, 4) + little(data.size(), 4) +
                             little(text.size(), 4) + little(name.size(), 2);
  const std::string local = "PK\x03\x04" + common + little(0, 2) + name + data;
  const std::string directory = std::string("PK\x01\x02") + little(20, 2) + common + little(0, 2) +
                                little(0, 2) + little(0, 2) + little(0, 2) + little(0, 4) +
                                little(0, 4) + name;
  return local + directory + "PK\x05\x06" + little(0, 4) + little(1, 2) + little(1, 2) +
         little(directory.size(), 4) + little(local.size(), 4) + little(0, 2);
}

std::string zstd_of(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

TEST(Reader, EveryPackingGivesTheSameTrace) {
  const std::string text = testing::sample_trace();
  const auto plain = read_text(text);
  ASSERT_NE(plain, nullptr);
  EXPECT_TRUE(plain->report.note.empty()) << plain->report.note;
  for (const std::string& packed :
       {gzip(text, 6), zstd_of(text), zip_of("a/t.json", text, true), zip_of("t.json", text, false),
        gzip(text.substr(0, 500), 1) + gzip(text.substr(500), 9)}) {
    const auto again = read_text(packed);
    ASSERT_NE(again, nullptr);
    EXPECT_EQ(again->events.size(), plain->events.size());
    EXPECT_EQ(again->memory.size(), plain->memory.size());
    EXPECT_EQ(again->events.start_ns, plain->events.start_ns);
    EXPECT_TRUE(again->report.note.empty()) << again->report.note;
  }
}

TEST(Reader, TimesAreNanosecondsWhateverTheirForm) {
  const auto trace =
      read_text(trace_of(op("a", "1623142623460016.123") + "," + op("b", "1623142623460016") + "," +
                         op("c", "\"17\"") + "," + op("d", "1.5e3") + "," + op("e", "0.0004")));
  ASSERT_NE(trace, nullptr);
  EXPECT_EQ(trace->events.start_ns,
            (std::vector<int64_t>{0, 17000, 1500000, 1623142623460016000, 1623142623460016123}));
  EXPECT_FALSE(trace->integral_times);
}

TEST(Reader, BareArraysAreTraces) {
  const auto trace = read_text("[" + op("a", "1") + "," + op("b", "2") + "]");
  ASSERT_NE(trace, nullptr);
  EXPECT_EQ(trace->events.size(), 2u);
}

TEST(Reader, DamageStaysInsideAnEvent) {
  const std::string bad[] = {
      op("a", "NaN"),  // no time
      R"({"ph":"X","cat":"cpu_op","name":"n","pid":1,"tid":1,"ts":3,"dur":N/A})",
      op("line\nbreak\x01", "4"),  // control characters
      op("C:\\Users\\x", "5"),     // bad escapes
      op("\xff\xfe", "6"),         // no UTF-8
      op("x", "7", R"(,"args":{"Input Dims":[[1,NaN]]})"),
  };
  for (const std::string& event : bad) {
    const auto trace =
        read_text(trace_of(op("before", "1") + "," + event + "," + op("after", "9")));
    ASSERT_NE(trace, nullptr) << event;
    EXPECT_GE(trace->events.size(), 2u) << event;
    EXPECT_EQ(trace->name_of(0), "before");
    EXPECT_EQ(trace->name_of(trace->events.size() - 1), "after") << event;
  }
}

TEST(Reader, TruncatedFilesGiveWhatIsThereAndSaySo) {
  const std::string text = testing::sample_trace();
  const size_t whole = read_text(text)->events.size();
  size_t before = 0;
  for (size_t cut = text.size() / 4; cut < text.size() - 2; cut += 997) {
    const auto trace = read_text(text.substr(0, cut));
    ASSERT_NE(trace, nullptr);
    EXPECT_TRUE(trace->report.truncated);
    EXPECT_NE(trace->report.note.find("ends early"), std::string::npos);
    EXPECT_GE(trace->events.size(), before);
    before = trace->events.size();
  }
  EXPECT_GT(before, whole / 2);
}

TEST(Reader, TruncatedPackingsGiveWhatIsThereAndSaySo) {
  std::string events = op("first", "0");  // several blocks of every packing
  for (int k = 1; k < 20000; ++k)
    events += "," + op("n" + std::to_string(k * 7919 % 10007), std::to_string(k * 3));
  const std::string text = trace_of(events);
  for (const std::string& packed : {gzip(text, 6), zstd_of(text), zip_of("t.json", text, true),
                                    zip_of("t.json", text, false)}) {
    const auto cut = read_text(packed.substr(0, packed.size() * 2 / 3));
    ASSERT_NE(cut, nullptr);
    EXPECT_TRUE(cut->report.truncated);
    EXPECT_GT(cut->events.size(), 1000u);
    EXPECT_LT(cut->events.size(), 20000u);
  }
}

TEST(Reader, ThreadIdsMayBeTextsOrNumbers) {
  const auto trace = read_text(trace_of(
      op("a", "1") + R"(,{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":"1","dur":1,"ts":2})"));
  ASSERT_NE(trace, nullptr);
  ASSERT_EQ(trace->tracks.size(), 2u);
  EXPECT_TRUE(trace->tracks[0].tid_is_number);
  EXPECT_FALSE(trace->tracks[1].tid_is_number);
  EXPECT_EQ(trace->tracks[0].tid, trace->tracks[1].tid);
}

TEST(Reader, OtherTextsAreNoTraces) {
  for (const char* text :
       {"", "{}", "{\"a\":1}", "hello", "\x1f\x8b", "PK\x03\x04", "(\xb5/\xfd"}) {
    const auto trace = read_trace(*memory_byte_source(text, std::strlen(text)));
    EXPECT_FALSE(trace.ok()) << text;
  }
  EXPECT_FALSE(read_trace("/nowhere/at/all.json").ok());
  EXPECT_FALSE(read_trace("/tmp").ok());
}

TEST(Reader, DeepNestingIsNoCrash) {
  const std::string open(200000, '['), close(200000, ']');
  const auto in_arguments = read_text(trace_of(
      op("a", "1") +
      ",{\"ph\":\"X\",\"name\":\"deep\",\"ts\":2,\"dur\":1,\"args\":{\"Input Dims\":" + open +
      close + "}}," + op("b", "3")));
  ASSERT_NE(in_arguments, nullptr);
  EXPECT_GE(in_arguments->events.size(), 2u);
  const auto in_metadata = read_text("{\"deviceProperties\":" + open + close +
                                     ",\"traceEvents\":[" + op("a", "1") + "]}");
  ASSERT_NE(in_metadata, nullptr);
  EXPECT_EQ(in_metadata->events.size(), 1u);
  std::string nested;  // 100 000 operators, each in the one before
  for (int k = 0; k < 100000; ++k)
    nested += (k > 0 ? "," : "") + std::string(R"({"ph":"X","cat":"cpu_op","name":"n)") +
              std::to_string(k % 7) + R"(","pid":1,"tid":1,"ts":)" + std::to_string(k) +
              ",\"dur\":" + std::to_string(300000 - 2 * k) + "}";
  const auto trace = read_text(trace_of(nested));
  ASSERT_NE(trace, nullptr);
  EXPECT_EQ(trace->events.size(), 100000u);
  EXPECT_GT(testing::exercise(trace), 0u);
}

TEST(Reader, ReadingCanBeCancelledAndTellsItsProgress) {
  const std::string path = ::testing::TempDir() + "camshaft_reader_" + std::to_string(::getpid());
  std::ofstream(path) << testing::sample_trace();
  uint64_t done = 0, total = 0;
  ReadOptions options;
  options.progress = [&](const ReadProgress& progress) {
    done = progress.bytes_done;
    total = progress.bytes_total;
  };
  EXPECT_TRUE(read_trace(path, options).ok());
  EXPECT_EQ(done, total);
  EXPECT_GT(total, 0u);
  const std::atomic<bool> stop{true};
  options.cancel = &stop;
  EXPECT_EQ(read_trace(path, options).status().code(), ErrorCode::kCancelled);
  ::unlink(path.c_str());
}

// Broken bytes become "?": no name that a thread may not have.
TEST(Reader, TheFirstEventMayNameNoThread) {
  for (const char* id : {"\xad", "?", "\"\""}) {
    const std::string text = std::string(R"([{"ph":"X","cat":"cpu_op","name":"a","pid":)") + id +
                             R"(,"tid":)" + id + R"(,"ts":1,"dur":2}])";
    const auto trace = testing::read_text(text);
    if (trace == nullptr || trace->events.size() == 0) continue;
    ASSERT_LT(trace->events.track[0], trace->tracks.size()) << id;
    EXPECT_GT(testing::exercise(trace), 0u);
  }
}

}  // namespace
}  // namespace camshaft::trace
