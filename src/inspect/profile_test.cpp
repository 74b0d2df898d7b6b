// SPDX-License-Identifier: Apache-2.0
#include "inspect/profile.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace camshaft::inspect {
namespace {

LayerInfo layer(int index, std::string name, double macs, double bytes) {
  LayerInfo info;
  info.index = index;
  info.name = std::move(name);
  info.macs = macs;
  info.io_bytes = bytes;
  return info;
}

ProfileData three_runs() {
  ProfileData data(
      {layer(0, "conv \"a\"", 2e6, 4e3), layer(1, "never", 0, 0), layer(2, "relu\x1e", 0, 1e3)});
  for (double us : {30.0, 10.0, 20.0}) {
    data.add({0, us, 0});
    data.add({2, 10, 0});
    data.end_run();
  }
  return data;
}

TEST(Profile, MedianAveragesTheMiddlePair) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median({5, 1, 3}), 3);
}

TEST(Profile, PartsOfARunAreAddedUp) {
  ProfileData data({layer(0, "conv", 2e6, 4e3)});
  for (double us : {30.0, 10.0, 20.0}) {
    for (int part = 0; part < 2; ++part) data.add({0, us, 0});
    data.end_run();
  }
  const auto rows = data.rows(1000);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_DOUBLE_EQ(rows[0].median_ms, 0.040);
  EXPECT_DOUBLE_EQ(rows[0].average_ms, 0.040);
}

TEST(Profile, RowsSkipLayersThatNeverRan) {
  const auto rows = three_runs().rows(1000);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].layer, 0);
  EXPECT_DOUBLE_EQ(rows[0].total_ms, 0.06);
  EXPECT_DOUBLE_EQ(rows[0].average_ms, 0.02);
  EXPECT_DOUBLE_EQ(rows[0].median_ms, 0.02);
  EXPECT_NEAR(rows[0].percentage, 66.667, 1e-3);
  EXPECT_DOUBLE_EQ(rows[0].gmacs, 100);        // 2e6 MAC in 20 us
  EXPECT_DOUBLE_EQ(rows[0].peak_percent, 10);  // of 1000e9 MAC/s
  EXPECT_DOUBLE_EQ(rows[1].gbytes, 0.1);
  EXPECT_EQ(rows[1].gmacs, 0);
}

TEST(Profile, JsonIsValidWhateverTheNamesAre) {
  const auto json = nlohmann::ordered_json::parse(three_runs().to_json());
  ASSERT_EQ(json.size(), 3u);
  EXPECT_EQ(json[0].at("count"), 3);
  EXPECT_EQ(json[1].at("name"), "conv \"a\"");
  std::vector<std::string> keys;
  for (const auto& item : json[1].items()) keys.push_back(item.key());
  EXPECT_EQ(keys,
            (std::vector<std::string>{"name", "timeMs", "averageMs", "medianMs", "percentage"}));
}

TEST(Profile, TableEndsWithTheTotal) {
  EXPECT_EQ(three_runs().to_text(),
            "=== Profile (3 iterations ) ===\n"
            "    Time(ms)     Avg.(ms)   Median(ms)  Time(%)   Layer\n"
            "        0.06       0.0200       0.0200     66.7   conv \"a\"\n"
            "        0.03       0.0100       0.0100     33.3   relu\x1e\n"
            "        0.09       0.0300       0.0300    100.0   Total\n");
}

}  // namespace
}  // namespace camshaft::inspect
