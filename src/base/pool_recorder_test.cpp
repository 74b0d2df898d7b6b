// SPDX-License-Identifier: Apache-2.0
#include "base/pool_recorder.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/thread_pool.h"

namespace camshaft {
namespace {

TEST(PoolRecorder, TellsWhoWorkedWhen) {
  ThreadPool pool(3);
  const auto job = [&] {
    pool.parallel_ranges(3, [](int, int64_t, int64_t) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    });
  };
  job();
  PoolRecorder recorder;
  EXPECT_TRUE(recorder.take().empty());  // what was before is not told
  job();
  const std::vector<PoolSpan> spans = recorder.take();
  ASSERT_FALSE(spans.empty());
  int64_t total = 0;
  for (const PoolSpan& span : spans) {
    EXPECT_GE(span.worker, 0);
    EXPECT_LT(span.worker, 3);
    total += span.end_ns - span.start_ns;
  }
  EXPECT_GE(total, 20'000'000);
  EXPECT_TRUE(recorder.take().empty());
}

TEST(PoolRecorder, ItsEndEndsTheRecording) {
  { const PoolRecorder recorder; }
  EXPECT_EQ(PoolRecorder::current(), nullptr);
}

}  // namespace
}  // namespace camshaft
