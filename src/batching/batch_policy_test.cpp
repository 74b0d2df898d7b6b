// SPDX-License-Identifier: Apache-2.0
#include "batching/batch_policy.h"

#include <gtest/gtest.h>

namespace camshaft::batching {
namespace {

// 100 µs for a batch and 10 µs for each of its rows.
BatchTimes linear(int64_t max_batch) {
  BatchTimes times(batch_sizes(max_batch));
  for (const int64_t size : times.sizes())
    times.measured(size, 100 + 10 * static_cast<double>(size));
  return times;
}

WaitingRows singles(int64_t count) {
  WaitingRows waiting;
  for (int64_t k = 1; k <= count; ++k) waiting.rows_up_to.push_back(k);
  return waiting;
}

TEST(BatchSizes, AllSmallOnesAndAtMostFourteen) {
  EXPECT_EQ(batch_sizes(0), (std::vector<int64_t>{1}));
  EXPECT_EQ(batch_sizes(5), (std::vector<int64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(batch_sizes(16), (std::vector<int64_t>{1, 2, 3, 4, 6, 8, 12, 16}));
  for (int64_t most = 1; most <= 5000; ++most) {
    const std::vector<int64_t> sizes = batch_sizes(most);
    ASSERT_LE(sizes.size(), 14u) << most;
    ASSERT_EQ(sizes.front(), 1);
    ASSERT_EQ(sizes.back(), most);
    for (size_t k = 1; k < sizes.size(); ++k) ASSERT_LT(sizes[k - 1], sizes[k]) << most;
  }
}

TEST(BatchTimes, LinesBetweenWhatWasMeasured) {
  BatchTimes times(batch_sizes(16));
  EXPECT_EQ(times.of(4), 0);
  times.measured(4, 400);
  EXPECT_EQ(times.of(1), 400);  // not less than is known
  EXPECT_EQ(times.of(8), 800);
  times.measured(8, 600);
  EXPECT_EQ(times.of(6), 500);
  EXPECT_EQ(times.at_load(8), 600);
}

TEST(BatchTimes, FollowWhatIsSeenAllTogether) {
  BatchTimes times(batch_sizes(16));
  times.measured(4, 400);
  times.measured(8, 600);
  times.seen(8, 1e9);  // one batch that was held up does not turn things over
  EXPECT_LT(times.of(8), 600 * 1.2);
  for (int k = 0; k < 200; ++k) times.seen(8, 1200);  // a machine of half the speed
  EXPECT_NEAR(times.of(8), 1200, 12);
  EXPECT_GT(times.of(4), 600);
  EXPECT_LT(times.of(4), 800);
  EXPECT_EQ(times.at_load(8), 600);
}

TEST(BatchLimit, HalfOfTheGoal) {
  const BatchTimes times = linear(16);
  EXPECT_EQ(batch_limit(times, {}), 16);
  EXPECT_EQ(batch_limit(times, {10000, 0}), 16);
  EXPECT_EQ(batch_limit(times, {400, 0}), 8);  // 2 · 180 = 360 = 0.9 · 400
  EXPECT_EQ(batch_limit(times, {399, 0}), 6);
  EXPECT_EQ(batch_limit(times, {10, 0}), 1);
}

TEST(ChooseBatch, TakesAllWithoutAGoal) {
  const BatchChoice choice = choose_batch(linear(16), {}, 16, singles(3));
  EXPECT_EQ(choice.requests, 3u);
  EXPECT_EQ(choice.size, 3);
  EXPECT_NE(choice.why.find("does not wait"), choice.why.npos);
}

TEST(ChooseBatch, PadsToASizeThatIsPlanned) {
  const BatchChoice choice = choose_batch(linear(16), {}, 16, singles(7));
  EXPECT_EQ(choice.rows, 7);
  EXPECT_EQ(choice.size, 8);
  EXPECT_NE(choice.why.find("run as 8"), choice.why.npos);
}

TEST(ChooseBatch, LeavesRowsThatWouldCostMoreThanTheyBring) {
  BatchTimes times(batch_sizes(16));
  times.measured(4, 100);
  times.measured(6, 400);
  times.measured(16, 1600);
  const BatchChoice choice = choose_batch(times, {}, 16, singles(5));
  EXPECT_EQ(choice.rows, 4);
  EXPECT_NE(choice.why.find("4 of 5 rows"), choice.why.npos);
}

TEST(ChooseBatch, WaitsWhileTheNextSavesMoreThanItsGap) {
  WaitingRows waiting = singles(2);
  waiting.rows_per_us = 0.05;  // every 20 µs; together saves 100
  waiting.oldest_us = 10;
  const BatchChoice waits = choose_batch(linear(16), {5000, 0}, 16, waiting);
  EXPECT_EQ(waits.requests, 0u);
  EXPECT_NEAR(waits.wait_us, 40, 1e-6);

  waiting.newest_us = 41;
  EXPECT_EQ(choose_batch(linear(16), {5000, 0}, 16, waiting).requests, 2u);

  waiting.newest_us = 0;
  waiting.rows_per_us = 0.005;  // every 200 µs
  EXPECT_EQ(choose_batch(linear(16), {5000, 0}, 16, waiting).requests, 2u);
}

TEST(ChooseBatch, NeverWaitsBeyondTheGoalOrTheDelay) {
  WaitingRows waiting = singles(2);
  waiting.rows_per_us = 0.05;
  waiting.oldest_us = 860;  // 0.9 · 1000 − 860 − 130 < 0
  EXPECT_EQ(choose_batch(linear(16), {1000, 0}, 16, waiting).requests, 2u);
  waiting.oldest_us = 100;
  EXPECT_EQ(choose_batch(linear(16), {1000, 110}, 16, waiting).requests, 2u);
  EXPECT_NEAR(choose_batch(linear(16), {1000, 130}, 16, waiting).wait_us, 30, 1e-6);
}

TEST(ChooseBatch, DoesNotWaitWhenTheBatchIsFullOrOthersAreBehind) {
  WaitingRows waiting = singles(8);
  waiting.rows_per_us = 1;
  EXPECT_EQ(choose_batch(linear(16), {1e6, 0}, 8, waiting).requests, 8u);
  waiting = singles(2);
  waiting.rows_per_us = 1;
  waiting.is_all = false;
  const BatchChoice choice = choose_batch(linear(16), {1e6, 0}, 8, waiting);
  EXPECT_EQ(choice.requests, 2u);
  EXPECT_NE(choice.why.find("other shapes"), choice.why.npos);
}

TEST(ChooseBatch, OneRequestOfManyRows) {
  WaitingRows waiting;
  waiting.rows_up_to = {13};
  const BatchChoice choice = choose_batch(linear(16), {}, 16, waiting);
  EXPECT_EQ(choice.requests, 1u);
  EXPECT_EQ(choice.size, 16);
}

}  // namespace
}  // namespace camshaft::batching
