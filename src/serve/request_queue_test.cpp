// SPDX-License-Identifier: Apache-2.0
#include "serve/request_queue.h"

#include <gtest/gtest.h>

namespace camshaft::serve {
namespace {

using std::chrono::milliseconds;

const Clock::time_point kStart{milliseconds(1000)};

RequestPtr request(const char* id, Dims dims, uint64_t priority = 0, int at_ms = 0,
                   int deadline_ms = 0) {
  auto made = std::make_shared<Request>();
  made->id = id;
  made->rows = dims.empty() ? 1 : dims[0];
  made->inputs.push_back({"x", DataType::kFloat, std::move(dims), {}});
  made->priority = priority;
  made->arrived = kStart + milliseconds(at_ms);
  made->deadline = deadline_ms > 0 ? kStart + milliseconds(deadline_ms) : Clock::time_point::max();
  return made;
}

std::string ids(const std::vector<RequestPtr>& requests) {
  std::string text;
  for (const RequestPtr& one : requests) text += one->id;
  return text;
}

TEST(RequestQueue, TakesWhatIsAlikeAndFits) {
  RequestQueue queue;
  queue.push(request("a", {2, 3}));
  queue.push(request("b", {1, 4}));  // another shape
  queue.push(request("c", {3, 3}));
  queue.push(request("d", {2, 3}));  // does not fit into 6 any more
  queue.push(request("e", {1, 3}));
  const WaitingRows waiting = queue.view(true, 6, kStart);
  EXPECT_EQ(waiting.rows_up_to, (std::vector<int64_t>{2, 5, 6}));
  EXPECT_FALSE(waiting.is_all);
  EXPECT_EQ(ids(queue.take(true, 6, 3)), "ace");
  EXPECT_EQ(ids(queue.take(true, 6, 1)), "b");
  EXPECT_TRUE(queue.view(true, 6, kStart).is_all);
  EXPECT_EQ(ids(queue.take(true, 6, 5)), "d");
  EXPECT_TRUE(queue.empty());
}

TEST(RequestQueue, OneAtATimeWithoutBatches) {
  RequestQueue queue;
  queue.push(request("a", {2, 3}));
  queue.push(request("b", {2, 3}));
  EXPECT_EQ(queue.view(false, 16, kStart).rows_up_to, (std::vector<int64_t>{2}));
  EXPECT_EQ(ids(queue.take(false, 16, 1)), "a");
}

TEST(RequestQueue, ARequestLargerThanTheLimitGoesAlone) {
  RequestQueue queue;
  queue.push(request("a", {9, 3}));
  queue.push(request("b", {1, 3}));
  EXPECT_EQ(queue.view(true, 4, kStart).rows_up_to, (std::vector<int64_t>{9}));
}

TEST(RequestQueue, PrioritiesFirstAndFilledUpWithOthers) {
  RequestQueue queue;
  queue.push(request("a", {1, 3}, 2));
  queue.push(request("b", {1, 3}, 1));
  queue.push(request("c", {1, 3}, 2));
  EXPECT_EQ(queue.size_at(2), 2u);
  EXPECT_EQ(ids(queue.take(true, 2, 2)), "ba");
  EXPECT_EQ(queue.size_at(2), 1u);
}

TEST(RequestQueue, DeadlinesPass) {
  RequestQueue queue;
  queue.push(request("a", {1, 3}, 0, 0, 5));
  queue.push(request("b", {1, 3}));
  queue.push(request("c", {1, 3}, 0, 0, 50));
  EXPECT_EQ(ids(queue.take_expired(kStart + milliseconds(4))), "");
  EXPECT_EQ(ids(queue.take_expired(kStart + milliseconds(5))), "a");
  EXPECT_EQ(ids(queue.take(true, 8, 8)), "bc");
  EXPECT_EQ(ids(queue.take_expired(kStart + milliseconds(99))), "");
}

TEST(RequestQueue, KnowsHowOftenTheyCome) {
  RequestQueue queue;
  EXPECT_EQ(queue.view(true, 8, kStart).rows_per_us, 0);
  for (int k = 0; k < 100; ++k) queue.push(request("a", {2, 3}, 0, k));
  const WaitingRows waiting = queue.view(true, 8, kStart + milliseconds(99));
  EXPECT_NEAR(waiting.rows_per_us, 2e-3, 1e-4);
  EXPECT_NEAR(waiting.oldest_us, 99e3, 1);
  EXPECT_NEAR(waiting.newest_us, 0, 1);
  // Nobody came since: the rate falls.
  EXPECT_LT(queue.view(true, 8, kStart + milliseconds(999)).rows_per_us, 1e-4);
}

}  // namespace
}  // namespace camshaft::serve
