// SPDX-License-Identifier: Apache-2.0
#include "base/cpu.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/thread_pool.h"

namespace camshaft {
namespace {

TEST(Cpu, IsaNamesRoundTrip) {
  for (int k = 0; k < kIsaCount; ++k) {
    Result<Isa> isa = parse_isa(isa_name(static_cast<Isa>(k)));
    ASSERT_TRUE(isa.ok());
    EXPECT_EQ(*isa, static_cast<Isa>(k));
  }
  EXPECT_FALSE(parse_isa("avx3").ok());
}

TEST(Cpu, ForcedIsaNeverExceedsTheMachine) {
  const Isa before = active_isa();
  force_isa(Isa::kAvx512);
  EXPECT_LE(active_isa(), cpu_info().best_isa);
  force_isa(Isa::kScalar);
  EXPECT_EQ(active_isa(), Isa::kScalar);
  force_isa(before);
}

TEST(ThreadPool, RangesCoverEverythingOnce) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (int64_t count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> hits(count);
      for (int round = 0; round < 20; ++round)
        pool.parallel_ranges(count, [&](int worker, int64_t first, int64_t last) {
          ASSERT_LT(worker, threads);
          for (int64_t k = first; k < last; ++k) hits[k]++;
        });
      for (auto& hit : hits) EXPECT_EQ(hit.load(), 20);
    }
  }
}

TEST(ThreadPool, TasksRunOnceEach) {
  ThreadPool pool(3);
  std::vector<std::atomic<int>> hits(1000);
  pool.parallel_tasks(1000, [&](int64_t k) { hits[k]++; });
  for (auto& hit : hits) EXPECT_EQ(hit.load(), 1);
}

TEST(ThreadPool, SleepingWorkersWakeUp) {
  ThreadPool pool(2, /*spin_us=*/0);
  std::atomic<int64_t> sum{0};
  for (int round = 0; round < 1000; ++round)
    pool.parallel_ranges(2, [&](int, int64_t first, int64_t last) { sum += last - first; });
  EXPECT_EQ(sum.load(), 2000);
}

}  // namespace
}  // namespace camshaft
