// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal.h"

#include <gtest/gtest.h>

namespace camshaft::cli {
namespace {

TEST(Terminal, HumanNumbers) {
  EXPECT_EQ(human_bytes(512), "512 B");
  EXPECT_EQ(human_bytes(3.5 * 1024 * 1024), "3.5 MiB");
  EXPECT_EQ(human_seconds(12e-6), "12.0 us");
  EXPECT_EQ(human_seconds(0.25), "250 ms");
  EXPECT_EQ(human_seconds(3.25), "3.25 s");
  EXPECT_EQ(human_seconds(80), "1 min 20 s");
  EXPECT_EQ(human_seconds(7320), "2 h 2 min");
  EXPECT_EQ(human_count(950), "950");
  EXPECT_EQ(human_count(523.4e6), "523 M");
}

TEST(Terminal, WidthCountsCodePoints) {
  EXPECT_EQ(display_width("conv→relu"), 9u);
  EXPECT_EQ(shorten("abcdefghij", 10), "abcdefghij");
  EXPECT_EQ(shorten("abcdefghij", 5), "ab…ij");
  EXPECT_EQ(shorten("äöüßéèêë", 4), "ä…êë");
  EXPECT_EQ(shorten("abc", 1), "…");
  EXPECT_EQ(shorten("abc", 0), "");
}

TEST(Terminal, TablesAlignAndLeaveNoBlanksAtLineEnds) {
  Table table({{"layer"}, {"us", Align::kRight}, {"tactic"}});
  table.add({"conv→1", "12.5", "gemm"});
  table.rule();
  table.add({"x", "3"});
  EXPECT_EQ(table.text(),
            "layer     us  tactic\n"
            "conv→1  12.5  gemm\n"
            "--------------------\n"
            "x          3\n");
}

TEST(Terminal, ColumnsMayHaveALimit) {
  Table table({{"name", Align::kLeft, 5}, {"n", Align::kRight}});
  table.add({"abcdefghij", "1"});
  EXPECT_EQ(table.text(), "name   n\nab…ij  1\n");
}

TEST(Terminal, TablesNeverExceedTheWidth) {
  Table table({{"layer"}, {"us", Align::kRight}, {"tactic"}, {"format"}, {"shape"}});
  table.add({std::string(180, 'n'), "12.5", "conv_gemm_nhwc_f32_14x32", "NHWC", "1x64x112x112"});
  table.rule();
  table.add({"1 layer", "12.5", "", "", ""});
  for (const size_t columns : {300, 120, 80, 60, 40, 20, 10, 3}) {
    const std::string text = table.text_within(columns);
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      EXPECT_LE(display_width(text.substr(at, end - at)), columns) << columns << "\n" << text;
      at = end + 1;
    }
  }
  // What is measured stays longer than what describes.
  EXPECT_NE(table.text_within(40).find("12.5"), std::string::npos);
}

TEST(Terminal, TextIsBrokenAtBlanks) {
  EXPECT_EQ(wrapped("aa bb cc", 5), (std::vector<std::string>{"aa bb", "cc"}));
  EXPECT_EQ(wrapped("aaaaaaa b", 3), (std::vector<std::string>{"aaaaaaa", "b"}));
  EXPECT_EQ(wrapped("", 3), (std::vector<std::string>{""}));
}

}  // namespace
}  // namespace camshaft::cli
